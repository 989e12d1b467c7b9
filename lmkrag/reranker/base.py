"""What every re-ranker does."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from lmkrag.arrays import Scores

DEFAULT_RERANKER = "landmark-reranker"
"""Our own, in this package."""

PLACE_LENGTH = 520
"""Characters of a place, if its sentences are not longer."""


class Place(NamedTuple):
    """Sentences of a document that follow one another, to be read together with a question."""

    title: str
    sentences: tuple[str, ...]


class Reranker(Protocol):
    """Scores sentences by reading them with a question."""

    name: str

    weight: float
    """What its scores are multiplied by before they are added to similarities."""

    def score(self, question: str, places: Sequence[Place]) -> list[Scores]:
        """Return how well the sentences of each place answer a question: ``[sentences]`` float32 each, finite.

        Higher is better; only differences count.
        """
        ...
