"""Explanations add up to the scores, and say what growth did."""

import math

import pytest

from lmkrag import Document, UsageError

QUESTIONS = [
    "how is leave accrued?",
    "coping stones moved",
    "When are bonfires allowed?",
    "lighthouse handbook: leave",
]


@pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
@pytest.mark.parametrize("level", ["passage", "span", "sentence", "document"])
def test_parts_and_factors_give_the_score(engine, mode, level):
    for question in QUESTIONS:
        for span in engine.search(question, mode=mode, level=level, explain=True):
            told = span.explanation
            total = sum(part.value * part.weight for part in told.parts)
            total *= math.prod(factor.value for factor in told.factors)
            assert total == pytest.approx(span.score, abs=1e-4)
            assert told.score == span.score
            names = {part.name for part in told.parts}
            assert ("similarity" in names) == (mode != "lexical")
            assert "words" not in names or mode != "dense"


def test_growth_is_told(engine):
    for question in QUESTIONS:
        for span in engine.search(question, level="span", explain=True):
            told = span.explanation
            sentences = engine.score_sentences(question, span.doc_id)
            covered = sum(
                span.start < sentence.end and sentence.start < span.end for sentence in sentences
            )
            assert covered == told.sentences_before + 1 + told.sentences_after
            assert told.stopped_before and told.stopped_after
            assert (told.added_before, told.added_after) == (0, 0)


def test_where_a_document_begins_and_ends(engine):
    engine.add(Document("gate.txt", "gate.txt", "The gate is painted green."))
    (span,) = engine.search("which colour has the gate?", filter="doc_id=gate.txt", explain=True)
    assert span.explanation.stopped_before == "the document begins here"
    assert span.explanation.stopped_after == "the document ends here"
    assert span.explanation.words == ("gate",)
    assert "words of the question: gate" in span.explain()


def test_a_passage_tells_what_it_needed(engine):
    asked = [
        *QUESTIONS,
        "who pays the fare?",
        "what does the keeper write?",
        "how often is it trimmed?",
    ]
    found = [span for question in asked for span in engine.search(question, top_k=30, explain=True)]
    completed = [
        span for span in found if span.explanation.added_before or span.explanation.added_after
    ]
    assert completed
    for span in completed:
        assert "characters to be understood" in span.explain()


def test_without_explanations(engine):
    span = engine.search("leave", top_k=1)[0]
    assert span.explanation is None
    with pytest.raises(UsageError, match="search with explain=True"):
        span.explain()


def test_sentences_of_a_document(engine):
    scores = engine.score_sentences("how is leave accrued?", "lighthouse-handbook.md")
    text = engine.read("lighthouse-handbook.md")
    assert scores[0].start == 0 and scores[-1].end == len(text)
    assert "".join(text[score.start : score.end] for score in scores) == text
    best = max(scores, key=lambda score: score.score)
    assert "Leave is accrued" in text[best.start : best.end]
    found = engine.search(
        "how is leave accrued?", level="sentence", top_k=5, filter="doc_id=lighthouse-handbook.md"
    )
    by_start = {score.start: score for score in scores}
    for span in found:
        assert by_start[span.hits[0].start].dense == pytest.approx(span.hits[0].dense, abs=1e-3)
    with pytest.raises(UsageError, match="no document"):
        engine.score_sentences("x", "none")
    with pytest.raises(UsageError, match="empty"):
        engine.score_sentences(" ", "lighthouse-handbook.md")
