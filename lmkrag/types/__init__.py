"""The values that travel through the pipeline: frozen, slotted dataclasses.

Ranges are half-open: characters are ``[start, end)``, ordinals of sentences ``[first, stop)``.
Offsets count characters (code points) of a document's text from 0. No value carries a vector: bulk
data stays in NumPy arrays.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import pairwise
from typing import Any, Literal

from lmkrag.errors import UsageError
from lmkrag.types.json_values import replace_surrogates, to_json_value

Mode = Literal["hybrid", "dense", "lexical"]
Level = Literal["passage", "span", "sentence", "document"]

MAX_DOC_ID = 2_000  # characters of a document's name


@dataclass(frozen=True, slots=True)
class Document:
    """A text with its name and metadata, as it is indexed.

    Attributes:
        doc_id: the unique name in an index, at most 2,000 characters; defaults to ``path``, else to
            a hash of the text.
        path: where the text comes from, as shown to users; empty if it comes from no file.
        text: the whole text. Offsets of results count its characters.
        title: the title; the encoder reads it before each window.
        kind: the format, such as ``text``, ``markdown``, ``pdf`` or ``code``; filters and the
            splitter use it.
        page_starts: the offset of the first character of each page, in increasing order; empty for
            a text without pages.
        meta: metadata that filters can name: JSON values with strings as keys.
        fingerprint: a hash of the file that the text was read from; empty if there is no file.

    Raises:
        UsageError: a value is of another type, or out of range; the message names the document and
            the value.
    """

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

        Lone surrogates in the text and title become U+FFFD, one for one, so that offsets stay the
        same. Metadata become what JSON can hold: see
        :func:`lmkrag.types.json_values.to_json_value`.

        Raises:
            UsageError: a value is of another type, or out of range.
        """
        if self.doc_id == "" and isinstance(self.text, str) and self.text.strip():
            digest = blake2b(self.text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
            object.__setattr__(self, "doc_id", self.path or f"text-{digest}")
        # The name is checked first: messages about the other values begin with it.
        if not isinstance(self.doc_id, str) or not self.doc_id.strip():
            raise UsageError(f"a document needs a doc_id, not {_shorten(self.doc_id)}")
        if len(self.doc_id) > MAX_DOC_ID:
            raise UsageError(
                f"document {self.doc_id[:50]!r}...: a doc_id has at most {MAX_DOC_ID:,} characters"
            )
        self._check_texts()
        self._check_meta()
        starts = self.page_starts
        if not isinstance(starts, tuple | list) or not all(type(start) is int for start in starts):
            raise self._refuse(
                "page_starts", f"must be a tuple of whole numbers, not {_shorten(starts)}"
            )
        if starts and (
            starts[0] < 0 or starts[-1] > len(self.text) or any(a > b for a, b in pairwise(starts))
        ):
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

    def _check_meta(self) -> None:
        if not isinstance(self.meta, Mapping):
            raise self._refuse("metadata", f"must be a mapping, not {_shorten(self.meta)}")
        for key in self.meta:
            if not isinstance(key, str):
                raise UsageError(
                    f"document {self.doc_id!r}: the metadata key {_shorten(key)} is not a string"
                )
        try:
            object.__setattr__(self, "meta", to_json_value(self.meta))
        except ValueError as error:
            raise self._refuse("metadata", f"can't be stored: {error}") from None

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
    """The record of a document in an index, without its text.

    Attributes:
        doc_id: the unique name of the document.
        path: where it was read from, as shown to users.
        title: its title; empty if it has none.
        kind: its format, such as ``pdf``.
        root: the directory that was indexed and has the file; empty for a document that was given
            by itself.
        meta: its metadata.
        characters: length of its text.
        sentences: number of its sentences in the index.
        pages: number of its pages; 0 for a text without pages.
        page_starts: the offset of the first character of each page.
        fingerprint: a hash of its file, by which changes are noticed; empty if there is no file.
        modified: when its file was last changed (ISO 8601); empty if there is no file.
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
    modified: str = ""


@dataclass(frozen=True, slots=True)
class Hit:
    """One landmark (sentence) that a query found, with the parts its score was fused from.

    Attributes:
        sentence_id: the number of the sentence in the state of the index that was searched.
        doc_id: the document of the sentence.
        ordinal: the position of the sentence in its document, from 0.
        start: offset of its first character in the document.
        end: offset of the character after its last one.
        score: the fused score; higher is better. It compares sentences of one search only.
        dense: cosine similarity of its vector to the query's; 0 in lexical mode, in which no query
            is encoded.
        lexical: its BM25 score; 0 in dense mode.
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
    """A part of a fused score, which adds ``value`` times ``weight`` to it.

    Attributes:
        name: what the part measures, for people.
        value: the measured value.
        weight: the factor that the value counts with.
    """

    name: str
    value: float
    weight: float


@dataclass(frozen=True, slots=True)
class ScoreFactor:
    """A factor that a fused score is multiplied by.

    Attributes:
        name: why the score is raised or lowered, for people.
        value: the factor: above 1 raises the score, below 1 lowers it.
    """

    name: str
    value: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a span was found: how its best sentence scored, and how far the span grew from it.

    The score is the sum of the ``parts``, each value times its weight, times all ``factors``.
    ``str()`` of an explanation is a report in lines.

    Attributes:
        score: the fused score of the best sentence.
        parts: the summands of the score, such as its similarity and its BM25 score.
        factors: the factors of the score, such as that of the document.
        words: the words of the question that stand in the sentence.
        sentences_before: number of sentences that the span grew by before the best one.
        sentences_after: number of sentences that the span grew by after the best one.
        stopped_before: why it grew no further to the front.
        stopped_after: why it grew no further to the back.
        added_before: number of characters added before the span to complete the passage.
        added_after: number of characters added after it.
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
        """Return a report: the score, its parts and factors, and the growth, a line each."""
        lines = [f"score {self.score:.3f}"]
        lines += [
            f"  {part.value * part.weight:.3f}  {part.name} ({part.value:.3f})"
            for part in self.parts
        ]
        lines += [f"  x {factor.value:.3f}  {factor.name}" for factor in self.factors]
        if self.words:
            lines.append(f"words of the question: {', '.join(self.words)}")
        for side, count, why, added in (
            ("before", self.sentences_before, self.stopped_before, self.added_before),
            ("after", self.sentences_after, self.stopped_after, self.added_after),
        ):
            grown = [f"{count} sentence{'' if count == 1 else 's'}"] if why else []
            completed = [f"{added} characters to be understood"] if added else []
            if grown or completed:
                lines.append(
                    f"taken {side}: {' and '.join(grown + completed)}" + (f"; {why}" if why else "")
                )
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class SentenceScore:
    """How well one sentence of a document fits a question.

    Attributes:
        start: offset of its first character in the document.
        end: offset of the character after its last one.
        score: the fused score; higher is better. It compares sentences of this document only.
        dense: cosine similarity of its vector to the question's.
        lexical: its BM25 score.
    """

    start: int
    end: int
    score: float
    dense: float
    lexical: float


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that was not indexed.

    Attributes:
        path: the file, as shown to users.
        reason: why, in one line that says what to do about it.
    """

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class IndexReport:
    """The result of one :meth:`lmkrag.Engine.add`.

    Attributes:
        added: number of documents that are new in the index.
        updated: number of documents that replaced an earlier version.
        unchanged: number of documents that are as they were when they were indexed.
        removed: number of documents removed because their files are gone.
        skipped: the files that could not be indexed, with reasons.
        sentences: number of sentences that were encoded or taken over for added and updated
            documents.
        characters: number of characters of added and updated documents.
        seconds: duration of the run.
        warnings: sentences for the user, such as which encoder was chosen for the language of the
            documents.
    """

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    removed: int = 0
    skipped: tuple[Skipped, ...] = ()
    sentences: int = 0
    characters: int = 0
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """The state of an index.

    Attributes:
        path: its directory, or its address on Qdrant.
        documents: number of documents.
        sentences: number of sentences, deleted ones not counted.
        characters: number of characters of all texts.
        dead: number of deleted sentences whose rows are not compacted.
        segments: number of segments.
        bytes: size on disk.
        recipe: name of the recipe by which vectors are stored.
        encoder: name of the encoder.
        fingerprint: hash of the encoder's weights and settings.
        dimensions: length of a vector.
        version: version of the index format.
        generation: number of commits.
        skipped: number of files that could not be indexed.
        unread_pages: number of pages that only OCR can read, where it is not installed.
        changed: time of the last write (ISO 8601); empty before the first.
        kinds: number of documents by their kind.
        roots: number of documents by the directory that was indexed.
        skipped_files: the first 200 of the skipped files, with reasons.
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
    unread_pages: int = 0
    changed: str = ""
    kinds: Mapping[str, int] = field(default_factory=dict)
    roots: Mapping[str, int] = field(default_factory=dict)
    skipped_files: tuple[Skipped, ...] = ()


def check_doc_id(doc_id: object) -> str:
    """Return a ``doc_id`` if it is a string.

    Raises:
        UsageError: it is not.
    """
    if not isinstance(doc_id, str):
        raise UsageError(f"a doc_id is a string, not {doc_id!r}")
    return doc_id


def check_limit(limit: object) -> None:
    """Check a limit on the number of documents.

    Raises:
        UsageError: it is neither None nor a whole number of at least 0.
    """
    if limit is not None and (type(limit) is not int or limit < 0):
        raise UsageError(f"limit must be a whole number of at least 0, not {limit!r}")


def check_range(start: object, end: object) -> None:
    """Check the range ``[start, end)`` of characters that a caller asks for.

    Args:
        start: a whole number of at least 0.
        end: a whole number, or None for the end of the text.

    Raises:
        UsageError: one of them is something else.
    """
    if type(start) is not int or type(end) not in (int, type(None)):
        raise UsageError(f"start and end must be whole numbers, not {start!r} and {end!r}")
    if start < 0:
        raise UsageError(f"start must be at least 0, not {start}")
