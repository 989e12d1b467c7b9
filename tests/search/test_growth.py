from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lmkrag.search.growth import grow_spans
from lmkrag.search.weights import WEIGHTS


def grown(scores, ids=None, documents=None, **how):
    scores = np.array(scores, np.float32)
    ids = np.arange(len(scores)) if ids is None else np.array(ids)
    documents = np.zeros(len(scores), int) if documents is None else np.array(documents)
    return list(grow_spans(scores, ids, documents, **how))


@given(
    arrays(np.float32, st.integers(1, 40), elements=st.floats(-1, 2, width=32)),
    st.data(),
    st.one_of(st.none(), st.integers(0, 5)),
)
def test_spans_tile_the_candidates_and_stay_in_their_document(scores, data, sentences_before):
    size = len(scores)
    gaps = data.draw(st.lists(st.integers(1, 3), min_size=size, max_size=size))
    ids = np.cumsum(gaps)
    documents = np.cumsum(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    spans = list(
        grow_spans(
            scores, ids, documents, weights=replace(WEIGHTS, sentences_before=sentences_before)
        )
    )
    assert sorted(i for first, stop, _ in spans for i in range(first, stop)) == list(range(size))
    for first, stop, hit in spans:
        assert first <= hit < stop
        assert len(set(documents[first:stop])) == 1
        assert (np.diff(ids[first:stop]) == 1).all()
        assert max(hit - first, stop - 1 - hit) <= (
            WEIGHTS.reach if sentences_before is None else sentences_before
        )
        if sentences_before is not None:
            assert hit == stop - 1
    hits = [float(scores[hit]) for _, _, hit in spans]
    assert hits == sorted(hits, reverse=True)


@given(arrays(np.float32, st.integers(2, 20), elements=st.floats(0.125, 2, width=32)))
def test_the_first_span_has_the_greatest_sum(scores):
    keep = 0.9
    first, stop, hit = grown(scores, weights=replace(WEIGHTS, keep=keep))[0]
    gains = scores.astype(float) - float(np.float32(keep * scores[hit]))
    chosen = gains[first:stop].sum()
    for low in range(max(0, hit - WEIGHTS.reach), hit + 1):
        for high in range(hit + 1, min(len(scores), hit + WEIGHTS.reach + 1) + 1):
            assert gains[low:high].sum() <= chosen + 1e-4


def test_spans_neither_grow_from_nor_end_with_what_is_no_hit():
    has_content = np.array([False, True, True, False, False])
    assert grown([2.0, 1.0, 1.0, 1.0, 2.0], has_content=has_content) == [(0, 3, 1)]
    assert grown([1.0, 1.0], has_content=np.array([False, False])) == []


def test_spans_do_not_end_with_what_introduces_the_next():
    lead_in = np.array([False, True, False, True])
    assert grown([0.1, 1.0, 0.1, 0.1], lead_in=lead_in) == [(1, 3, 1), (0, 1, 0), (3, 4, 3)]
    assert grown([1.0, 0.1], lead_in=lead_in[1:3], documents=[0, 1])[0] == (0, 1, 0)
    assert grown(
        [0.1, 1.0, 0.1], lead_in=lead_in[:3], weights=replace(WEIGHTS, sentences_before=1)
    )[0] == (0, 3, 1)


def test_a_poor_neighbour_is_left_out():
    assert grown([0.1, 1.0, 0.99, 0.2], weights=replace(WEIGHTS, keep=0.95))[0] == (1, 3, 1)


def test_sentences_before_takes_the_sentences_before():
    assert grown([0.1, 0.2, 1.0, 0.9], weights=replace(WEIGHTS, sentences_before=2))[0] == (0, 3, 2)


def test_a_gap_or_another_document_stops_growth():
    assert grown([1.0, 1.0], ids=[4, 6])[0] == (0, 1, 0)
    assert grown([1.0, 1.0], documents=[1, 2])[0] == (0, 1, 0)


def test_a_span_ends_where_the_next_section_begins():
    heading = np.array(
        [True, True, False, False, True, False]
    )  # a chapter, its first section, and its second
    content = ~heading
    found = grown([0.6, 0.6, 0.6, 0.6, 0.6, 0.6], has_content=content, heading=heading)
    assert found == [(0, 4, 2), (4, 6, 5)]
