"""Does what was cited still stand? Quotations are looked for in the documents as they are now.

A quotation that is where it was is the *same*, elsewhere word for word it has *moved*, with other words it is
*reworded*, and otherwise it is *gone*. White space, letter case and the form of quotation marks do not count.
"""

import json
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cache
from operator import eq
from typing import Any, Literal, Protocol, Unpack

from lmkrag.errors import DocumentNotFound, UsageError
from lmkrag.index.words.terms import split_words
from lmkrag.places import LINED, line_at, number_paragraph
from lmkrag.readers.citations import STRAIGHT, find_quotations
from lmkrag.results import Answer, Span
from lmkrag.search.outline import outline
from lmkrag.search.request import SearchOptions
from lmkrag.types import Document

State = Literal["same", "moved", "reworded", "gone"]

MIN_SIMILARITY = 0.6  # the least share of words in common with which a quotation is reworded and not gone
Source = Answer | Span | Iterable[Span] | Mapping[str, Any] | str  # or their JSON, or a text with quotations
_ASKED = 300  # characters of a quotation that documents are searched for
_LOOKED_AT = 5  # documents beside its own that a quotation is looked for in
_FEWEST_WORDS = 3  # of a quotation in a text
_WORD = re.compile(r"\w+")
_BUCKET = 4  # words by which places may differ and count as one
_CANDIDATES = 8  # places that a quotation is compared with word by word


@dataclass(frozen=True, slots=True)
class Quotation:
    """Words that were cited: characters ``[start, end)`` of a document; without one where only the words are known."""

    text: str
    doc_id: str = ""
    start: int = -1
    end: int = -1


@dataclass(frozen=True, slots=True)
class CitationCheck:
    """What became of a quotation.

    ``doc_id``, ``start``, ``end`` and ``place`` say where it is now; they are empty and -1 if it is gone.
    ``similarity`` is the share of its words that stand there.
    """

    quote: str
    cited: str
    state: State
    doc_id: str
    start: int
    end: int
    place: str
    similarity: float


class Readable(Protocol):
    """What quotations are looked for in: an engine, here or behind a server."""

    def document(self, doc_id: str) -> Document:
        """Return a document."""

    def search(self, query: str, **options: Unpack[SearchOptions]) -> list[Span]:
        """Search."""


def check_citations(engine: Readable, source: Source) -> list[CitationCheck]:
    """Tell what became of each citation: see :meth:`lmkrag.Engine.check`."""

    @cache
    def read(doc_id: str) -> Document | None:
        try:
            return engine.document(doc_id)
        except DocumentNotFound:
            return None

    def find(words: str) -> list[str]:
        query = " ".join(words.replace('"', " ").split())[:_ASKED]
        return [span.doc_id for span in engine.search(query, mode="lexical", level="document", top_k=_LOOKED_AT)]

    return [check_quotation(cited, read, find) for cited in read_quotations(source)]


def read_quotations(source: Source) -> list[Quotation]:
    """Return what is cited: of an answer, spans, their JSON, or quotations in any text, or raise UsageError."""
    if isinstance(source, Answer):
        return [Quotation(one.quote, one.span.doc_id, one.start, one.end) for one in source.citations]
    if isinstance(source, Span):
        source = [source]
    if isinstance(source, Mapping):
        cited = source.get("citations") or source.get("spans") or source.get("passages")
        if cited is None:
            raise UsageError("nothing is cited there: give the JSON of search or ask, or a text with quotations")
        try:
            return [
                Quotation(one.get("quote") or one["text"], one["doc_id"], one["start"], one["end"]) for one in cited
            ]
        except (KeyError, TypeError, AttributeError):
            raise UsageError("a citation has doc_id, start, end, and quote or text") from None
    if not isinstance(source, str):
        if not isinstance(source, Iterable):
            raise UsageError("nothing is cited there: give an answer, spans, their JSON, or a text with quotations")
        return [Quotation(span.text, span.doc_id, span.start, span.end) for span in source]
    try:
        return read_quotations(json.loads(source))
    except (ValueError, TypeError):
        return [Quotation(text) for text in find_quotations(source) if len(split_words(text)) >= _FEWEST_WORDS]


def check_quotation(
    cited: Quotation, read: Callable[[str], Document | None], find: Callable[[str], Sequence[str]]
) -> CitationCheck:
    """Look for a quotation in its document, and if it is not there in others that ``find`` says may have its words."""
    near: tuple[float, int, int, Document | None] = (0.0, -1, -1, None)
    for doc_id in _candidates(cited, find):
        document = read(doc_id)
        if document is None:
            continue
        text = document.text
        if doc_id == cited.doc_id and text[cited.start : cited.end] == cited.text:
            return _make(cited, "same", document, cited.start, cited.end, 1.0)
        if exact := _locate(cited, text, cited.start if doc_id == cited.doc_id else 0):
            state: State = "same" if not cited.doc_id else "moved"
            return _make(cited, state, document, *exact, 1.0)
        similarity, start, end = _find_similar(cited.text, text)
        near = max(near, (similarity, start, end, document), key=lambda one: one[0])
    similarity, start, end, nearest = near
    if nearest is not None and similarity >= MIN_SIMILARITY:
        return _make(cited, "reworded", nearest, start, end, similarity)
    return CitationCheck(cited.text, cited.doc_id, "gone", "", -1, -1, "", similarity)


def _candidates(cited: Quotation, find: Callable[[str], Sequence[str]]) -> Iterator[str]:
    if cited.doc_id:
        yield cited.doc_id
    yield from (doc_id for doc_id in find(cited.text) if doc_id != cited.doc_id)


def _make(cited: Quotation, state: State, document: Document, start: int, end: int, similarity: float) -> CitationCheck:
    where = _span(document, start, end).place
    return CitationCheck(cited.text, cited.doc_id, state, document.doc_id, start, end, where, round(similarity, 3))


def _span(document: Document, start: int, end: int) -> Span:
    """Characters of a document, with what tells where they are."""
    span = Span(document.doc_id, document.path, start, end, document.text[start:end], 1.0, kind=document.kind)
    if document.kind in LINED:
        return replace(span, line=1 + document.text.count("\n", 0, start))
    if document.page_starts:
        return replace(span, page=bisect_right(document.page_starts, start))
    above = [heading for heading in outline(document) if heading.start <= start][-1:]
    begin = sum(document.text.find("\n", heading.start) + 1 for heading in above)
    paragraph = number_paragraph(document.text[begin:start], line_at(document.text, start), document.kind)
    return replace(span, paragraph=paragraph, headings=tuple(heading.text for heading in above))


def _locate(cited: Quotation, text: str, near: int) -> tuple[int, int] | None:
    """Where a text has the words of a quotation, nearest to where they were."""
    words = cited.text.translate(STRAIGHT).split()
    if not words:
        return None
    pattern = re.compile(r"(?<!\w)" * words[0][0].isalnum() + r"\s+".join(map(re.escape, words)), re.IGNORECASE)
    found = (match.span() for match in pattern.finditer(text.translate(STRAIGHT)))
    ends_in_word = words[-1][-1].isalnum()
    whole = (span for span in found if not (ends_in_word and text[span[1] : span[1] + 1].isalnum()))
    return min(whole, key=lambda span: abs(span[0] - near), default=None)


def _find_similar(quote: str, text: str) -> tuple[float, int, int]:
    """The piece of a text with most words of a quotation in their order: the share of words in common, and where."""
    ours = [match[0].casefold() for match in _WORD.finditer(quote)]
    spans = [match.span() for match in _WORD.finditer(text)]
    theirs = [text[start:end].casefold() for start, end in spans]
    if not ours or not theirs:
        return 0.0, -1, -1
    positions: dict[str, list[int]] = {}
    for number, word in enumerate(ours):
        positions.setdefault(word, []).append(number)
    # Where the quotation would begin, by every word that it shares with the text.
    votes = Counter(
        (place - number) // _BUCKET for place, word in enumerate(theirs) for number in positions.get(word, ())
    )
    margin = len(ours) // 4 + _BUCKET
    best = (0.0, -1, -1)
    for bucket, _ in votes.most_common(_CANDIDATES):
        # Word by word, where only some were exchanged: the longest blocks may be those of another sentence.
        for start in range(max(0, bucket * _BUCKET), min((bucket + 1) * _BUCKET, len(theirs) - len(ours) + 1)):
            same = sum(map(eq, theirs[start : start + len(ours)], ours))
            best = max(best, (same / len(ours), spans[start][0], spans[start + len(ours) - 1][1]))
        first = max(0, bucket * _BUCKET - margin)
        window = theirs[first : (bucket + 1) * _BUCKET + len(ours) + margin]
        blocks = SequenceMatcher(None, window, ours, autojunk=False).get_matching_blocks()[:-1]
        if blocks:
            low, high = first + blocks[0].a, first + blocks[-1].a + blocks[-1].size
            similarity = 2 * sum(block.size for block in blocks) / (len(ours) + high - low)
            low = max(0, low - blocks[0].b)  # what was changed at the ends belongs to it
            high = min(len(theirs), high + len(ours) - blocks[-1].b - blocks[-1].size)
            best = max(best, (similarity, spans[low][0], spans[high - 1][1]))
    return best
