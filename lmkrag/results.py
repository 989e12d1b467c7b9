"""Results of searches and answers of readers: frozen, slotted, with exact places in the documents.

A :class:`Span` is a piece of a document that a search found; a :class:`Context` packs spans for a
prompt; an :class:`Answer` cites characters of its spans. Offsets count characters of a document's
text from 0; ranges are half-open.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from html import escape
from textwrap import shorten, wrap
from typing import TYPE_CHECKING, Any, ClassVar, cast
from urllib.parse import quote, urldefrag

from lmkrag.errors import UsageError
from lmkrag.rendering.places import UNITS, count_paragraphs, line_at, number_paragraph
from lmkrag.rendering.quoting import quote_lines
from lmkrag.types import Explanation, Hit
from lmkrag.types.json_values import to_json

if TYPE_CHECKING:
    from lmkrag.rendering.tree import Node

CUT_SHORT = (
    "re-ranking stopped at its time limit: with more time results may differ, and no answer counts "
    "as strong; "
    "a greater rerank_timeout_ms gives more"
)
"""The note of a search that had no time to re-rank all passages that it would re-rank."""

STATED_DATES = ("heading", "front matter", "header", "file name")
"""Sources of a date that a document itself states: see ``Span.date_source``."""

ABSTAINED = "Nothing in these documents answers this."
"""What a search with ``abstain_below`` says instead of its results."""

STRONG, LIKELY, UNSURE = 0.85, 0.6, 0.3
"""The least probabilities with which an answer is strong, likely and unsure; below it is weak."""

FOUND = 0.45  # the least similarity and words of an answer; see ``benchmarks/log/confidence.md``
COVERAGE = 0.3  # what a passage with all of the question's words adds to the evidence
_WEIGHED = 3  # spans whose words count as evidence
_PAGES = {"odp": "slide", "pptx": "slide"}
_LONGEST_QUOTE = 100  # characters of a quotation in the repr of a citation
_LONGEST = 60  # characters of a heading, and of the words that a page is opened at
_MORE = 5  # lines of lesser results that are shown
_INSTRUCTS = re.compile(
    r"\b(?:ignore|disregard|forget|override)\s+(?:(?:all|any|the|your|of|these|those|my)\s+)*"
    r"(?:previous|prior|above|earlier|preceding|system)\s+(?:instruction|prompt|rule|message"
    r"|direction|guideline)s?\b"
    r"|\b(?:reveal|repeat|print)\s+(?:your|the)\s+system\s+prompt\b|<\|im_start\|>|\[INST\]|<<SYS>>"
    r"|\b(?:do not|don't|never)\s+(?:tell|inform)\s+the\s+user\s+(?:about|that|of)\s+th(?:is|ese)\b"
    r"|\bignorier(?:e|t|en Sie)\s+(?:alle\s+)?(?:vorherigen|vorigen|bisherigen|obigen|früheren)"
    r"\s+(?:Anweisungen|Vorgaben)\b"
    r"|\bignore[zr]?\s+(?:toutes\s+)?(?:les\s+)?(?:instructions|consignes)\s+(?:précédentes"
    r"|antérieures|ci-dessus)"
    r"|\bignor[ae]\w*\s+(?:tod[ao]s\s+|tutte\s+)?(?:las\s+|le\s+|as\s+)?(?:instrucciones"
    r"|istruzioni|instruções)"
    r"\s+(?:anteriores|previas|precedenti|prévias)\b"
    r"|\bnegeer\s+(?:alle\s+)?(?:vorige|eerdere|bovenstaande)\s+(?:instructies|opdrachten)\b"
    r"|忽略(?:之前|以上|先前)的?(?:所有|一切)?的?(?:指令|指示|提示)|(?:以前|これまで|上記)の(?:すべての)?指示を(?:すべて)?無視",
    re.IGNORECASE,
)
_MARK = re.compile(r"^(?:#+|[>*+-]|\d+[.)])\s+")


@dataclass(frozen=True, slots=True)
class Contrast:
    """A value in a passage that differs from that of another document about the same thing.

    Attributes:
        start: offset of the value's first character in the passage's document.
        end: offset of the character after its last one.
        doc_id: the other document.
        other_start: offset of the other value's first character in that document.
        other_end: offset of the character after its last one.
        note: both values, and the sentences they stand in.
    """

    start: int
    end: int
    doc_id: str
    other_start: int
    other_end: int
    note: str


@dataclass(frozen=True, slots=True)
class PageBox:
    """A rectangle on a page, in shares of the page's width and height from 0 to 1.

    Attributes:
        page: number of the page, from 1.
        x0: left edge.
        y0: top edge.
        x1: right edge.
        y1: bottom edge.
    """

    page: int
    x0: float
    y0: float
    x1: float
    y1: float


@dataclass(frozen=True, slots=True)
class Span:
    """An exact piece of a document: ``document.text[start:end] == text``.

    Numbers of pages, lines and paragraphs count from 1. Of ``page``, ``line`` and ``paragraph``
    those are set that the kind of the document has; :attr:`place` writes them for people.

    Attributes:
        doc_id: the document.
        path: where the document was read from.
        start: offset of the first character in the document.
        end: offset of the character after the last one.
        text: the characters ``[start, end)`` of the document.
        score: the fused score; higher is better. It compares spans of one search only.
        page: the page that the span begins on; None if the document has no pages.
        hits: the sentences that led here, best first; empty if the span was made without a search.
        title: title of the document.
        kind: format of the document, such as ``pdf``.
        meta: metadata of the document.
        line: the line that it begins on, if the text is the file itself; else None.
        last_line: the line that it ends on, if the text is the file itself; else None.
        paragraph: the paragraph under the nearest heading that it begins in, or the row of a table;
            None if pages or lines are counted.
        headings: the headings that the best hit stands under, outermost first, or the functions and
            classes around source code.
        speaker: who speaks in the message of a conversation or mail that it is of, or begins with
            where the reply to a question follows; else empty.
        time: when, to the minute (ISO 8601), or as the text has it; empty if that is unknown.
        also_in: names of other documents with the same words, which are not listed as results.
        more: lines of lesser results in the same file, which are left out in a folder of source
            code.
        header: the first row of the table in whose midst the span begins; else empty.
        coverage: the share of the question's words, by weight, that the text, the headings or the
            title have, 0 to 1.
        explanation: why it was found; None unless the search was asked to explain.
        stale: ``"changed"`` or ``"gone"`` if the file has changed or gone since it was indexed;
            else empty.
        date: the date of the passage (``2026``, ``2026-11`` or ``2026-11-28``); empty if it is
            unknown.
        date_source: where the date is from: ``"heading"``, ``"front matter"``, ``"header"``,
            ``"file name"``, ``"properties"``, or ``"file"`` for the time of the file's last change.
        superseded_by: the place of a newer passage that says the same with another value; else
            empty.
        contrasts: values that differ from those in other documents.
        boxes: where it stands on pages, line by line; empty unless the search was asked for boxes.
    """

    doc_id: str
    path: str
    start: int
    end: int
    text: str
    score: float
    page: int | None = None
    hits: tuple[Hit, ...] = ()
    title: str = ""
    kind: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    line: int | None = None
    last_line: int | None = None
    paragraph: int | None = None
    headings: tuple[str, ...] = ()
    speaker: str = ""
    time: str = ""
    also_in: tuple[str, ...] = ()
    more: tuple[int, ...] = ()
    header: str = ""
    coverage: float = 0.0
    explanation: Explanation | None = field(default=None, compare=False, repr=False)
    stale: str = ""
    date: str = ""
    date_source: str = ""
    superseded_by: str = ""
    contrasts: tuple[Contrast, ...] = ()
    boxes: tuple[PageBox, ...] = ()
    derived: ClassVar[Mapping[str, str]] = {
        "place": "Where it is: `notes.md:12`, `report.pdf, page 3`.",
        "url": "The address of the web page that it is of, or empty.",
        "section": "The title and the headings that it stands under.",
        "weak": "Little speaks for an answer in it.",
        "instructs_model": "It speaks to a language model: words to be distrusted.",
    }
    """Properties that its JSON has beside the fields, and what they are."""

    def __str__(self) -> str:
        """Return its place and section, and, quoted, the header of its table and its text."""
        first = f"{' '.join(self.place.split())}  {' '.join(self.section.split())}".rstrip()
        return "\n".join([first, *quote_lines(self.header), *quote_lines(self.text)])

    def to_dict(self) -> dict[str, Any]:
        """Return its fields and ``place``, ``url``, ``section``, ``weak`` and ``instructs_model``
        as JSON values.
        """
        return cast(dict[str, Any], to_json(self))

    def explain(self) -> str:
        """Return a report of why it was found, in lines.

        Raises:
            UsageError: it was not searched for with ``explain=True``.
        """
        if self.explanation is None:
            raise UsageError("no explanation: search with explain=True")
        return str(self.explanation)

    @property
    def place(self) -> str:
        """Where it begins: see :meth:`locate`."""
        return self.locate(self.start)

    def locate(self, start: int) -> str:
        """Return the place of a character inside this span, for people.

        Args:
            start: offset of the character in the document.

        Returns:
            The document with the line, page, row or paragraph: ``notes.md:12``, ``report.pdf, page
                3``, ``stock.xlsx, Sheet1, row 7``, ``rules.docx, Leave, paragraph 2``.
        """
        before = self.text[: start - self.start]
        if self.line is not None:
            return f"{self.doc_id}:{self.line + before.count(chr(10))}"
        if self.page is not None:
            return f"{self.doc_id}, {_PAGES.get(self.kind, 'page')} {self.page}"
        if self.paragraph is None:
            return f"{self.doc_id}:{start}-{self.end}"
        heading = self.headings[-1] if self.headings else ""
        head, separator, rest = before.rpartition(heading) if heading else ("", "", before)
        # the span begins before its heading
        if separator and not head.rpartition("\n")[2].strip("# "):
            number = number_paragraph(rest, line_at(self.text, start - self.start), self.kind)
        else:
            number = self.paragraph + count_paragraphs(before, self.kind)
        under = [heading] if 0 < len(heading) <= _LONGEST else []
        return ", ".join([self.doc_id, *under, f"{UNITS.get(self.kind, 'paragraph')} {number}"])

    @property
    def url(self) -> str:
        """The address of its page, from the document's metadata ``url``; empty if they have none.

        A web page is opened at the words of the best hit (a text fragment,
        https://wicg.github.io/scroll-to-text-fragment/), a PDF at its page.
        """
        url = self.meta.get("url")
        if (
            not isinstance(url, str)
            or not url.startswith(("http://", "https://"))
            or not url.isprintable()
        ):
            return ""
        if self.kind == "pdf" and self.page:
            return f"{url}#page={self.page}"
        if self.kind == "html" and self.hits:
            line = _MARK.sub("", self.best_sentence.partition("\n")[0])
            wrapped = wrap(line, _LONGEST, break_long_words=False, break_on_hyphens=False)
            words = wrapped[0] if wrapped else ""
            # The cells of a row are no running text there.
            if 0 < len(words) <= _LONGEST and "|" not in words:
                return f"{urldefrag(url).url}#:~:text={quote(words, safe='').replace('-', '%2D')}"
        return url

    @property
    def best_sentence(self) -> str:
        """The sentence of the best hit; empty if it lies outside of the span. A span without hits
        returns its whole text.
        """
        hit = self.hits[0] if self.hits else self
        return self.text[max(0, hit.start - self.start) : max(0, hit.end - self.start)].strip()

    @property
    def weak(self) -> bool:
        """Whether there is little evidence that it answers: it lacks words of the query and is not
        similar. False in lexical mode, in which that is unknown.
        """
        is_similar = weigh_evidence([self]) >= FOUND
        return any(hit.dense for hit in self.hits) and self.coverage < 1 and not is_similar

    @property
    def more_places(self) -> str:
        """The lesser results of the same file, such as ``+2 more in core.py: 12, 97``; empty if
        there are none.
        """
        if not self.more:
            return ""
        lines = ", ".join(map(str, self.more[:_MORE]))
        rest = ", …" if len(self.more) > _MORE else ""
        return f"+{len(self.more)} more in {self.doc_id.rpartition('/')[2]}: {lines}{rest}"

    @property
    def instructs_model(self) -> bool:
        """Whether the text addresses a language model, as "ignore all previous instructions" does.

        Such a passage may be an attempt to take over a model that reads it (prompt injection).
        """
        return _INSTRUCTS.search(self.text) is not None

    @property
    def section(self) -> str:
        """The title and the headings that it stands under: ``Flask 3.1 > Changes``."""
        return " > ".join(dict.fromkeys(part for part in (self.title, *self.headings) if part))

    def to_blocks(self) -> "list[Node]":
        """Return the text as a tree of elements (:mod:`lmkrag.rendering`), its best sentence marked
        as ``found``.
        """
        from lmkrag.rendering.blocks import parse_blocks
        from lmkrag.rendering.tree import mark_nodes

        marks = [(hit.start, hit.end, "found") for hit in self.hits[:1]]
        return mark_nodes(
            parse_blocks(
                self.text, kind=self.kind, start=self.start, header=self.header, name=self.doc_id
            ),
            marks,
        )

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the place, the section and the text."""
        from lmkrag.rendering.tree import to_html

        heading = f"<b>{escape(self.place)}</b> <small>{escape(self.section)}</small>"
        return f"{heading}<blockquote>{to_html(self.to_blocks())}</blockquote>"


class SpanList(list[Span]):
    """The results of a search, best first.

    Attributes:
        notes: sentences to show with the results, such as which of them are stale.
        confidence: the probability that they answer, where a search with ``abstain_below`` found
            nothing for it; else None.
    """

    def __init__(
        self,
        spans: Iterable[Span] = (),
        notes: Sequence[str] = (),
        *,
        confidence: float | None = None,
    ) -> None:
        super().__init__(spans)
        self.notes, self.confidence = tuple(notes), confidence

    @property
    def cut_short(self) -> bool:
        """Whether the time limit ended re-ranking before all passages were read."""
        return CUT_SHORT in self.notes


@dataclass(frozen=True, slots=True)
class Context:
    """Spans packed into a text for a prompt.

    Attributes:
        text: what a reader sees: the spans, numbered from 1, with their sources.
        spans: the spans in the text; number ``n`` is ``spans[n - 1]``.
        tokens: cost of the text in tokens.
        notes: the notes of the search.
    """

    text: str
    spans: tuple[Span, ...]
    tokens: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CitationRecord:
    """A citation as JSON has it: ``[number]`` of an answer, and the words it quotes.

    Attributes:
        number: number of the citation in the text of the answer, from 1.
        doc_id: the cited document.
        path: where the document was read from.
        start: offset of the first cited character in the document.
        end: offset of the character after the last one.
        page: the page of the span; None if the document has no pages.
        place: where the quotation is, such as ``report.pdf, page 3``.
        url: the address of the web page; empty if there is none.
        quote: the characters ``[start, end)`` of the document.
    """

    number: int
    doc_id: str
    path: str
    start: int
    end: int
    page: int | None
    place: str
    url: str
    quote: str


@dataclass(frozen=True, slots=True, repr=False)
class Citation:
    """``[number]`` of an answer: an exact quotation of a document.

    Attributes:
        number: number of the citation in the text of the answer, from 1.
        span: the span that has the quotation.
        quote: the characters ``[start, end)`` of the span's document.
        start: offset of the first cited character in the document.
        end: offset of the character after the last one.
    """

    number: int
    span: Span
    quote: str
    start: int
    end: int

    @property
    def place(self) -> str:
        """Where the quotation is: see :meth:`Span.locate`."""
        return self.span.locate(self.start)

    def __repr__(self) -> str:
        return f"<Citation [{self.number}] {self.place}: {shorten(self.quote, _LONGEST_QUOTE)!r}>"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of :class:`CitationRecord` as JSON values; ``number`` names the
        span.
        """
        span = self.span
        record = CitationRecord(
            self.number,
            span.doc_id,
            span.path,
            self.start,
            self.end,
            span.page,
            self.place,
            span.url,
            self.quote,
        )
        return asdict(record)


@dataclass(frozen=True, slots=True)
class ShortAnswer:
    """The fewest words that answer, inside a citation.

    Attributes:
        number: number of the citation that they are in.
        text: the words.
        start: offset of their first character in the document of the citation.
        end: offset of the character after the last one.
    """

    number: int
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Quote:
    """A passage that an answer shows, of the document of a citation.

    Attributes:
        number: number of the citation.
        start: offset of the first shown character in the document.
        end: offset of the character after the last one.
        heading: the heading that the passage stands under, if the passage does not begin with it.
        header: the first row of its table, if the passage does not begin with it.
    """

    number: int
    start: int
    end: int
    heading: str = ""
    header: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a reader. ``str()`` of it is the text with the places of its citations and its
    warnings.

    Attributes:
        text: the answer; ``[number]`` in it is a citation.
        citations: the citations. Citation ``[number]`` is of ``spans[number - 1]``. An answer that
            is not found cites the nearest passages.
        spans: the spans that the reader got.
        reader: name of the reader.
        found: whether the documents answer the question.
        warnings: sentences for the user: the notes of the search, and the results of the reader's
            check, such as a citation of a span that does not exist.
        short: the fewest words that answer, best first; empty if a sentence is the answer.
        confidence: the probability that the documents answer the question, 0 to 1; None if a
            language model answered.
        quotes: the passages that ``text`` shows; empty if a language model answered.
        answered_by: name of the language model and of its server; empty if none answered.
    """

    text: str
    citations: tuple[Citation, ...]
    spans: tuple[Span, ...]
    reader: str
    found: bool
    warnings: tuple[str, ...] = ()
    short: tuple[ShortAnswer, ...] = ()
    confidence: float | None = None
    quotes: tuple[Quote, ...] = ()
    answered_by: str = ""
    derived: ClassVar[Mapping[str, str]] = {
        "label": "`strong`, `likely`, `unsure` or `weak`; empty where a language model answered."
    }
    """Properties that its JSON has beside the fields, and what they are."""

    def to_dict(self) -> dict[str, Any]:
        """Return its fields as ``lmkrag ask --json`` writes them; citations name their spans by
        number.
        """
        return {**to_json(self), "citations": [citation.to_dict() for citation in self.citations]}

    def with_notes(self, notes: Sequence[str]) -> "Answer":
        """Return the answer with the notes of the search before its warnings.

        What it says itself is left out, and so are contradictions of what it does not cite, or
        cites only as the nearest passage.
        """
        answering = () if self.label == "weak" else self.citations
        left_out = {self.text}.union(
            contrast.note for span in self.spans for contrast in span.contrasts
        )
        left_out -= {
            contrast.note
            for citation in answering
            for contrast in citation.span.contrasts
            if citation.start < contrast.end and contrast.start < citation.end
        }
        notes = [note for note in notes if note not in left_out]
        return replace(self, warnings=(*notes, *self.warnings)) if notes else self

    @property
    def label(self) -> str:
        """How sure it is, in a word: see :func:`label_confidence`; empty without a confidence."""
        return "" if self.confidence is None else label_confidence(self.confidence)

    def to_blocks(self) -> "list[Node]":
        """Return the answer as a tree of elements (:mod:`lmkrag.rendering`).

        Citations are ``cite`` elements, whose ``number`` is the citation's. In quoted passages the
        sentences that answer are marked as ``quoted`` and the fewest words that answer as
        ``short``.
        """
        from lmkrag.rendering.blocks import cite, link_citations, parse_blocks
        from lmkrag.rendering.tree import append_inline, element, mark_nodes, text_node

        # The text of a language model is Markdown with citations in it.
        if not self.quotes:
            numbers = {citation.number for citation in self.citations}
            return link_citations(parse_blocks(self.text, kind="markdown"), numbers)
        nodes: list[Node] = []
        # How sure it is and its value come first.
        introduction = "" if self.label == "strong" else self.text.partition("\n\n")[0]
        if self.short:
            words = " ".join(self.short[0].text.split())
            introduction = introduction.removesuffix(words)
            parsed = parse_blocks(words, kind=self.spans[self.short[0].number - 1].kind)
            is_inline = [node["tag"] for node in parsed] == ["p"]
            shown = parsed[0]["children"] if is_inline else [text_node(words)]
            before = [text_node(introduction)] if introduction else []
            nodes.append(element("p", *before, element("strong", *shown)))
        elif introduction:
            nodes.append(element("p", text_node(introduction)))
        # Then come the passages, each in a quotation block that ends with its citation.
        for passage in self.quotes:
            span = self.spans[passage.number - 1]
            text = span.text[passage.start - span.start : passage.end - span.start]
            marks = [
                *(
                    (cited.start, cited.end, "quoted")
                    for cited in self.citations
                    if cited.number == passage.number
                ),
                *(
                    (short.start, short.end, "short")
                    for short in self.short
                    if short.number == passage.number
                ),
            ]
            quoted = [element("h4", text_node(passage.heading))] if passage.heading else []
            quoted += mark_nodes(
                parse_blocks(
                    text,
                    kind=span.kind,
                    start=passage.start,
                    header=passage.header,
                    name=span.doc_id,
                ),
                marks,
            )
            append_inline(quoted, cite(passage.number))
            nodes.append(element("blockquote", *quoted))
        return nodes

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the answer, the place of each citation, who answered, and
        the warnings.
        """
        from lmkrag.rendering.tree import to_html

        places = {citation.number: citation.place for citation in self.citations}
        cited = "".join(
            f"<li value={number}>{escape(place)}</li>" for number, place in places.items()
        )
        notes = "".join(f"<p>{escape(note)}</p>" for note in self._notes())
        return f"{to_html(self.to_blocks())}<ol>{cited}</ol>{notes}"

    def _notes(self) -> list[str]:
        """Return the language model that answered, and the warnings, one line each."""
        answered_by = [f"Answered by {self.answered_by}"] if self.answered_by else []
        return answered_by + [f"Warning: {warning}" for warning in self.warnings]

    def __str__(self) -> str:
        """Return the text, the place of each citation, the language model that answered, and the
        warnings.
        """
        places = dict.fromkeys(f"[{cited.number}] {cited.place}" for cited in self.citations)
        notes = [*places, *self._notes()]
        return "\n".join([self.text, *([""] if notes else []), *notes])


def label_confidence(confidence: float) -> str:
    """Return ``strong``, ``likely``, ``unsure`` or ``weak``, by the probability of an answer.

    >>> [label_confidence(each) for each in (0.9, 0.7, 0.3, 0.1)]
    ['strong', 'likely', 'unsure', 'weak']
    """
    labels = {"strong": STRONG, "likely": LIKELY, "unsure": UNSURE}
    return next((label for label, least in labels.items() if confidence >= least), "weak")


def weigh_evidence(spans: Sequence[Span]) -> float:
    """Return how strongly passages speak for an answer.

    Args:
        spans: results of a search, best first.

    Returns:
        The best similarity, plus :data:`COVERAGE` times the best coverage. :data:`FOUND` is the
            least value of an answer.
    """
    return best_similarity(spans) + COVERAGE * best_coverage(spans)


def best_similarity(spans: Sequence[Span]) -> float:
    """Return the best similarity of the sentences that led to ``spans``."""
    return max((hit.dense for span in spans for hit in span.hits), default=0.0)


def best_coverage(spans: Sequence[Span]) -> float:
    """Return the greatest ``coverage`` of the first three spans, 0 to 1."""
    return max((span.coverage for span in spans[:_WEIGHED]), default=0.0)
