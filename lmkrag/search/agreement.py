"""Passages that say the same with another value: which is newer, and that they differ.

Precision goes before recall: two sentences differ only if all of their words are the same but for one number, date,
unit, name or negation, and if their titles and headings are of the same subject, or the sentences name it.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

from lmkrag.results import Contrast, Span
from lmkrag.search.dating import find_date
from lmkrag.search.differences import Difference, Token, find_differences, read_tokens

_COMPARED = 12  # passages, the best ones
_BEST = 3  # passages, one of which the others are compared with
_LEAST_WORDS = 4
_LEAST_SHARED = 0.4  # of the distinct words of two sentences
_NEAR = 0.7
"""The least share of the better passage's score for two to answer equally well; 0.75 to 1 where they say the same."""

_HEADER = 600  # characters at a document's beginning, where it may say what it replaces
_VERSION_WORDS = "version release edition draft final copy new old update updated amendment amended revised v"
_VERSIONS = frozenset(_VERSION_WORDS.split())
_REPLACES = re.compile(
    r"\b(?:replaces|supersedes|takes the place of|ersetzt|remplace|sustituye|sostituisce|vervangt|substitui)\b"
    r"([^.\n]{0,120})",
    re.IGNORECASE,
)
_AS_OF = re.compile(
    r"\b(?:as of|as at|back in)\s+(?:\w+\s+)?((?:19|20)\d\d)\b"
    r"|\b(?:in|by|according to|under)\s+the\s+((?:19|20)\d\d)\s+(?:version|edition|release|rules|policy|handbook)\b",
    re.IGNORECASE,
)
_ANY_YEAR = "9999"
_DIGITS = re.compile(r"[\d_-]+")


class _Told(NamedTuple):
    """A passage's best sentence: where it begins in the document, its text and words."""

    start: int
    text: str
    tokens: list[Token]

    @property
    def words(self) -> set[str]:
        return {token.value for token in self.tokens}


def compare_passages(
    question: str, spans: Sequence[Span], read: Callable[[str, int, int], str]
) -> tuple[list[Span], list[str]]:
    """Return passages, the newer before the older where they say the same with another value, and notes on those.

    A question "as of 2023" prefers what was the newest then.

    Args:
        question: in words.
        spans: best first.
        read: returns characters of a document by its name.
    """
    compared, rest = list(spans[:_COMPARED]), list(spans[_COMPARED:])
    told = [_read(span) for span in compared]
    match = _AS_OF.search(question)
    year = (match[1] or match[2]) if match else _ANY_YEAR
    asked = {token.value for token in read_tokens(question)}
    notes: list[str] = []
    older: dict[int, int] = {}
    for one, other in combinations(range(len(compared)), 2):
        if one >= _BEST or not 0 < _NEAR * compared[one].score <= compared[other].score:
            continue
        difference = _contrast(compared[one], told[one], compared[other], told[other], asked)
        if difference is None:
            continue
        places = [_place(told[one], difference.first), _place(told[other], difference.second)]
        for number, beside, own, its in ((one, other, places[0], places[1]), (other, one, places[1], places[0])):
            contrast = Contrast(*own, compared[beside].doc_id, *its)
            compared[number] = replace(compared[number], contrasts=(*compared[number].contrasts, contrast))
        valid = _choose_valid(compared[one], compared[other], year, read)
        if valid is not None:
            new, old = (one, other) if valid == 0 else (other, one)
            older.setdefault(old, new)
        if len(notes) < 2:
            notes.append(_describe([compared[one], compared[other]], [told[one], told[other]], difference))
    order = list(range(len(compared)))
    for old, new in older.items():
        if year == _ANY_YEAR:
            compared[old] = replace(compared[old], superseded_by=compared[new].place)
        if order.index(new) > order.index(old):
            order.remove(new)
            order.insert(order.index(old), new)
    return [compared[number] for number in order] + rest, notes


def _read(span: Span) -> _Told:
    hit = span.hits[0] if span.hits else None
    start = max(span.start, hit.start) if hit else span.start
    text = span.text[start - span.start : (min(span.end, hit.end) if hit else span.end) - span.start]
    return _Told(start, text, read_tokens(text))


def _place(told: _Told, bounds: tuple[int, int]) -> tuple[int, int]:
    return told.start + bounds[0], told.start + bounds[1]


def _contrast(one: Span, first: _Told, other: Span, second: _Told, asked: set[str]) -> Difference | None:
    """The one value in which two passages differ; None where they say the same, or are not about the same."""
    shared = first.words & second.words
    if len(first.tokens) < _LEAST_WORDS or len(shared) < _LEAST_SHARED * len(first.words | second.words):
        return None
    differences = find_differences(first.text, second.text)
    if len(differences) != 1 or differences[0].kind == "word" or differences[0].plain:
        return None
    difference = differences[0]
    values = {
        token.value
        for told, (start, end) in ((first, difference.first), (second, difference.second))
        for token in told.tokens
        if start <= token.start < end
    }
    if values & asked:  # it tells which of the two is asked about
        return None
    if difference.kind in ("number", "date", "name") and not (
        _slice(first, 0, difference) and _slice(second, 1, difference)
    ):
        return None  # a detail that one of them leaves out
    if difference.kind == "name" and not {"who", "whom", "whose", "which", "where", "what"} & asked:
        return None
    named = {token.value for told in (first, second) for token in told.tokens if token.kind == "name"} & shared
    return difference if named or _same_subject(one, other) else None


def _slice(told: _Told, side: int, difference: Difference) -> str:
    start, end = (difference.first, difference.second)[side]
    return told.text[start:end].strip()


def _same_subject(one: Span, other: Span) -> bool:
    """Whether titles and headings name the same, years, versions and numbers aside, or one of them less."""
    subjects = [
        {
            token.value
            for part in (span.title, *span.headings)
            for token in read_tokens(_DIGITS.sub(" ", part))
            if token.kind != "date" and token.value not in _VERSIONS
        }
        for span in (one, other)
    ]
    return subjects[0] <= subjects[1] or subjects[1] <= subjects[0]


def _choose_valid(one: Span, other: Span, year: str, read: Callable[[str, int, int], str]) -> int | None:
    """Which of two passages, 0 or 1, is the newest of a year or before; None if nobody can tell."""
    for number, (span, beside) in enumerate(((one, other), (other, one))):
        match = _REPLACES.search(read(span.doc_id, 0, _HEADER)) if span.doc_id != beside.doc_id else None
        if match and year == _ANY_YEAR and _names(match[1], beside):
            return number
    if "file" in (one.date_source, other.date_source) or not (one.date and other.date):
        return None
    precise = min(len(one.date), len(other.date))
    dates = one.date[:precise], other.date[:precise]
    if dates[0] == dates[1]:
        return None
    newer = int(dates[1] > dates[0])
    return 1 - newer if dates[newer][:4] > year else newer


def _names(text: str, span: Span) -> bool:
    """Whether a text names a document: its date, or all words of its title or file."""
    day = find_date(text, years=True)
    if day and span.date and day[: len(span.date)] == span.date[: len(day)]:
        return True
    words = {token.value for token in read_tokens(text)}
    titles = (span.title, *span.headings[:1], span.doc_id.rpartition("/")[2].rpartition(".")[0])
    return any(own and own <= words for own in ({token.value for token in read_tokens(title)} for title in titles))


def _describe(spans: Sequence[Span], told: Sequence[_Told], difference: Difference) -> str:
    values = [
        f"{_slice(each, side, difference) or 'without it'}{f' ({span.date[:4]})' if span.date else ''}"
        for side, (span, each) in enumerate(zip(spans, told, strict=True))
    ]
    quotes = [
        f"{span.locate(each.start)} “{' '.join(each.text.split())}”" for span, each in zip(spans, told, strict=True)
    ]
    count = len({span.doc_id for span in spans})
    return f"{f'{count} documents' if count > 1 else '2 passages'} differ: {' and '.join(values)}; {', '.join(quotes)}"
