"""The indexes that are served, examples of questions, the session of a page, and the health of the server."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import chain, islice
from textwrap import shorten
from typing import Annotated, Any
from weakref import WeakKeyDictionary

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from lmkrag.engine import Engine
from lmkrag.places import TABLES, is_record
from lmkrag.sentences.split import split_sentences
from lmkrag.sentences.table_rows import read_record
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
_ASKS = re.compile(r"(?:how|what|why|when|where|who|which)\b.*\w{4}|.*\?$", re.IGNORECASE)
_TELLS_WHEN = re.compile(r"The ((?:[\w'’-]+ ){1,7}?)(was|were) (?:then |first )?(\w+(?:ed|wn|lt|ght|nt|de)) in \d{4}\b")
_TELLS_WHO = re.compile(
    r"The (?:[\w'’-]+ ){1,3}(approves|decides|signs|appoints|pays|owns|leads|keeps) ([\w'’ -]{3,40})\.$"
)
_TELLS_WHAT = re.compile(r"((?:The|An?) (?:[\w'’-]+ ?){1,4}?) (is|are) (?:an?|the|one) \w+ \w+")
_MOST = 3
_WORDS = range(3, 13)
_TRIED = 8  # questions made of sentences: those with an answer are shown
_SUMMARIES = 8  # documents in a line each
_SUMMARIZED = 4_000  # characters of a document that its line is looked for in
_SHORTEST_SUMMARY, _LONGEST_SUMMARY = 25, 140  # characters

_introductions: WeakKeyDictionary[Engine, tuple[int, dict[str, Any]]] = WeakKeyDictionary()
"""What is replied for the last state of an index."""


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
    """Return questions to begin with, which an index answers, and its first documents in a line each."""
    return await service.indexes.find(index).run(_introduce)


def _introduce(engine: Engine) -> dict[str, Any]:
    """Describe the first documents, and gather up to three questions, each of another document."""
    generation = engine.status().generation
    known, reply = _introductions.get(engine, (-1, {}))
    if known == generation:
        return reply
    asked: list[str] = []
    candidates: list[str] = []
    documents: list[dict[str, Any]] = []
    for info in engine.documents(limit=_LOOKED_AT):
        text = engine.read(info.doc_id, 0, _CHARACTERS)
        sentences = [] if info.kind in TABLES else list(_read_prose(text[:_SUMMARIZED]))
        if len(documents) < _SUMMARIES:
            row = next(filter(is_record, text.splitlines()), "") if info.kind in TABLES else ""
            columns = ", ".join(column for column, _, _ in read_record(row, 0))
            summary = shorten(columns or next(iter(sentences), ""), _LONGEST_SUMMARY, placeholder=" …")
            documents.append({"doc_id": info.doc_id, "title": info.title, "kind": info.kind, "summary": summary})
        if info.kind != "code":
            headings = (_clean(match[1] or match[2]) for match in _HEADING.finditer(text))
            asking = (heading for heading in headings if len(heading.split()) in _WORDS and _ASKS.match(heading))
            asked += islice((heading for heading in asking if heading != info.title), 1)
            candidates += islice(_ask_about(sentences), 1)
    answered = (question for question in candidates[:_TRIED] if engine.ask(question).found)
    reply = {"questions": list(dict.fromkeys(islice(chain(asked, answered), _MOST))), "documents": documents}
    _introductions[engine] = generation, reply
    return reply


def _read_prose(text: str) -> Iterator[str]:
    """The sentences of a text that may stand alone."""
    for sentence in split_sentences(text):
        words = " ".join(text[sentence.start : sentence.end].split())
        if sentence.kind == "text" and len(words) >= _SHORTEST_SUMMARY and words[-1] in ".!?。":
            yield words


def _ask_about(sentences: Iterable[str]) -> Iterator[str]:
    """Make questions of English sentences that tell when, who or what.

    >>> list(_ask_about(["The first dam was built in 1921 by a clerk.", "The harbour master approves leave."]))
    ['When was the first dam built?', 'Who approves leave?']
    """
    for sentence in sentences:
        if match := _TELLS_WHEN.match(sentence):
            yield f"When {match[2]} the {match[1]}{match[3]}?"
        elif match := _TELLS_WHO.match(sentence):
            yield f"Who {match[1]} {match[2]}?"
        elif match := _TELLS_WHAT.match(sentence):
            yield f"What {match[2]} {match[1][0].lower()}{match[1][1:]}?"


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
    is_secure = request.url.scheme == "https"
    response.set_cookie(COOKIE, guard.session(), _SESSION, httponly=True, samesite="strict", secure=is_secure)
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
