"""Read spans together with a question: which sentences answer it, and with which words."""

import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lmkrag.index.words.exact import find_keys, holds
from lmkrag.index.words.quantities import find_days
from lmkrag.index.words.terms import drop_stop_words, hash_words, split_words
from lmkrag.places import is_record
from lmkrag.readers.weights import ANSWERS
from lmkrag.reranker.base import PassageScores, RerankPassage
from lmkrag.reranker.highlights import split_passages
from lmkrag.reranker.landmark import LandmarkReranker
from lmkrag.results import Citation, ShortAnswer, Span
from lmkrag.sentences.table_rows import is_row
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

_WHOLE_NUMBER = re.compile(
    r"(?<![\w.,])(?:[-−+±] ?)?[€$£]?(?:\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?!\d)|\d+)(?:[.,:/’'–-]\d+)*(?!\d)"
)
_VALUE = re.compile(
    rf"(?:{_WHOLE_NUMBER.pattern}|(?!one\b){_NUMERALS})"
    r"(?:[ \u00a0]?[%‰]|[ \u00a0](?:million|billion|thousand|[ap]m)\b)?",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"(?:[,;]\s+|\b(?=and\b|but\b|or\b|while\b|whereas\b))(?:(?:and|but|or|while|whereas)\s+)?")
_NEXT_WORD = re.compile(r"[ \u00a0]([^\W\d_]+)")


class ReadSentence(NamedTuple):
    """A sentence of a passage, read together with the question."""

    start: int  # ``[start, end)`` are characters of the document
    end: int
    score: float  # what it ranks by
    answers: float  # the log-odds that it answers
    short: tuple[int, int] = (0, 0)  # the characters of its words that do
    strength: float = -20.0  # the logarithm of their probability


LIGHT = "much many have get give last need use current exact tell show please"  # words that ask for nothing


def hash_singles(text: str) -> set[int]:
    """Return the hashes of the words of a text but stop words; a Chinese, Japanese or Korean character is a word."""
    return set(hash_words(" ".join(drop_stop_words(split_words(text)))).tolist())


def has_short_answer(question: str) -> bool:
    """Return whether a few words can answer a question: not what asks why, how something is done, or for a list.

    >>> has_short_answer("What is the flag's colour?"), has_short_answer("What are the colours of the flag?")
    (True, False)
    """
    return _HAS_SHORT_ANSWER.match(question) is not None and not _ASKS_FOR_SEVERAL.search(question)


def read_spans(question: str, spans: Sequence[Span], reranker: LandmarkReranker) -> list[list[ReadSentence]]:
    """Read the best part of each span; return its sentences, best first."""
    parts = []
    for span in spans:
        passages = list(split_passages(span.text))
        parts.append(max(passages, key=lambda passage: max(_similarity(span, sentence) for sentence in passage)))
    texts = [
        RerankPassage(span.title, tuple(span.text[one.start : one.end] for one in part))
        for span, part in zip(spans, parts, strict=True)
    ]
    read = []
    for span, part, scores in zip(spans, parts, reranker.read(question, texts), strict=True):
        read.append(sorted(_describe(span, part, scores), key=lambda sentence: -sentence.score))
    return read


def read_hits(spans: Sequence[Span]) -> list[list[ReadSentence]]:
    """Return the sentences that led to each span, for languages that ``landmark-reranker`` does not read."""
    return [[ReadSentence(hit.start, hit.end, hit.score, 0.0) for hit in span.hits] for span in spans]


def _describe(span: Span, sentences: Sequence[Sentence], scores: PassageScores) -> Iterator[ReadSentence]:
    for number, sentence in enumerate(sentences):
        first, stop = scores.short[number].tolist()
        start = span.start + sentence.start
        yield ReadSentence(
            start,
            span.start + sentence.end,
            _similarity(span, sentence) + ANSWERS.rank * float(scores.rank[number]),
            float(scores.answers[number]),
            (start + first, start + stop),
            float(scores.strength[number]),
        )


def _cut(span: Span, sentence: ReadSentence) -> str:
    return span.text[sentence.start - span.start : sentence.end - span.start]


def _similarity(span: Span, sentence: Sentence) -> float:
    """What a search scored a sentence with: the best of the hits in it."""
    start, end = span.start + sentence.start, span.start + sentence.end
    inside = [hit.score for hit in span.hits if start <= hit.start < end or hit.start <= start < hit.end]
    return max(inside, default=ANSWERS.beside_hit * max((hit.score for hit in span.hits), default=0.0))


def find_short_answer(question: str, read: Sequence[ReadSentence], citation: Citation) -> ShortAnswer | None:
    """Return the words of the first passage that answer, where that is likely enough."""
    sentence, span = read[0], citation.span
    start, end = sentence.short
    if not has_short_answer(question) or not citation.start <= start < end <= citation.end:
        return None
    if end - start > ANSWERS.max_short_share * (sentence.end - sentence.start):
        return None
    text = _cut(span, sentence)
    if estimate_short(question, sentence, span) < ANSWERS.min_short_confidence or is_row(text) or is_record(text):
        return None  # find_cell answers from rows
    chosen = _choose_value(question, span, text, start - sentence.start, end - sentence.start)
    if chosen is None:
        return None
    start, end = chosen
    return ShortAnswer(citation.number, text[start:end], sentence.start + start, sentence.start + end)


def _choose_value(question: str, span: Span, text: str, start: int, end: int) -> tuple[int, int] | None:
    """The value that a question asks for, whole, of those in a sentence; None if it is not plain which.

    A later clause with words of the question before its value (``managers 32 days``) is meant; the first clause only
    if the sentence, its headings and title have all words of the question.
    """
    for number in _WHOLE_NUMBER.finditer(text):  # "2 480" is one
        start = number.start() if number.start() < start < number.end() else start
        end = number.end() if number.start() < end < number.end() else end
    clauses: list[tuple[int, int, re.Match[str]]] = []  # start, end and first value
    begin = 0
    for stop in [*(match.end() for match in _CLAUSE.finditer(text)), len(text)]:
        if value := _VALUE.search(text, begin, stop):
            clauses.append((begin, stop, value))
            begin = stop
    if len(clauses) < 2 or not _VALUE.search(text, start, end):
        return start, end
    asked = hash_singles(_ASKS_NUMBER.sub(" ", question.lower()))
    words = [hash_singles(text[first:stop]) & asked for first, stop, _ in clauses]
    words = [one.difference(*words[:number], *words[number + 1 :]) for number, one in enumerate(words)]
    later = [number for number in range(1, len(clauses)) if words[number]]
    before = [text[first : (_NEXT_WORD.match(text, value.end()) or value).end()] for first, _, value in clauses]
    meant = [number for number in later if words[number] & hash_singles(before[number])]
    marked = next((number for number, (_, stop, _) in enumerate(clauses) if start < stop), 0)
    if not meant:
        known = hash_singles(" ".join([text, span.title, *span.headings, LIGHT]))
        meant = later if marked in later else [] if later or not asked <= known else [0 if words[0] else marked]
    if len(meant) != 1 or marked == meant[0]:
        return (start, end) if marked in meant else None
    first, stop, _ = clauses[meant[0]]
    days = [written for written, _ in find_days(text[first:stop])] if _ASKS_TIME.search(question.lower()) else []
    values = [match.span() for match in _VALUE.finditer(text, first, stop) if match[0] not in question]
    if days:
        values = [(text.index(day, first), text.index(day, first) + len(day)) for day in days]
    if len(values) != 1:
        return None
    start, end = values[0]
    unit = _NEXT_WORD.match(text, end, stop)
    is_unit = not days and unit and unit[1].islower() and hash_singles(unit[1]) - asked
    return start, unit.end() if unit and is_unit else end


def estimate_short(question: str, sentence: ReadSentence, span: Span) -> float:
    """Return the probability that the short answer of a sentence is right: see :func:`short_features`."""
    features = short_features(question, sentence, span)
    logit = ANSWERS.short_bias + sum(w * value for w, value in zip(ANSWERS.short_features, features, strict=True))
    return 1 / (1 + math.exp(-logit))


def short_features(question: str, sentence: ReadSentence, span: Span) -> tuple[float, float, float, float]:
    """Return what speaks for the short answer of a sentence.

    The logarithm of its probability, the log-odds that its sentence answers (at most 10), the share of the question's
    exact words that the sentence, the header of its table or a heading has, and whether it is of the type asked for
    (1), of another (-1), or none is asked for (0).
    """
    keys = find_keys(question)
    near = "\n".join([_cut(span, sentence), span.header, *span.headings, span.title])
    share = sum(holds(near, key) for key in keys) / len(keys) if keys else 1.0
    short = span.text[sentence.short[0] - span.start : sentence.short[1] - span.start]
    return max(sentence.strength, -10.0), min(sentence.answers, 10.0), share, fit_type(question, short)


def fit_type(question: str, answer: str) -> float:
    """Return 1 for an answer of the type that a question in English asks for, -1 for another, 0 if unknown."""
    lowered, answer = question.lower(), answer.lower()
    is_number = bool(re.fullmatch(r"[\d\s.,]+", answer))
    if re.search(r"\bhow much\b|\bcosts?\b", lowered):
        return 0.0 if is_number else 1.0 if re.search(r"\d|" + _NUMERALS, answer) else -1.0
    if _ASKS_NUMBER.search(lowered):
        return 1.0 if re.search(r"\d|" + _NUMERALS, answer) else -1.0
    if _ASKS_TIME.search(lowered):
        return 1.0 if re.search(rf"\d|{_TIMES}|{_NUMERALS}", answer) else -1.0
    if re.search(r"\bwho(?:se|m)?\b", lowered):
        return -1.0 if is_number else 1.0
    return 0.0
