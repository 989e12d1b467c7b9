"""Answer a question on a served index: search on a thread, then read without blocking the event loop."""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

from sse_starlette import EventSourceResponse

from lmkrag.errors import LmkragError
from lmkrag.readers.base import AsyncAnswerStream, Exchange, LanguageModelReader, Reader
from lmkrag.readers.extractive import ExtractiveReader
from lmkrag.results import Answer, Span
from lmkrag.search.request import SearchRequest
from lmkrag.serialization import answer_to_json, to_json
from lmkrag.server.indexes import ServedIndex

GRACE = 25.0
"""Seconds that streams may take to end when the server stops."""

Event = tuple[str, Any]
"""The name of an event, empty for none, and its data; a string without a name is sent as it is."""


async def find_spans(index: ServedIndex, reader: Reader, question: str, options: dict[str, Any]) -> list[Span]:
    """Return the spans that a reader gets for a question.

    Raises:
        Problem: the search failed, or the server is busy.
    """
    (spans,) = await index.run(lambda engine: engine.searcher.search_for(reader, [question], SearchRequest(**options)))
    return spans


async def answer(index: ServedIndex, reader: Reader, question: str, spans: Sequence[Span]) -> Answer:
    """Return the answer that a reader gives from spans.

    Raises:
        Problem: the reader failed.
    """
    try:
        return await reader.aanswer(question, spans)
    except LmkragError as error:
        raise index.to_problem(error) from error


async def answer_events(
    index: ServedIndex, reader: Reader, question: str, spans: Sequence[Span], *, blocks: bool
) -> AsyncIterator[Event]:
    """Yield an answer as events: ``spans``, ``text`` piece by piece, and ``answer``, or ``error``.

    With ``blocks``, spans and the answer come with what is shown of them.
    """
    shown = {"blocks": [span.to_blocks() for span in spans]} if blocks else {}
    yield "spans", {"spans": to_json(spans), **shown}
    stream: AsyncAnswerStream = reader.astream(question, spans)
    try:
        async for piece in stream:
            yield "text", piece
        yield "answer", answer_reply(question, await stream.answer(), blocks=blocks)
    except LmkragError as error:
        yield "error", index.to_problem(error).body
    finally:
        await stream.aclose()


def answer_reply(question: str, answer: Answer, *, blocks: bool) -> dict[str, Any]:
    """Return an answer as JSON, with ``blocks`` also what is shown of it."""
    return answer_to_json(question, answer) | ({"blocks": answer.to_blocks()} if blocks else {})


async def make_standalone(
    index: ServedIndex, reader: Reader, history: Sequence[Exchange], question: str
) -> tuple[str, Reader]:
    """Return a follow-up question as one that stands alone, and what reads its answer.

    A language model rewrites it. Without one, or with a small one, the exchange before is answered again, to know what
    was quoted.

    Raises:
        Problem: the search or the reader failed.
    """
    if not history:
        return question, reader
    from lmkrag.conversation import Conversation

    def follow(engine: Any) -> tuple[str, Reader]:
        model = reader if isinstance(reader, LanguageModelReader) else None
        if model is not None and model.prompts.layout == "fenced":
            return model.rewrite(history, question), model
        conversation = Conversation(engine)
        before = conversation.ask(history[-1][0])
        return conversation.standalone(question), model or ExtractiveReader(quoted=before.citations)

    return await index.run(follow)


def stream_events(events: AsyncIterator[Event]) -> EventSourceResponse:
    """Return a response of events, their data as JSON."""

    async def encoded() -> AsyncIterator[dict[str, str]]:
        try:
            async for name, data in events:
                text = data if isinstance(data, str) and not name else json.dumps(data, ensure_ascii=False)
                yield {"event": name, "data": text} if name else {"data": text}
        finally:
            await events.aclose()  # type: ignore[attr-defined]  # a generator; its reader stops with it

    return EventSourceResponse(encoded(), sep="\n", shutdown_grace_period=GRACE)
