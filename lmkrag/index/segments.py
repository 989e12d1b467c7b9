"""Segments: the vectors, words and structure of some sentences, in three immutable files with the
same rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmkrag.index.files import File, MappedFile, TableFile, Tables, read_tables
from lmkrag.index.vectors.vector_set import SUFFIX, VectorFile
from lmkrag.index.words.postings import Postings
from lmkrag.specs import Recipe
from lmkrag.system.processes import computed_once
from lmkrag.types.arrays import Ids


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A segment as the catalog records it: three files under ``segments/`` with the same rows.

    Attributes:
        name: 32 hexadecimal digits, from which the names of the files are made.
        rows: number of sentences.
        recipe: how the vectors are stored.
        vectors: the FAISS file.
        words: the postings.
        structure: positions in paragraphs and roles.
    """

    name: str
    rows: int
    recipe: Recipe
    vectors: File
    words: File
    structure: File

    @property
    def files(self) -> dict[str, File]:
        """Its files by their names, that of the vectors first."""
        parts = {SUFFIX: self.vectors, ".words": self.words, ".structure": self.structure}
        return {self.name + suffix: file for suffix, file in parts.items()}


class Segment:
    """The memory-mapped files of a segment. Each block is compared with its checksum before its
    first use.

    Attributes:
        file: the catalog's record of the segment.
    """

    def __init__(self, folder: Path, file: SegmentFile) -> None:
        self.file = file
        self._vectors, self._words, self._structure = (
            MappedFile(folder / name, part) for name, part in file.files.items()
        )

    def check(self) -> None:
        """Compare each file with its checksums, and open it.

        Raises:
            IndexCorrupt: a checksum differs, or a file can't be opened.
        """
        for file in (self._vectors, self._words, self._structure):
            file.read()
        _ = self.vectors, self.postings, self.structure

    def slices(self, rows: Ids) -> Iterator[NDArray[Any]]:
        """Yield the vectors ``[n, dimensions]`` of some rows in order, a bounded number at a
        time.
        """
        return self.vectors.slices(rows)

    @computed_once
    def vectors(self) -> VectorFile:
        """Its vectors, opened on first use."""
        return VectorFile(self._vectors, self.file.rows, self.file.recipe)

    @computed_once
    def postings(self) -> Postings:
        """Its words, opened on first use."""
        return Postings(self._words)

    @computed_once
    def structure(self) -> TableFile:
        """What is known of its sentences from their text, words aside: a rule can change without
        touching the words.

        ``positions`` ``[rows]`` uint16: how many sentences stand before each in its paragraph.
        ``roles`` ``[rows]`` uint8: bits that the index keeps and does not interpret.
        """
        return read_tables(self._structure)


def merge_structures(parts: Sequence[tuple[TableFile, Ids]]) -> Tables:
    """Return the tables of a structure file for some rows of several segments, laid end to end.

    Args:
        parts: for each segment its structure and the rows to keep.
    """
    return {
        name: np.concatenate([table[name][rows] for table, rows in parts])
        for name in ("positions", "roles")
    }
