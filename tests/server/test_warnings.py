"""What does not hold in an answer, or had no time to be read, is told on every surface."""

import json

import openai
import pytest
from mcp import Client

from lmkrag import Engine, RemoteEngine
from lmkrag.readers.choose import load_reader
from lmkrag.results import CUT_SHORT

QUESTION = "how is leave accrued?"


@pytest.fixture(scope="module")
def careless(serve, built_index, careless_model, tmp_path_factory):
    """A server whose reader is a careless model."""
    folder = tmp_path_factory.mktemp("careless")
    options = [
        *careless_model.options,
        "--rerank-timeout-ms",
        "30000",
        "--index",
        f"demo={built_index}",
    ]
    with serve(folder, *options, OPENAI_API_KEY="none") as running:
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
        answer = engine.ask(
            QUESTION, reader=load_reader("openai", model="m", base_url=careless_model.url)
        )
    assert answer.warnings == careless_model.warnings
    for warning in careless_model.warnings:
        assert f"\nWarning: {warning}" in str(answer)
        assert f"Warning: {warning}" in answer._repr_html_()


def test_over_http(careless, careless_model):
    with careless.client() as client:
        assert client.post("/api/ask", json={"question": QUESTION}).json()["warnings"] == list(
            careless_model.warnings
        )
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


@pytest.fixture(scope="module")
def hasty(serve, built_index, tmp_path_factory):
    """A server that has no time to re-rank."""
    options = ["--rerank-timeout-ms", "0.001", "--index", f"demo={built_index}"]
    with serve(tmp_path_factory.mktemp("hasty"), *options) as running:
        yield running


def test_re_ranking_that_was_cut_short_is_told_over_http(hasty):
    with hasty.client() as client:
        found = client.post("/api/search", json={"query": QUESTION}).json()
        (batched,) = client.post("/api/search/batch", json={"queries": [QUESTION]}).json()[
            "results"
        ]
        assert found["notes"] == batched["notes"] == [CUT_SHORT]
        asked = client.post("/api/ask", json={"question": QUESTION}).json()
        assert (asked["label"], asked["warnings"]) == ("likely", [CUT_SHORT])
        whole = client.post(
            "/api/ask", json={"question": QUESTION, "rerank_timeout_ms": 60_000}
        ).json()
        assert whole["label"] in ("strong", "likely") and whole["warnings"] == []
        body = {"model": "demo", "messages": [{"role": "user", "content": QUESTION}]}
        assert client.post("/v1/chat/completions", json=body).json()["warnings"] == [CUT_SHORT]
    with RemoteEngine(hasty.url) as engine:
        assert engine.search(QUESTION, rerank_timeout_ms=0.001).notes == (CUT_SHORT,)
        for reader in (None, load_reader("extractive")):
            answer = engine.ask(QUESTION, reader=reader, rerank_timeout_ms=0.001)
            assert (answer.label, answer.warnings) == ("likely", (CUT_SHORT,))


async def test_re_ranking_that_was_cut_short_is_told_to_assistants(hasty):
    async with Client(f"{hasty.url}/mcp") as client:
        asked = (await client.call_tool("ask", {"question": QUESTION})).structured_content
        assert (asked["label"], asked["warnings"]) == ("likely", [CUT_SHORT])
        found = (await client.call_tool("search", {"query": QUESTION})).structured_content
        gathered = (
            await client.call_tool("gather_evidence", {"question": QUESTION})
        ).structured_content
        assert found["notes"] == gathered["notes"] == [CUT_SHORT]
