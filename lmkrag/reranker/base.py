"""The protocols of re-rankers, and the scores that they return."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from lmkrag.types.arrays import Ids, Scores

DEFAULT_RERANKER = "landmark-reranker"  # our own, which reads English
MULTILINGUAL_RERANKER = "landmark-reranker-multilingual"  # our own for other languages than English
PASSAGE_RERANKER = (
    "landmark-reranker-l12"  # the one that reads passages as they are shown, in English
)
SHIPPED = (DEFAULT_RERANKER, MULTILINGUAL_RERANKER)  # the re-rankers of sentences in this package
PASSAGE_CHARS = 520  # characters of a passage, if its sentences are not longer
PASSAGE_TOKENS = 240  # tokens of a passage that are read, unless a re-ranker says otherwise


class RerankPassage(NamedTuple):
    """Sentences of a document that follow one another, to be read together with a question."""

    title: str
    sentences: tuple[str, ...]


class PlacedText(NamedTuple):
    """A passage, and the place that tells it from passages of other documents.

    ``place`` holds the document's title, date and sender as far as they are known, and the headings
    that the passage stands under.
    """

    place: str
    text: str


class Reranker(Protocol):
    """Scores sentences by reading them with a question."""

    name: str

    weight: float
    """The factor of its scores before they are added to similarities."""

    def score(self, question: str, passages: Sequence[RerankPassage]) -> list[Scores]:
        """Return how well the sentences of each passage answer a question: ``[sentences]`` float32
        each, finite.

        Higher is better; only differences count.
        """
        ...


class PassageScores(NamedTuple):
    """The scores of the sentences of a passage by our own re-ranker.

    Sentences that did not fit rank as the lowest of the others and have no short answer.
    """

    rank: Scores  # ``[sentences]``
    answers: Scores  # ``[sentences]``, the log-odds that each answers
    short: Ids  # ``[sentences, 2]``, the characters of each that would be the short answer
    strength: (
        Scores  # ``[sentences]``, the log-probability that these, of all in the passage, are it
    )


_NEVER = -20  # log-odds of sentences that were not read


def unread_scores(sentences: int) -> PassageScores:
    """Return the scores of a passage whose sentences were not read."""
    return PassageScores(
        np.zeros(sentences, np.float32),
        np.full(sentences, _NEVER, np.float32),
        np.zeros((sentences, 2), np.int64),
        np.full(sentences, _NEVER, np.float32),
    )


class ScoredSentences(NamedTuple):
    """Sentences that were read for a question, by increasing id; arrays are ``[n]``, scores
    float32.
    """

    sentences: Ids  # ids
    documents: Ids  # ids
    passages: Ids  # the passage that each was read in, from 0, best first
    lengths: Ids  # in characters
    score: Scores  # of the search, like ``similarity``
    similarity: Scores
    rank: Scores  # of the re-ranker, like the following: see :class:`PassageScores`
    answers: Scores
    strength: Scores


@runtime_checkable
class ListwiseReranker(Reranker, Protocol):
    """A re-ranker that also compares the sentences of different passages with each other."""

    def read(self, question: str, passages: Sequence[RerankPassage]) -> list[PassageScores]:
        """Read passages together with a question."""
        ...

    def compare(self, read: ScoredSentences) -> Scores:
        """Return the scores of all sentences that were read, ``[n]`` float32, in place of their
        ranks.
        """
        ...
