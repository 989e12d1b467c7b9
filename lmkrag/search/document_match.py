"""Which document does a question name? Rare words that stand in its opening or its title tell.

Where documents are alike (contracts, releases, minutes), each of them holds a passage that fits the question; which
one is meant, only such words say: "Consider the agreement between X and Y; may the recipient share ...?"
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lmkrag.arrays import Floats, Hashes, Ids
from lmkrag.index.snapshot import Snapshot
from lmkrag.index.words.lexical import Terms, count_document_words, find_first
from lmkrag.search.weights import WEIGHTS, Weights

_TITLED = 1_000  # documents whose titles are looked at


class DocumentMatch(NamedTuple):
    """The document that a question names."""

    document: int  # its position in the snapshot
    documents: Ids  # ``[n]``, positions of those whose openings hold words of the question, and of others
    shares: Floats  # ``[n]``, parts of the question's words, by weight, that these openings hold
    margin: float  # by how much it is ahead of all others
    words: Hashes  # those of the question that do not name it


def match_document(
    snapshot: Snapshot, terms: Terms, among: Ids | None = None, weights: Weights = WEIGHTS
) -> DocumentMatch | None:
    """Find the document that a question names by words of its opening or title; None for none, or several alike.

    Each word weighs as much as it tells documents apart (its inverse document frequency). The document must be ahead of
    all others, and no other may hold as many of the words anywhere. ``among`` are the positions of those that may be
    meant, increasing.
    """
    count = len(snapshot.documents.keys if among is None else among)
    if count < 2:
        return None
    places = find_first(snapshot.segments, snapshot.documents, terms)
    holding = np.zeros(len(snapshot.documents.keys), bool)
    for owners, _ in places:
        holding[owners] = True
    chosen = holding.copy()  # others may be named by their titles
    others = np.flatnonzero(~holding[:_TITLED])
    chosen[others[: max(0, _TITLED - np.count_nonzero(holding))]] = True
    if among is not None:
        chosen[np.setdiff1d(np.flatnonzero(chosen), among, assume_unique=True)] = False
    documents = np.flatnonzero(chosen)
    lengths = count_document_words(snapshot.segments, snapshot.documents, documents)
    border = np.clip(weights.opening_share * lengths, weights.min_opening, weights.opening)
    held, opened, inverse = [], [], []
    for owners, before in places:
        mask = chosen[owners]
        owners, before = np.searchsorted(documents, owners[mask]), before[mask]
        held.append(owners)
        opened.append(owners[before < border[owners]])
        inverse.append(math.log1p((count - len(owners) + 0.5) / (len(owners) + 0.5)) if len(owners) else 0.0)
    total = sum(inverse)
    if total <= 0:
        return None
    mass = _add_up(held, inverse, len(documents))
    likely = _find_best(mass + 0.5 * _add_up(opened, inverse, len(documents)), _TITLED)
    titled = snapshot.titles_with(terms.words, documents[likely]) > 0
    opened = [np.union1d(owners, likely[in_title]) for owners, in_title in zip(opened, titled, strict=True)]
    shares = _add_up(opened, inverse, len(documents)) / total
    best = int(np.argmax(shares))
    mass += 0.5 * total * shares
    margin = float(shares[best] - np.delete(shares, best).max(initial=0))
    if margin < weights.document_margin or mass[best] < mass.max():
        return None
    most = max(1, weights.common_share * count)
    naming = np.array([best in owners and len(owners) <= most for owners in opened])
    left = terms.words[~naming]
    return DocumentMatch(int(documents[best]), documents, shares, margin, left if len(left) else terms.words)


def _find_best(rank: Floats, most: int) -> Ids:
    """The positions of the greatest values, in order; of equal ones the first."""
    if len(rank) <= most:
        return np.arange(len(rank))
    least = np.partition(rank, -most)[-most]
    better = np.flatnonzero(rank > least)
    return np.union1d(better, np.flatnonzero(rank == least)[: most - len(better)])


def _add_up(owners: Sequence[Ids], weights: Sequence[float], count: int) -> Floats:
    """``[count]``: of each document, the weights of the words that it has, given the documents of each word."""
    total = np.zeros(count)
    for of_word, weight in zip(owners, weights, strict=True):
        total[of_word] += weight
    return total
