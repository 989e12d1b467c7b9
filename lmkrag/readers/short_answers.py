"""Read spans together with a question: which sentences answer it, and with which words."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lmkrag.reranker.base import PassageScores, RerankPassage
from lmkrag.reranker.highlights import split_passages
from lmkrag.reranker.landmark import LandmarkReranker
from lmkrag.specs import Sentence
from lmkrag.types import ShortAnswer, Span

PASSAGES = 8
"""Passages that are read, at most."""

STRENGTH = -3.0
"""The logarithm of the least probability with which words are taken for the answer."""

WEIGHT = 0.03
"""Of the re-ranker's ranks beside similarities, instead of its own weight in a search; see ``benchmarks/LOG.md``."""

_BESIDE_A_HIT = 0.9  # what a sentence of a span has of the span's best hit's score, if nothing found it itself
_SHARE = 0.75  # words that are more of their sentence than this are the sentence

_HAS_SHORT_ANSWER = re.compile(
    r"(?!.*\bhow (?!(?:many|much|long|old|far|often|tall|high|deep|wide|thick|large|big|small|fast|heavy|hot|cold|soon"
    r"|late|early)\b))(?!.*\bwhy\b)",
    re.IGNORECASE | re.DOTALL,
)
_ASKS_FOR_SEVERAL = re.compile(
    r"\b(?:list|name|enumerate)\s+(?:all|the|every|each)\b|\b(?:what|which)\s+are\b"
    r"|\b(?:what|which)\s+(?:\w+\s+)?\w+[^s\W]s\s+(?:are|were|do|did|have|can|may|must|should)\b",
    re.IGNORECASE,
)


class ReadSentence(NamedTuple):
    """A sentence of a span, read together with the question.

    ``number`` is that of the span, from 1; ``start`` and ``end`` are characters of the document. ``score`` is what the
    sentence ranks by, ``answers`` the log-odds that it answers, ``short`` its words that do, if any.
    """

    number: int
    start: int
    end: int
    score: float
    answers: float
    short: ShortAnswer | None


def read_spans(question: str, spans: Sequence[Span], reranker: LandmarkReranker) -> list[ReadSentence]:
    """Read the best passages of spans; return their sentences, best first."""
    passages = [
        (max(_similarity(span, sentence) for sentence in passage), number, passage)
        for number, span in enumerate(spans, 1)
        for passage in split_passages(span.text)
    ]
    passages.sort(key=lambda passage: -passage[0])
    best = passages[:PASSAGES]
    texts = [
        RerankPassage(spans[number - 1].title, tuple(spans[number - 1].text[one.start : one.end] for one in sentences))
        for _, number, sentences in best
    ]
    found: list[ReadSentence] = []
    for (_, number, sentences), reading in zip(best, reranker.read(question, texts), strict=True):
        found += _describe(question, number, spans[number - 1], sentences, reading)
    return sorted(found, key=lambda sentence: -sentence.score)


def _describe(
    question: str, number: int, span: Span, sentences: Sequence[Sentence], reading: PassageScores
) -> Iterator[ReadSentence]:
    for passage, sentence in enumerate(sentences):
        start, end = (span.start + sentence.start + int(offset) for offset in reading.short[passage])
        text = span.text[start - span.start : end - span.start]
        short = ShortAnswer(number, text, start, end)
        certain = reading.strength[passage] >= STRENGTH and bool(_HAS_SHORT_ANSWER.match(question))
        yield ReadSentence(
            number,
            span.start + sentence.start,
            span.start + sentence.end,
            _similarity(span, sentence) + WEIGHT * float(reading.rank[passage]),
            float(reading.answers[passage]),
            short if certain and 0 < end - start <= _SHARE * (sentence.end - sentence.start) else None,
        )


def _similarity(span: Span, sentence: Sentence) -> float:
    """What a search scored a sentence with: the best of the hits in it."""
    start, end = span.start + sentence.start, span.start + sentence.end
    inside = [hit.score for hit in span.hits if start <= hit.start < end or hit.start <= start < hit.end]
    return max(inside, default=_BESIDE_A_HIT * max((hit.score for hit in span.hits), default=0.0))


def asks_for_several(question: str) -> bool:
    """Return whether a question asks for a list.

    >>> asks_for_several("What are the colours of the flag?"), asks_for_several("What is the flag's colour?")
    (True, False)
    """
    return bool(_ASKS_FOR_SEVERAL.search(question))
