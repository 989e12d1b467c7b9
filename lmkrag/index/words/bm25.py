"""BM25 over postings (Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmkrag.arrays import Floats, Ids, Scores
from lmkrag.index.words.postings import Posting

K1, B = 1.2, 0.75
"""Saturation and length normalisation."""


def inverse_document_frequency(matches: int, total: int) -> float:
    """Return the weight of a word that is in ``matches`` of ``total`` sentences; never below 1e-6."""
    return max(1e-6, float(np.log((total - matches + 0.5) / (matches + 0.5))))


def score_texts(counts: Floats, weights: Sequence[float], lengths: Ids, average: float) -> Scores:
    """Return the BM25 scores ``[k]`` of some texts.

    Args:
        counts: ``[words, k]`` how often each word of a question is in each text.
        weights: of the words.
        lengths: ``[k]`` words of each text.
        average: number of words of a text, over all there are.
    """
    norm = _norm(lengths, average)
    scores: Scores = (np.array(weights) @ ((K1 + 1) * counts / (counts + norm))).astype(np.float32)
    return scores


def score_rows(
    postings: Sequence[Posting], weights: Sequence[float], lengths: NDArray[np.uint16], average: float
) -> tuple[Ids, Scores]:
    """Return every row that has a word, in no order, and its BM25 score.

    Args:
        postings: of each word of a question, in one postings file.
        weights: of the words.
        lengths: ``[rows]`` words of each sentence.
        average: number of words of a sentence, over all that are searched.
    """
    total = np.zeros(len(lengths), np.float32)
    matching = [np.zeros(0, np.uint32)]
    for posting, weight in zip(postings, weights, strict=True):
        rows, counts = posting.rows, posting.counts.astype(np.float32)
        norm = _norm(lengths[rows], average)
        before = total[rows]
        matching.append(rows[before == 0])
        total[rows] = before + np.float32(weight * (K1 + 1)) * counts / (counts + norm)
    every = np.concatenate(matching).astype(np.int64)
    return every, total[every]


def _norm(lengths: NDArray[Any], average: float) -> NDArray[Any]:
    """What BM25 adds to the count of a word in texts of some lengths."""
    return np.float32(K1 * (1 - B)) + np.float32(K1 * B / average) * lengths
