"""Fuse dense and lexical scores of sentences, each read together with its neighbours.

The weights were chosen on the development sets, every set weighing the same (``benchmarks/LOG.md``).
"""

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float32]
Ids = NDArray[np.int64]

DENSE_NEIGHBOURS = (0.25,)
LEXICAL_NEIGHBOURS = (0.5, 0.25)
LEXICAL_SHARE = 0.25
DOCUMENT_SHARE = 0.5


def fuse(dense: Scores | None, lexical: Scores | None, sentences: Ids, documents: Ids) -> Scores:
    """Return one score a sentence.

    The dense score is averaged with its neighbours'. The lexical score gathers its neighbours', is divided by the
    query's best, and adds a small share. Then each sentence gains a share of the best score in its document.

    Args:
        dense: ``[n]`` inner products, or None to leave them out.
        lexical: ``[n]`` BM25 scores, 0 where no word matches, or None to leave them out.
        sentences: ``[n]`` ids in increasing order; consecutive ids of one document are neighbours.
        documents: ``[n]`` the document each sentence is of.
    """
    score = np.zeros(len(sentences), np.float32)
    if dense is not None:
        total, weight = _with_neighbours(dense, sentences, documents, DENSE_NEIGHBOURS)
        score += total / weight
    if lexical is not None and len(lexical) and lexical.max() > 0:
        total, _ = _with_neighbours(lexical, sentences, documents, LEXICAL_NEIGHBOURS)
        score += (LEXICAL_SHARE if dense is not None else 1.0) * total / total.max()
    return score + DOCUMENT_SHARE * _best_of_document(score, documents)


def _with_neighbours(
    values: Scores, sentences: Ids, documents: Ids, weights: tuple[float, ...]
) -> tuple[Scores, Scores]:
    """Return the weighted sums over each sentence and its neighbours, and the weights that went in."""
    total, weight = values.astype(np.float32), np.ones(len(values), np.float32)
    for distance, share in enumerate(weights, 1):
        near = (sentences[distance:] - sentences[:-distance] == distance) & (
            documents[distance:] == documents[:-distance]
        )
        total[distance:] += np.where(near, share * values[:-distance], 0)
        total[:-distance] += np.where(near, share * values[distance:], 0)
        weight[distance:] += share * near
        weight[:-distance] += share * near
    return total, weight


def _best_of_document(score: Scores, documents: Ids) -> Scores:
    _, group = np.unique(documents, return_inverse=True)
    best = np.full(len(documents), -np.inf, np.float32)
    np.maximum.at(best, group, score)
    found: Scores = best[group]
    return found
