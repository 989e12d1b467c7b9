"""What every kind of stored vectors offers a search."""

from abc import ABC, abstractmethod
from collections.abc import Iterator

from lmkrag.arrays import Ids, Mask, Scores, Vectors

_SLICE = 4_096  # vectors in memory at a time


class VectorSet(ABC):
    """The vectors of a segment, opened for reading. May be shared by threads."""

    rows: int

    @abstractmethod
    def search(self, queries: Vectors, top_k: int, allowed: Mask | None = None) -> tuple[Scores, Ids]:
        """Find the nearest rows by inner product.

        Args:
            queries: ``[n, dimensions]`` float32.
            top_k: how many rows per query, at most.
            allowed: ``[rows]``, false where a row must not be found; None when all may.

        Returns:
            Scores ``[n, k]`` and rows ``[n, k]`` with ``k <= top_k``, best first; row -1 where there are no more.
        """

    @abstractmethod
    def read(self, rows: Ids) -> Vectors:
        """Return the vectors ``[len(rows), dimensions]`` of some rows, as precise as they are stored."""

    def slices(self, rows: Ids) -> Iterator[Vectors]:
        """Yield the vectors of some rows in order, a bounded number at a time."""
        for first in range(0, len(rows), _SLICE):
            yield self.read(rows[first : first + _SLICE])
