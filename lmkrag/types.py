"""The values that travel through the pipeline: frozen, slotted, half-open intervals.

Characters are ``start``/``end``, sentence ordinals ``first``/``stop``. No value carries a vector: bulk data
stays in NumPy arrays.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import pairwise
from typing import Any, Literal

from lmkrag.errors import UsageError
from lmkrag.json_values import replace_surrogates, to_json_value
from lmkrag.places import find_place, find_url

Mode = Literal["hybrid", "dense", "lexical"]
Level = Literal["passage", "span", "sentence", "document"]

MAX_DOC_ID = 2_000
"""Characters of a document's name."""


@dataclass(frozen=True, slots=True)
class Document:
    """A text and its name, made from the text unless given. ``page_starts`` are the offsets at which pages begin."""

    doc_id: str = ""
    path: str = ""
    text: str = ""
    title: str = ""
    kind: str = "text"
    page_starts: tuple[int, ...] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)
    fingerprint: str = ""

    def __post_init__(self) -> None:
        """Check every value, so that what an index accepts it can also store, show and send.

        Lone surrogates in the text and title become U+FFFD, one for one; metadata become what JSON can hold: see
        :func:`lmkrag.json_values.to_json_value`.

        Raises:
            UsageError: a value is of another type, or out of range.
        """
        if self.doc_id == "" and isinstance(self.text, str) and self.text.strip():
            digest = blake2b(self.text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
            object.__setattr__(self, "doc_id", self.path or f"text-{digest}")
        if not isinstance(self.doc_id, str) or not self.doc_id.strip():
            raise UsageError(f"a document needs a doc_id, not {_shorten(self.doc_id)}")
        if len(self.doc_id) > MAX_DOC_ID:
            raise UsageError(f"document {self.doc_id[:50]!r}...: a doc_id has at most {MAX_DOC_ID:,} characters")
        self._check_texts()
        object.__setattr__(self, "meta", self._checked_meta())
        starts = self.page_starts
        if not isinstance(starts, tuple | list) or not all(type(start) is int for start in starts):
            raise self._refuse("page_starts", f"must be a tuple of whole numbers, not {_shorten(starts)}")
        if starts and (starts[0] < 0 or starts[-1] > len(self.text) or any(a > b for a, b in pairwise(starts))):
            raise self._refuse("page_starts", "must increase from 0 to the length of the text")
        object.__setattr__(self, "page_starts", tuple(starts))

    def _check_texts(self) -> None:
        for name in ("doc_id", "path", "kind", "fingerprint", "title", "text"):
            value = getattr(self, name)
            if not isinstance(value, str):
                raise self._refuse(name, f"must be a string, not {_shorten(value)}")
            clean = replace_surrogates(value)
            if clean is not value:
                if name not in ("title", "text"):
                    raise self._refuse(name, "is not text that UTF-8 can hold")
                object.__setattr__(self, name, clean)

    def _checked_meta(self) -> Mapping[str, Any]:
        if not isinstance(self.meta, Mapping):
            raise self._refuse("metadata", f"must be a mapping, not {_shorten(self.meta)}")
        for key in self.meta:
            if not isinstance(key, str):
                raise UsageError(f"document {self.doc_id!r}: the metadata key {_shorten(key)} is not a string")
        try:
            meta: Mapping[str, Any] = to_json_value(self.meta)
        except ValueError as error:
            raise self._refuse("metadata", f"can't be stored: {error}") from None
        return meta

    def _refuse(self, name: str, why: str) -> UsageError:
        return UsageError(f"document {self.doc_id!r}: its {name} {why}")


def _shorten(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # an integer of more digits than Python writes
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."


@dataclass(frozen=True, slots=True)
class DocumentInfo:
    """What an index knows of a document, its text aside. ``root`` is the directory it was found from, if any.

    ``page_starts`` are the characters that its pages begin with, ``fingerprint`` the hash of the file it was read from.
    """

    doc_id: str
    path: str
    title: str
    kind: str
    root: str
    meta: Mapping[str, Any]
    characters: int
    sentences: int
    pages: int
    page_starts: tuple[int, ...] = ()
    fingerprint: str = ""


@dataclass(frozen=True, slots=True)
class Hit:
    """One landmark (sentence) that a query found, with the parts its score was fused from.

    A part that was not asked for is 0: ``lexical`` in dense mode, ``dense`` in lexical mode, where no query is encoded.
    """

    sentence_id: int
    doc_id: str
    ordinal: int
    start: int
    end: int
    score: float
    dense: float
    lexical: float


@dataclass(frozen=True, slots=True)
class ScorePart:
    """A part of a fused score: it adds ``value`` times ``weight``."""

    name: str
    value: float
    weight: float


@dataclass(frozen=True, slots=True)
class ScoreFactor:
    """A factor of a fused score."""

    name: str
    value: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a span was found: how its best sentence scored, and how far the span grew from it.

    The score is the sum of the ``parts``, each value times its weight, times all ``factors``. ``words`` are those of
    the sentence that are the question's. ``sentences_before`` and ``sentences_after`` were taken by growth, which
    stopped for the reasons ``stopped_before`` and ``stopped_after``; ``added_before`` and ``added_after`` are the
    characters that the passage needs beyond that to be understood.
    """

    score: float
    parts: tuple[ScorePart, ...]
    factors: tuple[ScoreFactor, ...] = ()
    words: tuple[str, ...] = ()
    sentences_before: int = 0
    sentences_after: int = 0
    stopped_before: str = ""
    stopped_after: str = ""
    added_before: int = 0
    added_after: int = 0

    def __str__(self) -> str:
        """Return it in lines."""
        lines = [f"score {self.score:.3f}"]
        lines += [f"  {part.value * part.weight:.3f}  {part.name} ({part.value:.3f})" for part in self.parts]
        lines += [f"  x {factor.value:.3f}  {factor.name}" for factor in self.factors]
        if self.words:
            lines.append(f"words of the question: {', '.join(self.words)}")
        sides = (
            ("before", self.sentences_before, self.stopped_before, self.added_before),
            ("after", self.sentences_after, self.stopped_after, self.added_after),
        )
        for side, count, why, added in sides:
            grown = [f"{count} sentence{'s' * (count != 1)}"] if why else []
            completed = [f"{added} characters to be understood"] if added else []
            if grown or completed:
                lines.append(f"taken {side}: {' and '.join(grown + completed)}" + (f"; {why}" if why else ""))
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class SentenceScore:
    """How well characters ``[start, end)`` of a document, one sentence, fit a question."""

    start: int
    end: int
    score: float
    dense: float
    lexical: float


@dataclass(frozen=True, slots=True)
class Span:
    """An exact piece of a document: ``document.text[start:end] == text``.

    ``page``, ``line``, ``last_line`` and ``paragraph`` count from 1: pages where the document has any, lines where its
    text is the file itself, else paragraphs under the nearest heading, or rows of a table. ``hits`` are the sentences
    that led here, best first; ``title``, ``kind`` and ``meta`` the document's; ``headings`` those that the best hit
    stands under, outermost first; ``also_in`` documents with the same words; ``header`` the first row of the table that
    it begins in the midst of; ``coverage`` the share of the question's words, by weight, that any of these has;
    ``explanation`` why it was found, if that was asked for.
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
    header: str = ""
    coverage: float = 0.0
    explanation: Explanation | None = field(default=None, compare=False, repr=False)

    def explain(self) -> str:
        """Return in lines why it was found.

        Raises:
            UsageError: it was searched for without ``explain=True``.
        """
        if self.explanation is None:
            raise UsageError("nothing is known of why this was found: search with explain=True")
        return str(self.explanation)

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        from lmkrag.rendering.notebook import span_html

        return span_html(self)

    @property
    def place(self) -> str:
        """Where it is: see :func:`lmkrag.places.find_place`."""
        return find_place(self, self.start, self.end)

    @property
    def url(self) -> str:
        """The address of its page on the web: see :func:`lmkrag.places.find_url`."""
        return find_url(self)

    @property
    def section(self) -> str:
        """The title and the headings that it stands under: ``Flask 3.1 > Changes``."""
        return " > ".join(dict.fromkeys(part for part in (self.title, *self.headings) if part))


@dataclass(frozen=True, slots=True)
class Context:
    """Spans packed to a budget: ``text`` is what a reader sees; ``tokens`` is its cost."""

    text: str
    spans: tuple[Span, ...]
    tokens: int


@dataclass(frozen=True, slots=True)
class Citation:
    """``[number]`` of an answer: characters ``[start, end)`` of ``span``'s document, quoted exactly."""

    number: int
    span: Span
    quote: str
    start: int
    end: int

    @property
    def place(self) -> str:
        """Where the quotation is: see :func:`lmkrag.places.find_place`."""
        return find_place(self.span, self.start, self.end)


@dataclass(frozen=True, slots=True)
class ShortAnswer:
    """The words that answer, ``text``: characters ``[start, end)`` of the document of citation ``[number]``."""

    number: int
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Quote:
    """Characters ``[start, end)`` of the document of citation ``[number]``, as an answer shows them.

    ``heading`` is what they stand under, ``header`` the first row of their table, where they lack it.
    """

    number: int
    start: int
    end: int
    heading: str = ""
    header: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a reader said. ``found`` is false when the documents do not answer the question.

    ``warnings`` tell what did not hold when it was checked, such as a citation of a span that is not there. ``short``
    are the fewest words that answer, best first; none where a sentence is the answer. ``confidence`` is the probability
    that the documents answer the question; None where nobody can tell. ``missing`` are exact words of the question
    (codes, numbers, names) that no passage has. An answer that is not ``found`` but has citations tells the nearest
    passages. ``quotes`` are the passages that ``text`` shows; none where a language model answered. Citation
    ``[number]`` is of ``spans[number - 1]``.
    """

    text: str
    citations: tuple[Citation, ...]
    spans: tuple[Span, ...]
    reader: str
    found: bool
    warnings: tuple[str, ...] = ()
    short: tuple[ShortAnswer, ...] = ()
    confidence: float | None = None
    missing: tuple[str, ...] = ()
    quotes: tuple[Quote, ...] = ()

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        from lmkrag.rendering.notebook import answer_html

        return answer_html(self)

    def __str__(self) -> str:
        """Return the text and where each citation stands."""
        places = dict.fromkeys(f"[{cited.number}] {cited.place}" for cited in self.citations)
        return "\n".join([self.text, *([""] if places else []), *places])


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that was not indexed, and why, in one line."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What one ``add`` did. The counts are documents, except ``sentences`` and ``characters``."""

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    removed: int = 0
    skipped: tuple[Skipped, ...] = ()
    sentences: int = 0
    characters: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """What an index holds. ``bytes`` is its size on disk, ``dead`` the sentences deleted but not compacted.

    ``generation`` counts commits, ``skipped`` files that could not be indexed; ``skipped_files`` has the first 200.
    ``changed`` is the time of the last write (ISO 8601), ``roots`` counts documents by directory.
    """

    path: str
    documents: int
    sentences: int
    characters: int
    dead: int
    segments: int
    bytes: int
    recipe: str
    encoder: str
    fingerprint: str
    dimensions: int
    version: int
    generation: int = 0
    skipped: int = 0
    changed: str = ""
    kinds: Mapping[str, int] = field(default_factory=dict)
    roots: Mapping[str, int] = field(default_factory=dict)
    skipped_files: tuple[Skipped, ...] = ()
