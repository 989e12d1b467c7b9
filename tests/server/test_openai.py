"""OpenAI's API, spoken by OpenAI's own package, LangChain and LlamaIndex."""

import openai
import pytest
from langchain_openai import ChatOpenAI
from llama_index.core.llms import ChatMessage
from llama_index.llms.openai_like import OpenAILike

from lmkrag.server.problems import Problem
from lmkrag.server.routes.openai import Message, read_conversation

ANSWER = "The harbour master approves leave."
ASKED = [{"role": "user", "content": "who approves leave?"}]


@pytest.fixture(scope="module")
def sdk(server):
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as opened:
        yield opened


def test_models(sdk):
    (model,) = sdk.models.list()
    assert model.id == "demo" and sdk.models.retrieve("demo") == model
    with pytest.raises(openai.NotFoundError, match="no index 'other'"):
        sdk.models.retrieve("other")


def test_completion_with_citations(sdk, client):
    reply = sdk.chat.completions.create(model="demo", messages=ASKED, temperature=0.3)
    message = reply.choices[0].message
    assert ANSWER in message.content
    assert reply.choices[0].finish_reason == "stop"
    assert reply.usage.total_tokens > 5
    (annotation,) = message.annotations
    citation = annotation.url_citation
    assert message.content[citation.start_index : citation.end_index] == "[1]"
    assert citation.title == "lighthouse-handbook.md:51"
    assert client.get(citation.url).status_code == 200
    assert "doc=lighthouse-handbook.md&start=" in citation.url


def test_usage_counts_all_messages(sdk):
    before = [
        {"role": "system", "content": "Answer in the words of the handbook. " * 20},
        {"role": "user", "content": "What is a lamp?"},
        {"role": "assistant", "content": "A light."},
    ]
    alone = sdk.chat.completions.create(model="demo", messages=ASKED).usage
    whole = sdk.chat.completions.create(model="demo", messages=[*before, *ASKED]).usage
    assert whole.prompt_tokens > alone.prompt_tokens + 120


def test_stream(sdk):
    chunks = list(sdk.chat.completions.create(model="demo", messages=ASKED, stream=True))
    assert ANSWER in "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert chunks[-1].choices[0].finish_reason == "stop"
    annotated = [chunk for chunk in chunks if getattr(chunk.choices[0].delta, "annotations", None)]
    assert len(annotated) == 1


def test_a_stream_ends_with_its_usage_where_it_is_asked_for(sdk):
    whole = sdk.chat.completions.create(model="demo", messages=ASKED)
    options = {"include_usage": True}
    *_, end, last = sdk.chat.completions.create(
        model="demo", messages=ASKED, stream=True, stream_options=options
    )
    assert end.choices[0].finish_reason == "stop" and end.usage is None
    assert last.choices == [] and last.usage == whole.usage


def test_follow_up(sdk):
    messages = [
        *ASKED,
        {"role": "assistant", "content": ANSWER},
        {"role": "user", "content": "and when is it lost?"},
    ]
    reply = sdk.chat.completions.create(model="demo", messages=messages)
    assert "end of March" in reply.choices[0].message.content


def test_a_client_may_send_the_citations_of_the_last_answer(sdk):
    first = sdk.chat.completions.create(model="demo", messages=ASKED)
    cited = first.model_extra["citations"]
    assert (
        "approves leave" in cited[0]["quote"] and cited[0]["place"] == "lighthouse-handbook.md:51"
    )
    message = {"role": "assistant", "content": first.choices[0].message.content}
    messages = [*ASKED, message, {"role": "user", "content": "and when is it lost?"}]
    reply = sdk.chat.completions.create(
        model="demo", messages=messages, extra_body={"citations": cited}
    )
    assert "end of March" in reply.choices[0].message.content


def test_errors_are_openais(sdk):
    with pytest.raises(openai.NotFoundError, match="no index 'none'"):
        sdk.chat.completions.create(model="none", messages=ASKED)
    with pytest.raises(openai.BadRequestError, match="the last message must be the user's"):
        sdk.chat.completions.create(model="demo", messages=[{"role": "system", "content": "x"}])
    with pytest.raises(openai.UnprocessableEntityError):
        sdk.chat.completions.create(model="demo", messages=[])


def test_langchain(server):
    model = ChatOpenAI(model="demo", base_url=f"{server.url}/v1", api_key="none")
    assert ANSWER in model.invoke("who approves leave?").content
    assert ANSWER in "".join(chunk.content for chunk in model.stream("who approves leave?"))  # type: ignore[misc]


def test_llama_index(server):
    model = OpenAILike(
        model="demo", api_base=f"{server.url}/v1", api_key="none", is_chat_model=True
    )
    message = ChatMessage(role="user", content="who approves leave?")
    assert ANSWER in model.chat([message]).message.content
    assert ANSWER in [part.message.content for part in model.stream_chat([message])][-1]


def test_conversations():
    def message(role, content):
        return Message(role=role, content=content)

    parts = [
        {"type": "text", "text": "one"},
        {"type": "image_url", "image_url": {}},
        {"type": "text", "text": "two"},
    ]
    assert read_conversation([message("user", parts)]) == ([], "one\ntwo")
    history = [
        message("system", "s"),
        message("user", "a"),
        message("assistant", "b"),
        message("user", "c"),
    ]
    assert read_conversation(history) == ([("a", "b")], "c")
    with pytest.raises(Problem, match="at most 10,000 characters"):
        read_conversation([message("user", "x" * 10_001)])
