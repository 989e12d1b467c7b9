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
        """Take the first sentences; by default the table is empty.

        Args:
            ends: offset of the character after each sentence.
            kinds: the position of each one's kind in ``SENTENCE_KINDS``.
        """
        self._ends, self._kinds = array("q", ends), bytearray(kinds)

    @classmethod
    def of(cls, sentences: Iterable[Sentence]) -> Self:
        """Return the table of some sentences."""
        table = cls()
        table.extend(sentences)
        return table

    def extend(self, sentences: Iterable[Sentence]) -> None:
        """Add sentences to the end of the table."""
        for sentence in sentences:
            self._ends.append(sentence.end)
            self._kinds.append(SENTENCE_KINDS.index(sentence.kind))

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def length(self) -> int:
        """Number of characters of the text that the sentences cover."""
        return self._ends[-1] if self._ends else 0

    @property
    def ends(self) -> Ids:
        """``[n]`` int64, the offset of the character after each sentence."""
        return np.array(self._ends, np.int64)

    @property
    def kinds(self) -> Bytes:
        """``[n]`` uint8, the position of each sentence's kind in ``SENTENCE_KINDS``."""
        return np.frombuffer(bytes(self._kinds), np.uint8)


class WindowTable:
    """The windows that a document was read in: the hash of each, and the first sentence that it
    owns.
    """

    def __init__(self, hashes: Iterable[int] = (), ordinals: Iterable[int] = ()) -> None:
        self._hashes, self._ordinals = array("Q", hashes), array("q", ordinals)

    def append(self, window_hash: int, ordinal: int) -> None:
        """Add a window, by its hash and the ordinal of the first sentence that it owns."""
        self._hashes.append(window_hash)
        self._ordinals.append(ordinal)

    def __len__(self) -> int:
        return len(self._hashes)

    @property
    def hashes(self) -> Hashes:
        """``[n]`` uint64, the hash of each window."""
        return np.array(self._hashes, np.uint64)

    @property
    def ordinals(self) -> Ids:
        """``[n]`` int64, the ordinal of the first sentence that each window owns."""
        return np.array(self._ordinals, np.int64)


@dataclass(frozen=True, slots=True)
class Staged:
    """A document that is ready to be committed.

    Attributes:
        document: the document, whose own text may be empty if ``text`` is on disk.
        text: the text, in memory or on disk.
        sentences: the sentences, which tile the text.
        root: the directory that was indexed; empty for a document that was given by itself.
        stamp: size and time of its file.
        windows: the windows that it was read in.
        replaces: names of attachments of its earlier version that it no longer has.
    """

    document: Document
    text: Text  # the document's own, or on disk
    sentences: SentenceTable
    root: str  # the directory that was added, or ``""``
    stamp: FileStamp  # of its source
    windows: WindowTable = field(default_factory=WindowTable)
    replaces: tuple[str, ...] = ()  # attachments of its earlier version that it no longer has
