"""The values that a search gets from a state of an index: see
:class:`lmkrag.index.snapshot.Snapshot`.
"""

import contextlib
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np

from lmkrag.errors import SnapshotExpired
from lmkrag.index.words.lexical import Terms
from lmkrag.types.arrays import Bytes, Ids, Scores

Result = TypeVar("Result")

_TRIES = 3


class Nearest(NamedTuple):
    """Sentences by similarity, best first, and their similarities ``dense``, each ``[n]``."""

    sentences: Ids
    dense: Scores


NOTHING_NEAR = Nearest(np.zeros(0, np.int64), np.zeros(0, np.float32))


class Matches(NamedTuple):
    """Sentences that the dense or the lexical search found."""

    sentences: Ids  # ``[n]``, increasing ids
    dense: Scores  # ``[n]``, 0 where no vector was given
    lexical: Scores  # ``[n]``, 0 where no word matches
    terms: Terms | None  # None when words do not count
    nearest: Nearest  # of the dense search alone


def retry_expired(read: Callable[[], Result]) -> Result:
    """Return the result of a call; if its snapshot expires, call again, three times at most."""
    for _ in range(_TRIES - 1):
        with contextlib.suppress(SnapshotExpired):
            return read()
    return read()


def join_matches(first: Matches, second: Matches) -> Matches:
    """Join the results of two searches for the same words."""
    sentences, position = np.unique(
        np.concatenate([first.sentences, second.sentences]), return_index=True
    )
    dense = np.concatenate([first.dense, second.dense])[position]
    lexical = np.maximum(
        *(spread_scores(match.lexical, match.sentences, sentences) for match in (first, second))
    )
    return Matches(sentences, dense, lexical, first.terms, first.nearest)


def spread_scores(scores: Scores, known: Ids, sentences: Ids) -> Scores:
    """Return the scores of ``known`` sentences ``[n]`` among increasing ``sentences`` ``[k]``, 0
    for the others.
    """
    spread = np.zeros(len(sentences), np.float32)
    spread[np.searchsorted(sentences, known)] = scores
    return spread


def best_of_groups(values: Scores, groups: Ids) -> Scores:
    """Return the best value in the group of each, ``[n]``, by the groups ``[n]`` that they are
    of.
    """
    _, group = np.unique(groups, return_inverse=True)
    best = np.full(len(groups), -np.inf, np.float32)
    np.maximum.at(best, group, values)
    spread: Scores = best[group]
    return spread


class Description(NamedTuple):
    """What the index knows of some sentences, each ``[k]``."""

    dense: Scores  # similarities to the question
    documents: Ids
    paragraphs: Ids  # the ids of their paragraphs' first sentences
    roles: Bytes  # the bits of their structure
    title_match: (
        Scores | None
    )  # share of its title's words that the question names; None when words do not count
    document_score: Scores | None  # BM25 of the document as one text; None when words do not count
