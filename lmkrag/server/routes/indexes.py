"""The indexes that are served, what a page shows first, feedback, sessions, and the health of the
server.
"""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from lmkrag.server.guard import COOKIE
from lmkrag.server.overview import Overview
from lmkrag.server.problems import Problem
from lmkrag.server.schemas import FeedbackBody, IndexesReply, LoginBody, StatusReply
from lmkrag.server.service import TheIndex, TheService
from lmkrag.server.sessions import SESSION
from lmkrag.server.settings import FollowerState

router = APIRouter(prefix="/api", tags=["indexes"])


@router.get("/indexes", response_model=IndexesReply)
async def list_indexes(service: TheService) -> Any:
    """List the indexes of this server; one that can't be read has an error."""
    indexes: list[dict[str, Any]] = []
    for index in service.indexes.by_name.values():
        try:
            status = asdict(await index.run(lambda engine: engine.status()))
        except Problem as problem:
            status = {"error": str(problem)}
        indexes.append({"name": index.name, **status})
    return {
        "indexes": indexes,
        "writable": service.uploads is not None,
        "reader": service.reader.name,
        "feedback": service.settings.feedback is not None,
    }


@router.get("/status", response_model=StatusReply)
async def read_status(service: TheService, index: TheIndex) -> Any:
    """Return what an index holds; of a folder that is served also how far indexing is, or since
    when it has failed.
    """
    state = service.settings.follower_state()  # first: it may end while the status is read
    status = asdict(await index.run(lambda engine: engine.status()))
    return status | {
        "name": index.name,
        "writable": service.uploads is not None,
        "reader": service.reader.name,
        "follows": service.settings.follower_state is not FollowerState,
        **state._asdict(),
    }


@router.get("/overview", response_model_exclude={"recent": {"__all__": {"page_starts"}}})
async def read_overview(service: TheService, index: TheIndex) -> Overview:
    """Return what the first screen shows of an index: questions that it answers, its latest
    documents, its folders.
    """
    indexing = service.settings.follower_state().indexing is not None
    return await service.overviews.read(index, indexing=indexing)


@router.post("/feedback", status_code=204)
def record_feedback(body: FeedbackBody, service: TheService) -> None:
    """Write a line into the server's file of feedback: an answer did not help."""
    file = service.settings.feedback
    if file is None:
        raise Problem(403, "no-feedback", "start the server with --feedback FILE")
    time = datetime.now(UTC).isoformat(timespec="seconds")
    line = json.dumps({"time": time, **body.model_dump()}, ensure_ascii=False)
    try:
        with file.open("a", encoding="utf-8") as opened:
            opened.write(f"{line}\n")
    except OSError as error:
        raise Problem(503, "no-feedback", "the file of feedback can't be written") from error


@router.post("/login", status_code=204)
async def log_in(
    body: LoginBody, request: Request, response: Response, service: TheService
) -> None:
    """Begin a session: a cookie takes the place of the token, which a page's images can't send."""
    guard = service.guard
    if not await guard.is_token(body.token, request.scope):
        raise Problem(401, "unauthorized", "this is not the server's token")
    if service.settings.token is not None:
        response.set_cookie(
            COOKIE,
            guard.sessions.begin(),
            SESSION,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )


@router.post("/logout", status_code=204)
async def log_out(request: Request, response: Response, service: TheService) -> None:
    """End a session, here and in the browser."""
    service.guard.sessions.end(request.cookies.get(COOKIE, ""))
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")


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
        raise Problem(503, "not-ready", "the server warms up", headers={"Retry-After": "1"})
    for index in service.indexes.by_name.values():
        index.call(lambda engine: engine.documents(limit=1))
    if since := service.settings.follower_state().not_followed_since:
        raise Problem(503, "not-followed", f"changes of the folder are not followed since {since}")
    return JSONResponse({"status": "ready"})


@health.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
def render_metrics(service: TheService) -> Response:
    """Return requests, latencies, queues and the state of each index in Prometheus's text
    format.
    """
    return Response(service.metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")
