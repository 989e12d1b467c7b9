"""Whatever a server replies, a remote engine gives values that can be used, or one of its own errors."""

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from lmkrag import RemoteEngine
from lmkrag.errors import LmkragError
from lmkrag.readers.extractive import ExtractiveReader

QUESTION = "how is leave accrued?"
NAME = "glass-river.txt"
NOT_FOUND = b'{"type": "urn:lmkrag:document-not-found", "detail": "no such document"}'
DOCUMENT = f"/api/documents/{NAME}"


class ReplayServer(ThreadingHTTPServer):
    """Has replies by path, and an engine that asks it."""

    replies: dict[str, tuple[int, bytes]]
    engine: RemoteEngine


class Replay(BaseHTTPRequestHandler):
    """Replies with what its server has for a path."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = (
        True  # else each body waits 40 ms for an acknowledgement of its headers
    )
    server: ReplayServer

    def do_GET(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, body = self.server.replies.get(self.path.partition("?")[0], (404, NOT_FOUND))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def replay():
    with ReplayServer(("127.0.0.1", 0), Replay) as server:
        server.replies = {}
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        with RemoteEngine(f"http://127.0.0.1:{server.server_port}", timeout=20) as engine:
            server.engine = engine
            yield server
        server.shutdown()


@pytest.fixture(scope="module")
def good(client) -> dict[str, tuple[int, bytes]]:
    """What the server replies, by path."""
    requests = {
        "/api/search": {"query": QUESTION, "explain": True, "top_k": 2},
        "/api/search/batch": {"queries": [QUESTION], "top_k": 2},
        "/api/ask": {"question": QUESTION, "stream": True, "top_k": 3},
    }
    bodies = {path: client.post(path, json=body).content for path, body in requests.items()}
    bodies[f"{DOCUMENT}/relevance"] = client.get(
        f"{DOCUMENT}/relevance", params={"query": QUESTION}
    ).content
    for path in ("/api/documents", "/api/status", DOCUMENT, f"{DOCUMENT}/text"):
        bodies[path] = client.get(path).content
    return {path: (200, body) for path, body in bodies.items()}


async def gather(engine) -> list[Any]:
    stream = engine.aask_stream(QUESTION)
    results = [
        await engine.asearch(QUESTION),
        "".join([piece async for piece in stream]),
        await stream.answer(),
    ]
    await engine.aclose()
    return results


CALLS = {
    "/api/search": [
        lambda engine: engine.search(QUESTION),
        lambda engine: asyncio.run(engine.asearch(QUESTION)),
        lambda engine: engine.check('It says "a river of green glass".'),
    ],
    "/api/search/batch": [lambda engine: engine.search_many([QUESTION])],
    "/api/ask": [
        lambda engine: engine.ask(QUESTION),
        lambda engine: asyncio.run(engine.aask_stream(QUESTION).answer()),
    ],
    f"{DOCUMENT}/relevance": [lambda engine: engine.score_sentences(QUESTION, NAME)],
    "/api/documents": [lambda engine: engine.documents(), lambda engine: engine.documents(limit=2)],
    "/api/status": [lambda engine: engine.status()],
    DOCUMENT: [
        lambda engine: engine.document(NAME),
        lambda engine: engine.documents(doc_ids=[NAME]),
    ],
    f"{DOCUMENT}/text": [lambda engine: engine.read(NAME), lambda engine: engine.document(NAME)],
}
VALUES = (None, "x", -1, True, [], {"x": 1})
WHOLE = (
    b"",
    b"{",
    b"null",
    b"[]",
    b"5",
    b"true",
    b'"x"',
    b"{}",
    b"<html>",
    b"\xff\xfe",
    b"[" * 50_000,
)


def break_values(value: Any, depth: int = 0) -> Iterator[Any]:
    """A value of JSON with one part of it left out or exchanged."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield {name: kept for name, kept in value.items() if name != key}
            yield from ({**value, key: other} for other in VALUES)
            yield from (
                {**value, key: broken} for broken in break_values(inner, depth + 1) if depth < 3
            )
    elif isinstance(value, list) and value:
        yield from ([other] for other in VALUES)
        yield from ([broken, *value[1:]] for broken in break_values(value[0], depth + 1))


def break_body(body: bytes) -> Iterator[bytes]:
    """Bodies of replies that differ from one of the server in one place."""
    yield from WHOLE
    yield body[: len(body) // 2]
    if not body.startswith(b"event:"):
        yield from (json.dumps(broken).encode() for broken in break_values(json.loads(body)))
        return
    head, _, answer = body.partition(b"event: answer\ndata: ")
    for broken in break_values(json.loads(answer)):
        yield head + b"event: answer\ndata: " + json.dumps(broken).encode() + b"\n\n"
    for event in (b"text", b"answer", b"error"):
        yield from (b"event: " + event + b"\ndata: " + data + b"\n\n" for data in WHOLE)


def use(result: Any) -> None:
    """Do with results what a user does."""
    for value in result if isinstance(result, list) else [result]:
        if isinstance(value, list):
            use(value)
        for name in ("to_dict", "to_blocks", "_repr_html_"):
            getattr(value, name, str)()
        assert str(value) and repr(value)


@pytest.mark.parametrize("path", CALLS)
def test_broken_bodies(replay, good, path):
    count = 0
    for body in break_body(good[path][1]):
        replay.replies = {**good, path: (200, body)}
        for call in CALLS[path] if count < 60 else CALLS[path][:1]:
            count += 1
            try:
                use(call(replay.engine))
            except LmkragError:
                pass
            except Exception as error:
                raise AssertionError(
                    f"{type(error).__name__} from {body[:300]!r} ... {body[-200:]!r}"
                ) from error
    assert count > 50


@pytest.mark.parametrize("path", CALLS)
def test_broken_problems(replay, good, path):
    problem = {
        "type": "urn:lmkrag:document-not-found",
        "detail": "x",
        "doc_id": "a",
        "index": "b",
        "near": "c",
    }
    broken = (json.dumps(value).encode() for value in break_values(problem))
    for count, body in enumerate((*WHOLE, *broken)):
        for status in (404, 500):
            replay.replies = {**good, path: (status, body)}
            for call in CALLS[path] if count < len(WHOLE) + 4 else CALLS[path][:1]:
                with pytest.raises(LmkragError):
                    call(replay.engine)


def test_whole_bodies_are_read(replay, good):
    replay.replies = dict(good)
    for calls in CALLS.values():
        for call in calls:
            use(call(replay.engine))
    assert replay.engine.ask(QUESTION, reader=ExtractiveReader()).spans
    assert len(asyncio.run(gather(replay.engine))) == 3
