"""Quoted phrases and exclusions, parsed and searched for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmkrag import Document, Engine
from lmkrag.errors import UsageError
from lmkrag.language.question import Question
from lmkrag.types import ScoreFactor


@pytest.mark.parametrize(
    ("query", "text", "phrases", "excluded"),
    [
        ('"steam pump" seals', '"steam pump" seals', ["steam pump"], []),
        ("seals of a “Steam Pump”", "seals of a “Steam Pump”", ["steam pump"], []),
        ("« pompe à vapeur » joints", "« pompe à vapeur » joints", ["pompe a vapeur"], []),
        ("pump -gasket", "pump", [], ["gasket"]),
        ('pump -gasket -"hand pump"', "pump", [], ["hand pump", "gasket"]),
        ('-gasket "steam pump"', '-gasket "steam pump"', ["steam pump"], []),
        ("what does ls -al print?", "what does ls -al print?", [], []),
        ("tar -x", "tar -x", [], []),
        ('why is it called "fishbowl"?', 'why is it called "fishbowl"?', [], []),
        ('"fishbowl"', '"fishbowl"', ["fishbowl"], []),
        ('"fishbowl" -helmet', '"fishbowl"', ["fishbowl"], ["helmet"]),
        ('a 5" pipe and a 6" pipe', 'a 5" pipe and a 6" pipe', [], []),
        ('an "unclosed phrase', 'an "unclosed phrase', [], []),
        ('"..." dots', '"..." dots', [], []),
        ("-gasket", "-gasket", [], []),
        (" -gasket", " -gasket", [], []),
    ],
)
def test_parsing(query, text, phrases, excluded):
    question = Question.read(query)
    assert question.text == text
    assert [phrase.strip() for phrase in question.phrases] == phrases
    assert [phrase.strip() for phrase in question.excluded] == excluded


@given(st.text(alphabet='ab "-.“”«»\n'))
def test_any_query_keeps_what_is_no_operator(query):
    question = Question.read(query)
    assert query.startswith(question.text)
    if query.strip():
        assert question.text.strip()
    assert question.text == query or question.excluded


@pytest.fixture(scope="module")
def pumps(encoder, tmp_path_factory):
    texts = {
        "hand": "The pump is worked by hand. Its leather gasket is oiled each spring.",
        "steam": "The boiler feeds an engine. The steam pump has a bronze rotor and no seal of leather.",
        "words": "Steam rises from the pump house. A pump needs steam only in winter, and a gasket each year.",
        "wind": "The wind drives a pump on the hill. It lifts water to the trough.",
    }
    with Engine.open(
        tmp_path_factory.mktemp("pumps") / "index", create=True, encoder=encoder, rerank=False
    ) as engine:
        engine.add([Document(doc_id, doc_id, text) for doc_id, text in texts.items()])
        yield engine


@pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
@pytest.mark.parametrize("level", ["passage", "span", "sentence", "document"])
def test_what_holds_a_phrase_comes_first(pumps, mode, level):
    assert pumps.search('"steam pump"', mode=mode, level=level)[0].doc_id == "steam"
    assert pumps.search('"hill"', mode=mode, level=level)[0].doc_id == "wind"


@pytest.mark.parametrize("level", ["passage", "span", "sentence", "document"])
def test_what_holds_an_excluded_word_is_left_out(pumps, level):
    found = pumps.search("pump", level=level)
    assert any("gasket" in span.text for span in found)
    found = pumps.search("pump -gasket", level=level, operators=True)
    assert found
    assert not any("gasket" in span.text for span in found)
    found = pumps.search('pump -gasket -"steam pump"', level=level, operators=True)
    assert found
    assert not any("gasket" in span.text or "steam pump" in span.text for span in found)


def test_nothing_is_left(pumps):
    assert pumps.search("gasket leather -pump -leather", level="document", operators=True) == []


def test_an_explanation_names_the_phrase(pumps):
    (first, *_) = pumps.search('bronze "steam pump"', explain=True)
    assert ScoreFactor("quoted phrase", 1.5) in first.explanation.factors


@pytest.mark.parametrize(
    "query", ["what prints ls -la", "how do I unpack with tar -xzf", "compile with gcc -gasket"]
)
def test_options_of_commands_exclude_nothing_unless_operators_are_asked_for(
    tmp_path, encoder, query
):
    option = query.rpartition(" -")[2]
    with Engine.open(tmp_path / "index", create=True, encoder=encoder, rerank=False) as engine:
        engine.add(
            Document("a", "", f"The option {option} of the command prints, unpacks and compiles.")
        )
        assert [span.doc_id for span in engine.search(query)] == ["a"]
        assert engine.search_many([query])[0] and engine.ask(query).spans
        assert engine.build_context(query).spans
        assert engine.search(query, operators=True) == []
        with pytest.raises(UsageError, match="operators must be true or false"):
            engine.search(query, operators=1)


def test_an_option_of_a_command_is_no_exclusion():
    assert Question.read("what does ls -al print?").keys.exact == ("-al",)
