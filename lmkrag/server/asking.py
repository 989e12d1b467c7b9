"""Answer a question on a served index: search on a thread, then read without blocking the event loop."""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple

from sse_starlette import EventSourceResponse

from lmkrag.engine import Engine
from lmkrag.errors import LmkragError
from lmkrag.readers.base import AsyncAnswerStream, Exchange, LanguageModelReader, Reader
from lmkrag.readers.extractive import ExtractiveReader, is_greeting
from lmkrag.results import Answer, Citation, Span, weigh_evidence
from lmkrag.search.filters import quote
from lmkrag.search.request import SearchRequest
from lmkrag.serialization import answer_to_json, to_json
from lmkrag.server.indexes import ServedIndex
from lmkrag.server.schemas import PriorCitation

GRACE = 25.0
"""Seconds that streams may take to end when the server stops."""

Event = tuple[str, Any]
"""The name of an event, empty for none, and its data; a string without a name is sent as it is."""


class Evidence(NamedTuple):
    """The question as it is searched for, what reads its answer, and the spans that it gets."""

    question: str
    reader: Reader
    spans: list[Span]


async def find_evidence(
    index: ServedIndex,
    reader: Reader,
    question: str,
    options: dict[str, Any],
    *,
    history: Sequence[Exchange] = (),
    citations: Sequence[PriorCitation] = (),
) -> Evidence:
    """Search for a question, with the same options for a follow-up.

    A language model rewrites a follow-up into a question that stands alone. Without one, or with a small one, a single
    search looks for all that it may ask. Without the ``citations`` of the answer before, that answer is made again.

    Raises:
        Problem: the search or the reader failed, or the server is busy.
    """
    from lmkrag.conversation import list_readings

    def search(engine: Engine) -> Evidence:
        readings, reading = [question], reader
        model = reader if isinstance(reader, LanguageModelReader) else None
        if history and not is_greeting(question):
            if model is not None and model.prompts.layout == "fenced":
                readings = [model.rewrite(history, question)]
            else:
                before = history[-1][0]
                quoted = [_to_citation(cited.doc_id, cited.start) for cited in citations]
                quoted = quoted or _quote_again(engine, before, options)
                title = _find_title(engine, quoted[0].span.doc_id, options.get("filter")) if quoted else None
                readings = [question] if title is None else list_readings(before, title, question)
                reading = model or ExtractiveReader(quoted=quoted)
        spans = engine.searcher.search_for(reading, readings, SearchRequest(**options))
        best = max(range(len(readings)), key=lambda number: weigh_evidence(spans[number]))
        return Evidence(readings[best], reading, spans[best])

    return await index.run(search)


def _to_citation(doc_id: str, start: int) -> Citation:
    return Citation(1, Span(doc_id, "", start, start, "", 0.0), "", start, start)


def _quote_again(engine: Engine, question: str, options: dict[str, Any]) -> list[Citation]:
    """Answer the question before once more, to know what was quoted."""
    if is_greeting(question):
        return []
    before = engine.ask(question, **options)
    if before.found and not before.citations:
        return [_to_citation(span.doc_id, span.start) for span in before.spans[:1]]
    return list(before.citations)


def _find_title(engine: Engine, doc_id: str, filter: str | None) -> str | None:
    """Return the title of a document; None where the filter keeps it out or it is gone."""
    only = f"doc_id={quote(doc_id)}"
    documents = engine.documents(filter=f"({filter}) and {only}" if filter else only)
    return documents[0].title if documents else None


async def answer(index: ServedIndex, evidence: Evidence) -> Answer:
    """Return the answer that a reader gives from the spans that were found.

    Raises:
        Problem: the reader failed.
    """
    try:
        return await evidence.reader.aanswer(evidence.question, evidence.spans)
    except LmkragError as error:
        raise index.to_problem(error) from error


async def answer_events(index: ServedIndex, asked: str, evidence: Evidence, *, blocks: bool) -> AsyncIterator[Event]:
    """Yield an answer as events: ``spans``, ``text`` piece by piece, and ``answer``, or ``error``.

    ``asked`` is the question of the client. With ``blocks``, spans and the answer come with what is shown of them.
    """
    question, reader, spans = evidence
    shown = {"blocks": [span.to_blocks() for span in spans]} if blocks else {}
    yield "spans", {"spans": to_json(spans), **shown}
    stream: AsyncAnswerStream = reader.astream(question, spans)
    try:
        async for piece in stream:
            yield "text", piece
        yield "answer", answer_reply(asked, await stream.answer(), blocks=blocks)
    except LmkragError as error:
        yield "error", index.to_problem(error).body
    finally:
        await stream.aclose()


def answer_reply(question: str, answer: Answer, *, blocks: bool) -> dict[str, Any]:
    """Return an answer as JSON, with ``blocks`` also what is shown of it."""
    return answer_to_json(question, answer) | ({"blocks": answer.to_blocks()} if blocks else {})


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
