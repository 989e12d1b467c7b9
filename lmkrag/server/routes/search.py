"""Searching and asking."""

from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response

from lmkrag.serialization import answer_to_json
from lmkrag.server.asking import answer, answer_events, find_spans
from lmkrag.server.schemas import AnswerReply, AskBody, BatchBody, BatchReply, NamedQuery, SearchBody, SpansReply
from lmkrag.server.service import TheService
from lmkrag.server.streams import stream_events

router = APIRouter(prefix="/api", tags=["search"])


@router.post("/search", response_model=SpansReply)
async def search(body: SearchBody, service: TheService) -> Any:
    """Find the passages that answer a question, best first."""
    index = service.indexes.find(body.index)
    spans = await index.run(lambda engine: engine.search(body.query, **body.options()))
    return {"spans": spans}


@router.post("/search/batch", response_model=BatchReply)
async def search_batch(body: BatchBody, service: TheService) -> Any:
    """Find the passages that answer each of several questions, all in one state of the index."""
    index = service.indexes.find(body.index)
    named = [
        (item.query_id, item.query) if isinstance(item, NamedQuery) else (number, item)
        for number, item in enumerate(body.queries)
    ]
    queries = [query for _, query in named]
    found = await index.run(lambda engine: engine.search_many(queries, **body.options()))
    results = zip(named, found, strict=True)
    return {"results": [{"query_id": name, "spans": spans} for (name, _), spans in results]}


@router.post(
    "/ask",
    response_model=AnswerReply,
    responses={200: {"content": {"text/event-stream": {}}, "description": "The answer, or events with `stream`."}},
)
async def ask(body: AskBody, service: TheService) -> Any:
    """Answer a question from the documents, with citations; with `stream`, as server-sent events."""
    index = service.indexes.find(body.index)
    spans = await find_spans(index, service.reader, body.question, body.options())
    if body.stream:
        response: Response = stream_events(answer_events(index, service.reader, body.question, spans))
        return response
    return answer_to_json(body.question, await answer(index, service.reader, body.question, spans))
