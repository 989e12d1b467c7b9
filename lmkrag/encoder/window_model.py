"""What an encoder asks of the model that it runs over windows."""

from collections.abc import Sequence
from typing import Protocol

from lmkrag.arrays import Vectors


class WindowModel(Protocol):
    """A model with its pooling, in some runtime. ``precision`` is what it reads documents in: ``float32``, ``int8``."""

    device: str

    @property
    def precision(self) -> str: ...

    def read(
        self, windows: Sequence[Sequence[Sequence[int]]], titles: Sequence[Sequence[int]], *, exact: bool = False
    ) -> Vectors:
        """Read windows, and return the vectors of their sentences one after the other.

        Args:
            windows: the token ids of the sentences of each.
            titles: the token ids that each begins with, which are no sentence's.
            exact: compute in float32 where documents are read in int8, as questions are.

        Returns:
            ``[sentences, dimensions]`` float32 of length one.
        """
        ...
