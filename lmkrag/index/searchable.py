"""The values that a search gets from a state of an index: see
:class:`lmkrag.index.snapshot.Snapshot`.
"""

import contextlib
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np

from lmkrag.errors import SnapshotExpired
from lmkrag.index.words.lexical import Terms
from lmkrag.types.arrays import NO_IDS, NO_SCORES, Bytes, Ids, Scores

Result = TypeVar("Result")

_TRIES = 3


class Nearest(NamedTuple):
    """The sentences that are nearest to a question.

    Attributes:
        sentences: ``[n]`` int64, sentence ids, best first.
        dense: ``[n]`` float32, their cosine similarities.
    """

    sentences: Ids
    dense: Scores


NOTHING_NEAR = Nearest(NO_IDS, NO_SCORES)


class Matches(NamedTuple):
    """The sentences that the dense or the lexical search found.

    Attributes:
        sentences: ``[n]`` int64, increasing sentence ids.
        dense: ``[n]`` float32, similarities; 0 if no vector was given.
        lexical: ``[n]`` float32, BM25 scores; 0 for a sentence without a word of the question.
        terms: the words of the question in the index; None if words do not count.
        nearest: the result of the dense search alone.
    """

    sentences: Ids  # ``[n]``, increasing ids
    dense: Scores  # ``[n]``, 0 where no vector was given
    lexical: Scores  # ``[n]``, 0 where no word matches
    terms: Terms | None  # None when words do not count
    nearest: Nearest  # of the dense search alone


def retry_expired(read: Callable[[], Result]) -> Result:
    """Return the result of a call that reads a snapshot; if the snapshot expires, call again, at
    most three times.

    Raises:
        SnapshotExpired: the snapshot expired three times.
    """
    for _ in range(_TRIES - 1):
        with contextlib.suppress(SnapshotExpired):
            return read()
    return read()


def join_matches(first: Matches, second: Matches) -> Matches:
    """Join the results of two searches for the same question; a sentence keeps its better BM25
    score.
    """
    sentences, position = np.unique(
        np.concatenate([first.sentences, second.sentences]), return_index=True
    )
    dense = np.concatenate([first.dense, second.dense])[position]
    lexical = np.maximum(
        *(spread_scores(match.lexical, match.sentences, sentences) for match in (first, second))
    )
    return Matches(sentences, dense, lexical, first.terms, first.nearest)


def spread_scores(scores: Scores, known: Ids, sentences: Ids) -> Scores:
    """Return scores by sentence for more sentences than have one.

    Args:
        scores: ``[n]`` float32, scores of the known sentences.
        known: ``[n]`` int64, their ids, which are among ``sentences``.
        sentences: ``[k]`` int64, increasing sentence ids.

    Returns:
        ``[k]`` float32, 0 for a sentence without a score.
    """
    spread = np.zeros(len(sentences), np.float32)
    spread[np.searchsorted(sentences, known)] = scores
    return spread


def best_of_groups(values: Scores, groups: Ids) -> Scores:
    """Return for each value the best value of its group.

    Args:
        values: ``[n]`` float32.
        groups: ``[n]`` int64, the group of each value.
    """
    _, group = np.unique(groups, return_inverse=True)
    best = np.full(len(groups), -np.inf, np.float32)
    np.maximum.at(best, group, values)
    spread: Scores = best[group]
    return spread


class Description(NamedTuple):
    """What ranking needs to know of sentences, from the index.

    Attributes:
        dense: ``[k]`` float32, similarities to the question.
        documents: ``[k]`` int64, row ids of their documents.
        paragraphs: ``[k]`` int64, ids of the first sentences of their paragraphs.
        roles: ``[k]`` uint8, the bits of their structure: see :mod:`lmkrag.sentences.structure`.
    """

    dense: Scores  # similarities to the question
    documents: Ids
    paragraphs: Ids  # the ids of their paragraphs' first sentences
    roles: Bytes  # the bits of their structure
