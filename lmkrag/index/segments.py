"""Segments: the vectors, words and structure of some sentences, in three immutable files with the same rows."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lmkrag.index.files import File, Tables, sync, write_tables
from lmkrag.index.structure import Structure
from lmkrag.index.vectors.vector_set import SUFFIX, Slices, VectorFile, write_vectors
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


def write_segment(
    folder: Path,
    name: str,
    vectors: Slices,
    words: Callable[[], Tables],
    structure: Callable[[], Tables],
    *,
    rows: int,
    dimensions: int,
    recipe: Recipe,
) -> SegmentFile:
    """Write the files of a segment and make them durable; the caller's commit makes the segment exist.

    Args:
        folder: ``segments/`` of the index.
        name: a fresh one.
        vectors: yields them ``[n, dimensions]`` in order; called twice if they train anything.
        words: gives the tables of the postings file: one of the files is in memory at a time.
        structure: gives the tables of the structure file.
        rows: how many sentences there are.
        dimensions: of each vector.
        recipe: how to store the vectors; a factory, not tiers.
    """
    vectors_file = write_vectors(folder / (name + SUFFIX), vectors, rows, dimensions, recipe)
    words_file = write_tables(folder / f"{name}.words", words())
    structure_file = write_tables(folder / f"{name}.structure", structure())
    sync(folder)
    return SegmentFile(name, rows, recipe, vectors_file, words_file, structure_file)


def open_vectors(folder: Path, file: SegmentFile) -> VectorFile:
    """Open the vectors of a segment.

    Raises:
        IndexCorrupt: they are gone, or not those that were written.
    """
    return VectorFile(folder / (file.name + SUFFIX), file.vectors, file.rows, file.recipe)


class Segment:
    """The files of a segment, opened for reading."""

    def __init__(self, folder: Path, file: SegmentFile) -> None:
        """Check the files against their checksums and map them.

        Raises:
            IndexCorrupt: one is missing or not the one that was written.
        """
        self.file = file
        self.vectors = open_vectors(folder, file)
        self.postings = Postings(folder / f"{file.name}.words", file.words)
        self.structure = Structure(folder / f"{file.name}.structure", file.structure)
