"""Searching and asking."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from lmkrag.results import SpanList
from lmkrag.server import schemas
from lmkrag.server.asking import answer_events, answer_reply, find_evidence, stream_events
from lmkrag.server.service import TheService

router = APIRouter(prefix="/api", tags=["search"])


@router.post("/search", response_model=schemas.SpansReply)
async def search(body: schemas.SearchBody, service: TheService) -> Any:
    """Find the passages that answer a question, best first."""
    spans = await service.indexes.run(
        body.index, lambda engine: engine.search(body.query, **body.options())
    )
    blocks = [span.to_blocks() for span in spans] if body.blocks else None
    return {"spans": spans, "notes": spans.notes, "blocks": blocks}


@router.get("/search", response_model=schemas.SpansReply)
async def search_by_address(
    asked: Annotated[schemas.SearchQuery, Query()], service: TheService
) -> Any:
    """Find the passages that answer a question, best first."""
    spans = await service.indexes.run(
        asked.index, lambda engine: engine.search(asked.q, **asked.options())
    )
    return {"spans": spans, "notes": spans.notes}


@router.post("/search/batch", response_model=schemas.BatchReply)
async def search_batch(body: schemas.BatchBody, service: TheService) -> Any:
    """Find the passages that answer each of several questions, all in one state of the index."""
    results = await service.indexes.run(body.index, body.search)
    return {
        "results": [
            {"spans": spans, "notes": spans.notes}
            if isinstance(spans, SpanList)
            else {"spans": [], "error": str(spans)}
            for spans in results
        ]
    }


@router.post(
    "/ask",
    response_model=schemas.AnswerReply,
    responses={
        200: {
            "content": {"text/event-stream": {}},
            "description": "The answer, or events with `stream`.",
        }
    },
)
async def ask(body: schemas.AskBody, service: TheService) -> Any:
    """Answer a question from the documents, with citations; with `stream`, as server-sent
    events.
    """
    index = service.indexes.find(body.index)
    evidence = await find_evidence(
        index, service.reader, body.question, body.options(), history=body.history
    )
    if body.stream:
        return stream_events(answer_events(body.question, evidence, blocks=body.blocks))
    return answer_reply(body.question, await evidence.answer(), blocks=body.blocks)


@router.post("/check", response_model=schemas.CheckReply)
async def check(body: schemas.CheckBody, service: TheService) -> Any:
    """Tell whether citations still stand: of spans, or the quotations of a text."""
    return {"citations": await service.indexes.run(body.index, body.check)}
