from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from lmkrag.results import Span, SpanList
from lmkrag.search.packing import fill_budget, pack_spans
from lmkrag.types import Hit


def words(number: int, span: Span) -> int:
    return len(span.text.split())


def framed(number: int, span: Span) -> int:
    """As a prompt would show it: three words around each."""
    return 3 + len(span.text.split())


def span(text: str, start: int = 0, doc_id: str = "a", hit: tuple[int, int] | None = None) -> Span:
    hits = (
        () if hit is None else (Hit(1, doc_id, 0, start + hit[0], start + hit[1], 1.0, 1.0, 0.0),)
    )
    return Span(doc_id, doc_id, start, start + len(text), text, 1.0, None, hits)


def pack(spans, budget, cost=words):
    return pack_spans(spans, budget=budget, cost=cost)[0]


@given(
    st.lists(
        st.lists(st.sampled_from(["a", "bb", "ccc"]), min_size=1, max_size=9).map(" ".join),
        max_size=8,
    ),
    st.integers(1, 20),
)
def test_never_above_the_budget_and_always_exact(texts, budget):
    spans = [span(text, i * 100) for i, text in enumerate(texts)]
    packed = pack(spans, budget)
    assert sum(words(1, s) for s in packed) <= budget
    assert bool(packed) == bool(spans)
    for one in packed:
        whole = next(s for s in spans if s.start == one.start)
        assert whole.text[: one.end - one.start] == one.text


def test_a_cut_span_keeps_its_lines():
    whole = replace(span("one two\nthree four\nfive six seven", hit=(19, 33)), line=7, last_line=9)
    (cut,) = pack([whole], 3)
    assert (cut.text, cut.line, cut.last_line) == ("five six seven", 9, 9)


def test_what_is_said_twice_is_packed_once():
    spans = [
        span("the gate\nis shut"),
        span("at noon", 50),
        span("the gate is  shut", doc_id="copy"),
        span("gate", 90),
    ]
    assert pack(spans, 20) == [spans[0], spans[1], spans[3]]


def test_the_first_is_cut_at_a_word_later_ones_are_left_out():
    spans = [span("one two three four"), span("five six seven", 50), span("eight", 90)]
    assert [s.text for s in pack(spans, 2)] == ["one two"]
    assert [s.text for s in pack(spans, 5)] == ["one two three four", "eight"]


def test_what_frames_a_span_counts():
    spans = [span("one two"), span("three", 50), span("four", 90)]
    assert pack(spans, 9, framed) == spans[:2]
    assert pack(spans, 4, framed) == [span("one")]
    assert pack(spans, 3, framed) == []


@given(st.integers(1, 30), st.integers(0, 19))
def test_a_cut_keeps_the_best_hit(budget, place):
    text = " ".join(f"w{number}" for number in range(20))
    start = text.index(f"w{place}")
    one = span(text, 7, hit=(start, start + len(f"w{place} ")))
    (cut,) = pack([one], budget)
    assert text[cut.start - 7 : cut.end - 7] == cut.text
    assert words(1, cut) == min(budget, 20 - (cut.start > 7) * place)
    assert f"w{place}" in cut.text.split()
    assert cut.start in (7, 7 + start)


@given(
    st.lists(st.integers(1, 6), max_size=60),
    st.integers(1, 150),
    st.one_of(st.none(), st.integers(1, 20)),
)
def test_a_budget_is_filled_however_many_spans_that_takes(lengths, budget, limit):
    spans = [
        span(" ".join(f"s{i}w{j}" for j in range(length)), 100 * i)
        for i, length in enumerate(lengths)
    ]
    found = fill_budget(
        [SpanList(spans[:5]), SpanList(spans[5:])], limit=limit, budget=budget, cost=words
    )
    assert found == pack(spans[:limit], budget) or (
        len(found) >= 1 and sum(lengths[: len(found) + 1]) > budget
    )
    assert sum(words(1, s) for s in found) <= budget
    if sum(lengths[:limit]) <= budget:
        assert found == spans[:limit]


def test_a_text_that_repeats_itself_fills_a_budget_in_few_looks():
    looks = []

    def find_parts():
        for number in range(99):
            looks.append(number)
            yield SpanList(span("the same words", 20 * place) for place in range(100))

    assert len(fill_budget(find_parts(), limit=None, budget=2_000, cost=words)) == 1
    assert looks == [0, 1, 2, 3]
