from dataclasses import replace

import numpy as np
import pytest

from lmkrag.reranker.base import PlacedText
from lmkrag.results import Span
from lmkrag.search.ranking import ReadingRanker
from lmkrag.search.surroundings import SpanInput
from lmkrag.search.weights import WEIGHTS


class Reader:
    """Gives each text the number that it ends with, and notes what it read."""

    def __init__(self):
        self.read = []

    def score(self, question, passages):
        self.read += [text for _, text in passages]
        return np.array([float(text.split()[-1]) for _, text in passages], np.float32)


def spans(*numbers, coverage=0.0):
    return [
        Span(
            f"{place}.txt",
            f"{place}.txt",
            0,
            9,
            f"it says {number}",
            1 - 0.1 * place,
            coverage=coverage,
        )
        for place, number in enumerate(numbers)
    ]


def reorder(reader, given, *, timeout_ms=None, **weights):
    ranker = ReadingRanker(
        "who?", lambda: reader, timeout_ms=timeout_ms, weights=replace(WEIGHTS, **weights)
    )
    inputs = [SpanInput(PlacedText("", span.text)) for span in given]
    return ranker.reorder(given, range(len(given)), inputs)


def test_what_reads_better_gains():
    found = reorder(Reader(), spans(-5, -4.9, 9, -6))
    assert [span.doc_id for span in found] == ["2.txt", "0.txt", "1.txt", "3.txt"]
    assert [span.score for span in found] == sorted((span.score for span in found), reverse=True)


def test_more_is_read_until_one_is_likely_to_answer():
    reader = Reader()
    given = spans(-5, -4, -3, 2, 9)
    found = reorder(reader, given, read_at_once=2)
    assert reader.read == ["it says -5", "it says -4", "it says -3", "it says 2"]
    assert found[0].doc_id == "3.txt"
    assert found[-1].doc_id == "4.txt"  # the others follow, in their order
    assert [span.score for span in found] == sorted((span.score for span in found), reverse=True)


def test_what_answers_gains_whatever_its_score():
    given = [
        replace(span, score=score)
        for span, score in zip(spans(-5, 2, 0.5), (0.1, -0.1, -0.2), strict=True)
    ]
    found = reorder(Reader(), given, reading=5.0)
    assert [span.score for span in found][1:] == pytest.approx([-0.1, -0.27], abs=1e-3)


@pytest.mark.parametrize("count", [0, 1])
def test_nothing_to_rank(count):
    given = spans(*range(count))
    assert reorder(Reader(), given) == given


def test_no_time_left():
    reader = Reader()
    given = spans(-5, -4, 9)
    assert reorder(reader, given, timeout_ms=0) == given
    assert reader.read == []


def test_texts_alike_score_alike():
    found = reorder(Reader(), spans(3, 3, 3))
    assert [span.doc_id for span in found] == ["0.txt", "1.txt", "2.txt"]
    assert [span.score for span in found] == pytest.approx([1.0, 0.9, 0.8])


@pytest.mark.parametrize(
    "question", ["how much holiday does the staff get?", "is leave accrued by the month?"]
)
def test_a_search_reads_passages_as_they_are_shown(engine, question):
    found = engine.search(question, top_k=4, explain=True, rerank=True)
    assert [span.score for span in found] == sorted((span.score for span in found), reverse=True)
    assert "reading of the passage" in found[0].explain()
    assert [span.text for span in engine.search(question, top_k=1, rerank=True)] == [found[0].text]
