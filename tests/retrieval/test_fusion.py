import numpy as np
import pytest

from lmkrag.retrieval.fusion import DOCUMENT_SHARE, LEXICAL_SHARE, fuse

IDS = np.array([1, 2, 3, 7, 8])
DOCUMENTS = np.array([1, 1, 1, 2, 2])


def test_dense_is_averaged_with_neighbours_of_the_same_document_only():
    dense = np.array([0.0, 1.0, 0.0, 0.5, 0.5], np.float32)
    local = np.array([0.25 / 1.25, 1 / 1.5, 0.25 / 1.25, 0.5, 0.5])
    best = np.array([1 / 1.5] * 3 + [0.5] * 2)
    np.testing.assert_allclose(fuse(dense, None, IDS, DOCUMENTS), local + DOCUMENT_SHARE * best, rtol=1e-6)


def test_lexical_adds_a_share_of_the_best():
    lexical = np.array([0, 0, 0, 0, 6.0], np.float32)
    alone = np.array([0, 0, 0, 0.5, 1.0])
    dense = np.zeros(5, np.float32)
    expected = LEXICAL_SHARE * (alone + DOCUMENT_SHARE * np.array([0, 0, 0, 1, 1]))
    np.testing.assert_allclose(fuse(dense, lexical, IDS, DOCUMENTS), expected, rtol=1e-6)


def test_no_word_matched():
    dense = np.full(5, 0.3, np.float32)
    np.testing.assert_allclose(fuse(dense, np.zeros(5, np.float32), IDS, DOCUMENTS), fuse(dense, None, IDS, DOCUMENTS))


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_sentences(count):
    ids = np.arange(count)
    score = fuse(np.ones(count, np.float32), np.ones(count, np.float32), ids, np.zeros(count, int))
    assert score.shape == (count,)
    assert np.isfinite(score).all()
