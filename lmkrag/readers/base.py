"""What a reader is: the thing that answers."""

from collections.abc import Sequence
from typing import Protocol

from lmkrag.types import Answer, Span


class Reader(Protocol):
    """Answers a question from spans, and cites them."""

    @property
    def name(self) -> str:
        """What the reader is called in an answer."""

    def answer(self, question: str, spans: Sequence[Span]) -> Answer:
        """Answer ``question`` from ``spans``, best first."""
