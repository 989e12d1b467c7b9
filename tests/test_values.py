"""Values are checked where they enter: whatever ``add`` accepts, everything that reads can give back."""

import inspect
import json
import math
import sqlite3
from contextlib import closing
from datetime import date, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lmkrag import Document, Engine, RemoteEngine
from lmkrag.conversation import Conversation
from lmkrag.errors import IndexCorrupt, UsageError
from lmkrag.index import catalog
from lmkrag.integrations import langchain, llama_index
from lmkrag.serialization import answer_to_json, to_json
from lmkrag.types.json_values import MAX_DEPTH, replace_surrogates, to_json_value

FRONT_MATTER = {
    "dates as keys": "releases:\n  2024-01-15: first\n  2024-02-01: second",
    "numbers and nothing as keys": "1: a\n2.5: b\nnull: c\ntrue: d\nnested: {3: x, ~: y}",
    "an integer of 5,000 digits": "n: " + "7" * 5_000,
    "an integer of 4,000 digits": "n: " + "7" * 4_000,
    "sexagesimals": "time: 190:20:30\nother: 1:99999999999999999999:3",
    "a sexagesimal float": "time: 190:20:30.15",
    "not a number": "a: .nan\nb: .inf\nc: -.inf",
    "lone surrogates": 'a: "\\ud800 x"\n"k\\udc00": v',
    "nested 250 deep": "a: " + "[" * 250 + "]" * 250,
    "nested 5,000 deep": "a: " + "[" * 5_000 + "]" * 5_000,
    "a set and bytes": "a: !!set {x, y}\nb: !!binary aGVsbG8=",
    "a key that is a list": "? [a, b]\n: c",
    "a date that is none": "a: 2024-99-99\nb: !!timestamp 9999-99-99",
    "an empty integer": 'a: !!int ""',
    "an unknown tag": "a: !thing x",
    "itself": "a: &a [*a]",
}


@pytest.mark.parametrize("front_matter", FRONT_MATTER.values(), ids=FRONT_MATTER.keys())
def test_no_front_matter_ends_a_run(tmp_path, encoder, front_matter):
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "odd.md").write_text(
        f"---\ntitle: Odd\n{front_matter}\n---\n\nThe valve opens at four bar.\n"
    )
    (docs / "plain.md").write_text("The gate is green.\n")
    with Engine.open(tmp_path / "index", create=True, encoder=encoder, rerank=False) as engine:
        report = engine.add(docs)
        assert (report.added, report.skipped) == (2, ())
        assert engine.add(docs).unchanged == 2
        give_everything_back(engine)
        assert engine.search("when does the valve open?")[0].doc_id == "odd.md"


def give_everything_back(engine):
    """Read all there is of an index in every way, as JSON would send it."""
    for info in engine.documents():
        json.dumps(to_json(info), allow_nan=False).encode("utf-8")
        document = engine.document(info.doc_id)
        assert document.text == engine.read(info.doc_id)
        document.text.encode("utf-8")
        assert len(document.text) == info.characters
        for sentence in engine.score_sentences("what opens?", info.doc_id):
            assert document.text[sentence.start : sentence.end]
    for level in ("passage", "span", "sentence", "document"):
        for span in engine.search("what opens?", level=level, explain=True):
            assert engine.document(span.doc_id).text[span.start : span.end] == span.text
            json.dumps(to_json(span), allow_nan=False).encode("utf-8")
    json.dumps(answer_to_json("what?", engine.ask("what opens?")), allow_nan=False).encode("utf-8")
    engine.build_context("what opens?").text.encode("utf-8")
    assert engine.verify() == ()


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=10**30, max_value=10**4_000)
    | st.floats()
    | st.text()
    | st.text(st.characters(categories=["Cs"]), max_size=3)
    | st.binary(max_size=5)
    | st.datetimes()
    | st.dates(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=4) | st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)
ANY_TEXT = st.text(st.characters(), max_size=60)


@given(
    doc_id=ANY_TEXT | VALUES,
    path=ANY_TEXT,
    text=ANY_TEXT,
    title=ANY_TEXT | VALUES,
    kind=st.sampled_from(["text", "markdown", "code", "mail"]) | VALUES,
    meta=st.dictionaries(ANY_TEXT, VALUES, max_size=4) | VALUES,
    page_starts=st.just(()) | st.lists(st.integers(-1, 70), max_size=3).map(tuple) | VALUES,
    fingerprint=st.just("") | VALUES,
)
@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_what_add_accepts_everything_gives_back(encoder, tmp_path_factory, **values):
    path = tmp_path_factory.mktemp("any") / "index"
    with Engine.open(path, create=True, encoder=encoder, rerank=False) as engine:
        try:
            document = Document(**values)
        except UsageError as error:
            assert "\n" not in str(error) and len(str(error)) < 2_500
            return
        report = engine.add([document, Document("other", "", "The valve opens at four bar.")])
        assert report.added + len(report.skipped) >= 1
        give_everything_back(engine)
        if report.added == 2:
            stored = engine.document(document.doc_id)
            assert (stored.text, stored.title, stored.page_starts) == (
                document.text,
                document.title,
                document.page_starts,
            )
            assert stored.meta == document.meta
            assert engine.add(document).unchanged == 1


def test_what_json_can_not_hold_is_written_out():
    value = {
        "when": date(2024, 1, 15),
        "at": datetime(2024, 1, 15, 8, 30),
        2024: math.nan,
        "inf": -math.inf,
        "big": 10**30,
        "huge": 10**5_000,
        "set": {"x"},
        "bytes": b"x",
        "bad\ud800": "\udc00!",
        None: True,
    }
    made = to_json_value(value)
    assert made["when"] == "2024-01-15" and made["at"] == "2024-01-15T08:30:00"
    assert (made["2024"], made["inf"], made["big"]) == ("nan", "-inf", "1" + "0" * 30)
    assert made["huge"].startswith("0x") and made["set"] == ["x"]
    assert made["bad\ufffd"] == "\ufffd!" and made["None"] is True
    json.dumps(made, allow_nan=False).encode("utf-8")
    deep: list = []
    for _ in range(MAX_DEPTH):
        deep = [deep]
    with pytest.raises(ValueError, match="nested deeper than 32 levels"):
        to_json_value(deep)
    with pytest.raises(ValueError, match="more than 10,000 values"):
        to_json_value([[0] * 200] * 200)
    assert replace_surrogates("a\ud800b😀") == "a\ufffdb😀"


@pytest.mark.parametrize("suffix", ["json", "jsonl", "ipynb"])
def test_lone_surrogates_in_files_are_replaced_one_for_one(tmp_path, encoder, suffix):
    docs = tmp_path / "docs"
    docs.mkdir()
    record = '{"note": "The valve \\ud800 opens at four bar."}'
    notebook = {
        "cells": [
            {
                "cell_type": "markdown",
                "metadata": {},
                "source": ["The valve SURROGATE opens at four bar."],
            }
        ],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    text = json.dumps(notebook).replace("SURROGATE", "\\ud800") if suffix == "ipynb" else record
    (docs / f"odd.{suffix}").write_text(text)
    with Engine.open(tmp_path / "index", create=True, encoder=encoder, rerank=False) as engine:
        assert engine.add(docs).added == 1
        assert "The valve \ufffd opens" in engine.read(f"odd.{suffix}")
        give_everything_back(engine)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"page_starts": None}, "its page_starts must be a tuple of whole numbers, not None"),
        ({"page_starts": 0}, "its page_starts must be a tuple of whole numbers, not 0"),
        ({"page_starts": (True,)}, "its page_starts must be a tuple of whole numbers"),
        ({"page_starts": (math.nan,)}, "its page_starts must be a tuple of whole numbers"),
        ({"page_starts": "12"}, "its page_starts must be a tuple of whole numbers, not '12'"),
        ({"page_starts": (5, 2)}, "its page_starts must increase from 0 to the length of the text"),
        ({"page_starts": (-1,)}, "its page_starts must increase"),
        ({"page_starts": (999,)}, "its page_starts must increase"),
        ({"fingerprint": 1.5}, "its fingerprint must be a string, not 1.5"),
        ({"meta": None}, "its metadata must be a mapping, not None"),
        ({"text": b"bytes"}, "its text must be a string"),
        ({"title": 3}, "its title must be a string, not 3"),
        ({"kind": None}, "its kind must be a string, not None"),
        ({"doc_id": "x" * 2_001}, "a doc_id has at most 2,000 characters"),
        ({"doc_id": "\ud800"}, "its doc_id is not text that UTF-8 can hold"),
        ({"path": "\udcff"}, "its path is not text that UTF-8 can hold"),
        ({"meta": {3: "x"}}, "the metadata key 3 is not a string"),
        ({"doc_id": " "}, "a document needs a doc_id"),
        ({"doc_id": 7}, "a document needs a doc_id, not 7"),
    ],
)
def test_documents_that_can_not_be_stored_are_refused(values, message):
    with pytest.raises(UsageError, match=message):
        Document(**{"doc_id": "a", "path": "a", "text": "The valve opens.", **values})


@pytest.mark.parametrize("column", ["page_starts", "meta"])
@pytest.mark.parametrize(
    "stored", ["null", "0", "true", "NaN", '"x"', "[", "[" * 5_000, '[{"a": 1}]', "{}", "[]"]
)
def test_a_row_that_can_not_be_decoded_is_damaged(lmkrag, index, encoder, column, stored):
    """The checksum fits, the value does not."""
    with closing(sqlite3.connect(index / "catalog.sqlite")) as connection, connection:
        (key,) = connection.execute(
            "SELECT id FROM document WHERE doc_id = 'glass-river.txt'"
        ).fetchone()
        connection.execute(f"UPDATE document SET {column} = ? WHERE id = ?", (stored, key))
        catalog._set_checksum(
            connection,
            connection.execute(
                f"SELECT {catalog._COLUMNS} FROM document WHERE id = ?", (key,)
            ).fetchone(),
        )
    good = (column, stored) in {("page_starts", "[]"), ("meta", "{}")}
    with Engine.open(index, encoder=encoder, rerank=False) as engine:
        assert (engine.verify() == ()) == good
        if good:
            assert len(engine.documents()) == 5
        else:
            with pytest.raises(
                IndexCorrupt,
                match=r"can't be read .*; restore a backup, or index the sources again",
            ):
                engine.documents()


WRONG = (None, 1, 1.5, b"x", {}, object())
CALLS = {
    "search": lambda engine, value: engine.search(value),
    "search top_k": lambda engine, value: engine.search(
        "x", top_k=value if value not in (None, 1) else "x"
    ),
    "search filter": lambda engine, value: engine.search("x", filter=value or [1]),
    "search mode": lambda engine, value: engine.search("x", mode=value),
    "search level": lambda engine, value: engine.search("x", level=value),
    "search explain": lambda engine, value: engine.search("x", explain=value),
    "search_many": lambda engine, value: engine.search_many(value if value != {} else "a string"),
    "search_many of": lambda engine, value: engine.search_many([value]),
    "ask": lambda engine, value: engine.ask(value),
    "ask_many": lambda engine, value: engine.ask_many(value if value != {} else "a string"),
    "explain": lambda engine, value: engine.score_sentences(value, "glass-river.txt"),
    "explain document": lambda engine, value: engine.score_sentences("x", value),
    "documents filter": lambda engine, value: engine.documents(filter=value or [1]),
    "remove": lambda engine, value: engine.remove(value if value != {} else [1]),
    "read": lambda engine, value: engine.read(value),
    "read start": lambda engine, value: engine.read(
        "glass-river.txt", value if value != 1 else "1"
    ),
    "describe": lambda engine, value: engine.documents(doc_ids=[value])[0],
    "add": lambda engine, value: engine.add(value if value != {} else [1]),
    "open": lambda engine, value: Engine.open(value),
    "open recipe": lambda engine, value: Engine.open(
        engine.status().path, recipe=value if value is not None else 1
    ),
    "open encoder": lambda engine, value: Engine.open(
        engine.status().path, encoder=value if value is not None else 1
    ),
    "open create": lambda engine, value: Engine.open(engine.status().path, create=value),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_wrong_types_are_wrong_usage(engine, call):
    for value in WRONG:
        with pytest.raises(UsageError) as refused:
            call(engine, value)
        assert "\n" not in str(refused.value)


def test_an_engine_made_of_a_path_says_what_to_do(index):
    for path in (index, str(index)):
        with pytest.raises(
            UsageError, match=r"an engine is opened from a directory by Engine\.open\("
        ):
            Engine(path)


def test_names_of_other_libraries_get_a_hint(engine):
    for name in ("k", "similarity_top_k", "n_results"):
        with pytest.raises(UsageError, match=f"no option '{name}': use top_k"):
            engine.search("leave", **{name: 3})
    with pytest.raises(UsageError, match="no option 'filters': use filter"):
        engine.ask("who approves leave?", filters="kind=pdf")
    with pytest.raises(UsageError, match="no option 'rerunk': use rerank"):
        engine.search("leave", rerunk=False)
    with pytest.raises(UsageError, match="rerank_timeout_ms must be a positive number"):
        engine.search("leave", rerank_timeout_ms=10**400)


@pytest.mark.parametrize("kind", [Engine, RemoteEngine])
def test_options_are_in_the_signatures(kind):
    shown = inspect.signature(kind.search).parameters
    assert {"query", "top_k", "level", "filter", "explain"} <= set(shown)
    assert shown["mode"].default == "hybrid"
    assert "context_tokens" in inspect.signature(kind.ask).parameters


@pytest.mark.parametrize(
    "kind", [llama_index.LandmarkRetriever, langchain.LandmarkRetriever, Conversation]
)
def test_options_are_in_the_signatures_of_what_takes_an_engine(kind):
    shown = inspect.signature(kind).parameters
    assert {"engine", "mode", "filter", "rerank"} <= set(shown)
    assert shown["mode"].default == "hybrid"


def test_a_notebook_completes_options(engine):
    from IPython.core.completer import IPCompleter, provisionalcompleter

    completer = IPCompleter(namespace={"engine": engine})
    for call, option in (
        ("search('leave', le", "level="),
        ("ask('leave', cont", "context_tokens="),
    ):
        with provisionalcompleter():
            code = f"engine.{call}"
            assert option in [
                completion.text for completion in completer.completions(code, len(code))
            ]


def test_spans_and_answers_print_and_become_dictionaries(engine):
    span = engine.search("how is leave accrued?", top_k=1)[0]
    assert str(span).startswith(f"{span.place}  {span.section}\n")
    assert str(span).endswith(f"> {span.text.splitlines()[-1]}")
    assert span.to_dict() == to_json(span)
    assert (span.to_dict()["place"], span.to_dict()["text"]) == (span.place, span.text)
    answer = engine.ask("how is leave accrued?")
    assert {"question": "how?", **answer.to_dict()} == answer_to_json("how?", answer)
    assert answer.to_dict()["citations"][0]["quote"] == answer.citations[0].quote
    assert json.loads(json.dumps(answer.to_dict()))["text"] == answer.text


def test_nothing_is_no_source(engine):
    with pytest.raises(UsageError, match="an empty path"):
        engine.add("")
    with pytest.raises(UsageError, match="nothing is cited there"):
        engine.check(None)
