"""Segments: the vectors, words and structure of some sentences, in three immutable files with the same rows."""

from dataclasses import dataclass
from pathlib import Path

from lmkrag.index.files import File
from lmkrag.index.structure import Structure
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
