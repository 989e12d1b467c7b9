import numpy as np
import pytest

from lmkrag.retrieval.fusion import DOCUMENT_SHARE, LEXICAL_NEIGHBOUR, LEXICAL_SHARE, NEIGHBOURHOODS, fuse

IDS = np.array([1, 2, 3, 4, 5, 20, 21])
DOCUMENTS = np.array([1, 1, 1, 1, 1, 2, 2])
WEIGHT = 1 + DOCUMENT_SHARE + sum(share for _, share in NEIGHBOURHOODS)


def weighted(own, near, nearer, document):
    """By hand: the own score, the best within 6 and within 2 sentences, the best of the document."""
    (_, narrow), (_, wide) = NEIGHBOURHOODS
    parts = [own, narrow * np.array(nearer), wide * np.array(near), DOCUMENT_SHARE * np.array(document)]
    return np.sum(parts, axis=0) / WEIGHT


def test_a_sentence_gains_from_the_best_around_it_in_its_document_only():
    dense = np.array([0.9, 0.0, 0.0, 0.0, 0.2, 0.5, 0.4], np.float32)
    expected = weighted(dense, [0.9] * 5 + [0.5] * 2, [0.9, 0.9, 0.9, 0.2, 0.2, 0.5, 0.5], [0.9] * 5 + [0.5] * 2)
    np.testing.assert_allclose(fuse(dense, None, IDS, DOCUMENTS), expected, rtol=1e-6)


def test_the_neighbourhood_ends_where_sentences_are_missing():
    dense = np.array([1.0, 0.0], np.float32)
    together = fuse(dense, None, np.array([1, 2]), np.zeros(2, int))
    apart = fuse(dense, None, np.array([1, 9]), np.zeros(2, int))
    assert together[1] > apart[1] == pytest.approx(DOCUMENT_SHARE / WEIGHT)


def test_lexical_adds_a_share_of_the_best():
    lexical = np.array([0, 0, 0, 0, 0, 6.0, 0], np.float32)
    own = LEXICAL_SHARE * np.array([0, 0, 0, 0, 0, 1.0, LEXICAL_NEIGHBOUR])
    best = LEXICAL_SHARE * np.array([0] * 5 + [1] * 2)
    found = fuse(np.zeros(7, np.float32), lexical, IDS, DOCUMENTS)
    np.testing.assert_allclose(found, weighted(own, best, best, best), rtol=1e-6)


def test_the_order_inside_a_neighbourhood_is_that_of_the_own_scores():
    rng = np.random.default_rng(0)
    dense = rng.random(5).astype(np.float32)
    fused = fuse(dense, None, np.arange(5) % 5, np.zeros(5, int))
    assert np.argmax(fused) == np.argmax(dense)


def test_no_word_matched():
    dense = np.full(7, 0.3, np.float32)
    np.testing.assert_allclose(fuse(dense, np.zeros(7, np.float32), IDS, DOCUMENTS), fuse(dense, None, IDS, DOCUMENTS))


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_sentences(count):
    ids = np.arange(count)
    score = fuse(np.ones(count, np.float32), np.ones(count, np.float32), ids, np.zeros(count, int))
    assert score.shape == (count,)
    assert np.isfinite(score).all()
