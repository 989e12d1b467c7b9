"""Fuse dense and lexical scores of sentences, each with the best of its neighbourhood, paragraph
and document.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from lmkrag.index.searchable import best_of_groups
from lmkrag.search.weights import WEIGHTS, Weights
from lmkrag.types.arrays import Ids, Mask, Scores


class Fused(NamedTuple):
    """Fused scores ``[n]``: the sum of the ``parts``' values ``[n]`` by weight, times all
    ``factors`` ``[n]``.
    """

    score: Scores
    parts: tuple[tuple[str, Scores, float], ...]
    factors: tuple[tuple[str, Scores], ...]

    def times(self, name: str, factor: Scores) -> "Fused":
        """Return scores with one more factor ``[n]``."""
        return Fused(self.score * factor, self.parts, (*self.factors, (name, factor)))

    def keep(self, mask: Mask) -> "Fused":
        """Return the scores where ``mask`` ``[n]`` is true."""
        parts = tuple((name, values[mask], weight) for name, values, weight in self.parts)
        return Fused(
            self.score[mask], parts, tuple((name, factor[mask]) for name, factor in self.factors)
        )


def fuse(
    dense: Scores | None,
    lexical: Scores | None,
    sentences: Ids,
    documents: Ids,
    paragraphs: Ids,
    weights: Weights = WEIGHTS,
    in_pieces: Mask | None = None,
) -> Fused:
    """Return the fused score of each sentence, with its parts.

    A sentence's own score is the dense one and a small share of the lexical one, which gathers the
    next sentences' and is divided by the query's best. The fused score is the weighted mean of it,
    of the best own scores around the sentence, and of the best in its paragraph and in its
    document: a sentence near strong evidence is relevant more often than an equally good one far
    from any.

    All arrays are ``[n]``, ids of sentences increasing; None leaves a part out. ``lexical`` are
    BM25 scores, of sentences ``in_pieces`` those of a piece with its neighbours.
    """
    single = np.zeros(len(sentences), np.float32) if dense is None else dense.astype(np.float32)
    parts = [] if dense is None else [("similarity", single, 1.0)]
    if lexical is not None and len(lexical) and lexical.max() > 0:
        taken = np.full(len(sentences), weights.lexical_neighbour, np.float32)
        if in_pieces is not None:
            taken[in_pieces] = 0
        gathered = _gather_next(lexical, sentences, documents, taken)
        words = (
            np.float32(weights.lexical if dense is not None else 1.0) * gathered / gathered.max()
        )
        parts.append(("words", words, 1.0))
        single = single + words
    parts.append(("paragraph", best_of_groups(single, paragraphs), weights.paragraph))
    parts.append(("document", best_of_groups(single, documents), weights.document))
    shares = dict(weights.neighbourhoods)
    for reach, best in _best_within(single, sentences, documents, max(shares, default=0)):
        if reach in shares:
            parts.append((f"{reach} sentences around", best.copy(), shares[reach]))
    weight = 1.0 + weights.paragraph + weights.document + sum(shares.values())
    total: Scores = np.zeros(len(sentences), np.float32)
    for _, values, share in parts:
        total += np.float32(share) * values
    total /= np.float32(weight)
    return Fused(total, tuple((name, values, share / weight) for name, values, share in parts), ())


def _gather_next(lexical: Scores, sentences: Ids, documents: Ids, share: Scores) -> Scores:
    """Each sentence's score and its share of those of the sentences before and after it."""
    total = lexical.astype(np.float32)
    near = (np.diff(sentences) == 1) & (np.diff(documents) == 0)
    total[1:] += np.where(near, share[1:] * lexical[:-1], 0)
    total[:-1] += np.where(near, share[:-1] * lexical[1:], 0)
    return total


def _best_within(
    single: Scores, sentences: Ids, documents: Ids, most: int
) -> Iterator[tuple[int, Scores]]:
    """For every reach up to ``most``, the best score within that many sentences of the same
    document.
    """
    best = single.copy()
    for reach in range(1, most + 1):
        near = (sentences[reach:] - sentences[:-reach] == reach) & (
            documents[reach:] == documents[:-reach]
        )
        np.maximum(best[reach:], single[:-reach], out=best[reach:], where=near)
        np.maximum(best[:-reach], single[reach:], out=best[:-reach], where=near)
        yield reach, best
