"""A document on its way into the catalog."""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from lmkrag.specs import SENTENCE_KINDS, Sentence, Text
from lmkrag.system.files import FileStamp
from lmkrag.types import Document
from lmkrag.types.arrays import Bytes, Hashes, Ids


class SentenceTable:
    """The sentences of one document, which tile its text: nine bytes each, since there may be
    millions.
    """

    def __init__(self, ends: Iterable[int] = (), kinds: Iterable[int] = ()) -> None:
        """Take the first sentences, none as a rule: the end of each, the place of its kind in
        ``SENTENCE_KINDS``.
        """
        self._ends, self._kinds = array("q", ends), bytearray(kinds)

    @classmethod
    def of(cls, sentences: Iterable[Sentence]) -> Self:
        """Return the table of some sentences."""
        table = cls()
        table.extend(sentences)
        return table

    def extend(self, sentences: Iterable[Sentence]) -> None:
        for sentence in sentences:
            self._ends.append(sentence.end)
            self._kinds.append(SENTENCE_KINDS.index(sentence.kind))

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def length(self) -> int:
        """How many characters of the text they cover."""
        return self._ends[-1] if self._ends else 0

    @property
    def ends(self) -> Ids:
        """``[n]``: the character after each."""
        return np.array(self._ends, np.int64)

    @property
    def kinds(self) -> Bytes:
        """``[n]``: the place of each one's kind in ``SENTENCE_KINDS``."""
        return np.frombuffer(bytes(self._kinds), np.uint8)


class WindowTable:
    """The windows a document was read in: of each its hash, and the ordinal of the first sentence
    it gives a vector.
    """

    def __init__(self, hashes: Iterable[int] = (), ordinals: Iterable[int] = ()) -> None:
        self._hashes, self._ordinals = array("Q", hashes), array("q", ordinals)

    def append(self, window_hash: int, ordinal: int) -> None:
        self._hashes.append(window_hash)
        self._ordinals.append(ordinal)

    def __len__(self) -> int:
        return len(self._hashes)

    @property
    def hashes(self) -> Hashes:
        return np.array(self._hashes, np.uint64)

    @property
    def ordinals(self) -> Ids:
        return np.array(self._ordinals, np.int64)


@dataclass(frozen=True, slots=True)
class Staged:
    """A document ready to be committed."""

    document: Document
    text: Text  # the document's own, or on disk
    sentences: SentenceTable
    root: str  # the directory that was added, or ``""``
    stamp: FileStamp  # of its source
    windows: WindowTable = field(default_factory=WindowTable)
    replaces: tuple[str, ...] = ()  # attachments of its earlier version that it no longer has
