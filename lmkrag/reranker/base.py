"""The protocols of re-rankers, and what they read."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from lmkrag.types.arrays import Scores

DEFAULT_RERANKER = "landmark-reranker-l12"  # our own, which reads English
MULTILINGUAL_RERANKER = "landmark-reranker-multilingual"  # our own for other languages
SHIPPED = (DEFAULT_RERANKER, MULTILINGUAL_RERANKER)  # the re-rankers in this package
PASSAGE_CHARS = 520  # characters of a text that are read at once to find the sentence that answers

_UNREAD = -30.0  # log-odds of a sentence that was not read


class PlacedText(NamedTuple):
    """A passage, and the place that tells it from passages of other documents.

    ``place`` holds the document's title, file name and sender as far as they are known, and the
    headings that the passage stands under.
    """

    place: str
    text: str

    @property
    def whole(self) -> str:
        """The place and the text as one text, for models that tell them apart by a blank line."""
        return "\n\n".join(filter(None, self))


class Reranker(Protocol):
    """Scores passages by reading them with a question."""

    name: str

    def score(self, question: str, passages: Sequence[PlacedText]) -> Scores:
        """Return the log-odds that each passage answers a question, ``[passages]`` float32, finite.

        Higher is better; only differences count.
        """


class Words(NamedTuple):
    """Characters ``[start, end)`` of a passage that may be a short answer.

    ``strength``: its log-odds against no short answer. ``lead``: its log-odds against the best
    other words.
    """

    start: int
    end: int
    strength: float
    lead: float


class AnyReading(Protocol):
    """What a passage says to a question."""

    @property
    def score(self) -> float:
        """The log-odds that the passage answers."""

    def score_sentence(self, start: int, end: int) -> float:
        """Return the log-odds that characters ``[start, end)`` answer; -inf if they were not
        read.
        """

    def find_words(self, start: int, end: int) -> Words | None:
        """Return the likeliest short answer within characters ``[start, end)``, None if there is
        none.
        """


def score_sentences(reading: AnyReading, sentences: Sequence[tuple[int, int]]) -> Scores:
    """Return the log-odds that each sentence of a passage answers, ``[sentences]`` float32.

    The best sentence has those of the passage, the others less, by how much worse they read.

    Args:
        reading: of the passage.
        sentences: the characters ``[start, end)`` of each.
    """
    scores = np.array([reading.score_sentence(*bounds) for bounds in sentences], np.float32)
    best = scores.max(initial=_UNREAD)
    log_odds: Scores = reading.score + np.maximum(_UNREAD, scores - best)
    return log_odds


class ReadingReranker(ABC):
    """A re-ranker of ours, which also says which sentence of a passage answers."""

    name: str

    def score(self, question: str, passages: Sequence[PlacedText]) -> Scores:
        """Return the log-odds that each passage answers a question, ``[passages]`` float32."""
        return np.array([reading.score for reading in self.read(question, passages)], np.float32)

    @abstractmethod
    def read(self, question: str, passages: Sequence[PlacedText]) -> Sequence[AnyReading]:
        """Read passages with a question, to order them."""

    def judge(self, question: str, passages: Sequence[PlacedText]) -> Sequence[AnyReading]:
        """Read passages with a question, to say what they answer; as :meth:`read` does, where a
        model has no layers of its own for that.
        """
        return self.read(question, passages)
