"""Read spans together with a question: which sentences answer it, and with which words."""

import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lmkrag.index.words.exact import holds
from lmkrag.readers.weights import ANSWERS
from lmkrag.reranker.base import PassageScores, RerankPassage
from lmkrag.reranker.highlights import split_passages
from lmkrag.reranker.landmark import LandmarkReranker
from lmkrag.results import ShortAnswer, Span
from lmkrag.specs import Sentence

_ASKS_NUMBER = re.compile(
    r"\bhow (?:many|much|long|old|far|often|tall|high|deep|wide|large|heavy|fast)\b|\bwhat (?:percent|share)"
)
_ASKS_TIME = re.compile(r"\bwhat time\b|\bwhen\b|\bwhat (?:year|date|day|month)\b")
_NUMERALS = (
    r"\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|twenty|thirty|forty|fifty|hundred"
    r"|thousand|million|half|once|twice|daily|weekly|monthly|yearly|every|never|always|none|no)\b"
)
_TIMES = (
    r"january|february|march|april|may|june|july|august|september|october|november|december|monday|tuesday|wednesday"
    r"|thursday|friday|saturday|sunday|noon|midnight|dawn|dusk|sunrise|sunset|morning|evening|night|spring|summer|autumn"
    r"|fall|winter|before|after|during|once|when|today|tomorrow|yesterday|century|week|day"
)


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
    sentence ranks by, ``answers`` the log-odds that it answers, ``short`` its words that do, if any, and ``strength``
    the logarithm of their probability.
    """

    number: int
    start: int
    end: int
    score: float
    answers: float
    short: ShortAnswer | None
    strength: float = -20.0


def has_short_answer(question: str) -> bool:
    """Return whether a few words can answer a question: not what asks why, or how something is done."""
    return _HAS_SHORT_ANSWER.match(question) is not None


def read_spans(question: str, spans: Sequence[Span], reranker: LandmarkReranker) -> list[ReadSentence]:
    """Read the best passages of spans; return their sentences, best first."""
    passages = [
        (max(_similarity(span, sentence) for sentence in passage), number, passage)
        for number, span in enumerate(spans, 1)
        for passage in split_passages(span.text)
    ]
    passages.sort(key=lambda passage: -passage[0])
    best = passages[: ANSWERS.passages_read]
    texts = [
        RerankPassage(spans[number - 1].title, tuple(spans[number - 1].text[one.start : one.end] for one in sentences))
        for _, number, sentences in best
    ]
    found: list[ReadSentence] = []
    for (_, number, sentences), reading in zip(best, reranker.read(question, texts), strict=True):
        found += _describe(question, number, spans[number - 1], sentences, reading)
    return sorted(found, key=lambda sentence: -sentence.score)


def read_by_similarity(spans: Sequence[Span]) -> list[ReadSentence]:
    """Return the sentences that led to spans, best first: for languages that ``landmark-reranker`` does not read."""
    found = [
        ReadSentence(number, hit.start, hit.end, hit.dense, 0.0, None)
        for number, span in enumerate(spans, 1)
        for hit in span.hits
    ]
    return sorted(found, key=lambda sentence: -sentence.score)


def _describe(
    question: str, number: int, span: Span, sentences: Sequence[Sentence], reading: PassageScores
) -> Iterator[ReadSentence]:
    for passage, sentence in enumerate(sentences):
        start, end = (span.start + sentence.start + int(offset) for offset in reading.short[passage])
        text = span.text[start - span.start : end - span.start]
        short = ShortAnswer(number, text, start, end)
        certain = reading.strength[passage] >= ANSWERS.min_strength and has_short_answer(question)
        yield ReadSentence(
            number,
            span.start + sentence.start,
            span.start + sentence.end,
            _similarity(span, sentence) + ANSWERS.rank * float(reading.rank[passage]),
            float(reading.answers[passage]),
            short if certain and 0 < end - start <= ANSWERS.max_short_share * (sentence.end - sentence.start) else None,
            float(reading.strength[passage]),
        )


def _similarity(span: Span, sentence: Sentence) -> float:
    """What a search scored a sentence with: the best of the hits in it."""
    start, end = span.start + sentence.start, span.start + sentence.end
    inside = [hit.score for hit in span.hits if start <= hit.start < end or hit.start <= start < hit.end]
    return max(inside, default=ANSWERS.beside_hit * max((hit.score for hit in span.hits), default=0.0))


def asks_for_several(question: str) -> bool:
    """Return whether a question asks for a list.

    >>> asks_for_several("What are the colours of the flag?"), asks_for_several("What is the flag's colour?")
    (True, False)
    """
    return bool(_ASKS_FOR_SEVERAL.search(question))


def find_short_answers(
    question: str, keys: Sequence[str], read: Sequence[ReadSentence], spans: Sequence[Span]
) -> list[ShortAnswer]:
    """Return the words that answer, where that is likely enough; of several sentences if the question asks for several.

    Args:
        question: in words.
        keys: its exact words.
        read: the sentences that are quoted, best first.
        spans: that they are of.
    """
    found = [
        sentence.short
        for sentence in read
        if sentence.short is not None
        and estimate_short(question, keys, sentence, spans[sentence.number - 1]) >= ANSWERS.min_short_confidence
    ]
    if asks_for_several(question):
        return found
    first = read[0].short if read else None
    return found[:1] if first is not None and first in found else []


def estimate_short(question: str, keys: Sequence[str], sentence: ReadSentence, span: Span) -> float:
    """Return the probability that the short answer of a sentence is right: see :func:`short_features`."""
    return logistic(ANSWERS.short_bias, ANSWERS.short_features, short_features(question, keys, sentence, span))


def logistic(bias: float, weights: Sequence[float], features: Sequence[float]) -> float:
    """Return the probability that a logistic regression gives to some features."""
    logit = bias + sum(weight * value for weight, value in zip(weights, features, strict=True))
    return 1 / (1 + math.exp(-logit))


def short_features(
    question: str, keys: Sequence[str], sentence: ReadSentence, span: Span
) -> tuple[float, float, float, float]:
    """Return what speaks for the short answer of a sentence.

    The logarithm of its probability, the log-odds that its sentence answers (at most 10), the share of the question's
    exact words that the sentence, the header of its table or a heading has, and whether it is of the type asked for.
    """
    short = sentence.short
    text = span.text[sentence.start - span.start : sentence.end - span.start]
    near = "\n".join([text, span.header, *span.headings, span.title])
    held = sum(holds(near, key) for key in keys) / len(keys) if keys else 1.0
    typed = short is not None and _fits_type(question, short.text)
    return max(sentence.strength, -10.0), min(sentence.answers, 10.0), held, float(typed)


def _fits_type(question: str, answer: str) -> bool:
    """Whether an answer is of the type that a question in English asks for; true where it asks for none."""
    lowered, answer = question.lower(), answer.lower()
    if _ASKS_NUMBER.search(lowered):
        return bool(re.search(r"\d|" + _NUMERALS, answer))
    if _ASKS_TIME.search(lowered):
        return bool(re.search(rf"\d|{_TIMES}|{_NUMERALS}", answer))
    if re.search(r"\bwho(?:se|m)?\b", lowered):
        return not re.fullmatch(r"[\d\s.,%]+", answer)
    return True
