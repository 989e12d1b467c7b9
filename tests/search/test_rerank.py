"""Re-ranking, with the shipped re-ranker and with ones made to say what a test needs."""

import json
import time
from collections import Counter

import numpy as np
import pytest

from lmkrag import Document, Engine
from lmkrag.errors import UsageError
from lmkrag.reranker.base import PASSAGE_CHARS, unread_scores
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
    """Scores sentences by a word in them."""

    name = "likes"
    weight = 1.0

    def __init__(self, word: str, score: float = 5.0, seconds: float = 0.0) -> None:
        self.word, self.value, self.seconds = word, score, seconds
        self.read: list = []

    def score(self, question, passages):
        time.sleep(self.seconds * len(passages))
        self.read += passages
        return [
            np.array([self.value * (self.word in one) for one in passage.sentences], np.float32)
            for passage in passages
        ]


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
    before = [span.doc_id for span in search(ship, None, rerank=False, top_k=18, level="document")]
    reranker = Likes(before[3].removesuffix(".md"))
    after = [span.doc_id for span in search(ship, reranker, top_k=18, level="document")]
    assert sorted(before) == sorted(after)
    assert len(reranker.read) == WEIGHTS.reranked
    read = {passage.title for passage in reranker.read}
    unread = [doc_id for doc_id in before if doc_id.removesuffix(".md") not in read]
    assert after[-len(unread) :] == unread


def test_passages_are_short_and_hold_their_hit(ship):
    reranker = Likes("checked")
    search(ship, reranker)
    assert all(len("".join(passage.sentences)) <= PASSAGE_CHARS for passage in reranker.read)
    assert all("is checked" in "".join(passage.sentences) for passage in reranker.read)


def test_a_deadline_reads_the_best_and_stops(ship):
    before = search(ship, None, rerank=False)
    slow = Likes("mast", seconds=0.2)
    found = search(ship, slow, rerank_timeout_ms=1)
    assert len(slow.read) == 2
    assert slow.read[0].title == before[0].title
    assert {span.doc_id for span in found} == {span.doc_id for span in before}


def test_a_budget_reads_nothing_twice(ship):
    reranker = Likes("mast")
    search(ship, reranker, max_tokens=3_000)
    texts = ["".join(passage.sentences) for passage in reranker.read]
    assert len(texts) == len(set(texts))


@pytest.mark.parametrize("wrong", ["nan", "too few"])
def test_scores_that_make_no_sense_change_nothing(ship, wrong):
    class Broken(Likes):
        def score(self, question, passages):
            value = np.nan if wrong == "nan" else 1.0
            return [
                np.full(len(passage.sentences) - (wrong == "too few"), value, np.float32)
                for passage in passages
            ]

    before = search(ship, None, rerank=False)
    after = search(ship, Broken("x"))
    assert [(span.doc_id, span.start) for span in after] == [
        (span.doc_id, span.start) for span in before
    ]


class Compares:
    """Says nothing of passages by themselves, and prefers one title when it compares them."""

    name = "compares"
    weight = 1.0

    def __init__(self, title: str, value: float = 5.0, seconds: float = 0.0) -> None:
        self.title, self.value, self.seconds = title, value, seconds
        self.passages: list = []
        self.compared: list = []

    def score(self, question, passages):
        return [reading.rank for reading in self.read(question, passages)]

    def read(self, question, passages):
        time.sleep(self.seconds * len(passages))
        self.passages += passages
        return [unread_scores(len(passage.sentences)) for passage in passages]

    def compare(self, read):
        self.compared.append(read)
        titles = [self.passages[passage].title for passage in read.passages]
        return np.array([self.value * (title == self.title) for title in titles], np.float32)


def test_what_a_comparison_prefers_comes_first(ship):
    before = search(ship, None, rerank=False)
    reranker = Compares(before[5].doc_id.removesuffix(".md"))
    assert search(ship, reranker)[0].doc_id == before[5].doc_id
    (read,) = reranker.compared
    assert (np.diff(read.sentences) > 0).all()
    assert len(np.unique(read.passages)) == WEIGHTS.reranked
    texts = Counter(
        len(sentence) for passage in reranker.passages for sentence in passage.sentences
    )
    assert Counter(read.lengths.tolist()) <= texts


@pytest.mark.parametrize("wrong", ["nan", "too few"])
def test_a_comparison_that_makes_no_sense_changes_nothing(ship, wrong):
    class Broken(Compares):
        def compare(self, read):
            return super().compare(read)[: -1 if wrong == "too few" else None]

    before = search(ship, None, rerank=False)
    value = np.nan if wrong == "nan" else 5.0
    after = search(ship, Broken(before[5].doc_id.removesuffix(".md"), value=value))
    assert [(span.doc_id, span.start) for span in after] == [
        (span.doc_id, span.start) for span in before
    ]


def test_a_deadline_compares_what_was_read(ship):
    slow = Compares("mast", seconds=0.2)
    search(ship, slow, rerank_timeout_ms=1)
    assert set(slow.compared[-1].passages.tolist()) == {0, 1}


def test_the_shipped_one_and_the_explanation(engine):
    (span, *_) = engine.search("how is leave accrued?", rerank=True, explain=True)
    assert engine.read(span.doc_id)[span.start : span.end] == span.text
    assert "re-ranking" in span.explain()
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
