import numpy as np
import pytest

from lmkrag.search.fusion import fuse
from lmkrag.search.weights import WEIGHTS

IDS = np.array([1, 2, 3, 4, 5, 20, 21])
DOCUMENTS = np.array([1, 1, 1, 1, 1, 2, 2])
PARAGRAPHS = np.array([1, 1, 3, 3, 3, 20, 20])
WEIGHT = (
    1 + WEIGHTS.paragraph + WEIGHTS.document + sum(share for _, share in WEIGHTS.neighbourhoods)
)


def best_around(own, reach):
    near = (np.abs(IDS[:, None] - IDS) <= reach) & (DOCUMENTS[:, None] == DOCUMENTS)
    return np.where(near, own, -np.inf).max(1)


def best_of(own, groups):
    return np.where(groups[:, None] == groups, own, -np.inf).max(1)


def weighted(own):
    """The same by tables of who is near whom."""
    parts = [
        own,
        WEIGHTS.paragraph * best_of(own, PARAGRAPHS),
        WEIGHTS.document * best_of(own, DOCUMENTS),
    ]
    return (
        np.sum(
            [*parts, *(share * best_around(own, reach) for reach, share in WEIGHTS.neighbourhoods)],
            axis=0,
        )
        / WEIGHT
    )


def test_a_sentence_gains_from_the_best_around_it_in_its_paragraph_and_document_only():
    dense = np.array([0.9, 0.0, 0.0, 0.0, 0.2, 0.5, 0.4], np.float32)
    fused = fuse(dense, None, IDS, DOCUMENTS, PARAGRAPHS).score
    np.testing.assert_allclose(fused, weighted(dense), rtol=1e-6)
    assert fused[1] > fused[2]  # both next to the best, one of another paragraph


def test_the_neighbourhood_ends_where_sentences_are_missing():
    dense = np.array([1.0, 0.0], np.float32)
    together = fuse(dense, None, np.array([1, 2]), np.zeros(2, int), np.array([1, 2])).score
    apart = fuse(dense, None, np.array([1, 90]), np.zeros(2, int), np.array([1, 90])).score
    assert together[1] > apart[1] == pytest.approx(WEIGHTS.document / WEIGHT)


def test_lexical_adds_a_share_of_the_best():
    lexical = np.array([0, 0, 0, 0, 0, 6.0, 0], np.float32)
    own = WEIGHTS.lexical * np.array([0, 0, 0, 0, 0, 1.0, WEIGHTS.lexical_neighbour])
    found = fuse(np.zeros(7, np.float32), lexical, IDS, DOCUMENTS, PARAGRAPHS).score
    np.testing.assert_allclose(found, weighted(own), rtol=1e-6)


def test_the_order_inside_a_paragraph_is_that_of_the_own_scores():
    dense = np.random.default_rng(0).random(5).astype(np.float32)
    fused = fuse(dense, None, np.arange(5), np.zeros(5, int), np.zeros(5, int)).score
    assert np.argmax(fused) == np.argmax(dense)


def test_no_word_matched():
    dense = np.full(7, 0.3, np.float32)
    without = fuse(dense, None, IDS, DOCUMENTS, PARAGRAPHS).score
    np.testing.assert_allclose(
        fuse(dense, np.zeros(7, np.float32), IDS, DOCUMENTS, PARAGRAPHS).score, without
    )


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_sentences(count):
    ids, zeros = np.arange(count), np.zeros(count, int)
    score = fuse(np.ones(count, np.float32), np.ones(count, np.float32), ids, zeros, zeros).score
    assert score.shape == (count,)
    assert np.isfinite(score).all()
