"""What does not hold in the answer of a language model is told on every surface."""

import json

import openai
import pytest
from mcp import Client

from lmkrag import Engine, RemoteEngine
from lmkrag.readers.choose import load_reader

QUESTION = "how is leave accrued?"


@pytest.fixture(scope="module")
def careless(serve, built_index, careless_model, tmp_path_factory):
    """A server whose reader is a careless model."""
    folder = tmp_path_factory.mktemp("careless")
    with serve(folder, *careless_model.options, "--index", f"demo={built_index}", OPENAI_API_KEY="none") as running:
        yield running


def test_on_the_command_line(lmkrag, built_index, careless_model):
    asked = lmkrag("ask", QUESTION, "--index", built_index, *careless_model.options)
    assert [line for line in asked.stderr.splitlines() if "warning" in line] == [
        f"lmkrag: warning: {warning}" for warning in careless_model.warnings
    ]
    asked = lmkrag("ask", QUESTION, "--index", built_index, "--json", *careless_model.options)
    assert json.loads(asked.stdout)["warnings"] == list(careless_model.warnings)


def test_in_python(built_index, careless_model):
    with Engine.open(built_index) as engine:
        answer = engine.ask(QUESTION, reader=load_reader("openai", model="m", base_url=careless_model.url))
    assert answer.warnings == careless_model.warnings
    for warning in careless_model.warnings:
        assert f"\nWarning: {warning}" in str(answer)
        assert f"Warning: {warning}" in answer._repr_html_()


def test_over_http(careless, careless_model):
    with careless.client() as client:
        assert client.post("/api/ask", json={"question": QUESTION}).json()["warnings"] == list(careless_model.warnings)
    with RemoteEngine(careless.url) as engine:
        assert engine.ask(QUESTION).warnings == careless_model.warnings


async def test_for_assistants(careless, careless_model):
    async with Client(f"{careless.url}/mcp") as client:
        asked = await client.call_tool("ask", {"question": QUESTION})
    assert asked.structured_content["warnings"] == list(careless_model.warnings)


def test_for_clients_of_openai(careless, careless_model):
    asked = [{"role": "user", "content": QUESTION}]
    with openai.OpenAI(base_url=f"{careless.url}/v1", api_key="none", max_retries=0) as client:
        reply = client.chat.completions.create(model="demo", messages=asked)
        *_, annotated, _ = client.chat.completions.create(model="demo", messages=asked, stream=True)
    for extra in (reply.model_extra, annotated.model_extra):
        assert extra["warnings"] == list(careless_model.warnings)
        assert extra["citations"][0]["doc_id"] == "lighthouse-handbook.md"
