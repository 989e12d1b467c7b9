"""Passages that contradict each other in one value: note it, and put the newer one first.

Precision goes before recall: two sentences differ only if all of their words are the same but for
one number, date, unit, name or negation, and if their titles, headings and folders are of the same
subject.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import combinations
from pathlib import PurePath

from lmkrag.evidence.passes import SearchContext
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
    """A passage with its best sentence: where that begins in the document, and its text; its tokens
    are read when needed.
    """

    def __init__(self, span: Span) -> None:
        hit = span.hits[0] if span.hits else span
        start = max(0, hit.start - span.start)
        if lead := _CORRECTS.match(span.text, start):
            start = lead.end()
        self.span, self.start = span, span.start + start
        self.text = span.text[start : min(span.end, hit.end) - span.start]
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

    def cut(self, place: tuple[int, int]) -> str:
        """Return characters of the sentence."""
        return self.text[slice(*place)].strip()

    def locate(self, place: tuple[int, int]) -> tuple[int, int]:
        """Return where characters of the sentence are in the document."""
        return self.start + place[0], self.start + place[1]

    def find_tokens(self, place: tuple[int, int]) -> list[Token]:
        """Return the tokens that begin in a place of the sentence."""
        return [token for token in self.tokens if place[0] <= token.start < place[1]]

    def is_from(self, place: tuple[int, int]) -> bool:
        """Return whether what stands in a place is the date of the passage."""
        day = find_date(self.cut(place), years=True)
        return bool(day) and self.span.date.startswith(day)

    def describe(self, place: tuple[int, int]) -> str:
        """Return the value in a place, with the year that it is from where a text says so."""
        value = self.cut(place) or "without it"
        is_stated = self.span.date_source not in ("", "file")
        return f"{value} ({self.span.date[:4]})" if is_stated else value

    def quote(self) -> str:
        """Return the sentence in quotation marks, with its place."""
        text = " ".join(self.text.translate(_INNER).split())
        return f"{self.span.locate(self.start)} “{text}”"


def put_newer_first(spans: SpanList, context: SearchContext) -> SpanList:
    """Put the newer of two passages that contradict each other first; whole documents are left
    alone.
    """
    if context.request.level == "document":
        return spans

    def read(doc_id: str, start: int, end: int) -> str:
        row = context.snapshot.find_document(doc_id)
        return "" if row is None else context.snapshot.read_text(row, start, end)

    ordered, notes = compare_passages(context.question.text, spans, read)
    return SpanList(ordered, [*spans.notes, *notes])


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
        read: returns characters of a document by its name, none if it is gone.
    """
    sentences = [_BestSentence(span) for span in spans[:_COMPARED]]
    asked = {token.value for token in read_tokens(question)}
    year = _choose_year(question, spans[:_COMPARED])
    notes: list[str] = []
    older: dict[int, int] = {}  # positions of passages, each with that of a newer one
    contrasts: dict[int, list[Contrast]] = defaultdict(list)
    for i, j in combinations(range(len(sentences)), 2):
        first, second = sentences[i], sentences[j]
        if i >= _BEST or first.span.score < _RELEVANT * spans[0].score:
            break
        difference = _contrast(first, second, asked)
        if difference is None:
            continue
        ours, theirs = first.locate(difference.first), second.locate(difference.second)
        note = _describe(first, second, difference)
        contrasts[i].append(Contrast(*ours, second.span.doc_id, *theirs, note))
        contrasts[j].append(Contrast(*theirs, first.span.doc_id, *ours, note))
        valid = _choose_valid(first.span, second.span, year, read)
        if valid is first.span:
            older.setdefault(j, i)
        elif valid is second.span:
            older.setdefault(i, j)
        if len(notes) < 2:
            notes.append(note)
    marked = list(spans)
    for number, added in contrasts.items():
        marked[number] = replace(spans[number], contrasts=(*spans[number].contrasts, *added))
    order = list(range(len(spans)))
    for old, new in older.items():
        if year == _ANY_YEAR:
            marked[old] = replace(marked[old], superseded_by=spans[new].place)
        if order.index(new) > order.index(old):
            order.remove(new)
            order.insert(order.index(old), new)
    return [marked[number] for number in order], notes


def _choose_year(question: str, spans: Sequence[Span]) -> str:
    """The year whose newest passage counts; an empty one where the question asks for the previous
    version.
    """
    if match := _AS_OF.search(question):
        return str(match[1] or match[2])
    stated = {span.date[:4] for span in spans if span.date_source != "file"}
    years = stated.intersection(_YEAR.findall(question))
    if len(years) == 1:
        return years.pop()
    return "" if _PREVIOUS.search(question) else _ANY_YEAR


def _contrast(first: _BestSentence, second: _BestSentence, asked: set[str]) -> Difference | None:
    """The one value in which two passages differ; None if they agree, are on different subjects, or
    the question says which of the two it is about.
    """
    if not _may_contrast(first, second):
        return None
    difference = _find_value(first, second)
    if difference is None:
        return None
    values = [first.find_tokens(difference.first), second.find_tokens(difference.second)]
    if any(token.value in asked for tokens in values for token in tokens):
        return None
    if difference.kind != "negation" and not _are_values(difference, values, first.tokens, asked):
        return None
    return difference if _same_subject(first.span, second.span) else None


def _may_contrast(first: _BestSentence, second: _BestSentence) -> bool:
    """Whether two passages answer about equally well, with so much in common that they may differ
    in one value: no ordinary word differs but in a date.
    """
    if not 0 < _NEAR * first.span.score <= second.span.score or not first.is_like(second):
        return False
    shared = first.words & second.words
    if len(first.tokens) < _LEAST_WORDS:
        return False
    if len(shared) < _LEAST_SHARED * len(first.words | second.words):
        return False
    kinds = {token.kind for token in (*first.tokens, *second.tokens) if token.value not in shared}
    return "word" not in kinds or "date" in kinds


def _find_value(first: _BestSentence, second: _BestSentence) -> Difference | None:
    """The one difference between two sentences, if that is a value; None if there are more.

    The date of a passage is no other value: "release 17 is the stable one since November 2026".
    """
    differences = [
        each
        for each in find_differences(first.text, second.text)
        if first.cut(each.first) + second.cut(each.second) != "ne"  # of "ne … pas"
    ]
    if len(differences) > 1:
        differences = [
            each
            for each in differences
            if not (first.is_from(each.first) and second.is_from(each.second))
        ]
    if len(differences) != 1 or differences[0].kind == "word" or differences[0].plain:
        return None
    return differences[0]


def _are_values(
    difference: Difference, values: list[list[Token]], tokens: list[Token], words: set[str]
) -> bool:
    """Whether two values exclude each other: they are of one kind, and neither names the subject of
    its sentence.
    """
    if not all(values):
        return False
    kinds = [{token.kind for token in each} for each in values]
    are_dates = difference.kind == "date" and all("date" in each for each in kinds)
    are_amounts = {"number", "unit"} <= kinds[0]  # 1 kg and 1000 g
    if not are_dates and (kinds[0] != kinds[1] or are_amounts):
        return False
    number = tokens.index(values[0][0])
    if difference.kind == "name":
        if number >= _FRAME:
            return not words.isdisjoint(_PERSONS | _PLACES)
        is_one = not any(each[-1].value.endswith("s") for each in values)  # not "Managers …"
        return is_one and not number and not words.isdisjoint(_PERSONS)
    if number < _FRAME and difference.kind == "date":  # "In 2024 …"
        return False
    neighbours = [tokens[number - 1].value] if number else []
    if values[0][0].value.endswith("th"):
        neighbours += [token.value for token in tokens[number + 1 : number + 2]]
    return _LABELS.isdisjoint(neighbours)


def _same_subject(passage: Span, other: Span) -> bool:
    """Whether titles, headings and folders have the same words but for years and versions, or one
    has fewer of them.
    """
    subjects = zip(_read_subjects(passage), _read_subjects(other), strict=True)
    return all(first <= second or second <= first for first, second in subjects)


def _read_subjects(span: Span) -> tuple[set[str], set[str]]:
    """The words of a passage's title and headings, or of its file's name, and those of its
    folders.
    """
    path = PurePath(span.doc_id)
    titles = [title for title in (span.title, *span.headings) if title]
    return _read_words(*titles or [path.stem]), _read_words(str(path.parent).replace("_", " "))


def _read_words(*titles: str) -> set[str]:
    """The words of titles but for years and versions."""
    plain = (_DATED.sub(" ", title) for title in titles)
    return {token.value for title in plain for token in read_tokens(title)} - _VERSIONS


def _choose_valid(
    passage: Span, other: Span, year: str, read: Callable[[str, int, int], str]
) -> Span | None:
    """The newest of two passages up to the end of a year; None if that is unknown."""
    if year in ("", _ANY_YEAR) and passage.doc_id != other.doc_id:
        for new, old in ((passage, other), (other, passage)):
            match = _REPLACES.search(read(new.doc_id, 0, _HEADER))
            if match and _names(match[1], old):
                return new if year else old
    if "file" in (passage.date_source, other.date_source) or not (passage.date and other.date):
        return None
    precise = min(len(passage.date), len(other.date))
    if passage.date[:precise] == other.date[:precise]:
        return None
    older, newer = sorted((passage, other), key=lambda span: span.date[:precise])
    return older if newer.date[:4] > year else newer


def _names(text: str, span: Span) -> bool:
    """Whether a text names a document: its date, or all words of its title or file."""
    day = find_date(text, years=True)
    if day and span.date and day[: len(span.date)] == span.date[: len(day)]:
        return True
    words = {token.value for token in read_tokens(text)}
    stem = span.doc_id.rpartition("/")[2].rpartition(".")[0]
    for title in (span.title, *span.headings[:1], stem):
        name = {token.value for token in read_tokens(title)}
        if name and name <= words:
            return True
    return False


def _describe(first: _BestSentence, second: _BestSentence, difference: Difference) -> str:
    """The note on a difference."""
    is_one = first.span.doc_id == second.span.doc_id
    values = f"{first.describe(difference.first)} and {second.describe(difference.second)}"
    return (
        f"{'2 passages' if is_one else '2 documents'} differ: {values}; "
        f"{first.quote()}, {second.quote()}"
    )
