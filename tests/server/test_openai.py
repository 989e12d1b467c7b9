"""OpenAI's API, spoken by OpenAI's own package, LangChain and LlamaIndex."""

import numpy as np
import openai
import pytest
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from llama_index.core.llms import ChatMessage
from llama_index.llms.openai_like import OpenAILike

from lmkrag.server.problems import Problem
from lmkrag.server.routes.openai import Message, read_conversation

ANSWER = "An appeal against a refusal goes to the secretary of the Trust within fourteen days. [1]"
ASKED = [{"role": "user", "content": "who approves leave?"}]


@pytest.fixture(scope="module")
def sdk(server):
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as opened:
        yield opened


def test_models(sdk):
    assert [model.id for model in sdk.models.list()] == ["demo"]


def test_completion_with_citations(sdk, client):
    reply = sdk.chat.completions.create(model="demo", messages=ASKED, temperature=0.3)
    message = reply.choices[0].message
    assert message.content.endswith(ANSWER)
    assert reply.choices[0].finish_reason == "stop"
    assert reply.usage.total_tokens > 5
    (annotation,) = message.annotations
    citation = annotation.url_citation
    assert message.content[citation.start_index : citation.end_index] == "[1]"
    assert citation.title == "lighthouse-handbook.md:51"
    assert client.get(citation.url).status_code == 200
    assert "doc=lighthouse-handbook.md&start=" in citation.url


def test_stream(sdk):
    chunks = list(sdk.chat.completions.create(model="demo", messages=ASKED, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks).endswith(ANSWER)
    assert chunks[-1].choices[0].finish_reason == "stop"
    annotated = [chunk for chunk in chunks if getattr(chunk.choices[0].delta, "annotations", None)]
    assert len(annotated) == 1


def test_follow_up(sdk):
    messages = [*ASKED, {"role": "assistant", "content": ANSWER}, {"role": "user", "content": "and when is it lost?"}]
    reply = sdk.chat.completions.create(model="demo", messages=messages)
    assert "end of March" in reply.choices[0].message.content


def test_embeddings(sdk, encoder):
    reply = sdk.embeddings.create(model="demo", input=["The lamp is lit at dusk.", "Leave is accrued. It is not lost."])
    vectors = np.array([item.embedding for item in reply.data])
    assert vectors.shape == (2, encoder.spec.dimensions)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    plain = sdk.embeddings.create(model="demo", input="The lamp is lit at dusk.", encoding_format="float")
    np.testing.assert_allclose(plain.data[0].embedding, vectors[0], atol=1e-4)


def test_errors_are_openais(sdk):
    with pytest.raises(openai.NotFoundError, match="no index 'none'"):
        sdk.chat.completions.create(model="none", messages=ASKED)
    with pytest.raises(openai.BadRequestError, match="the last message must be the user's"):
        sdk.chat.completions.create(model="demo", messages=[{"role": "system", "content": "x"}])
    with pytest.raises(openai.UnprocessableEntityError):
        sdk.chat.completions.create(model="demo", messages=[])
    with pytest.raises(openai.BadRequestError, match="texts that are not empty"):
        sdk.embeddings.create(model="demo", input=[" "])


def test_langchain(server):
    model = ChatOpenAI(model="demo", base_url=f"{server.url}/v1", api_key="none")
    assert model.invoke("who approves leave?").content.endswith(ANSWER)
    assert "".join(chunk.content for chunk in model.stream("who approves leave?")).endswith(ANSWER)  # type: ignore[misc]
    embeddings = OpenAIEmbeddings(
        model="demo", base_url=f"{server.url}/v1", api_key="none", check_embedding_ctx_length=False
    )
    assert len(embeddings.embed_query("The lamp is lit at dusk.")) == 384


def test_llama_index(server):
    model = OpenAILike(model="demo", api_base=f"{server.url}/v1", api_key="none", is_chat_model=True)
    message = ChatMessage(role="user", content="who approves leave?")
    assert model.chat([message]).message.content.endswith(ANSWER)
    assert [part.message.content for part in model.stream_chat([message])][-1].endswith(ANSWER)


def test_conversations():
    def message(role, content):
        return Message(role=role, content=content)

    parts = [{"type": "text", "text": "one"}, {"type": "image_url", "image_url": {}}, {"type": "text", "text": "two"}]
    assert read_conversation([message("user", parts)]) == ([], "one\ntwo")
    history = [message("system", "s"), message("user", "a"), message("assistant", "b"), message("user", "c")]
    assert read_conversation(history) == ([("a", "b")], "c")
    with pytest.raises(Problem, match="at most 10,000 characters"):
        read_conversation([message("user", "x" * 10_001)])


def test_responses(sdk, server):
    made = sdk.responses.create(model="demo", input="who approves leave?")
    assert made.status == "completed"
    assert made.output_text.endswith(ANSWER)
    (link,) = made.output[0].content[0].annotations
    assert link.type == "url_citation"
    assert link.url.startswith(f"{server.url}/?index=demo&doc=")
    assert made.output_text[link.start_index : link.end_index] == "[1]"
    assert made.usage.total_tokens == made.usage.input_tokens + made.usage.output_tokens > 2


def test_responses_are_streamed(sdk):
    question = [{"role": "user", "content": [{"type": "input_text", "text": "who approves leave?"}]}]
    with sdk.responses.stream(model="demo", input=question) as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert (events[0].type, events[-1].type) == ("response.created", "response.completed")
    said = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert said == final.output_text
    assert said.endswith(ANSWER)
    assert final.output[0].content[0].annotations


def test_a_response_continues_a_conversation_that_is_sent(sdk):
    before = sdk.responses.create(model="demo", input="who approves leave?")
    asked = [
        {"role": "user", "content": "who approves leave?"},
        *(item.model_dump(exclude_none=True) for item in before.output),
        {"role": "user", "content": "And how is it accrued?"},
    ]
    assert "accrued" in sdk.responses.create(model="demo", input=asked).output_text
    with pytest.raises(openai.BadRequestError, match="send the conversation so far"):
        sdk.responses.create(model="demo", input="And how?", previous_response_id=before.id)
    with pytest.raises(openai.BadRequestError, match="the last message must be the user's"):
        sdk.responses.create(model="demo", input=[{"role": "assistant", "content": "x"}])
