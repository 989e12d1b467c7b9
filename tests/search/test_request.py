"""A request is checked once, whoever makes it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmkrag.conversation import Conversation
from lmkrag.errors import UsageError
from lmkrag.search.request import DEFAULT_TOP_K, SearchRequest


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"top_k": 0}, "top_k must be at least 1, not 0"),
        ({"top_k": True}, "top_k must be a whole number, not True"),
        ({"top_k": 2.5}, "top_k must be a whole number, not 2.5"),
        ({"max_tokens": 0}, "max_tokens must be at least 1, not 0"),
        ({"context_tokens": "many"}, "context_tokens must be a whole number, not 'many'"),
        ({"per_document": -1}, "per_document must be at least 1, not -1"),
        ({"mode": "fuzzy"}, "mode 'fuzzy': use 'hybrid', 'dense' or 'lexical'"),
        ({"level": "page"}, "level 'page': use 'passage', 'span', 'sentence' or 'document'"),
        ({"filter": "kind="}, "filter 'kind=': it ends too early"),
        (
            {"filter": "kind~pdf"},
            "filter 'kind~pdf': an operator such as = is missing after 'kind~pdf'",
        ),
        ({"since": "2026-05", "until": "2026-01"}, "since=2026-05 is later than until=2026-01"),
        ({"since": "2026-05-02", "until": "2025"}, "since=2026-05-02 is later than until=2025"),
        ({"filter": ""}, "filter '': it ends too early"),
    ],
)
def test_wrong_values_are_wrong_usage(options, message):
    with pytest.raises(UsageError, match=message):
        SearchRequest(**options)


@given(st.one_of(st.none(), st.integers(1, 99)), st.one_of(st.none(), st.integers(1, 99)))
def test_the_count_is_limited_unless_only_a_budget_is_given(top_k, budget):
    request = SearchRequest(top_k=top_k, max_tokens=budget)
    assert request.limit == (top_k or (None if budget else DEFAULT_TOP_K))


CALLS = {
    "search": lambda engine, **how: engine.search("lamp", **how),
    "search_many": lambda engine, **how: engine.search_many(["lamp"], **how),
    "ask": lambda engine, **how: engine.ask("lamp", **how),
    "ask_many": lambda engine, **how: engine.ask_many(["lamp"], **how),
    "ask_stream": lambda engine, **how: engine.ask_stream("lamp", **how),
    "build_context": lambda engine, **how: engine.build_context("lamp", **how),
    "documents": lambda engine, **how: engine.documents(**how),
    "conversation": lambda engine, **how: Conversation(engine, **how),
}


@pytest.mark.parametrize("call", CALLS)
def test_misspelt_keywords_are_refused(engine, call):
    refused = (
        (TypeError, "filtr")
        if call == "documents"
        else (UsageError, "no option 'filtr': use filter")
    )
    with pytest.raises(refused[0], match=refused[1]):
        CALLS[call](engine, filtr="kind=pdf")


@pytest.mark.parametrize("name", ["index", "until_when", "colour"])
def test_an_option_of_another_kind_is_no_hint(engine, name):
    with pytest.raises(UsageError) as refused:
        engine.search("lamp", **{name: 1})
    assert str(refused.value) == f"no option {name!r}"


async def test_misspelt_keywords_are_refused_by_async_calls(engine):
    with pytest.raises(UsageError, match="no option 'filtr': use filter"):
        await engine.asearch("lamp", filtr="kind=pdf")
    with pytest.raises(UsageError, match="no option 'filtr': use filter"):
        engine.aask_stream("lamp", filtr="kind=pdf")


@pytest.mark.parametrize("call", ["ask", "ask_many", "ask_stream", "build_context", "conversation"])
@pytest.mark.parametrize("options", [{"top_k": 0}, {"max_tokens": 0}])
def test_zero_is_not_the_default(engine, call, options):
    with pytest.raises(UsageError, match="must be at least 1"):
        CALLS[call](engine, **options)


@pytest.mark.parametrize("query", [None, 7, b"lamp", ["lamp"]])
def test_a_question_is_a_string(engine, query):
    with pytest.raises(UsageError, match="a question must be a string, not"):
        engine.search(query)


@pytest.mark.parametrize("query", ["", " \n"])
@pytest.mark.parametrize("call", ["search", "ask"])
def test_a_question_is_not_empty(engine, query, call):
    with pytest.raises(UsageError, match="the question is empty"):
        getattr(engine, call)(query)


async def test_asearch_is_search(engine):
    assert await engine.asearch("the lamp", top_k=3, mode="lexical") == engine.search(
        "the lamp", top_k=3, mode="lexical"
    )
