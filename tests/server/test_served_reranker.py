"""A re-ranker on a server: that of ``lmkrag serve``, and servers that fail in the ways servers do."""

import contextlib
import json
import math
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from lmkrag import Document, Engine
from lmkrag.errors import ServerError, UsageError
from lmkrag.reranker.base import PlacedText
from lmkrag.reranker.loading import load_reranker
from lmkrag.server.settings import ServerSettings

QUESTION = "What is checked every week?"
WORDS = ["valve", "crank", "rope", "lamp", "wick", "hull", "deck", "mast"]
PASSAGES = [
    PlacedText("Ferry", "The ferry leaves at nine."),
    PlacedText("Fruit", "Pears ripen in October. Apples are picked in May."),
]


@pytest.fixture(scope="module")
def ship(encoder, tmp_path_factory):
    path = tmp_path_factory.mktemp("ship") / "index"
    texts = {word: f"The {word} is checked every week." for word in WORDS}
    with Engine.open(path, create=True, encoder=encoder) as engine:
        engine.add(Document(f"{word}.md", f"{word}.md", texts[word], word) for word in WORDS)
    return path


@contextlib.contextmanager
def serving(reply):
    """A server whose ``reply`` is called with each request's body and handler; yields its URL and
    what it was sent.
    """
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append((body, self.headers.get("Authorization")))
            status, sent = reply(body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            with contextlib.suppress(OSError):  # a client that has left
                self.wfile.write(sent)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/rerank", asked
    finally:
        server.shutdown()
        server.server_close()


def scored(*scores):
    results = [{"index": index, "relevance_score": score} for index, score in enumerate(scores)]
    return 200, json.dumps({"results": results}).encode()


def likes(word):
    def reply(body):
        return scored(*(0.9 if word in text else 0.1 for text in body["documents"]))

    return reply


def search(ship, reranker, **options):
    with Engine.open(ship, reranker=reranker) as engine:
        return engine.search(QUESTION, **options)


def find_order(ship):
    with Engine.open(ship) as engine:
        return [span.doc_id for span in engine.search(QUESTION, rerank=False)]


def test_a_server_of_ours_scores_passages(server):
    scores = load_reranker(f"{server.url}/v1/rerank").score("When are apples picked?", PASSAGES)
    assert scores[1] > 0 > scores[0]


def test_what_a_served_reranker_prefers_comes_first(ship):
    before = find_order(ship)
    with serving(likes(before[-1].removesuffix(".md"))) as (url, asked):
        found = search(ship, f"{url}#Qwen/Qwen3-Reranker-0.6B")
    assert found[0].doc_id == before[-1]
    assert found.notes == ()
    ((body, key),) = asked
    assert body["model"] == "Qwen/Qwen3-Reranker-0.6B"
    assert (body["query"], body["top_n"], body["return_documents"]) == (QUESTION, len(WORDS), False)
    assert key is None


def test_the_key_goes_to_the_server_that_was_named(ship, monkeypatch):
    monkeypatch.setenv("LMKRAG_RERANK_KEY", "a-secret")
    with serving(likes("mast")) as (url, asked):
        search(ship, url)
    assert [key for _, key in asked] == ["Bearer a-secret"]


@pytest.mark.parametrize(
    ("given", "scores"),
    [
        ((0.5, 0.75), (0.0, math.log(3))),
        ((0, 1), (-math.log(999_999), math.log(999_999))),
        ((-2.5, 4.0), (-2.5, 4.0)),
    ],
)
def test_probabilities_become_log_odds(given, scores):
    with serving(lambda _: scored(*given)) as (url, _):
        found = load_reranker(url).score("When?", PASSAGES)
    assert found.dtype == np.float32
    assert found == pytest.approx(scores, rel=1e-3)


def test_many_passages_are_sent_in_several_requests():
    with serving(lambda body: scored(*range(2, 2 + len(body["documents"])))) as (url, asked):
        scores = load_reranker(url).score("When?", PASSAGES[:1] * 70)
    assert [len(body["documents"]) for body, _ in asked] == [32, 32, 6]
    assert len(scores) == 70


@pytest.mark.parametrize(
    "reply",
    [
        (500, b"{}"),
        (401, b"{}"),
        (307, b""),
        (200, b"<html>"),
        (200, b"[" * 100_000),
        (200, b"null"),
        (200, b'{"results": []}'),
        (200, b'{"results": [{"index": 0, "relevance_score": NaN}]}'),
        scored(*[0.5] * (len(WORDS) - 1)),
        scored(*["high"] * len(WORDS)),
        scored(*[10**400] * len(WORDS)),
        (200, b" " * 5_000_000),
    ],
)
def test_a_server_that_answers_wrongly_leaves_the_order(ship, reply):
    with serving(lambda _: reply) as (url, _):
        found = search(ship, url)
    assert [span.doc_id for span in found] == find_order(ship)
    (note,) = found.notes
    assert note.startswith(f"re-ranker {url}: ")
    assert note.endswith("results are in the order of the search")


def test_a_server_that_is_slow_or_gone_leaves_the_order(ship):
    def wait(_):
        time.sleep(1)
        return scored(*[0.5] * len(WORDS))

    with serving(wait) as (url, _):
        began = time.monotonic()
        slow = search(ship, url, rerank_timeout_ms=200)
        assert time.monotonic() - began < 0.9
    gone = search(ship, url)
    assert [[span.doc_id for span in found] for found in (slow, gone)] == [find_order(ship)] * 2
    assert "did not answer in time" in slow.notes[0]
    assert "can't be reached" in gone.notes[0]


def test_a_server_that_sends_its_headers_bit_by_bit_does_not_hold_a_search(ship):
    left = threading.Event()

    def drip(server):
        connection, _ = server.accept()
        with connection, contextlib.suppress(OSError):  # a client that has left
            connection.recv(1 << 16)
            connection.sendall(b"HTTP/1.1 200 OK\r\nX-Name: ")
            for _ in range(300):
                connection.sendall(b"a")
                time.sleep(0.02)
            return
        left.set()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=drip, args=(server,), daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/v1/rerank"
        found = search(ship, url, rerank_timeout_ms=200)
        assert left.wait(3)  # the connection is closed long before the headers are whole
    assert "did not answer in time" in found.notes[0]
    assert [span.doc_id for span in found] == find_order(ship)


async def test_a_server_is_asked_from_where_an_event_loop_runs():
    with serving(lambda _: scored(-2.5, 4.0)) as (url, _):
        assert load_reranker(url).score("When?", PASSAGES) == pytest.approx((-2.5, 4.0))


def test_the_note_is_told_by_commands_and_servers(ship, lmkrag, serve_settings):
    with serving(lambda _: (503, b"")) as (url, _):
        told = lmkrag(
            "search", QUESTION, "--index", ship, "--rerank", "on", "--rerank-model", url
        ).stderr
        assert f"re-ranker {url}: answered 503" in told
        settings = ServerSettings({"ship": ship}, port=0, rerank_model=url)
        with serve_settings(settings) as running, running.client() as client:
            (note,) = client.post("/api/search", json={"query": QUESTION}).json()["notes"]
    assert note.startswith(f"re-ranker {url}: answered 503")


def test_a_password_is_in_no_message():
    reranker = load_reranker("http://user:hunter2@127.0.0.1:9/v1/rerank")
    with pytest.raises(ServerError, match=r"http://127\.0\.0\.1:9/v1/rerank") as caught:
        reranker.score("When?", PASSAGES)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("address", ["http://", "http:///v1/rerank", "http://host:port/v1/rerank"])
def test_what_is_no_url(address):
    with pytest.raises(UsageError, match="give a URL such as"):
        load_reranker(address)
