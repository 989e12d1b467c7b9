"""Re-ranking, with the shipped re-ranker and with ones made to say what a test needs."""

import json
import time

import numpy as np
import pytest

from lmkrag import Document, Engine
from lmkrag.errors import UsageError
from lmkrag.reranker.base import PASSAGE_CHARS
from lmkrag.results import CUT_SHORT
from lmkrag.search.request import SearchRequest
from lmkrag.search.weights import WEIGHTS

WORDS = [
    "valve",
    "crank",
    "rope",
    "lamp",
    "wick",
    "hull",
    "deck",
    "mast",
    "keel",
    "bilge",
    "pump",
    "stove",
    "bell",
    "chart",
    "anchor",
    "sail",
    "tiller",
    "rudder",
]


class Likes:
    """Scores passages by a word in them."""

    name = "likes"

    def __init__(self, word: str, score: float = 20.0, seconds: float = 0.0) -> None:
        self.word, self.value, self.seconds = f"The {word} ", score, seconds
        self.read: list = []

    def score(self, question, passages):
        time.sleep(self.seconds * len(passages))
        self.read += passages
        return np.array([self.value * (self.word in text) for _, text in passages], np.float32)


@pytest.fixture(scope="module")
def ship(encoder, tmp_path_factory):
    path = tmp_path_factory.mktemp("ship") / "index"
    documents = [
        Document(
            f"{word}.md",
            f"{word}.md",
            f"The {word} is checked every week. " + "Nobody sails alone. " * 12,
            word,
        )
        for word in WORDS
    ]
    with Engine.open(path, create=True, encoder=encoder) as engine:
        engine.add(documents)
    return path


def search(path, reranker, **options):
    with Engine.open(path, reranker=reranker) as engine:
        return engine.search(
            "What is checked every week?", rerank=options.pop("rerank", True), **options
        )


@pytest.mark.parametrize("level", ["passage", "span", "sentence", "document"])
def test_what_the_reranker_prefers_comes_first(ship, level):
    before = search(ship, None, rerank=False, level=level)
    wanted = before[5].doc_id.removesuffix(".md")
    found = search(ship, Likes(wanted), level=level)
    assert found[0].doc_id == before[5].doc_id
    assert [span.score for span in found] == sorted((span.score for span in found), reverse=True)


def test_what_was_not_read_keeps_its_order_behind(ship):
    before = [span.doc_id for span in search(ship, None, rerank=False, top_k=18)]
    reranker = Likes(before[3].removesuffix(".md"))
    after = [span.doc_id for span in search(ship, reranker, top_k=18)]
    assert len(reranker.read) == WEIGHTS.read_at_once
    assert sorted(before) == sorted(after)
    read = [passage.place for passage in reranker.read]
    unread = [doc_id for doc_id in before if doc_id.removesuffix(".md") not in read]
    assert after[len(read) :] == unread


def test_all_are_read_where_none_is_likely_to_answer(ship):
    reranker = Likes("storm")
    reranker.score = lambda question, passages: (
        reranker.read.extend(passages) or np.full(len(passages), -5.0, np.float32)
    )
    search(ship, reranker)
    assert len(reranker.read) == len(WORDS)


@pytest.mark.parametrize("level", ["span", "sentence", "document"])
def test_the_passages_around_a_hit_are_short_and_hold_it(ship, level):
    reranker = Likes("checked")
    search(ship, reranker, level=level)
    assert all(len(text) <= PASSAGE_CHARS for _, text in reranker.read)
    assert all("is checked" in text for _, text in reranker.read[: len(WORDS)])


def test_a_deadline_reads_the_best_and_stops(ship):
    before = search(ship, None, rerank=False)
    slow = Likes("mast", seconds=0.1)
    found = search(ship, slow, rerank_timeout_ms=50)
    assert len(slow.read) == 4
    assert slow.read[0].place == before[0].title
    assert {span.doc_id for span in found} == {span.doc_id for span in before}
    assert found.cut_short


def test_a_budget_reads_nothing_twice(ship):
    reranker = Likes("mast")
    search(ship, reranker, max_tokens=3_000)
    assert len(reranker.read) == len(set(reranker.read))


@pytest.mark.parametrize("wrong", ["nan", "too few"])
def test_scores_that_make_no_sense_change_nothing(ship, wrong):
    class Broken(Likes):
        def score(self, question, passages):
            value = np.nan if wrong == "nan" else 1.0
            return np.full(len(passages) - (wrong == "too few"), value, np.float32)

    before = search(ship, None, rerank=False)
    after = search(ship, Broken("x"))
    assert [(span.doc_id, span.start) for span in after] == [
        (span.doc_id, span.start) for span in before
    ]


def test_the_shipped_one_and_the_explanation(engine):
    (span, *_) = engine.search("how is leave accrued?", rerank=True, explain=True)
    assert engine.read(span.doc_id)[span.start : span.end] == span.text
    assert "reading of the passage" in span.explain()
    assert span.explanation.score == pytest.approx(span.score)


@pytest.mark.parametrize("value", ["yes", 0, -5, float("nan"), float("inf"), 10**400])
def test_what_rerank_may_be(value):
    with pytest.raises(UsageError, match="rerank must be true or false"):
        SearchRequest(rerank=value)
    with pytest.raises(UsageError, match="rerank_timeout_ms must be a positive number"):
        SearchRequest(rerank_timeout_ms=value)


def test_a_document_of_one_word(encoder, tmp_path):
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        engine.add([Document("a.md", "a.md", "Fog")])
        (span,) = engine.search("Fog?", rerank=True)
        assert span.text == "Fog"
        assert engine.ask("Fog?").spans[0].text == "Fog"


@pytest.mark.parametrize(
    ("default", "options", "read"),
    [
        (True, {}, True),
        (True, {"mode": "dense"}, True),
        (True, {"mode": "lexical"}, False),
        (True, {"mode": "lexical", "rerank": True}, True),
        (True, {"rerank": False}, False),
        (False, {}, False),
        (False, {"rerank": True}, True),
        (True, {"rerank_timeout_ms": 1_000}, True),
    ],
)
def test_when_passages_are_read(ship, default, options, read):
    reranker = Likes("mast")
    with Engine.open(ship, reranker=reranker, rerank=default) as engine:
        engine.search("What is checked every week?", **options)
        assert bool(reranker.read) == read
        reranker.read.clear()
        engine.search_many(["What is checked every week?"], **options)
        assert bool(reranker.read) == read


def test_a_prompt_and_an_answer_are_in_the_new_order(ship):
    reranker = Likes("mast")
    with Engine.open(ship, reranker=reranker) as engine:
        engine.build_context("What is checked every week?")
        assert reranker.read
        reranker.read.clear()
        answer = engine.ask("What is checked every week?")
        assert reranker.read
        assert [span.score for span in answer.spans] == [
            span.score
            for span in engine.search("What is checked every week?", top_k=len(answer.spans))
        ]


QUESTION = "how long must the lamp burn before the wick may be trimmed?"


@pytest.fixture(scope="module")
def handbook(built_index, encoder):
    with Engine.open(built_index, encoder=encoder) as engine:
        assert engine.ask(QUESTION).label == "strong"  # and the models are loaded
        yield engine


def test_a_search_without_time_to_re_rank_says_so(handbook):
    assert handbook.search(QUESTION).notes == ()
    for options in (
        {},
        {"level": "span"},
        {"level": "document"},
        {"max_tokens": 500},
        {"rerank": True},
    ):
        found = handbook.search(QUESTION, rerank_timeout_ms=0.001, **options)
        assert found.notes == (CUT_SHORT,), options
        assert found.cut_short
    (first, second) = handbook.search_many([QUESTION, "leave"], rerank_timeout_ms=0.001)
    assert first.notes == second.notes == (CUT_SHORT,)
    assert handbook.build_context(QUESTION, rerank_timeout_ms=0.001).notes == (CUT_SHORT,)
    assert handbook.search(QUESTION, rerank=False, rerank_timeout_ms=0.001).notes == ()


def test_no_answer_is_strong_without_time_to_re_rank(handbook):
    questions = [
        QUESTION,
        "Which keeper has 21 days of leave a year?",
        "who approves leave?",
        "what did the repair cost?",
    ]
    labels = [handbook.ask(question).label for question in questions]
    assert "strong" in labels
    for question, label in zip(questions, labels, strict=True):
        answer = handbook.ask(question, rerank_timeout_ms=0.001)
        assert answer.warnings == (CUT_SHORT,)
        assert answer.label == ("likely" if label == "strong" else answer.label) != "strong"
        streamed = handbook.ask_stream(question, rerank_timeout_ms=0.001).answer()
        assert (streamed.label, streamed.warnings) == (answer.label, answer.warnings)


def test_the_command_line_says_so(lmkrag, built_index):
    options = ["--index", built_index, "--rerank", "on", "--rerank-timeout-ms", "0.001"]
    for command in ("search", "ask"):
        assert CUT_SHORT in lmkrag(command, QUESTION, *options).stderr
    asked = json.loads(lmkrag("ask", QUESTION, *options, "--json").stdout)
    assert (asked["label"], asked["warnings"]) == ("likely", [CUT_SHORT])
    assert json.loads(lmkrag("search", QUESTION, *options, "--json").stdout)["notes"] == [CUT_SHORT]


@pytest.mark.parametrize(
    ("level", "options"),
    [
        ("passage", {}),
        ("span", {}),
        ("sentence", {"rerank": False}),
        ("document", {"rerank": False}),
        ("passage", {"per_document": 1}),
        ("passage", {"mode": "lexical"}),
    ],
)
def test_more_results_never_change_the_first(engine, level, options):
    def find(count):
        spans = engine.search("how is leave accrued?", level=level, top_k=count, **options)
        return [(span.doc_id, span.start, span.end, span.score) for span in spans]

    most = find(120)
    assert [score for *_, score in most] == sorted((score for *_, score in most), reverse=True)
    for count in (1, 8, 25, 60):
        assert find(count) == most[:count]


def test_more_source_files_never_change_the_first(encoder, tmp_path):
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        engine.add(
            Document(
                f"{word}.py",
                f"{word}.py",
                f"def trim_{word}():\n    return {word!r}\n",
                kind="code",
            )
            for word in WORDS
        )
        most = engine.search("trim the sail", top_k=60)
        for count in (1, 3, 18):
            assert engine.search("trim the sail", top_k=count) == most[:count]
