"""The indexes that are served, examples of questions, the session of a page, and the health of the server."""

import re
from dataclasses import asdict
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from lmkrag.engine import Engine
from lmkrag.server.guard import COOKIE
from lmkrag.server.problems import Problem
from lmkrag.server.schemas import ExamplesReply, IndexesReply, LoginBody, StatusReply
from lmkrag.server.service import TheService

router = APIRouter(prefix="/api", tags=["indexes"])

_COUNTS = ("documents", "sentences", "generation")
_SESSION = 30 * 24 * 3600  # seconds
_LOOKED_AT = 60  # documents, for examples
_CHARACTERS = 20_000  # that are read of each
_HEADING = re.compile(r"^(?:#{1,4} +(.+?)#*|(.+)\n[=\-~^]{3,})$", re.MULTILINE)
_ASKS = re.compile(r"(?:how|what|why|when|where|who|which|can|do|does|is|are)\b.*\w{4}", re.IGNORECASE)
_MOST = 3
_WORDS = range(3, 13)


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
            indexes.append({"name": index.name, **{name: getattr(status, name) for name in _COUNTS}})
    return {"indexes": indexes, "writable": service.uploads is not None, "reader": service.reader.name}


@router.get("/status", response_model=StatusReply)
async def read_status(service: TheService, index: Annotated[str | None, Query(max_length=200)] = None) -> Any:
    """Return what an index holds; of a folder that is served also how far indexing is, or since when it has failed."""
    served = service.indexes.find(index)
    state = service.follower_state
    status = asdict(await served.run(lambda engine: engine.status()))
    return status | {
        "name": served.name,
        "writable": service.uploads is not None,
        "reader": service.reader.name,
        "indexing": state.indexing and state.indexing._asdict(),
        "follows": service.settings.follower_state is not None,
        "not_followed_since": state.not_followed_since,
    }


@router.get("/examples", response_model=ExamplesReply)
async def list_examples(service: TheService, index: Annotated[str | None, Query(max_length=200)] = None) -> Any:
    """Return questions to begin with, taken from the documents of an index."""
    return {"questions": await service.indexes.find(index).run(_find_examples)}


def _find_examples(engine: Engine) -> list[str]:
    """Return up to three questions or topics, each of another document."""
    questions: list[str] = []
    titles: list[str] = []
    topics: list[str] = []
    for info in islice(engine.documents(limit=_LOOKED_AT), _LOOKED_AT):
        if info.kind == "code":
            continue
        text = engine.read(info.doc_id, 0, _CHARACTERS)
        headings = [_clean(match[1] or match[2]) for match in _HEADING.finditer(text)]
        headings = [heading for heading in headings if len(heading.split()) in _WORDS and heading != info.title]
        questions += [heading for heading in headings if heading.endswith("?") or _ASKS.match(heading)][:1]
        titles += [info.title] if len(info.title.split()) in _WORDS else []
        topics += headings[:1]
    return list(dict.fromkeys([*questions, *titles, *topics]))[:_MOST]


def _clean(heading: str) -> str:
    """A heading without its number, anchor and marks of Markdown."""
    plain = re.sub(r"\{[^}]*\}|[`*_]|\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"^\W*(?:\d+(?:\.\d+)*[.)]?\s+)?", "", plain).strip()


@router.post("/login", status_code=204, response_class=Response)
async def log_in(body: LoginBody, request: Request, service: TheService) -> Response:
    """Begin a session: a cookie takes the place of the token, which a page's images can't send."""
    guard = service.guard
    assert guard is not None
    if service.settings.token is not None and not guard.is_token(body.token):
        raise Problem(401, "unauthorized", "Wrong token", "this is not the server's token")
    response = Response(status_code=204)
    response.set_cookie(
        COOKIE,
        guard.session(),
        max_age=_SESSION,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return response


@router.post("/logout", status_code=204, response_class=Response)
async def log_out() -> Response:
    """End a session."""
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
    responses={503: {"description": "An index can't be read, a folder is not followed, or the server still warms up."}},
)
def is_ready(service: TheService) -> Response:
    """Return 200 once a search has warmed every index up, while each can be read and the served folder is followed."""
    if not service.ready:
        raise Problem(503, "not-ready", "Not ready", "the server warms up", headers={"Retry-After": "1"})
    for index in service.indexes.by_name.values():
        index.call(lambda engine: engine.documents(limit=1))
    if since := service.follower_state.not_followed_since:
        raise Problem(503, "not-followed", "Not followed", f"changes of the folder are not followed since {since}")
    return JSONResponse({"status": "ready"})


@health.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
def render_metrics(service: TheService) -> Response:
    """Return requests, latencies, queues and the state of each index in Prometheus's text format."""
    return Response(service.metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")
