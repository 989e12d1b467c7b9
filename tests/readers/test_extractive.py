from lmkrag.readers.extractive import NOT_FOUND, ExtractiveReader
from lmkrag.types import Hit, Span

TEXT = "The lamp is lit at dusk. Nobody may trim the wick before midnight."


def make_span(*hits: Hit, text: str = TEXT, start: int = 100) -> Span:
    return Span("a.md", "/a.md", start, start + len(text), text, 1.0, None, hits)


def hit(start: int, end: int, score: float, dense: float = 0.6) -> Hit:
    return Hit(1, "a.md", 0, start, end, score, dense, 0.0)


def test_the_best_sentence_is_quoted_with_its_exact_place():
    span = make_span(hit(125, 166, 1.0), hit(100, 125, 0.5))
    answer = ExtractiveReader().answer("When?", [span])
    (citation,) = answer.citations
    assert answer.found
    assert citation.quote == "Nobody may trim the wick before midnight."
    assert span.text[citation.start - span.start : citation.end - span.start] == citation.quote
    assert answer.text == "Nobody may trim the wick before midnight. [1]"


def test_a_hit_that_a_budget_cut_is_quoted_as_far_as_it_is_there():
    span = make_span(hit(125, 166, 1.0), text=TEXT[:40])
    (citation,) = ExtractiveReader().answer("When?", [span]).citations
    assert citation.quote == TEXT[25:40].strip()


def test_nothing_near_is_not_found():
    answer = ExtractiveReader().answer("When?", [make_span(hit(100, 125, 1.0, dense=0.1))])
    assert (answer.found, answer.text, answer.citations) == (False, NOT_FOUND, ())
    assert ExtractiveReader().answer("When?", []).found is False
