from hypothesis import given
from hypothesis import strategies as st

from lmkrag.retrieval.packing import pack_spans
from lmkrag.types import Span


def words(text: str) -> int:
    return len(text.split())


def span(text: str, start: int = 0, doc_id: str = "a") -> Span:
    return Span(doc_id, doc_id, start, start + len(text), text, 1.0)


@given(
    st.lists(st.lists(st.sampled_from(["a", "bb", "ccc"]), min_size=1, max_size=9).map(" ".join), max_size=8),
    st.integers(1, 20),
)
def test_never_above_the_budget_and_always_exact(texts, budget):
    spans = [span(text, i * 100) for i, text in enumerate(texts)]
    packed = pack_spans(spans, budget=budget, count_tokens=words)
    assert sum(words(s.text) for s in packed) <= budget
    assert bool(packed) == bool(spans)
    for one in packed:
        whole = next(s for s in spans if s.start == one.start)
        assert whole.text[: one.end - one.start] == one.text


def test_what_is_said_twice_is_packed_once():
    spans = [span("the gate\nis shut"), span("at noon", 50), span("the gate is  shut", doc_id="copy"), span("gate", 90)]
    assert pack_spans(spans, budget=20, count_tokens=words) == [spans[0], spans[1], spans[3]]


def test_the_first_is_cut_at_a_word_later_ones_are_left_out():
    spans = [span("one two three four"), span("five six seven", 50), span("eight", 90)]
    assert [s.text for s in pack_spans(spans, budget=2, count_tokens=words)] == ["one two"]
    assert [s.text for s in pack_spans(spans, budget=5, count_tokens=words)] == ["one two three four", "eight"]
