"""Which document does a question name? Rare words that stand in its opening or its title tell.

Where documents are alike (contracts, releases, minutes), each of them holds a passage that fits the question; which
one is meant, only such words say: "Consider the agreement between X and Y; may the recipient share ...?"
"""

from typing import NamedTuple

import numpy as np

from lmkrag.arrays import Floats, Hashes, Mask
from lmkrag.index.snapshot import Snapshot

OPENING = 250
"""Words at a document's beginning that may name it: a contract's parties, a report's company and year."""

OPENING_SHARE, SHORTEST_OPENING = 0.25, 30
"""Of a short document's words only this share is its opening, but at least so many."""

MARGIN = 0.1
"""By which share of the question's words a document must be ahead of all others to be taken for the one named."""

_COMMON = 0.2  # a word in the openings of more documents than this share names none of them
_TITLED = 1_000  # documents whose titles are looked at


class Naming(NamedTuple):
    """The document that a question names.

    ``document`` is its position in the snapshot, ``margin`` by how much it is ahead of all others; ``shares``
    ``[documents]`` are the parts of the question's words, by weight, that each document's opening holds; ``words``
    ``[n]`` those of the question that do not name it.
    """

    document: int
    shares: Floats
    margin: float
    words: Hashes


def find_named(snapshot: Snapshot, words: Hashes, among: Mask | None = None) -> Naming | None:
    """Find the document that a question names by words of its opening or title.

    Each word weighs as much as it tells documents apart (its inverse document frequency). The document must be ahead
    of all others, and no other may hold as many of the words anywhere.

    Args:
        snapshot: to look in.
        words: hashes of the question's words.
        among: ``[documents]`` which may be meant; None for all.

    Returns:
        None when the question names no document, or several alike.
    """
    first, lengths = snapshot.first_words(words)
    held = first >= 0
    opening = held & (first < np.clip(OPENING_SHARE * lengths, SHORTEST_OPENING, OPENING))
    chosen = np.ones(len(snapshot.documents.keys), bool) if among is None else among
    count = int(chosen.sum())
    if count < 2 or not held.any():
        return None
    held, opening = held & chosen, opening & chosen
    frequency = held.sum(1)
    weight = np.log1p((count - frequency + 0.5) / (frequency + 0.5))
    weight[frequency == 0] = 0
    total = float(weight.sum())
    likely = np.argsort(-(weight @ (held + 0.5 * opening)), kind="stable")[:_TITLED]
    opening[:, likely] |= snapshot.words_in_titles(words, snapshot.documents.keys[likely]) & chosen[likely]
    shares: Floats = weight @ opening / max(total, 1e-9)
    best, second = np.argsort(-shares, kind="stable")[:2].tolist()
    mass = weight @ held + 0.5 * total * shares
    margin = float(shares[best] - shares[second])
    if margin < MARGIN or mass[best] < mass.max():
        return None
    naming = opening[:, best] & (opening.sum(1) <= max(1, _COMMON * count))
    others = words[~naming]
    return Naming(best, shares, margin, others if len(others) else words)
