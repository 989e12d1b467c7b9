"""OpenAI's Responses API: an index is a model that answers from its documents, with citations."""

import time
import uuid
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import Field, StrictBool

from lmkrag.errors import LmkragError
from lmkrag.readers.base import Reader
from lmkrag.server.asking import answer, find_spans, make_standalone
from lmkrag.server.indexes import ServedIndex
from lmkrag.server.problems import Problem
from lmkrag.server.routes.openai import (
    MAX_MESSAGE,
    MAX_MESSAGES,
    Lenient,
    Message,
    annotate,
    count_usage,
    read_conversation,
)
from lmkrag.server.service import TheService
from lmkrag.server.streams import Event, stream_events
from lmkrag.types import Answer

router = APIRouter(prefix="/v1", tags=["OpenAI"])


class ResponsesBody(Lenient):
    """A question, or a conversation that ends with one; the model is the name of an index."""

    model: str = Field(max_length=200)
    input: Annotated[str, Field(max_length=MAX_MESSAGE)] | Annotated[list[Message], Field(max_length=MAX_MESSAGES)]
    previous_response_id: str | None = None
    stream: StrictBool = False


@router.post(
    "/responses",
    response_model=None,
    responses={200: {"content": {"application/json": {}, "text/event-stream": {}}, "description": "A response."}},
)
async def respond(body: ResponsesBody, request: Request, service: TheService) -> Any:
    """Answer the last question of a conversation from an index's documents; earlier messages explain it."""
    if body.previous_response_id is not None:
        raise Problem(400, "usage", "Responses are not kept", "send the conversation so far as the input")
    index = service.indexes.find(body.model)
    messages = [Message(role="user", content=body.input)] if isinstance(body.input, str) else body.input
    history, question = read_conversation(messages)
    standalone, reader = await make_standalone(index, service.reader, history, question)
    spans = await find_spans(index, reader, standalone, {})
    base = str(request.base_url)
    builder = _Builder(index, question, base)
    if body.stream:
        response: Response = stream_events(_events(builder, reader, standalone, spans))
        return response
    return await builder.completed(await answer(index, reader, standalone, spans))


class _Builder:
    """Builds the JSON of one response: whole, or part by part as it is streamed."""

    def __init__(self, index: ServedIndex, question: str, base: str) -> None:
        self.index, self._question, self._base = index, question, base
        self._response_id, self.item_id = f"resp_{uuid.uuid4().hex}", f"msg_{uuid.uuid4().hex}"
        self._created = int(time.time())

    def response(self, status: str, output: Sequence[Any] = (), usage: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the response."""
        return {
            "id": self._response_id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "model": self.index.name,
            "output": list(output),
            "usage": usage,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "parallel_tool_calls": False,
            "temperature": None,
            "tool_choice": "none",
            "tools": [],
            "top_p": None,
        }

    def item(self, status: str, content: Sequence[Any] = ()) -> dict[str, Any]:
        """Return the message of the response."""
        return {"id": self.item_id, "type": "message", "status": status, "role": "assistant", "content": list(content)}

    def part(self, said: Answer) -> dict[str, Any]:
        """Return the text of the message with its citations."""
        links = [{"type": "url_citation", **one["url_citation"]} for one in annotate(said, self.index, self._base)]
        return {"type": "output_text", "text": said.text, "annotations": links, "logprobs": []}

    async def completed(self, said: Answer) -> dict[str, Any]:
        """Return the whole response."""
        counts = await self.index.run(lambda engine: count_usage(engine, self._question, said.text))
        usage = {
            "input_tokens": counts["prompt_tokens"],
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": counts["completion_tokens"],
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": counts["total_tokens"],
        }
        return self.response("completed", [self.item("completed", [self.part(said)])], usage)


async def _events(builder: _Builder, reader: Reader, question: str, spans: Sequence[Any]) -> AsyncIterator[Event]:
    number = 0

    def event(kind: str, **values: Any) -> Event:
        nonlocal number
        number += 1
        return kind, {"type": kind, "sequence_number": number - 1, **values}

    item = {"item_id": builder.item_id, "output_index": 0, "content_index": 0}
    empty = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    yield event("response.created", response=builder.response("in_progress"))
    yield event("response.output_item.added", output_index=0, item=builder.item("in_progress"))
    yield event("response.content_part.added", **item, part=empty)
    stream = reader.astream(question, spans)
    try:
        async for piece in stream:
            yield event("response.output_text.delta", **item, delta=piece, logprobs=[])
        said = await stream.answer()
        part = builder.part(said)
        yield event("response.output_text.done", **item, text=said.text, logprobs=[])
        yield event("response.content_part.done", **item, part=part)
        yield event("response.output_item.done", output_index=0, item=builder.item("completed", [part]))
        yield event("response.completed", response=await builder.completed(said))
    except LmkragError as error:
        problem = builder.index.to_problem(error)
        yield event("error", code=problem.kind, message=str(problem), param=None)
    finally:
        await stream.aclose()
