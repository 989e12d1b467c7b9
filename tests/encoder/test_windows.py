from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmkrag.encoder.windows import plan_windows

COUNTS = st.lists(st.integers(1, 40), max_size=60)


@given(COUNTS, st.integers(40, 120), st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.75]))
def test_each_sentence_is_owned_once_by_a_window_that_holds_it(counts, budget, overlap):
    windows = list(plan_windows(counts, budget=budget, overlap=overlap))
    assert [i for w in windows for i in range(w.own_first, w.own_stop)] == list(range(len(counts)))
    for window in windows:
        assert window.first <= window.own_first <= window.own_stop <= window.stop
        assert window.tokens == sum(counts[window.first : window.stop]) <= budget


@given(COUNTS, st.integers(40, 120), st.sampled_from([0.0, 0.25, 0.5, 0.75]))
def test_the_owner_gives_the_most_context(counts, budget, overlap):
    windows = list(plan_windows(counts, budget=budget, overlap=overlap))

    def context(window, i):
        return min(sum(counts[window.first : i]), sum(counts[i + 1 : window.stop]))

    for left, right in pairwise(windows):
        for i in range(right.first, left.stop):
            chosen, other = (right, left) if right.own_first <= i else (left, right)
            if chosen.own_first <= i < chosen.own_stop:
                assert context(chosen, i) >= context(other, i)


def test_planning_is_streamed():
    pulled = 0

    def endless():
        nonlocal pulled
        while True:
            pulled += 1
            yield 10

    next(plan_windows(endless(), budget=100, overlap=0.5))
    assert pulled < 40


def test_a_sentence_above_the_budget_is_refused():
    with pytest.raises(ValueError, match=r"a sentence of 11 tokens is above the budget of 10"):
        list(plan_windows([5, 11], budget=10))


def test_overlap_out_of_range():
    with pytest.raises(ValueError, match=r"overlap must be in \[0, 1\)"):
        list(plan_windows([5], budget=10, overlap=1.0))
