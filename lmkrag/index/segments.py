"""Segments: the vectors, words and structure of some sentences, in three immutable files with the same rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lmkrag.arrays import Bytes, Ids
from lmkrag.errors import IndexCorrupt
from lmkrag.index.files import File, Tables, read_tables
from lmkrag.index.vectors.vector_set import SUFFIX, VectorFile
from lmkrag.index.words.postings import Postings
from lmkrag.specs import Recipe


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A segment as the catalog records it: three files under ``segments/``."""

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


def open_vectors(folder: Path, file: SegmentFile) -> VectorFile:
    """Open the vectors of a segment. Raises IndexCorrupt: they are gone, or not those that were written."""
    return VectorFile(folder / (file.name + SUFFIX), file.vectors, file.rows, file.recipe)


class Structure:
    """A structure file opened for reading, memory-mapped: what is known of sentences from their text, words aside.

    A rule about paragraphs or headings can change without touching the words.

    ``positions`` ``[rows]`` uint16: how many sentences stand before each in its paragraph. ``roles`` ``[rows]`` uint8:
    bits that the index keeps and does not interpret.
    """

    def __init__(self, path: Path, file: File) -> None:
        tables = read_tables(path, file)
        try:
            self.positions: NDArray[np.uint16] = tables["positions"]
            self.roles: Bytes = tables["roles"]
        except KeyError as error:
            raise IndexCorrupt(f"{path}: not a structure file (no {error})") from error


class Segment:
    """The files of a segment, memory-mapped for reading once they were compared with their checksums."""

    def __init__(self, folder: Path, file: SegmentFile) -> None:
        self.file = file
        self.vectors = open_vectors(folder, file)
        self.postings = Postings(folder / f"{file.name}.words", file.words)
        self.structure = Structure(folder / f"{file.name}.structure", file.structure)


def merge_structures(parts: Sequence[tuple[Structure, Ids]]) -> Tables:
    """Return one file's tables for some rows of several: (structure, rows to keep), laid end to end."""
    return {
        "positions": np.concatenate([structure.positions[kept] for structure, kept in parts]),
        "roles": np.concatenate([structure.roles[kept] for structure, kept in parts]),
    }
