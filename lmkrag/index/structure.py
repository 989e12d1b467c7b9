"""What is known of a segment's sentences from their text: an immutable file beside the vectors, with the same rows.

It is apart from the words, so that a rule about paragraphs or headings can change without touching them.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lmkrag.arrays import Bytes, Ids
from lmkrag.errors import IndexCorrupt
from lmkrag.index.files import File, Tables, read_tables


class Structure:
    """A structure file opened for reading, memory-mapped.

    ``positions`` ``[rows]`` uint16: how many sentences stand before each in its paragraph. ``roles`` ``[rows]`` uint8:
    bits that the index keeps and does not interpret.
    """

    def __init__(self, path: Path, file: File) -> None:
        """Check the file against its checksum and map it.

        Raises:
            IndexCorrupt: it is missing or not the one that was written.
        """
        tables = read_tables(path, file)
        try:
            self.positions: NDArray[np.uint16] = tables["positions"]
            self.roles: Bytes = tables["roles"]
        except KeyError as error:
            raise IndexCorrupt(f"{path}: not a structure file (no {error})") from error


def merge_structures(parts: Sequence[tuple[Structure, Ids]]) -> Tables:
    """Return one file's tables for some rows of several: (structure, rows to keep), laid end to end."""
    return {
        "positions": np.concatenate([structure.positions[kept] for structure, kept in parts]),
        "roles": np.concatenate([structure.roles[kept] for structure, kept in parts]),
    }
