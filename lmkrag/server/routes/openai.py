"""The API that OpenAI's clients speak: an index is a model that answers from its documents, with
citations.
"""

import time
import uuid
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field, StrictBool
from sse_starlette import ServerSentEvent

from lmkrag.errors import LmkragError
from lmkrag.readers.base import Exchange
from lmkrag.results import Answer
from lmkrag.server.asking import Evidence, event, find_evidence, stream_events
from lmkrag.server.indexes import ServedIndex
from lmkrag.server.problems import Problem
from lmkrag.server.schemas import MAX_QUERY
from lmkrag.server.service import TheService

router = APIRouter(prefix="/v1", tags=["OpenAI"])

_MAX_MESSAGES = 200
_MAX_MESSAGE = 200_000


class ContentPart(BaseModel):
    """A part of a message."""

    type: str
    text: str = Field("", max_length=_MAX_MESSAGE)


class Message(BaseModel):
    """A message of a conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Annotated[str, Field(max_length=_MAX_MESSAGE)] | list[ContentPart] | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content if part.type == "text")
        return self.content or ""


class ChatBody(BaseModel):
    """A conversation that ends with a question; the model is the name of an index."""

    model: str = Field(max_length=200)
    messages: list[Message] = Field(min_length=1, max_length=_MAX_MESSAGES)
    stream: StrictBool = False
    stream_options: dict[str, Any] | None = None


@router.get("/models")
async def list_models(service: TheService) -> dict[str, Any]:
    """List the indexes as models."""
    return {
        "object": "list",
        "data": [await retrieve_model(name, service) for name in service.indexes.by_name],
    }


@router.get("/models/{model}")
async def retrieve_model(model: str, service: TheService) -> dict[str, Any]:
    """Return an index as a model."""
    return {
        "id": service.indexes.find(model).name,
        "object": "model",
        "created": 0,
        "owned_by": "lmkrag",
    }


@router.post(
    "/chat/completions",
    response_model=None,
    responses={
        200: {
            "content": {"application/json": {}, "text/event-stream": {}},
            "description": "A completion.",
        }
    },
)
async def complete_chat(body: ChatBody, request: Request, service: TheService) -> Any:
    """Answer the last question of a conversation from an index's documents; earlier messages
    explain it.
    """
    index = service.indexes.find(body.model)
    history, question = read_conversation(body.messages)
    sent = "\n".join(message.text for message in body.messages)
    evidence = await find_evidence(index, service.reader, question, {}, history=history)
    base = str(request.base_url)
    head = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": index.name}
    if body.stream:
        counted = sent if (body.stream_options or {}).get("include_usage") else ""
        return stream_events(_chunks(evidence, base, head, counted))
    reply = await evidence.answer()
    message = {
        "role": "assistant",
        "content": reply.text,
        "refusal": None,
        "annotations": _annotate(reply, index, base),
    }
    return {
        **head,
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
        "usage": await _count_tokens(index, sent, reply),
        **_describe_checks(reply),
    }


async def _count_tokens(index: ServedIndex, sent: str, reply: Answer) -> dict[str, int]:
    texts = sent, reply.text
    counts = await index.run(lambda engine: [engine.encoders.count_tokens(text) for text in texts])
    return {"prompt_tokens": counts[0], "completion_tokens": counts[1], "total_tokens": sum(counts)}


def _describe_checks(answer: Answer) -> dict[str, Any]:
    """Return the fields that OpenAI's API lacks: exact citations, the warnings of their check, and
    who answered.
    """
    return {
        "citations": [citation.to_dict() for citation in answer.citations],
        "warnings": answer.warnings,
        "answered_by": answer.answered_by,
    }


async def _chunks(
    evidence: Evidence, base: str, head: Any, counted: str
) -> AsyncIterator[ServerSentEvent]:
    def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> ServerSentEvent:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return event({**head, "object": "chat.completion.chunk", "choices": [choice], **more})

    yield chunk({"role": "assistant", "content": ""})
    index = evidence.served
    try:
        async with evidence.stream() as stream:
            async for piece in stream:
                yield chunk({"content": piece})
            reply = await stream.answer()
        annotated = {"content": "", "annotations": _annotate(reply, index, base)}
        yield chunk(annotated, **_describe_checks(reply))
        yield chunk({}, "stop")
        if counted:
            yield chunk({}, choices=[], usage=await _count_tokens(index, counted, reply))
        yield ServerSentEvent("[DONE]", sep="\n")
    except (LmkragError, Problem) as error:
        problem = error if isinstance(error, Problem) else index.to_problem(error)
        yield event(problem.to_openai())


def read_conversation(messages: Sequence[Message]) -> tuple[list[Exchange], str]:
    """Return the exchanges so far and the question that comes last. Raises Problem: there is
    none.
    """
    exchanges: list[Exchange] = []
    question = ""
    for message in messages:
        if message.role == "user":
            question = message.text.strip()
        elif message.role == "assistant" and question and message.text:
            exchanges.append((question, message.text))
            question = ""
    if not question:
        raise Problem(400, "usage", "the last message must be the user's, and have text")
    if len(question) > MAX_QUERY:
        raise Problem(400, "usage", f"a question has at most {MAX_QUERY:,} characters")
    return exchanges, question


def _find_mark(mark: str, answer: Answer) -> tuple[int, int]:
    """Where the mark of a citation is in the text of an answer; (0, 0) where it is not."""
    # A quoted text may have the same words. The mark ends the quote, and only between quotes a line
    # is empty.
    end = "\n\n" if answer.quotes else ""
    start = f"{answer.text}{end}".find(f"{mark}{end}")
    return (0, 0) if start < 0 else (start, start + len(mark))


def _annotate(answer: Answer, index: ServedIndex, base: str) -> list[dict[str, Any]]:
    """Return an answer's citations as OpenAI's annotations: links to the page, opened at the
    quotation.
    """
    annotations = []
    for citation in answer.citations:
        start, end = _find_mark(f"[{citation.number}]", answer)
        state = {
            "index": index.name,
            "doc": citation.span.doc_id,
            "start": citation.start,
            "end": citation.end,
        }
        link = {
            "url": f"{base}?{urlencode(state)}",
            "title": citation.place,
            "start_index": start,
            "end_index": end,
        }
        annotations.append({"type": "url_citation", "url_citation": link})
    return annotations
