"""The indexes that are served, their first documents, the session of a page, and the health of the
server.
"""

from collections.abc import Iterator
from dataclasses import asdict
from textwrap import shorten
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from lmkrag.engine import Engine
from lmkrag.rendering.places import TABLES, is_record
from lmkrag.sentences.split import split_sentences
from lmkrag.sentences.table_rows import read_record
from lmkrag.server.guard import COOKIE, read_session
from lmkrag.server.problems import Problem
from lmkrag.server.schemas import IndexesReply, LoginBody, StatusReply, SummariesReply
from lmkrag.server.service import TheIndex, TheService
from lmkrag.server.sessions import SESSION
from lmkrag.server.settings import FollowerState

router = APIRouter(prefix="/api", tags=["indexes"])

_COUNTS = ("documents", "sentences", "generation")
_SUMMARIES = 8  # documents
_SUMMARIZED = 4_000  # characters of a document that are searched for its line
_SHORTEST, _LONGEST = 25, 140  # characters of a line


@router.get("/indexes", response_model=IndexesReply)
async def list_indexes(service: TheService) -> Any:
    """List the indexes of this server; one that can't be read has an error."""
    indexes: list[dict[str, Any]] = []
    for index in service.indexes.by_name.values():
        try:
            status = await index.run(lambda engine: engine.status())
        except Problem as problem:
            counts = dict.fromkeys(_COUNTS, 0)
            indexes.append({"name": index.name, **counts, "error": str(problem)})
        else:
            indexes.append(
                {"name": index.name, **{name: getattr(status, name) for name in _COUNTS}}
            )
    return {
        "indexes": indexes,
        "writable": service.uploads is not None,
        "reader": service.reader.name,
    }


@router.get("/status", response_model=StatusReply)
async def read_status(service: TheService, index: TheIndex) -> Any:
    """Return what an index holds; of a folder that is served also how far indexing is, or since
    when it has failed.
    """
    state = service.settings.follower_state()
    status = asdict(await index.run(lambda engine: engine.status()))
    return status | {
        "name": index.name,
        "writable": service.uploads is not None,
        "reader": service.reader.name,
        "indexing": state.indexing and state.indexing._asdict(),
        "follows": service.settings.follower_state is not FollowerState,
        "not_followed_since": state.not_followed_since,
    }


@router.get("/summaries", response_model=SummariesReply)
async def list_summaries(index: TheIndex) -> Any:
    """Return the first documents of an index, in a line each."""

    def summarize(engine: Engine) -> dict[str, Any]:
        documents = []
        for info in engine.documents(limit=_SUMMARIES):
            text = engine.read(info.doc_id, 0, _SUMMARIZED)
            if info.kind in TABLES:
                row = next(filter(is_record, text.splitlines()), "")
                line = ", ".join(column for column, _, _ in read_record(row, 0))
            else:
                line = next(_read_prose(text), "")
            summary = shorten(line, _LONGEST, placeholder=" …")
            documents.append(
                {"doc_id": info.doc_id, "title": info.title, "kind": info.kind, "summary": summary}
            )
        return {"documents": documents}

    return await index.run(summarize)


def _read_prose(text: str) -> Iterator[str]:
    """The sentences of a text that make sense alone."""
    for sentence in split_sentences(text):
        words = " ".join(text[sentence.start : sentence.end].split())
        if sentence.kind == "text" and len(words) >= _SHORTEST and words[-1] in ".!?。":
            yield words


@router.post("/login", status_code=204, response_class=Response)
async def log_in(body: LoginBody, request: Request, service: TheService) -> Response:
    """Begin a session: a cookie takes the place of the token, which a page's images can't send."""
    guard = service.guard
    assert guard is not None
    if not await guard.is_token(body.token, request.scope):
        raise Problem(401, "unauthorized", "Wrong token", "this is not the server's token")
    response = Response(status_code=204)
    if service.settings.token is not None:
        is_secure, name = request.url.scheme == "https", guard.sessions.begin()
        response.set_cookie(
            COOKIE, name, SESSION, httponly=True, samesite="strict", secure=is_secure
        )
    return response


@router.post("/logout", status_code=204, response_class=Response)
async def log_out(request: Request, service: TheService) -> Response:
    """End a session, here and in the browser."""
    assert service.guard is not None
    service.guard.sessions.end(read_session(request.headers))
    response = Response(status_code=204)
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return response


health = APIRouter(tags=["health"])


@health.get("/healthz")
async def is_alive() -> dict[str, str]:
    """Return 200 while the server lives."""
    return {"status": "alive"}


@health.get(
    "/readyz",
    responses={
        503: {
            "description": (
                "An index can't be read, a folder is not followed, or the server still warms up."
            )
        }
    },
)
def is_ready(service: TheService) -> Response:
    """Return 200 once a search has warmed every index up, while each can be read and the served
    folder is followed.
    """
    if not service.ready:
        raise Problem(
            503, "not-ready", "Not ready", "the server warms up", headers={"Retry-After": "1"}
        )
    for index in service.indexes.by_name.values():
        index.call(lambda engine: engine.documents(limit=1))
    if since := service.settings.follower_state().not_followed_since:
        raise Problem(
            503,
            "not-followed",
            "Not followed",
            f"changes of the folder are not followed since {since}",
        )
    return JSONResponse({"status": "ready"})


@health.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
def render_metrics(service: TheService) -> Response:
    """Return requests, latencies, queues and the state of each index in Prometheus's text
    format.
    """
    return Response(service.metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")
