"""Documents scored by the softmax over their landmarks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmkrag.retrieval.documents import pool_scores

SCORES = st.lists(st.tuples(st.integers(0, 3), st.floats(-1, 1, width=32)), min_size=1, max_size=20)


@given(SCORES, st.sampled_from([0.01, 0.05, 1.0]))
def test_between_the_mean_and_the_best(pairs, temperature):
    documents = np.array([document for document, _ in pairs])
    scores = np.array([score for _, score in pairs], np.float32)
    found = pool_scores(scores, documents, temperature=temperature)
    assert sorted(found) == sorted(set(documents.tolist()))
    for document, score in found.items():
        own = scores[documents == document]
        assert own.mean() - 1e-5 <= score <= own.max() + 1e-5


def test_temperature_goes_from_the_best_to_the_mean():
    scores, documents = np.array([0.9, 0.1], np.float32), np.zeros(2, int)
    assert pool_scores(scores, documents, temperature=1e-3)[0] == pytest.approx(0.9)
    assert pool_scores(scores, documents, temperature=1e3)[0] == pytest.approx(0.5, abs=1e-3)
