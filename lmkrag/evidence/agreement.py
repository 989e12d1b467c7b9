"""Passages that contradict each other in one value: note it, and put the newer one first.

Precision goes before recall: two sentences differ only if all of their words are the same but for
one number, date, unit, name or negation, and if their titles, headings and folders are of the same
subject.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import combinations
from pathlib import PurePath

from lmkrag.evidence.passes import SearchContext
from lmkrag.index.snapshot import Snapshot
from lmkrag.language.dates import MONTHS, find_date
from lmkrag.language.differences import (
    Difference,
    Token,
    find_differences,
    read_sentence,
    read_tokens,
)
from lmkrag.language.patterns import LateRegex
from lmkrag.results import Contrast, Span, SpanList

_COMPARED = 12  # passages, the best ones
_BEST = 3  # passages; each pair that is compared has one of them
_LEAST_WORDS = 4
_LEAST_SHARED = 0.4  # of the distinct words of two sentences
_ALIKE = 0.2  # the same before units and numbers are read, whatever their spelling
_PIECE = re.compile(r"[^\W\d_]+|\d+")
_NEAR = 0.7
"""The least share of the better passage's score for two to answer equally well; 0.75 to 1 where
they say the same.
"""

_RELEVANT = 0.5  # the least share of the best score for a passage to be compared with others
_HEADER = 600  # characters at a document's beginning, where it may say what it replaces
_FRAME = 2  # words at a sentence's beginning that name its subject
_PERSONS = frozenset(("who", "whom", "whose"))
_PLACES = frozenset(("which", "what", "where"))
_LABEL_WORDS = """article chapter clause figure floor item line no number page paragraph part room
row section step table"""
_LABELS = frozenset(_LABEL_WORDS.split())
"""Words before a number that is a name and no value: room 4 and room 5 are two rooms."""

_VERSION_WORDS = """amended amendment archive copy current draft edition final former latest new
old previous release revised revision updated v version"""
_VERSIONS = frozenset(_VERSION_WORDS.split())
_DATED = LateRegex(
    rf"(?:\b(?:{'|'.join(_VERSIONS)})[ "
    r"._-]?|\b(?:FY|Q)(?=\d))[\d.]+|(?<!\d)(?:19|20)\d\d(?!\d)|(?<!\d)\d+(?:\.\d+)+"
    rf"|\d{{1,2}}[. ]+(?={'|'.join(MONTHS)})|\b(?:{'|'.join(MONTHS)})\b(?: "
    rf"\d{{1,2}}\b)?|(?<=\d)[_-](?=\d)",
    re.IGNORECASE,
)
_REPLACES = LateRegex(
    r"\b(?:replaces|supersedes|takes the place of|amends|amendment (?:\w+ "
    r")?(?:to|of)|ersetzt|remplace|sustituye"
    r"|sostituisce|vervangt|substitui|änderung (?:de[rs]|zu[mr]?)|avenant (?:au|à))\b"
    r"([^.\n]{0,120})",
    re.IGNORECASE,
)
_CORRECTS = re.compile(  # "We changed it: "
    r"(?:(?:we|it|this|has|have|wir|haben|es|das)\s+){0,3}(?:change[ds]?|correct(?:ed|ion)"
    r"|updated?|new|now|geändert"
    r"|änderung|korrektur|neu|jetzt|correction|nouveau|correcci[óo]n|nuevo|correzione|nuovo)(?: "
    r"(?:it|this))?:\s+",
    re.IGNORECASE,
)
_INNER = str.maketrans("“”", "‘’")  # quotation marks of a sentence that a note quotes
_AS_OF = LateRegex(
    r"\b(?:as of|as at|back in|stand|en date de|a fecha de)\s+(?:\w+\s+)?((?:19|20)\d\d)\b"
    r"|\b(?:in|by|according "
    r"to|under)\s+the\s+((?:19|20)\d\d)\s+(?:version|edition|release|rules|policy|handbook)\b",
    re.IGNORECASE,
)
_PREVIOUS = LateRegex(
    r"\b(?:previous|former|earlier|prior|old(?:er)?)\s+(?:version|release|edition|polic|rule|price"
    r"|fee|handbook|contract)"
    r"|\b(?:alte|vorige|frühere)[nrsm]?\s+(?:fassung|version|ausgabe|preis)|\bversi[oó]n "
    r"(?:précéd|anteri)",
    re.IGNORECASE,
)
_YEAR = LateRegex(r"(?<!\d)(?:19|20)\d\d(?!\d)")
_ANY_YEAR = "9999"


class _BestSentence:
    """A passage's best sentence: where it begins in the document, and its text; its tokens are read
    when needed.
    """

    def __init__(self, span: Span) -> None:
        hit = span.hits[0] if span.hits else span
        self.start = max(span.start, hit.start)
        self.start += (
            len(lead[0]) if (lead := _CORRECTS.match(span.text, self.start - span.start)) else 0
        )
        self.text = span.text[self.start - span.start : min(span.end, hit.end) - span.start]
        self._pieces = set(_PIECE.findall(self.text.casefold()))

    def is_like(self, other: "_BestSentence") -> bool:
        """Return whether two share enough words, spelling aside, to compare their tokens."""
        return _ALIKE * len(self._pieces | other._pieces) <= len(self._pieces & other._pieces)

    @cached_property
    def tokens(self) -> list[Token]:
        return read_sentence(self.text)

    @cached_property
    def words(self) -> set[str]:
        return {token.value for token in self.tokens}


def put_newer_first(spans: SpanList, context: SearchContext) -> SpanList:
    """Put the newer of two passages that contradict each other first; whole documents are left
    alone.
    """
    if context.request.level == "document":
        return spans
    read = partial(_read_text, context.snapshot)
    ordered, notes = compare_passages(context.question.text, spans, read)
    return SpanList(ordered, [*spans.notes, *notes])


def _read_text(snapshot: Snapshot, doc_id: str, start: int, end: int) -> str:
    """Characters of a document by its name, none if it is gone."""
    row = snapshot.find_document(doc_id)
    return "" if row is None else snapshot.read_text(row, start, end)


def compare_passages(
    question: str, spans: Sequence[Span], read: Callable[[str, int, int], str]
) -> tuple[list[Span], list[str]]:
    """Return passages, the newer of two that contradict each other first, and notes on the
    contradictions.

    Where the question says "as of 2023", has a passage's year or asks for the previous version, the
    newest passage of that time comes first.

    Args:
        question: in words.
        spans: best first.
        read: returns characters of a document by its name.
    """
    compared, rest = list(spans[:_COMPARED]), list(spans[_COMPARED:])
    sentences = [_BestSentence(span) for span in compared]
    asked = {token.value for token in read_tokens(question)}
    year = _choose_year(question, compared)
    notes: list[str] = []
    older: dict[int, int] = {}
    for i, j in combinations(range(len(compared)), 2):
        if i >= _BEST or compared[i].score < _RELEVANT * compared[0].score:
            break
        if not 0 < _NEAR * compared[i].score <= compared[j].score or not sentences[i].is_like(
            sentences[j]
        ):
            continue
        difference = _contrast(compared[i], sentences[i], compared[j], sentences[j], asked)
        if difference is None:
            continue
        places = [
            (sentences[number].start + start, sentences[number].start + end)
            for number, (start, end) in ((i, difference.first), (j, difference.second))
        ]
        for number, other, place, other_place in (
            (i, j, places[0], places[1]),
            (j, i, places[1], places[0]),
        ):
            contrast = Contrast(*place, compared[other].doc_id, *other_place)
            compared[number] = replace(
                compared[number], contrasts=(*compared[number].contrasts, contrast)
            )
        valid = _choose_valid(compared[i], compared[j], year, read)
        if valid is not None:
            new, old = (i, j) if valid == 0 else (j, i)
            older.setdefault(old, new)
        if len(notes) < 2:
            notes.append(
                _describe([compared[i], compared[j]], [sentences[i], sentences[j]], difference)
            )
    order = list(range(len(compared)))
    for old, new in older.items():
        if year == _ANY_YEAR:
            compared[old] = replace(compared[old], superseded_by=compared[new].place)
        if order.index(new) > order.index(old):
            order.remove(new)
            order.insert(order.index(old), new)
    return [compared[number] for number in order] + rest, notes


def _choose_year(question: str, spans: Sequence[Span]) -> str:
    """The year whose newest passage counts; an empty one where the question asks for the previous
    version.
    """
    if match := _AS_OF.search(question):
        return str(match[1] or match[2])
    years = set(_YEAR.findall(question)) & {
        span.date[:4] for span in spans if span.date_source != "file"
    }
    return years.pop() if len(years) == 1 else "" if _PREVIOUS.search(question) else _ANY_YEAR


def _contrast(
    span: Span, first: _BestSentence, other: Span, second: _BestSentence, asked: set[str]
) -> Difference | None:
    """The one value in which two passages differ; None if they agree, or are on different
    subjects.
    """
    if not _may_contrast(first, second):
        return None
    difference = _find_value(span, first, other, second)
    if difference is None:
        return None
    values = [
        [token for token in sentence.tokens if start <= token.start < end]
        for sentence, (start, end) in ((first, difference.first), (second, difference.second))
    ]
    if any(token.value in asked for tokens in values for token in tokens):
        return None  # the question says which of the two it is about
    if difference.kind != "negation" and not _are_values(difference, values, first.tokens, asked):
        return None
    return difference if _same_subject(span, other) else None


def _may_contrast(first: _BestSentence, second: _BestSentence) -> bool:
    """Whether two sentences have so much in common that they may differ in one value: no ordinary
    word differs but in a date.
    """
    shared = first.words & second.words
    if len(first.tokens) < _LEAST_WORDS:
        return False
    if len(shared) < _LEAST_SHARED * len(first.words | second.words):
        return False
    kinds = {token.kind for token in (*first.tokens, *second.tokens) if token.value not in shared}
    return "word" not in kinds or "date" in kinds


def _find_value(
    span: Span, first: _BestSentence, other: Span, second: _BestSentence
) -> Difference | None:
    """The one difference between two sentences, if that is a value; None if there are more.

    The date of a passage is no other value: "release 17 is the stable one since November 2026".
    """
    differences = [
        each
        for each in find_differences(first.text, second.text)
        if _slice(first, 0, each) + _slice(second, 1, each) != "ne"  # of "ne … pas"
    ]
    if len(differences) > 1:
        differences = [
            each for each in differences if not _dates_both(each, (first, second), (span, other))
        ]
    if len(differences) != 1 or differences[0].kind == "word" or differences[0].plain:
        return None
    return differences[0]


def _dates_both(
    difference: Difference, sentences: Sequence[_BestSentence], spans: Sequence[Span]
) -> bool:
    """Whether a difference is in the dates that two passages are from."""
    days = [
        find_date(_slice(sentence, side, difference), years=True)
        for side, sentence in enumerate(sentences)
    ]
    return all(day and span.date.startswith(day) for day, span in zip(days, spans, strict=True))


def _are_values(
    difference: Difference, values: list[list[Token]], tokens: list[Token], words: set[str]
) -> bool:
    """Whether two values exclude each other: they are of one kind, and neither names the subject of
    its sentence.
    """
    kinds = [{token.kind for token in each} for each in values]
    is_date = difference.kind == "date" and all("date" in each for each in kinds)
    if not all(values) or (
        not is_date and (kinds[0] != kinds[1] or {"number", "unit"} <= kinds[0])
    ):  # 1 kg and 1000 g
        return False
    number = tokens.index(values[0][0])
    if number < _FRAME and difference.kind in ("date", "name"):  # "In 2024 …", "Managers …"
        is_one = not any(each[-1].value.endswith("s") for each in values)
        return (
            difference.kind == "name" and is_one and not number and not words.isdisjoint(_PERSONS)
        )
    if difference.kind == "name":
        return not words.isdisjoint(_PERSONS | _PLACES)
    neighbours = [tokens[number - 1].value] if number else []
    if values[0][0].value.endswith("th"):
        neighbours += [token.value for token in tokens[number + 1 : number + 2]]
    return _LABELS.isdisjoint(neighbours)


def _slice(sentence: _BestSentence, side: int, difference: Difference) -> str:
    start, end = (difference.first, difference.second)[side]
    return sentence.text[start:end].strip()


def _same_subject(passage: Span, other: Span) -> bool:
    """Whether titles, headings and folders have the same words but for years and versions, or one
    has fewer of them.
    """

    def read_words(parts: Iterable[str]) -> set[str]:
        return {
            token.value for part in parts for token in read_tokens(_DATED.sub(" ", part))
        } - _VERSIONS

    spans = (passage, other)
    titles = [
        list(filter(None, (span.title, *span.headings))) or [PurePath(span.doc_id).stem]
        for span in spans
    ]
    folders = [[str(PurePath(span.doc_id).parent).replace("_", " ")] for span in spans]
    subjects = [list(map(read_words, both)) for both in (titles, folders)]
    return all(first <= second or second <= first for first, second in subjects)


def _choose_valid(
    passage: Span, other: Span, year: str, read: Callable[[str, int, int], str]
) -> int | None:
    """Which of two passages, 0 or 1, is the newest up to the end of a year; None if that is
    unknown.
    """
    for number, (span, replaced) in enumerate(((passage, other), (other, passage))):
        match = (
            _REPLACES.search(read(span.doc_id, 0, _HEADER))
            if span.doc_id != replaced.doc_id
            else None
        )
        if match and year in ("", _ANY_YEAR) and _names(match[1], replaced):
            return number if year else 1 - number
    if "file" in (passage.date_source, other.date_source) or not (passage.date and other.date):
        return None
    precise = min(len(passage.date), len(other.date))
    dates = passage.date[:precise], other.date[:precise]
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
    return any(
        name and name <= words
        for name in ({token.value for token in read_tokens(title)} for title in titles)
    )


def _describe(
    spans: Sequence[Span], sentences: Sequence[_BestSentence], difference: Difference
) -> str:
    pairs = list(zip(spans, sentences, strict=True))
    values = [
        (_slice(each, side, difference) or "without it")
        + f" ({span.date[:4]})" * (span.date_source not in ("", "file"))
        for side, (span, each) in enumerate(pairs)
    ]
    quotes = [
        f"{span.locate(each.start)} “{' '.join(each.text.translate(_INNER).split())}”"
        for span, each in pairs
    ]
    count = len({span.doc_id for span in spans})
    return (
        f"{f'{count} documents' if count > 1 else '2 passages'} differ: "
        f"{' and '.join(values)}; {', '.join(quotes)}"
    )
