from hypothesis import given, settings
from hypothesis import strategies as st

from lmkrag.reranker.highlights import highlight, prune

ORCHARD = (
    "The wall around the orchard was built in 1892 by two masons from Bergen. Apples are picked in "
    "May."
)
FERRY = "The ferry leaves at nine. It carries forty people."


def test_the_sentence_that_answers_scores_highest():
    found = highlight("When are apples picked?", ORCHARD)
    best = max(found, key=lambda one: one.score)
    assert ORCHARD[best.sentence.start : best.sentence.end].strip() == "Apples are picked in May."
    assert all(0 <= one.score <= 1 for one in found)


@settings(max_examples=10)
@given(st.text(max_size=1_500))
def test_sentences_are_those_of_the_text_in_order(text):
    found = highlight("What is it?", text)
    assert "".join(text[one.sentence.start : one.sentence.end] for one in found) == text


def test_texts_are_cut_down_to_what_answers_best_first():
    pruned = prune("When are apples picked?", [FERRY, ORCHARD])
    assert (pruned[0].number, pruned[0].text) == (1, "Apples are picked in May.")
    assert [one.number for one in pruned] == [1]


def test_the_best_sentence_is_kept_where_none_answers():
    (only,) = prune("Who repairs the lighthouse lens?", [FERRY, ORCHARD], threshold=0.99)
    assert len(only.kept) == 1


def test_a_threshold_of_zero_keeps_all_as_it_is():
    (only,) = prune("When are apples picked?", [ORCHARD], threshold=0.0)
    assert only.text == ORCHARD


def test_nothing_to_prune():
    assert prune("When?", []) == []
    assert prune("When?", [""]) == []
