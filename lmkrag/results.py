"""Results of searches and answers of readers: frozen, slotted, with exact places in the
documents.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from html import escape
from textwrap import wrap
from typing import TYPE_CHECKING, Any, ClassVar, cast
from urllib.parse import quote, urldefrag

from lmkrag.errors import UsageError
from lmkrag.json_values import to_json
from lmkrag.places import UNITS, count_paragraphs, line_at, number_paragraph
from lmkrag.rendering.quoting import quote_lines
from lmkrag.types import Explanation, Hit

if TYPE_CHECKING:
    from lmkrag.rendering.tree import Node

CUT_SHORT = (
    "re-ranking stopped at its time limit: with more time results may differ, and no answer counts "
    "as strong; "
    "a greater rerank_timeout_ms gives more"
)
"""The note of a search that had no time to re-rank all passages that it would re-rank."""

STRONG, LIKELY, UNSURE = 0.85, 0.6, 0.3
"""The least probabilities with which an answer is strong, likely and unsure; below it is weak."""

FOUND = 0.45  # the least similarity and words of an answer; see ``benchmarks/log/confidence.md``
COVERAGE = 0.3  # what a passage with all of the question's words adds to the evidence
_WEIGHED = 3  # spans whose words count as evidence
_PAGES = {"odp": "slide", "pptx": "slide"}
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
    """A value, characters ``[start, end)`` of a passage's document, that differs from one of
    another document.
    """

    start: int
    end: int
    doc_id: str
    other_start: int
    other_end: int


@dataclass(frozen=True, slots=True)
class PageBox:
    """A rectangle on a page, from 1: left, top, right and bottom edge as shares of its width and
    height, 0 to 1.
    """

    page: int
    x0: float
    y0: float
    x1: float
    y1: float


@dataclass(frozen=True, slots=True)
class Span:
    """An exact piece of a document: ``document.text[start:end] == text``.

    ``page``, ``line``, ``last_line`` and ``paragraph`` count from 1: pages where the document has
    any, lines where its text is the file itself, else paragraphs under the nearest heading, or rows
    of a table. ``hits`` are the sentences that led here, best first; ``title``, ``kind`` and
    ``meta`` the document's; ``headings`` those that the best hit stands under, outermost first, or
    the functions and classes around source code; ``also_in`` documents with the same words;
    ``more`` the lines of lesser results in the same file, which are left out in a folder of source
    code; ``header`` the first row of the table that it begins in the midst of; ``coverage`` the
    share of the question's words, by weight, that any of these has; ``explanation`` why it was
    found, if that was asked for; ``stale`` whether the file that it was read from has ``"changed"``
    since or is ``"gone"``, empty where it is as it was or there is none; ``date`` from when it is,
    as far as that is known (``2026-11``), by its ``date_source``: ``"heading"``, ``"front
    matter"``, ``"header"``, ``"file name"``, ``"properties"`` or ``"file"``, the time of its last
    change; ``superseded_by`` the place of a newer passage that says the same with another value;
    ``contrasts`` where others differ; ``boxes`` where it stands on pages, line by line, if that was
    asked for.
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
    derived: ClassVar = (
        "place",
        "url",
        "section",
        "weak",
        "instructs_model",
    )  # of its JSON, beside the fields

    def __str__(self) -> str:
        """Return where it is, what it stands under, and, quoted, the header of its table and its
        text.
        """
        first = f"{' '.join(self.place.split())}  {' '.join(self.section.split())}".rstrip()
        return "\n".join([first, *quote_lines(self.header), *quote_lines(self.text)])

    def to_dict(self) -> dict[str, Any]:
        """Return its fields, ``place``, ``url``, ``section``, ``weak`` and ``instructs_model`` as
        JSON has them.
        """
        return cast(dict[str, Any], to_json(self))

    def explain(self) -> str:
        """Return in lines why it was found. Raises UsageError: it was searched for without
        ``explain=True``.
        """
        if self.explanation is None:
            raise UsageError("no explanation: search with explain=True")
        return str(self.explanation)

    @property
    def place(self) -> str:
        """Where it begins: see :meth:`locate`."""
        return self.locate(self.start)

    def locate(self, start: int) -> str:
        """Return the place of character ``start`` of the document, inside this span.

        ``notes.md:12``, ``report.pdf, page 3``, ``stock.xlsx, Sheet1, row 7``, ``rules.docx, Leave,
        paragraph 2``.
        """
        before = self.text[: start - self.start]
        if self.line is not None:
            return f"{self.doc_id}:{self.line + before.count(chr(10))}"
        if self.page is not None:
            return f"{self.doc_id}, {_PAGES.get(self.kind, 'page')} {self.page}"
        if self.paragraph is None:
            return f"{self.doc_id}:{start}-{self.end}"
        heading = "".join(self.headings[-1:])
        head, separator, rest = before.rpartition(heading) if heading else ("", "", before)
        if separator and not head.rpartition("\n")[2].strip(
            "# "
        ):  # the span begins before its heading
            number = number_paragraph(rest, line_at(self.text, start - self.start), self.kind)
        else:
            number = self.paragraph + count_paragraphs(before, self.kind)
        under = [heading] if 0 < len(heading) <= _LONGEST else []
        return ", ".join([self.doc_id, *under, f"{UNITS.get(self.kind, 'paragraph')} {number}"])

    @property
    def url(self) -> str:
        """The address of its page, as the document's metadata have it; empty without one.

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
            words = next(
                iter(wrap(line, _LONGEST, break_long_words=False, break_on_hyphens=False)), ""
            )
            if (
                0 < len(words) <= _LONGEST and "|" not in words
            ):  # the cells of a row are no running text there
                return f"{urldefrag(url).url}#:~:text={quote(words, safe='').replace('-', '%2D')}"
        return url

    @property
    def best_sentence(self) -> str:
        """The sentence that led here, empty where it lies outside; the whole text of a span without
        hits.
        """
        hit = self.hits[0] if self.hits else self
        return self.text[max(0, hit.start - self.start) : max(0, hit.end - self.start)].strip()

    @property
    def weak(self) -> bool:
        """Whether there is little evidence of an answer; false in lexical mode, where that is
        unknown.
        """
        return any(hit.dense for hit in self.hits) and weigh_evidence([self]) < FOUND

    @property
    def more_places(self) -> str:
        """The lesser results of the same file: ``+2 more in core.py: 12, 97``; empty without
        any.
        """
        lines = ", ".join(map(str, self.more[:_MORE])) + ", …" * (len(self.more) > _MORE)
        return (
            f"+{len(self.more)} more in {self.doc_id.rpartition('/')[2]}: {lines}"
            if self.more
            else ""
        )

    @property
    def instructs_model(self) -> bool:
        """Whether it addresses a language model, as "ignore all previous instructions" does; do not
        trust it then.
        """
        return _INSTRUCTS.search(self.text) is not None

    @property
    def section(self) -> str:
        """The title and the headings that it stands under: ``Flask 3.1 > Changes``."""
        return " > ".join(dict.fromkeys(part for part in (self.title, *self.headings) if part))

    def to_blocks(self) -> "list[Node]":
        """Return what is shown of it (:mod:`lmkrag.rendering`), its best sentence marked as
        ``found``.
        """
        from lmkrag.rendering.blocks import parse_blocks
        from lmkrag.rendering.tree import mark_nodes

        marks = [(hit.start, hit.end, "found") for hit in self.hits[:1]]
        return mark_nodes(
            parse_blocks(self.text, kind=self.kind, start=self.start, header=self.header), marks
        )

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the place, the section and the text."""
        from lmkrag.rendering.tree import to_html

        heading = f"<b>{escape(self.place)}</b> <small>{escape(self.section)}</small>"
        return f"{heading}<blockquote>{to_html(self.to_blocks())}</blockquote>"


class SpanList(list[Span]):
    """The results of a search, best first; ``notes`` are sentences to show with them, such as which
    are stale.
    """

    def __init__(self, spans: Iterable[Span] = (), notes: Sequence[str] = ()) -> None:
        super().__init__(spans)
        self.notes = tuple(notes)

    @property
    def cut_short(self) -> bool:
        """Whether there was no time to re-rank all of them."""
        return CUT_SHORT in self.notes


@dataclass(frozen=True, slots=True)
class Context:
    """Spans packed to a budget: ``text`` is what a reader sees; ``tokens`` is its cost; ``notes``
    are the search's.
    """

    text: str
    spans: tuple[Span, ...]
    tokens: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CitationRecord:
    """``[number]`` of an answer: characters of a document, quoted exactly."""

    number: int
    doc_id: str
    path: str
    start: int
    end: int
    page: int | None
    place: str
    url: str
    quote: str


@dataclass(frozen=True, slots=True)
class Citation:
    """``[number]`` of an answer: characters ``[start, end)`` of ``span``'s document, quoted
    exactly.
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

    def to_dict(self) -> dict[str, Any]:
        """Return where it stands and what it quotes, as JSON has them; its span is named by
        ``number``.
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
    """The words that answer, ``text``: characters ``[start, end)`` of the document of citation
    ``[number]``.
    """

    number: int
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Quote:
    """Characters ``[start, end)`` of the document of citation ``[number]``, as an answer shows
    them.

    ``heading`` is what they stand under, ``header`` the first row of their table, where they lack
    it.
    """

    number: int
    start: int
    end: int
    heading: str = ""
    header: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a reader. ``found`` is false when the documents do not answer the question.

    ``warnings`` are the results of its check, such as a citation of a span that is not there.
    ``short`` are the fewest words that answer, best first; none where a sentence is the answer.
    ``confidence`` is the probability that the documents answer the question; None if it is unknown.
    An answer that is not ``found`` but has citations cites the nearest passages. ``quotes`` are the
    passages that ``text`` shows; none where a language model answered. ``answered_by`` names that
    model, and the server that it is on. Citation ``[number]`` is of ``spans[number - 1]``.
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
    derived: ClassVar = ("label",)  # of its JSON, beside the fields

    def to_dict(self) -> dict[str, Any]:
        """Return its fields as ``lmkrag ask --json`` has them; citations name their spans by
        number.
        """
        return {**to_json(self), "citations": [citation.to_dict() for citation in self.citations]}

    def with_notes(self, notes: Sequence[str]) -> "Answer":
        """Return the answer with the notes of the search before its warnings."""
        return replace(self, warnings=(*notes, *self.warnings)) if notes else self

    @property
    def label(self) -> str:
        """How sure it is, in a word: see :func:`label_confidence`; empty without a confidence."""
        return "" if self.confidence is None else label_confidence(self.confidence)

    def to_blocks(self) -> "list[Node]":
        """Return what is shown of it: its citations are ``cite`` elements, whose ``number`` is the
        citation's.

        Of quoted passages the sentences that answer are marked as ``quoted`` and the fewest words
        as ``short``.
        """
        from lmkrag.rendering.blocks import cite, link_citations, parse_blocks
        from lmkrag.rendering.tree import append_inline, element, mark_nodes, text_node

        if not self.quotes:
            numbers = {citation.number for citation in self.citations}
            return link_citations(parse_blocks(self.text, kind="markdown"), numbers)
        nodes: list[Node] = []
        introduction = "" if self.label == "strong" else self.text.partition("\n\n")[0]
        if self.short:
            words = " ".join(self.short[0].text.split())
            introduction = introduction.removesuffix(words)
            parsed = parse_blocks(words, kind=self.spans[self.short[0].number - 1].kind)
            is_inline = [node["tag"] for node in parsed] == ["p"]
            shown = parsed[0]["children"] if is_inline else [text_node(words)]
            nodes.append(element("p", text_node(introduction), element("strong", *shown)))
        elif introduction:
            nodes.append(element("p", text_node(introduction)))
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
                parse_blocks(text, kind=span.kind, start=passage.start, header=passage.header),
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
        """Which language model answered, and the warnings, in a line each."""
        answered_by = [f"Answered by {self.answered_by}"] if self.answered_by else []
        return answered_by + [f"Warning: {warning}" for warning in self.warnings]

    def __str__(self) -> str:
        """Return the text, where each citation stands, who answered, and the warnings."""
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
    """Return the evidence of an answer in ``spans``: their similarity, and the words of the
    question in them.
    """
    return best_similarity(spans) + COVERAGE * best_coverage(spans)


def best_similarity(spans: Sequence[Span]) -> float:
    """Return the best similarity of the sentences that led to ``spans``."""
    return max((hit.dense for span in spans for hit in span.hits), default=0.0)


def best_coverage(spans: Sequence[Span]) -> float:
    """Return the greatest share of the question's words that one of the first three spans has."""
    return max((span.coverage for span in spans[:_WEIGHED]), default=0.0)
