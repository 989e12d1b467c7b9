"""Follow-up questions are understood from what was asked before."""

import pytest

from lmkrag.conversation import Conversation, carry_over, complete_question
from lmkrag.errors import UsageError
from lmkrag.readers.openai import OpenAIReader
from lmkrag.readers.prompt import Prompts, lay_out
from lmkrag.readers.transformers import TransformersReader


def test_without_a_model_a_follow_up_is_asked_with_the_question_before(engine):
    conversation = Conversation(engine, top_k=3)
    assert conversation.standalone("And how often?") == "And how often?"
    first = conversation.ask("When must the fog horn sound?")
    assert (
        conversation.standalone("And how often?")
        == "And how often? (When must the fog horn sound?)"
    )
    assert conversation.standalone("Who does it?") == "Who does it? (When must the fog horn sound?)"
    second = conversation.ask("And how often?")
    assert second.spans[0].doc_id == first.spans[0].doc_id
    assert len(second.spans) <= 3
    assert [question for question, _ in conversation.history] == [
        "When must the fog horn sound?",
        "And how often?",
    ]
    conversation.forget()
    assert conversation.standalone("And how often?") == "And how often?"


def test_a_follow_up_keeps_the_filter(engine):
    only = "doc_id=beekeeping.html"
    conversation = Conversation(engine, filter=only)
    conversation.ask("When must the fog horn sound?")
    answer = conversation.ask("And how often?")
    assert {span.doc_id for span in answer.spans} == {"beekeeping.html"}


@pytest.mark.parametrize(
    ("before", "question", "carried"),
    [
        ("What is the fare to Bergen?", "And in Oslo?", "What is the fare to Oslo?"),
        ("What did sales reach in 2021?", "What about 2022?", "What did sales reach in 2022?"),
        ("How many B-7 are in stock?", "and B-12?", "How many B-12 are in stock?"),
        ("Who keeps the lamp?", "And in Oslo?", "And in Oslo? (Who keeps the lamp?)"),
        (
            "How do I request leave?",
            "And who signs it off?",
            "And who signs it off? (How do I request leave?)",
        ),
    ],
)
def test_what_a_follow_up_leaves_out(before, question, carried):
    assert carry_over(before, question) == carried


def test_a_greeting_is_no_question(engine):
    conversation = Conversation(engine)
    conversation.ask("When must the fog horn sound?")
    for greeting in ("Hello!", "thanks", "Good morning", "danke"):
        answer = conversation.ask(greeting)
        assert (answer.text, answer.found) == ("Hello. Ask a question about the documents.", False)
    assert len(conversation.history) == 1
    assert conversation.standalone("And how often?").endswith("(When must the fog horn sound?)")
    assert (
        engine.ask("Which keeper says good morning to the mainland?").text
        != "Hello. Ask a question about the documents."
    )


def test_a_question_about_something_else_stands_alone(engine):
    conversation = Conversation(engine)
    conversation.ask("When must the fog horn sound?")
    question = "How much honey does a colony need for the winter?"
    assert conversation.standalone(question) == question
    assert conversation.ask(question).citations[0].span.doc_id == "beekeeping.html"


def test_a_model_rewrites_the_follow_up(engine, causal_model):
    conversation = Conversation(
        engine, reader=TransformersReader(str(causal_model), max_tokens=60, prompts=Prompts.load())
    )
    conversation.ask("Where are bonfires allowed?")
    assert conversation.standalone("And when?").startswith(
        "bonfires are allowed only in iron baskets"
    )
    answer = conversation.ask("And when?")
    assert answer.found
    assert len(conversation.history) == 2


async def test_the_engine_asks_without_blocking(engine, chat_server, causal_model):
    reader = OpenAIReader(model=str(causal_model), base_url=chat_server, max_tokens=60)
    stream = engine.aask_stream("Where are bonfires allowed?", reader=reader, top_k=2)
    assert len([piece async for piece in stream]) > 3
    assert (
        await stream.answer()
        == await engine.aask_stream("Where are bonfires allowed?", reader=reader, top_k=2).answer()
    )
    assert (await engine.aask_stream("Where are bonfires allowed?").answer()).reader == "extractive"


@pytest.mark.parametrize("budget", [300, 900])
def test_the_budget_is_counted_by_the_readers_own_tokenizer(engine, causal_model, budget):
    reader = TransformersReader(str(causal_model), max_tokens=5, prompts=Prompts.load())
    answer = engine.ask("Where are bonfires allowed?", reader=reader, context_tokens=budget)
    shown = lay_out(answer.spans, "0" * 12)
    assert 0.5 * budget < reader.count_tokens(shown) <= 1.1 * budget
    with pytest.raises(
        UsageError, match="20 tokens hold no span with its source: the best one takes"
    ):
        engine.ask("Where are bonfires allowed?", reader=reader, context_tokens=20)


def test_context_for_a_prompt_of_ones_own(engine):
    context = engine.build_context("Where are bonfires allowed?", context_tokens=200)
    assert context.tokens == engine.encoders.encoder.count_tokens(context.text)
    assert 100 < context.tokens <= 200
    for number, span in enumerate(context.spans, 1):
        assert f"<<<SPAN {number} " in context.text
        assert span.text in context.text


def test_carry_over_by_example():
    assert carry_over("What is the fare to Bergen?", "And to Oslo?") == "What is the fare to Oslo?"
    assert (
        carry_over("How do I request leave?", "And who signs it off?")
        == "And who signs it off? (How do I request leave?)"
    )


def test_complete_question_by_example():
    assert (
        complete_question(["Who repairs the pump?", "And the winch?"], "Where are its papers?")
        == "Where are its papers? (Who repairs the pump?)"
    )
    assert (
        complete_question(["Who repairs the pump?"], "What is the fare to Bergen?")
        == "What is the fare to Bergen?"
    )
