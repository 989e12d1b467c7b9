"""What a model cites is checked against the spans it was given."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmkrag.language.terms import STRAIGHT
from lmkrag.readers.citations import PASSAGES, check_answer, find_quotations, locate_quote
from lmkrag.results import Span
from lmkrag.types import Hit

TEXT = (
    "The lamp is lit at dusk. Nobody may trim the\nkeeper’s wick before midnight. The gate is iron."
)
START = 100


def span(text: str = TEXT, start: int = START, hits: tuple = ()) -> Span:
    return Span("a.md", "/a.md", start, start + len(text), text, 1.0, None, hits)


def check(text: str, spans=None):
    return check_answer(
        text, [span(), span("Bonfires need a permit.", 900)] if spans is None else spans, "test"
    )


def quoted(answer):
    return [(citation.number, citation.quote) for citation in answer.citations]


def test_a_claim_cites_the_sentence_that_says_it():
    answer = check("One must not trim the wick before midnight [1]. Fires need permits [2].")
    assert quoted(answer) == [
        (1, "Nobody may trim the\nkeeper’s wick before midnight."),
        (2, "Bonfires need a permit."),
    ]
    assert (answer.found, answer.warnings) == (True, ())
    for citation in answer.citations:
        inside = citation.span.text[
            citation.start - citation.span.start : citation.end - citation.span.start
        ]
        assert inside == citation.quote


def test_a_quotation_is_located_across_lines_and_forms_of_marks():
    (citation,) = check("It says “trim the keeper's wick” [1].").citations
    assert citation.quote == "trim the\nkeeper’s wick"
    assert citation.start == START + TEXT.index("trim")


@pytest.mark.parametrize(
    ("text", "quotations"),
    [
        ("He said 'the keeper's lamp' and left.", ["the keeper's lamp"]),
        ("The keepers' oil and the 'wick of the lamp'.", ["wick of the lamp"]),
        ("'Tis late, and 'tis dark: \"the lamp is lit\".", ["the lamp is lit"]),
        ("It's 'the lamp is lit ' and 'nobody may trim it'.", ["nobody may trim it"]),
        ("'the lamp\nis lit' but 'the gate is iron'", ["the gate is iron"]),
        (
            "“the lamp's wick 'is long” and 'the gate is iron'",
            ["the lamp's wick 'is long", "the gate is iron"],
        ),
        ("''the lamp is lit''", ["'the lamp is lit"]),
    ],
)
def test_apostrophes_quote_where_they_close(text, quotations):
    assert find_quotations(text) == quotations


def test_marks_that_are_never_closed_cost_little():
    began = time.process_time()
    assert find_quotations(" 'a" * 66_000) == []
    assert time.process_time() - began < 2.0


def test_a_quotation_that_is_not_there_is_told():
    answer = check('It says "the lamp is lit at noon" [1].')
    assert answer.warnings == ("quotes words that do not stand in [1]",)
    assert quoted(answer) == [(1, "The lamp is lit at dusk.")]


@pytest.mark.parametrize(
    ("said", "text", "numbers"),
    [
        ("Dusk [1][2].", "Dusk [1][2].", [1, 2]),
        ("Dusk [1, 2].", "Dusk [1][2].", [1, 2]),
        ("Dusk [1-2].", "Dusk [1][2].", [1, 2]),
        ("Dusk [ 1 ] .", "Dusk [1] .", [1]),
        ("Dusk [1][7].", "Dusk [1].", [1]),
        ("Dusk [0].", "Dusk.", []),
        ("[1] Dusk.", "[1] Dusk.", [1]),
        ("Dusk [sic].", "Dusk [sic].", []),
        ("In [2021] dusk [1].", "In [2021] dusk [1].", [1]),
        ("Orwell [1984].", "Orwell [1984].", []),
        ("Take rows[10] [1].", "Take rows[10] [1].", [1]),
        ("Take rows[2] of it [1].", "Take rows[2] of it [1].", [1]),
        ("At dusk[1]. Permits[2].", "At dusk [1]. Permits [2].", [1, 2]),
        ("At dusk[1]. Permits[9].", "At dusk [1]. Permits.", [1]),
        ("At dusk [1]. Permits [105].", "At dusk [1]. Permits.", [1]),
        ("See `rows [1]` [2].", "See `rows [1]` [2].", [2]),
        ("```\nrows = [1]\n``` [2]", "```\nrows = [1]\n``` [2]", [2]),
    ],
)
def test_numbers(said, text, numbers):
    answer = check(said)
    said, introduction, passages = answer.text.partition(f"\n\n{PASSAGES}\n\n> ")
    assert said == text
    assert bool(introduction and passages) is (
        not numbers
    )  # what cites nothing is followed by them
    assert [citation.number for citation in answer.citations] == numbers


def test_a_number_that_no_span_has_is_told():
    assert check("Dusk [1] [9].").warnings == ("citation [9] matches no retrieved span; removed",)


@pytest.mark.parametrize(
    "said", ["Dusk [1] [9].", "Dusk[1], gate[9].", "Dusk [1]. The gate [105]."]
)
def test_every_form_of_a_number_that_no_span_has_is_told(said):
    assert any("matches no retrieved span; removed" in warning for warning in check(said).warnings)


@pytest.mark.parametrize(
    ("said", "warnings"),
    [
        (
            "The king of the moon is bald [1].",
            ("citation [1] shares no word with what it is cited for",),
        ),
        ("Nobody trims it at noon; it is a permit [1] [2].", ("citation [1] shares no word",)),
        ("Wicks were trimmed [1].", ()),  # other forms of its words
        ("It is so [1].", ()),  # function words say nothing
        ("Nobody trims the wick [1], who is the king of bonfires [2].", ()),
    ],
)
def test_a_citation_that_shares_no_word_with_its_claim_is_told(said, warnings):
    spans = [
        span(TEXT if "permit" not in said else "The gate is iron."),
        span("Bonfires need a permit.", 900),
    ]
    told = check(said, spans).warnings
    assert len(told) == len(warnings)
    assert all(line.startswith(start) for line, start in zip(told, warnings, strict=True))


@pytest.mark.parametrize(
    "marks",
    ["「」", "『』", "‚‘", "‚’", "‘’", "„“", '„"', "„”", "“”", "»«", "«»", "‹›", "›‹", '""', "''"],
)
def test_quotations_in_the_marks_of_any_language(marks):
    opening, closing = marks
    assert check(f"It says {opening}the lamp is lit at dusk{closing} [1].").warnings == ()
    assert check(f"It says {opening}trim the keeper’s wick{closing} [1].").warnings == ()
    wrong = f"{opening}the keeper’s lamp is lit at noon{closing}"
    assert check(f"It says {wrong} [1].").warnings == ("quotes words that do not stand in [1]",)
    assert check("It says:\n\n> the lamp is lit at noon\n\n[1]").warnings == (
        "quotes words that do not stand in [1]",
    )
    (warning,) = check(f"The lamp is lit at dusk [1]. It says {wrong}.").warnings
    assert warning == "quotes words that stand in no passage: the keeper’s lamp is lit at noon"
    assert any("stand in no passage" in line for line in check(f"It says {wrong}.").warnings)


def test_quotations_of_chinese_and_japanese():
    spans = [span("灯台のランプは日没に点灯される。")]
    assert check("「ランプは日没に点灯される」と書かれている [1]。", spans).warnings == ()
    assert check("「ランプは正午に点灯される」と書かれている [1]。", spans).warnings == (
        "quotes words that do not stand in [1]",
    )


@pytest.mark.parametrize(
    "said",
    [
        "The keepers' wicks and the sailors' lamps are lit at dusk [1].",
        'The 5" lamp and the 7" lamp are lit at dusk [1].',
        'The "lamp" is lit at "dusk" [1].',
        "The lamp is lit at dusk: `print('no such words here')` [1].",
    ],
)
def test_what_is_no_quotation(said):
    assert check(said).warnings == ()


def test_an_answer_that_cites_nothing_is_told():
    answer = check("At dusk.")
    assert (answer.found, answer.warnings) == (
        True,
        ("the answer cites no passage, and none has its words",),
    )


@pytest.mark.parametrize(
    "said",
    ["NOT IN THESE DOCUMENTS", "Not in these documents.", "**NOT IN THESE DOCUMENTS**\n\nSorry."],
)
def test_not_found(said):
    answer = check(said)
    assert (answer.found, answer.citations) == (False, ())


def test_without_shared_words_the_hit_is_cited():
    hit = Hit(1, "a.md", 0, START, START + 24, 0.9, 0.9, 0.0)
    (citation,) = check("Abends [1].", [span(hits=(hit,))]).citations
    assert citation.quote == "The lamp is lit at dusk."
    (citation,) = check("Abends [1].", [span()]).citations
    assert citation.quote == TEXT


@given(st.text(), st.lists(st.text(min_size=1), max_size=3))
def test_whatever_a_model_says_citations_are_exact(said, texts):
    spans = [span(text, 10 * number) for number, text in enumerate(texts)]
    answer = check(said + " [1] [2] [3]", spans)
    for citation in answer.citations:
        assert citation.span is spans[citation.number - 1]
        offset = citation.span.start
        assert citation.span.text[citation.start - offset : citation.end - offset] == citation.quote


@given(st.text(min_size=1), st.data())
def test_what_is_copied_is_found(text, data):
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    place = locate_quote(text[start:end], text)
    if place:
        wanted = text[start:end].translate(STRAIGHT).strip(" .,;:…").casefold().split()
        assert text[place[0] : place[1]].translate(STRAIGHT).casefold().split() == wanted
    else:
        assert not text[start:end].strip(" .,;:…").split()
