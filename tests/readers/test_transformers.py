"""The reader on a real model of this machine: a tiny Llama made by the test."""

import asyncio
import shutil
import threading

import pytest

from lmkrag.errors import ReaderError, UsageError
from lmkrag.readers.choose import load_reader
from lmkrag.readers.transformers import TransformersReader
from lmkrag.results import Span

TEXT = "Bonfires are allowed only in the iron basket. The gate opens\nat nine."
SPAN = Span("a.md", "/a.md", 10, 10 + len(TEXT), TEXT, 1.0)


@pytest.fixture(scope="module")
def reader(causal_model):
    return TransformersReader(str(causal_model), max_tokens=60)


def test_it_streams_and_cites(reader):
    stream = reader.stream("Where are bonfires allowed?", [SPAN])
    pieces = list(stream)
    answer = stream.answer()
    assert len(pieces) > 3
    assert "".join(pieces).strip().startswith("bonfires are allowed only in iron baskets")
    assert answer.found
    assert answer.reader == "transformers"
    assert "[99]" not in answer.text.replace(" ", "")
    assert "citation [99] matches no retrieved span; removed" in answer.warnings
    (citation,) = answer.citations
    assert citation.quote == "Bonfires are allowed only in the iron basket."
    assert TEXT[citation.start - 10 : citation.end - 10] == citation.quote


async def test_async_says_the_same(reader):
    answer = await reader.aanswer("Where?", [SPAN])
    assert answer == reader.answer("Where?", [SPAN])
    stream = reader.astream("Where?", [SPAN])
    assert len([piece async for piece in stream]) > 3
    assert await stream.answer() == answer


def test_a_token_limit_is_told(causal_model):
    answer = TransformersReader(str(causal_model), max_tokens=4).answer("Where?", [SPAN])
    assert answer.text.endswith("[…]")
    assert "the model stopped at its token limit: the answer is not whole" in answer.warnings


def test_a_listener_that_leaves_stops_the_model(reader):
    stream = reader.generate(reader.prompts.answer("Where?", [SPAN]))
    next(stream)
    stream.close()  # joins the thread; would wait for ever if it were not stopped
    assert reader.answer("Where?", [SPAN]).found


def test_a_prompt_too_long_for_the_model(reader):
    long = Span("a.md", "/a.md", 0, 90_000, "The gate. " * 9_000, 1.0)
    with pytest.raises(ReaderError, match="the model reads 16384: lower --context-tokens"):
        reader.answer("Where?", [long])


def test_a_question_too_long_for_the_model_is_cut(reader):
    assert reader.answer("Where? " * 9_000, [SPAN]).found
    assert reader.shorten("Where? " * 9_000) == ("Where? " * 2_048).rstrip()
    assert reader.shorten("Where?  ") == "Where?  "


def test_a_long_conversation_is_rewritten_from_its_end(reader, monkeypatch):
    asked = []
    monkeypatch.setattr(
        reader, "generate", lambda messages: asked.append(messages[-1]["content"]) or iter(["Why?"])
    )
    history = [(f"question {number}", "word " * 900) for number in range(6)]
    assert reader.rewrite(history, "And why?") == "Why?"
    assert "question 5" in asked[0] and "question 3" not in asked[0]


def test_without_spans_the_model_is_not_asked(reader):
    answer = reader.answer("Where?", [])
    assert (answer.found, answer.citations, answer.text) == (False, (), "NOT IN THESE DOCUMENTS")


def test_tokens_are_the_models_own(reader):
    assert reader.count_tokens("gate opens") == 2


def test_a_model_without_a_chat_template(causal_model, tmp_path):
    folder = tmp_path / "plain"
    shutil.copytree(causal_model, folder)
    (folder / "chat_template.jinja").unlink()
    reader = TransformersReader(str(folder), max_tokens=5)
    assert reader.answer("Where?", [SPAN]).text


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("oracle", {}, "use one of extractive, openai, vllm, transformers"),
        ("transformers", {}, "choose a model with --model"),
        ("vllm", {}, "choose a model with --model"),
        ("transformers", {"model": "./nowhere"}, "no such model folder: ./nowhere"),
        (
            "transformers",
            {"model": "./x", "base_url": "http://x"},
            "--base-url is for the reader 'openai'",
        ),
        ("extractive", {"model": "x"}, "the extractive reader has no model"),
        ("openai", {}, "give --base-url of a server, or set OPENAI_API_KEY"),
    ],
)
def test_what_can_not_be_meant(name, options, message, monkeypatch):
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(UsageError, match=message):
        load_reader(name, **options)


def test_a_folder_that_is_no_model(tmp_path):
    with pytest.raises(ReaderError, match="can't be loaded as a causal model"):
        load_reader("transformers", model=str(tmp_path))


async def test_a_model_stops_when_its_stream_is_closed(causal_model, monkeypatch):
    reader = TransformersReader(str(causal_model), max_tokens=60)
    stopped = threading.Event()
    real = type(reader).generate

    def generate(self, messages):
        try:
            yield from real(self, messages)
        finally:
            stopped.set()

    monkeypatch.setattr(type(reader), "generate", generate)
    async with reader.astream("Where?", [SPAN]) as stream:
        assert await anext(stream)
    assert await asyncio.to_thread(stopped.wait, 20)
