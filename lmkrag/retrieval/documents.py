"""Score whole documents by their landmarks."""

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float32]


def pool_scores(scores: Scores, documents: NDArray[np.int64], *, temperature: float) -> dict[int, float]:
    """Return each document's score: its landmarks' scores, averaged by their own softmax.

    What answers the question counts, the rest of the document does not dilute it, unlike in one mean vector; a low
    temperature comes near the best landmark alone, a high one near the mean.

    Args:
        scores: ``[n]`` of a question and the landmarks.
        documents: ``[n]`` the document each landmark is of.
        temperature: what the scores are divided by in the softmax, above 0.

    >>> pool_scores(np.float32([0.9, 0.1, 0.5]), np.array([1, 1, 2]), temperature=0.01)
    {1: 0.9, 2: 0.5}
    """
    found = {}
    for document in np.unique(documents).tolist():
        own = scores[documents == document].astype(np.float64)
        weights = np.exp((own - own.max()) / temperature)
        found[document] = round(float(weights @ own / weights.sum()), 7)
    return found
