"""Check citations: look quotations up in the documents as they are now.

A quotation is the *same* where it was, *moved* within its document, or *elsewhere*, in another
document. It is *changed* if a number, date, unit, name or negation differs, *stitched* if it joins
several places, *reworded* if only other words differ, and otherwise *gone*. White space, letter
case and the form of quotation marks do not count.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from operator import eq
from typing import Literal, NamedTuple, Protocol, Unpack

from lmkrag.errors import DocumentNotFound
from lmkrag.evidence.quotations import Quotation, Source, read_quotations
from lmkrag.language.differences import (
    FIGURES,
    Difference,
    find_differences,
    match_words,
    read_tokens,
)
from lmkrag.language.terms import STRAIGHT, find_stems
from lmkrag.rendering.places import has_lines, line_at, number_paragraph
from lmkrag.results import Span
from lmkrag.search.outline import outline
from lmkrag.search.request import SearchOptions
from lmkrag.system.deadline import stop_if_late
from lmkrag.types import Document

State = Literal["same", "moved", "elsewhere", "changed", "stitched", "reworded", "gone"]

FAILED: tuple[State, ...] = ("changed", "stitched", "reworded", "gone")
"""The states of quotations that do not stand word for word."""

MIN_SIMILARITY = 0.6
"""The least share of words in common with which a quotation is reworded and not gone."""

_QUERY_CHARS = 300  # characters of a quotation that other documents are searched for
_OTHER_DOCUMENTS = 5  # in which a quotation is looked up beside its own
_FEWEST_WORDS = 3  # of a piece of a stitched quotation
_MOST_WORDS = 200  # of a quotation that may be stitched
_MOST_PIECES = 4
_NUMBER_LENGTH = 12
# it may be empty
_BEFORE_NUMBER = re.compile(rf"(?:(?:(?<!\S)[€$£¥−-]\s?)?(?:\d[\d.,'’]{{0,{_NUMBER_LENGTH}}})?)?\Z")
_ELLIPSIS = re.compile(r"(?<!\.)\.\.\.(?!\.)|…")
_LEFT_OUT = 600  # characters that an ellipsis stands for, at most
_PLAIN = {**STRAIGHT, **dict.fromkeys(map(ord, "[]*`|"), None)}
"""Straight quotation marks, and no brackets and marks of Markdown."""

_BEHIND_NUMBER = re.compile(r"(?:[.,'’]\d+)*(?:\s?[%‰°€$£¥])?")
# the least share of words in one place with which a quotation omits words there and is not stitched
_GAP = 0.85
_WORD = re.compile(r"\w+")
_BEHIND_NAME = re.compile(r"[:,;#]| [–—|-] |\.\s|$")  # what may follow a document's name
_NEXT = 20  # characters next to a place that may have the subject of its figures
_AROUND = 4  # words around a place, and a quarter of the quotation's, that may belong to it


@dataclass(frozen=True, slots=True)
class CitationCheck:
    """The state of a quotation in the documents as they are now.

    ``doc_id``, ``start``, ``end`` and ``place`` say where it is now; they are empty and -1 if it is
    gone. ``similarity`` is the share of its words in that place. ``changes`` lists the differences
    of a changed quotation, such as ``1,200 for 900``. The ``place`` of a stitched one names all of
    its places, the other fields the first.
    """

    quote: str
    cited: str
    state: State
    doc_id: str
    start: int
    end: int
    place: str
    similarity: float
    changes: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The state, with the changes of a changed quotation or the document of one from
        elsewhere.
        """
        more = {"changed": ", ".join(self.changes), "elsewhere": self.doc_id}.get(self.state)
        return f"{self.state}: {more}" if more else self.state


class Readable(Protocol):
    """An engine, here or behind a server, as far as a check needs it."""

    def document(self, doc_id: str) -> Document:
        """Return a document."""

    def search(self, query: str, **options: Unpack[SearchOptions]) -> list[Span]:
        """Search."""


def check_citations(engine: Readable, source: Source) -> list[CitationCheck]:
    """Check each citation: see :meth:`lmkrag.Engine.check`."""

    @cache
    def read(doc_id: str) -> Document | None:
        try:
            return engine.document(doc_id)
        except DocumentNotFound:
            return None

    def find(words: str) -> list[str]:
        query = " ".join(words.replace('"', " ").split())[:_QUERY_CHARS]
        return [
            span.doc_id
            for span in engine.search(
                query, mode="lexical", level="document", top_k=_OTHER_DOCUMENTS
            )
        ]

    return [
        check_quotation(
            replace(cited, doc_id=cited.doc_id or _resolve(cited.reference, read)), read, find
        )
        for cited in read_quotations(source)
    ]


def _resolve(reference: str, read: Callable[[str], Document | None]) -> str:
    """The document that a text names as the source of a quotation, or a file name even if no
    document has it.
    """
    names = [
        reference.strip(),
        *(reference[: match.start()].strip() for match in _BEHIND_NAME.finditer(reference)),
    ]
    file = re.match(r"[\w./ -]+\.[a-z]\w{0,4}(?!\w)", reference.strip())
    return next(
        (name for name in names if name and read(name) is not None), file[0] if file else ""
    )


def check_quotation(
    cited: Quotation, read: Callable[[str], Document | None], find: Callable[[str], Sequence[str]]
) -> CitationCheck:
    """Look a quotation up in its document, then in those that ``find`` returns for its words."""
    documents = []
    for doc_id in dict.fromkeys([cited.doc_id, *find(cited.text)]):
        stop_if_late()
        document = read(doc_id) if doc_id else None
        if document is None:
            continue
        if exact := _find_exact(cited, document):
            return exact
        documents.append(document)
    if wrong := _find_wrong_part(cited, read, find):
        return wrong
    near = _find_nearest(cited.text, documents)
    is_near = near.similarity >= MIN_SIMILARITY and _has_subject(near, cited.text)
    differences = find_differences(cited.text, near.passage) if is_near else []
    if _may_be_stitched(near, differences) and (pieces := _find_pieces(cited.text, documents)):
        places = dict.fromkeys(_span(document, *bounds).place for document, *bounds in pieces)
        stitched = _make(cited, "stitched", *pieces[0], near.similarity)
        return replace(stitched, place=" and ".join(places))
    if near.document is None or not is_near:
        return CitationCheck(cited.text, cited.doc_id, "gone", "", -1, -1, "", near.similarity)
    changes = tuple(
        each.describe(cited.text, near.passage) for each in differences if each.kind != "word"
    )
    state: State = "changed" if changes else "reworded"
    check = _make(cited, state, near.document, near.start, near.end, near.similarity)
    return replace(check, changes=changes)


class _Place(NamedTuple):
    """The characters of a document that are most like a quotation; the share of words in common."""

    similarity: float = 0.0
    document: Document | None = None
    start: int = -1
    end: int = -1

    @property
    def passage(self) -> str:
        return "" if self.document is None else self.document.text[self.start : self.end]


def _find_exact(cited: Quotation, document: Document) -> CitationCheck | None:
    """The check of a quotation whose words a document has one by one; None if it has not."""
    text, is_cited = document.text, document.doc_id == cited.doc_id
    if is_cited and text[cited.start : cited.end] == cited.text:
        return _make(cited, "same", document, cited.start, cited.end, 1.0)
    place = _locate(cited, text, cited.start if is_cited else 0)
    if place is None:
        return None
    state: State = "moved" if is_cited else "elsewhere"
    return _make(cited, state if cited.doc_id else "same", document, *place, 1.0)


def _find_wrong_part(
    cited: Quotation, read: Callable[[str], Document | None], find: Callable[[str], Sequence[str]]
) -> CitationCheck | None:
    """The check of the first part between ellipses that does not stand word for word."""
    parts = [part for part in _ELLIPSIS.split(cited.text) if _WORD.search(part)]
    if len(parts) < 2:
        return None
    checks = (check_quotation(replace(cited, text=part), read, find) for part in parts)
    wrong = next((check for check in checks if check.state in FAILED), None)
    return wrong and replace(wrong, quote=cited.text)


def _find_nearest(quote: str, documents: Iterable[Document]) -> _Place:
    """The place most like a quotation, with a negation before it and its whole numbers."""
    near = _Place()
    for document in documents:
        stop_if_late()
        similarity, start, end = _find_similar(quote, document.text)
        if similarity > near.similarity:
            near = _Place(similarity, document, start, end)
    if near.document is None:
        return near
    start = _find_negation(quote, near.document.text, near.start)
    start, end = _widen(near.document.text, start, near.end)
    return near._replace(start=start, end=end)


def _has_subject(near: _Place, quote: str) -> bool:
    """Whether a place, or the words next to it, have a word of a quotation with figures that is no
    figure, name or function word: "30 days of gym" is no change of "10 days of leave".
    """
    tokens = read_tokens(quote)
    subject = find_stems(" ".join(token.value for token in tokens if token.kind == "word"))
    has_figures = any(token.kind in FIGURES for token in tokens)
    if near.document is None or not subject or not has_figures:
        return True
    around = near.document.text[max(0, near.start - _NEXT) : near.end + _NEXT]
    return not set(subject).isdisjoint(find_stems(around))


def _may_be_stitched(near: _Place, differences: Sequence[Difference]) -> bool:
    """Whether so many words differ from the nearest place that others may have them.

    One figure that differs is a change: "The fee is 40 dollars" and "The fee is 44 dollars".
    """
    has_words = any(each.kind == "word" or each.plain > 1 for each in differences)
    return near.similarity < _GAP and (has_words or not differences)


def _make(
    cited: Quotation, state: State, document: Document, start: int, end: int, similarity: float
) -> CitationCheck:
    place = _span(document, start, end).place
    return CitationCheck(
        cited.text, cited.doc_id, state, document.doc_id, start, end, place, round(similarity, 3)
    )


def _span(document: Document, start: int, end: int) -> Span:
    """Characters of a document, with their line, page, or paragraph and heading."""
    span = Span(
        document.doc_id,
        document.path,
        start,
        end,
        document.text[start:end],
        1.0,
        kind=document.kind,
    )
    if has_lines(document.kind, document.doc_id):
        return replace(span, line=1 + document.text.count("\n", 0, start))
    if document.page_starts:
        return replace(span, page=bisect_right(document.page_starts, start))
    above = [heading for heading in outline(document) if heading.start <= start][-1:]
    begin = sum(document.text.find("\n", heading.start) + 1 for heading in above)
    paragraph = number_paragraph(
        document.text[begin:start], line_at(document.text, start), document.kind
    )
    return replace(span, paragraph=paragraph, headings=tuple(heading.text for heading in above))


def _locate(cited: Quotation, text: str, near: int) -> tuple[int, int] | None:
    """Where a text has the words of a quotation, nearest to ``near``; an ellipsis may stand for no
    negation.
    """
    plain = text.translate(STRAIGHT)
    for marks in (STRAIGHT, _PLAIN):
        runs = [
            words
            for part in _ELLIPSIS.split(cited.text.translate(marks))
            if (words := part.split())
        ]
        if not runs:
            return None
        first, *others = map(_to_pattern, runs)
        # Atomic groups: each part is matched where it follows next, so that many parts do not
        # backtrack.
        rest = "".join(rf"(?>(\W.{{0,{_LEFT_OUT}}}?)(?<!\w){part})" for part in others)
        places = [
            match.span()
            for match in re.finditer(first + rest, plain, re.IGNORECASE | re.DOTALL)
            if not any(
                token.kind == "negation"
                for left_out in match.groups()
                for token in read_tokens(left_out)
            )
            and _find_negation(cited.text, plain, match.start()) == match.start()
        ]
        if places:
            return min(places, key=lambda span: abs(span[0] - near))
    return None


def _to_pattern(words: Sequence[str]) -> str:
    """The regular expression of words that follow one another, with whole words and numbers at both
    ends.
    """
    first, last = words[0][0], words[-1][-1]
    before = after = ""
    if first.isalnum():
        before = r"(?<!\w)"
    if first.isdigit():
        before += r"(?<!\d[.,'])(?<!\s[-−])"
    if last.isdigit():
        after = r"(?![.,']?\d|\s?[%‰°])"
    if last.isalnum():
        after += r"(?!\w)"
    return before + r"[\s|*_`]+".join(map(re.escape, words)) + after


def _find_negation(quote: str, text: str, start: int) -> int:
    """The start of a negation right before ``start``, if the quotation begins a sentence without
    it; else ``start``.
    """
    if not (quote[:1].isupper() and text[start].islower()):
        return start
    before = text[max(0, start - _NUMBER_LENGTH) : start]
    tokens = read_tokens(before)
    if tokens and tokens[-1].kind == "negation":
        return start - len(before) + tokens[-1].start
    return start


def _find_similar(quote: str, text: str) -> tuple[float, int, int]:
    """The piece of a text with most words of a quotation in their order: the share of words in
    common, and where.
    """
    from rapidfuzz import fuzz

    ours = [match[0].casefold() for match in _WORD.finditer(quote)]
    spans = [match.span() for match in _WORD.finditer(text)]
    theirs = [text[start:end].casefold() for start, end in spans]
    if not ours or not theirs:
        return 0.0, -1, -1
    # 1. As many words as the quotation has, word by word: some may be exchanged.
    near = fuzz.partial_ratio_alignment(ours, theirs)
    assert near is not None  # it is where a score is too low, and there is no limit
    first, last = near.dest_start, near.dest_end
    share = sum(map(eq, theirs[first:last], ours)) / len(ours)
    best = (share, share, spans[first][0], spans[last - 1][1])
    # 2. With the words around: some may be added or left out.
    margin = len(ours) // 4 + _AROUND
    first = max(0, first - margin)
    blocks = match_words(theirs[first : last + margin], ours).get_matching_blocks()[:-1]
    if blocks:
        low, high = first + blocks[0].a, first + blocks[-1].a + blocks[-1].size
        same = sum(block.size for block in blocks)
        # By the share of the longer text, so that other words in between count against it.
        shares = same / max(len(ours), high - low), 2 * same / (len(ours) + high - low)
        low = max(0, low - blocks[0].b)  # changes at the ends are part of the place
        high = min(len(theirs), high + len(ours) - blocks[-1].b - blocks[-1].size)
        best = max(best, (*shares, spans[low][0], spans[high - 1][1]))
    return best[1:]


def _widen(text: str, start: int, end: int) -> tuple[int, int]:
    """Characters with the whole of the numbers at their ends, and the signs of their units."""
    if text[start].isdigit():
        start -= len(_BEFORE_NUMBER.search(text[max(0, start - _NUMBER_LENGTH) : start])[0])  # type: ignore[index]
    if text[end - 1].isdigit():
        end += len(_BEHIND_NUMBER.match(text, end)[0])  # type: ignore[index]
    return start, end


def _find_pieces(quote: str, documents: Sequence[Document]) -> list[tuple[Document, int, int]]:
    """The places of a stitched quotation, whose pieces of several words stand there word for word;
    else none.
    """
    words = [token.value for token in read_tokens(quote)]
    if not 2 * _FEWEST_WORDS <= len(words) <= _MOST_WORDS:
        return []
    read = []
    for document in documents:
        tokens = read_tokens(document.text)
        read.append((document, tokens, f" {' '.join(token.value for token in tokens)} "))

    def find(start: int, stop: int) -> tuple[Document, int, int] | None:
        stop_if_late()
        piece = f" {' '.join(words[start:stop])} "
        for document, tokens, text in read:
            if (at := text.find(piece)) >= 0:
                first = text.count(" ", 0, at)
                return document, tokens[first].start, tokens[first + stop - start - 1].end
        return None

    # For each word, the fewest pieces that make up the quotation before it.
    covers: dict[int, list[tuple[int, int]]] = {0: []}
    for start in range(len(words)):
        if start not in covers or len(covers[start]) == _MOST_PIECES:
            continue
        for stop in range(start + _FEWEST_WORDS, len(words) + 1):
            if find(start, stop) is None:
                break
            if stop not in covers or len(covers[start]) + 1 < len(covers[stop]):
                covers[stop] = [*covers[start], (start, stop)]
    bounds = [find(*piece) for piece in covers.get(len(words), ())]
    return [piece for piece in bounds if piece is not None] if len(bounds) > 1 else []
