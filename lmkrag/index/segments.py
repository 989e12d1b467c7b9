"""Segments: the vectors and words of some sentences, in two immutable files with the same rows."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from lmkrag.index.checks import File, sync
from lmkrag.index.lexical import Lexicon, write_words
from lmkrag.index.vectors import Slices, VectorFile, write_vectors
from lmkrag.types import Recipe


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A segment as the catalog records it: ``NAME.faiss`` and ``NAME.words`` under ``segments/``."""

    name: str
    rows: int
    recipe: Recipe
    vectors: File
    words: File

    @property
    def names(self) -> tuple[str, str]:
        """The names of its two files."""
        return f"{self.name}.faiss", f"{self.name}.words"


def write_segment(
    folder: Path,
    name: str,
    vectors: Slices,
    words: Callable[[], dict[str, NDArray[Any]]],
    *,
    rows: int,
    dimensions: int,
    recipe: Recipe,
) -> SegmentFile:
    """Write both files of a segment and make them durable; the caller's commit makes it exist.

    Args:
        folder: ``segments/`` of the index.
        name: a fresh one.
        vectors: yields them ``[n, dimensions]`` in order; called twice if they train anything.
        words: gives the tables of the words file: one of the two is in memory at a time.
        rows: how many sentences there are.
        dimensions: of each vector.
        recipe: how to store the vectors; a factory, not tiers.
    """
    vectors_file = write_vectors(folder / f"{name}.faiss", vectors, rows, dimensions, recipe)
    words_file = write_words(folder / f"{name}.words", words())
    sync(folder)
    return SegmentFile(name, rows, recipe, vectors_file, words_file)


class Segment:
    """Both files of a segment, opened for reading."""

    def __init__(self, folder: Path, file: SegmentFile) -> None:
        """Check the files against their checksums and map them.

        Raises:
            IndexCorrupt: one is gone or not the one that was written.
        """
        vectors, words = file.names
        self.file = file
        self.vectors = VectorFile(folder / vectors, file.vectors, file.rows, file.recipe)
        self.lexicon = Lexicon(folder / words, file.words)
