"""The values that a search gets from a state of an index: see :class:`lmkrag.index.snapshot.Snapshot`."""

import contextlib
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np

from lmkrag.arrays import Bytes, Ids, Scores
from lmkrag.errors import SnapshotExpired
from lmkrag.index.words.lexical import Terms

Result = TypeVar("Result")

_TRIES = 3


class Nearest(NamedTuple):
    """Sentences by similarity, best first, and their similarities ``dense``, each ``[n]``."""

    sentences: Ids
    dense: Scores


NOTHING_NEAR = Nearest(np.zeros(0, np.int64), np.zeros(0, np.float32))


class Matches(NamedTuple):
    """Sentences that the dense or the lexical search found.

    ``sentences`` ``[n]`` are increasing ids, ``dense`` and ``lexical`` their scores, 0 where no vector was given or no
    word matches; ``terms`` is None when words do not count; ``nearest`` is what the dense search alone found.
    """

    sentences: Ids
    dense: Scores
    lexical: Scores
    terms: Terms | None
    nearest: Nearest


def retry_expired(read: Callable[[], Result]) -> Result:
    """Return what a call reads; if the state that it read is gone meanwhile, call again, three times at most."""
    for _ in range(_TRIES - 1):
        with contextlib.suppress(SnapshotExpired):
            return read()
    return read()


def join_matches(one: Matches, other: Matches) -> Matches:
    """Return what two searches for the same words found."""
    sentences, position = np.unique(np.concatenate([one.sentences, other.sentences]), return_index=True)
    dense = np.concatenate([one.dense, other.dense])[position]
    lexical = np.maximum(*(spread_scores(found.lexical, found.sentences, sentences) for found in (one, other)))
    return Matches(sentences, dense, lexical, one.terms, one.nearest)


def spread_scores(scores: Scores, known: Ids, sentences: Ids) -> Scores:
    """Return the scores of ``known`` sentences ``[n]`` among increasing ``sentences`` ``[k]``, 0 for the others."""
    spread = np.zeros(len(sentences), np.float32)
    spread[np.searchsorted(sentences, known)] = scores
    return spread


class Description(NamedTuple):
    """What the index knows of some sentences, each ``[k]``.

    ``dense`` are similarities to the question, ``paragraphs`` the ids of their paragraphs' first sentences, ``roles``
    the bits of their structure. ``title_match`` is the share of the words of the document's title that the question
    names, ``document_score`` the BM25 score of the document as one text; both None when words do not count.
    """

    dense: Scores
    documents: Ids
    paragraphs: Ids
    roles: Bytes
    title_match: Scores | None
    document_score: Scores | None
