"""Which document does a question name? Rare words that stand in its opening or its title tell.

Where documents are alike (contracts, releases, minutes), each of them holds a passage that fits the question; which
one is meant, only such words say: "Consider the agreement between X and Y; may the recipient share ...?"
"""

from typing import NamedTuple

import numpy as np

from lmkrag.arrays import Floats, Hashes, Ids
from lmkrag.index.searchable import Searchable
from lmkrag.index.words.lexical import Terms
from lmkrag.search.weights import WEIGHTS, Weights


class DocumentMatch(NamedTuple):
    """The document that a question names."""

    document: int  # its position in the snapshot
    documents: Ids  # ``[n]``, positions of those whose openings hold words of the question, and of others
    shares: Floats  # ``[n]``, parts of the question's words, by weight, that these openings hold
    margin: float  # by how much it is ahead of all others
    words: Hashes  # those of the question that do not name it


def match_document(
    snapshot: Searchable, terms: Terms, among: Ids | None = None, weights: Weights = WEIGHTS
) -> DocumentMatch | None:
    """Find the document that a question names by words of its opening or title; None for none, or several alike.

    Each word weighs as much as it tells documents apart (its inverse document frequency). The document must be ahead of
    all others, and no other may hold as many of the words anywhere. ``among`` are the positions of those that may be
    meant, increasing.
    """
    count = len(snapshot.documents.keys if among is None else among)
    if count < 2:
        return None
    found = snapshot.find_openings(terms, among, (weights.opening_share, weights.min_opening, weights.opening))
    if found.total <= 0:
        return None
    shares = found.opened / found.total
    mass = found.held + 0.5 * found.total * shares
    best = int(np.argmax(shares))
    margin = float(shares[best] - np.delete(shares, best).max(initial=0))
    if margin < weights.document_margin or mass[best] < mass.max():
        return None
    naming = found.words_of(best) & (found.openings <= max(1, weights.common_share * count))
    left = terms.words[~naming]
    return DocumentMatch(
        int(found.documents[best]), found.documents, shares, margin, left if len(left) else terms.words
    )
