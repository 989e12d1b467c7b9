from dataclasses import replace

import numpy as np
import pytest

from lmkrag.results import Span
from lmkrag.search.passage_ranking import PassageRanking
from lmkrag.search.ranking import Unranked
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


def ranking(reader, **options):
    return PassageRanking("who?", lambda: reader, Unranked(), **options)


def test_what_is_read_counts_where_words_differ():
    found = ranking(Reader()).reorder(spans(-5, -4.9, 9, -6))
    assert [span.doc_id for span in found] == ["2.txt", "0.txt", "1.txt", "3.txt"]
    assert [span.score for span in found] == sorted((span.score for span in found), reverse=True)


def test_nothing_is_read_where_words_are_shared():
    reader = Reader()
    assert ranking(reader).reorder(spans(-5, -4, 9, -6, coverage=WEIGHTS.paraphrase)) is None
    assert reader.read == []


def test_each_text_is_read_once():
    reader = Reader()
    ranks = ranking(reader, weights=replace(WEIGHTS, ranked=2, ranked_in_doubt=3))
    given = spans(-1.3, -1.2, -1.1, 4, 5)
    found = ranks.reorder(given)
    assert ranks.reorder(given) == found
    assert sorted(reader.read) == ["it says -1.1", "it says -1.2", "it says -1.3"]
    assert [span.doc_id for span in found[3:]] == [
        "3.txt",
        "4.txt",
    ]  # the others follow, in their order
    assert [span.score for span in found] == sorted((span.score for span in found), reverse=True)


def test_what_answers_gains_whatever_its_score():
    given = [
        replace(span, score=score)
        for span, score in zip(spans(-5, 2, 0.5), (0.1, -0.1, -0.2), strict=True)
    ]
    found = ranking(Reader(), weights=replace(WEIGHTS, reading=5.0)).reorder(given)
    assert [span.score for span in found][1:] == pytest.approx([-0.1, -0.27], abs=1e-3)


def test_more_is_read_only_in_doubt():
    reader = Reader()
    weights = replace(WEIGHTS, ranked=2, ranked_in_doubt=3)
    given = spans(-5, 2, 9)
    found = ranking(reader, weights=weights).reorder(given)
    assert reader.read == ["it says -5", "it says 2"]
    assert [span.doc_id for span in found] == ["1.txt", "0.txt", "2.txt"]


def test_reading_refines_what_sentences_ranked():
    reader = Reader()
    given = spans(1, 2, 9, 4, coverage=1.0)
    found = ranking(reader, weights=replace(WEIGHTS, refined=3, refinement=20.0)).refine(given)
    assert [span.doc_id for span in found] == ["2.txt", "0.txt", "1.txt", "3.txt"]
    light = replace(WEIGHTS, refinement=1000.0)
    assert [span.doc_id for span in ranking(reader, weights=light).refine(given)] == [
        "0.txt",
        "1.txt",
        "2.txt",
        "3.txt",
    ]
    code = [replace(span, kind="code") for span in given]
    assert ranking(Reader()).refine(code) == code


@pytest.mark.parametrize("count", [0, 1])
def test_nothing_to_rank(count):
    given = spans(*range(count))
    assert ranking(Reader()).reorder(given) in (None, given)
    assert ranking(Reader()).refine(given) == given


def test_no_time_left():
    reader = Reader()
    given = spans(-5, -4, 9)
    assert ranking(reader, timeout_ms=0).reorder(given) == given
    assert reader.read == []


def test_texts_alike_score_alike():
    found = ranking(Reader()).reorder(spans(3, 3, 3))
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


def test_source_code_keeps_its_order():
    reader = Reader()
    given = [replace(span, kind="code") for span in spans(-5, -4, 9)]
    assert ranking(reader).reorder(given) is None
    assert reader.read == []
