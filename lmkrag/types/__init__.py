"""The values that travel through the pipeline: frozen, slotted, half-open intervals.

Characters are ``start``/``end``, sentence ordinals ``first``/``stop``. No value carries a vector:
bulk data stays in NumPy arrays.
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
    """A text and its name, which defaults to a hash of the text. ``page_starts`` are the offsets of
    pages.
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

        Lone surrogates in the text and title become U+FFFD, one for one; metadata become what JSON
        can hold: see :func:`~lmkrag.types.json_values.to_json_value`. Raises UsageError: a value is
        of another type, or out of range.
        """
        if self.doc_id == "" and isinstance(self.text, str) and self.text.strip():
            digest = blake2b(self.text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
            object.__setattr__(self, "doc_id", self.path or f"text-{digest}")
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
    """The record of a document in an index, without its text. ``root`` is the directory that was
    indexed, if any.

    ``page_starts`` are the offsets of its pages, ``fingerprint`` is the hash of its file.
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

    A part that was not asked for is 0: ``lexical`` in dense mode, ``dense`` in lexical mode, where
    no query is encoded.
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

    The score is the sum of the ``parts``, each value times its weight, times all ``factors``.
    ``words`` are those of the question in the sentence. Growth took ``sentences_before`` and
    ``sentences_after``, and stopped for the reasons ``stopped_before`` and ``stopped_after``;
    ``added_before`` and ``added_after`` count the characters that complete the passage.
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
    """How well characters ``[start, end)`` of a document, one sentence, fit a question."""

    start: int
    end: int
    score: float
    dense: float
    lexical: float


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that was not indexed, and why, in one line."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What one ``add`` did. The counts are documents, except ``sentences`` and ``characters``.

    ``warnings`` say what the user should know, such as that an encoder was chosen by language.
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
    """What an index holds. ``bytes`` is its size on disk, ``dead`` the sentences deleted but not
    compacted.

    ``generation`` counts commits, ``skipped`` files that could not be indexed; ``skipped_files``
    has the first 200. ``unread_pages`` counts the pages that only OCR can read, where it is not
    installed. ``changed`` is the time of the last write (ISO 8601), ``roots`` counts documents by
    directory.
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
    """Return a ``doc_id`` if it is a string. Raises UsageError: it is not."""
    if not isinstance(doc_id, str):
        raise UsageError(f"a doc_id is a string, not {doc_id!r}")
    return doc_id


def check_limit(limit: object) -> None:
    """Raise UsageError unless a limit on documents is a whole number of at least 0, or None."""
    if limit is not None and (type(limit) is not int or limit < 0):
        raise UsageError(f"limit must be a whole number of at least 0, not {limit!r}")


def check_range(start: object, end: object) -> None:
    """Raise UsageError unless characters ``[start, end)`` may be asked for; ``end`` may be None."""
    if type(start) is not int or type(end) not in (int, type(None)):
        raise UsageError(f"start and end must be whole numbers, not {start!r} and {end!r}")
    if start < 0:
        raise UsageError(f"start must be at least 0, not {start}")
