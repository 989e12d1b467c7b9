"""Answer questions from a served index: search on a thread, then read without blocking the event
loop.
"""

from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from sse_starlette import EventSourceResponse, JSONServerSentEvent, ServerSentEvent

from lmkrag.engine import Engine
from lmkrag.errors import LmkragError
from lmkrag.readers.base import AsyncAnswerStream, Exchange, Reader
from lmkrag.results import Answer, SpanList
from lmkrag.search.request import SearchRequest
from lmkrag.serialization import answer_to_json, to_json
from lmkrag.server.indexes import ServedIndex

event = partial(JSONServerSentEvent, sep="\n")  # data as JSON
GRACE = 25.0  # seconds that streams may take to end when the server stops


class Evidence(NamedTuple):
    """An index, the question as it is searched for, the reader, and the spans it answers from."""

    served: ServedIndex
    question: str
    reader: Reader
    spans: SpanList

    def stream(self) -> AsyncAnswerStream:
        """Return the reader's answer, as it is written."""
        return self.reader.astream(self.question, self.spans).with_notes(self.spans.notes)

    async def answer(self) -> Answer:
        """Return the reader's answer. Raises Problem: the reader failed."""
        try:
            return await self.stream().answer()
        except LmkragError as error:
            raise self.served.to_problem(error) from error


async def find_evidence(
    index: ServedIndex,
    reader: Reader,
    question: str,
    options: dict[str, Any],
    *,
    history: Sequence[Exchange] = (),
) -> Evidence:
    """Search for a question, a follow-up as one that stands alone. Raises Problem: it failed, or
    the server is busy.
    """
    from lmkrag.conversation import make_standalone

    def search(engine: Engine) -> Evidence:
        standalone = make_standalone(reader, history, question)
        (spans,) = engine.finder.search_for(reader, [standalone], SearchRequest(**options))
        return Evidence(index, standalone, reader, spans)

    return await index.run(search)


async def answer_events(
    question: str, evidence: Evidence, *, blocks: bool
) -> AsyncIterator[ServerSentEvent]:
    """Yield the answer to a question as events: ``spans``, ``text`` piece by piece, ``answer`` or
    ``error``.
    """
    spans = evidence.spans
    trees = {"blocks": [span.to_blocks() for span in spans]} if blocks else {}
    yield event({"spans": to_json(spans), **trees}, event="spans")
    try:
        async with evidence.stream() as stream:
            async for piece in stream:
                yield event(piece, event="text")
            reply = answer_reply(question, await stream.answer(), blocks=blocks)
            yield event(reply, event="answer")
    except LmkragError as error:
        yield event(evidence.served.to_problem(error).body, event="error")


def answer_reply(question: str, answer: Answer, *, blocks: bool) -> dict[str, Any]:
    """Return an answer as JSON, with ``blocks`` also as a tree of elements."""
    return answer_to_json(question, answer) | ({"blocks": answer.to_blocks()} if blocks else {})


def stream_events(events: AsyncIterator[ServerSentEvent]) -> EventSourceResponse:
    """Return a response of events; it closes the generator, whose reader stops with it."""
    return EventSourceResponse(events, sep="\n", shutdown_grace_period=GRACE)
