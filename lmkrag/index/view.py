"""A document of a snapshot, read piece by piece."""

from bisect import bisect_right
from collections.abc import Iterator
from sqlite3 import Connection

import numpy as np

from lmkrag.index import catalog
from lmkrag.index.catalog import SENTENCES_PER_BLOCK, TEXT_PER_BLOCK, DocumentRow
from lmkrag.specs import SENTENCE_KINDS, SentenceKind
from lmkrag.types.arrays import Bytes, Ids

_HEADING = SENTENCE_KINDS.index("heading")


class DocumentView:
    """Sentences and characters of one document. Each block is read once, when something in it is
    asked for.

    Attributes:
        row: the catalog's row of the document.
    """

    def __init__(self, row: DocumentRow, connection: Connection) -> None:
        """Take a document; the view is good for as long as its snapshot is held.

        Args:
            row: the catalog's row of the document.
            connection: a connection that holds the snapshot.
        """
        self.row, self._connection = row, connection
        self._sentences: dict[int, tuple[Ids, Bytes]] = {}
        self._texts: dict[int, str] = {}
        self._cut: dict[int, str] = {}
        self._headings: dict[
            int, list[int]
        ] = {}  # of each block of sentences that was looked at, the last one first
        self._lines = [0]  # line ends before each block of the text, as far as they were counted

    def _block(self, ordinal: int) -> tuple[Ids, Bytes]:
        """Return borders and kinds of the block that a sentence is in."""
        first = ordinal - ordinal % SENTENCES_PER_BLOCK
        if first not in self._sentences:
            self._sentences[first] = catalog.read_sentences(self._connection, self.row, first)
        return self._sentences[first]

    def bounds(self, ordinal: int) -> tuple[int, int]:
        """Return the offsets ``[start, end)`` of a sentence, with the white space after it."""
        borders, _ = self._block(ordinal)
        position = ordinal % SENTENCES_PER_BLOCK
        return int(borders[position]), int(borders[position + 1])

    def kind(self, ordinal: int) -> SentenceKind:
        """Return the kind of a sentence."""
        _, kinds = self._block(ordinal)
        return SENTENCE_KINDS[int(kinds[ordinal % SENTENCES_PER_BLOCK])]

    def sentence(self, ordinal: int) -> str:
        """Return the text of a sentence, which is cut out of its document once."""
        if ordinal not in self._cut:
            self._cut[ordinal] = self.text(*self.bounds(ordinal))
        return self._cut[ordinal]

    def ordinal_at(self, character: int) -> int:
        """Return the ordinal of the sentence that a character is in."""
        after = bisect_right(
            range(self.row.sentences), character, key=lambda ordinal: self.bounds(ordinal)[0]
        )
        return max(0, after - 1)

    def text(self, start: int, end: int) -> str:
        """Return characters ``[start, end)``, clipped to the length of the text."""
        start, end = max(0, start), min(end, self.row.length)
        offset = start - start % TEXT_PER_BLOCK
        blocks = range(offset, end, TEXT_PER_BLOCK)
        for first in blocks:
            if first not in self._texts:
                self._texts[first] = self._read_text(first)
        return "".join(self._texts[first] for first in blocks)[start - offset : end - offset]

    def _read_text(self, first: int) -> str:
        """Return the block of the text that begins with a character."""
        return catalog.read_text(self._connection, self.row, first, first + TEXT_PER_BLOCK)

    def count_lines(self, end: int) -> int:
        """Return the number of line ends before a character. Blocks are counted once and not
        kept.
        """
        number = end // TEXT_PER_BLOCK
        while len(self._lines) <= number:
            first = (len(self._lines) - 1) * TEXT_PER_BLOCK
            self._lines.append(self._lines[-1] + self._read_text(first).count("\n"))
        return self._lines[number] + self.text(number * TEXT_PER_BLOCK, end).count("\n")

    def headings_before(self, ordinal: int) -> Iterator[int]:
        """Yield the ordinals of headings up to and including a sentence, the nearest first."""
        for first in range(ordinal - ordinal % SENTENCES_PER_BLOCK, -1, -SENTENCES_PER_BLOCK):
            if first not in self._headings:
                _, kinds = self._block(first)
                self._headings[first] = (first + np.flatnonzero(kinds == _HEADING)[::-1]).tolist()
            yield from (heading for heading in self._headings[first] if heading <= ordinal)
