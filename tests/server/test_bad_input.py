"""What clients get wrong, and what happens to an index underneath: a clear status, nothing lost, the server goes on."""

import shutil
import time

import httpx
import pytest

from lmkrag import Document, Engine


@pytest.mark.parametrize(
    ("content", "status", "detail"),
    [
        (b"{", 400, "JSON"),
        (b"", 422, "Field required"),
        (b"[]", 422, "valid dictionary"),
        (b'{"query": "x", "colour": 1}', 422, "colour: Extra inputs are not permitted"),
        (b'{"query": ""}', 422, "at least 1 character"),
        (b'{"query": "   "}', 400, "the question is empty"),
        (b'{"query": 5}', 422, "valid string"),
        (b'{"query": "x", "top_k": 0}', 422, "greater than or equal to 1"),
        (b'{"query": "x", "mode": "best"}', 422, "'hybrid', 'dense' or 'lexical'"),
        (b'{"query": "x", "filter": "kind="}', 400, "filter"),
        (b'{"query": "x", "index": "none"}', 404, "no index 'none': there is demo"),
        (b'{"query": "\xff\xfe"}', 400, ""),
        (b'{"query": "\\ud800"}', 422, ""),
        (b'{"query": "' + b"x" * 900_000 + b'"}', 422, "at most 10000 characters"),
        (b'{"query": "' + b"x" * 1_100_000 + b'"}', 413, "larger than"),
        (b'{"query": ' + b"[" * 100_000 + b"}", 400, ""),
    ],
)
def test_requests(client, content, status, detail):
    reply = client.post("/api/search", content=content, headers={"Content-Type": "application/json"})
    assert reply.status_code == status, reply.text
    assert reply.headers["content-type"] == "application/problem+json"
    assert detail in reply.json()["detail"]
    assert client.post("/api/search", json={"query": "leave", "top_k": 1}).status_code == 200


def test_batch_limits(client):
    assert client.post("/api/search/batch", json={"queries": []}).status_code == 422
    assert client.post("/api/search/batch", json={"queries": ["x"] * 65}).status_code == 422


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/api/search", 405), ("POST", "/api/nothing", 404)])
def test_routes(client, method, path, status):
    reply = client.request(method, path)
    assert reply.status_code == status
    assert reply.json()["type"].startswith("urn:lmkrag:")


def test_a_client_that_leaves_a_stream(serve, built_index, chat_server, causal_model, tmp_path):
    options = ["--reader", "openai", "--base-url", chat_server, "--model", causal_model, "--index", built_index]
    with serve(tmp_path, *options, OPENAI_API_KEY="none") as running, running.client() as client:
        for _ in range(5):
            body = {"question": "When are bonfires allowed?", "stream": True}
            with client.stream("POST", "/api/ask", json=body) as response:
                for line in response.iter_lines():
                    if line.startswith("event: text"):
                        break
        deadline = time.monotonic() + 30
        while "lmkrag_requests_in_flight 1.0" not in client.get("/metrics").text:  # the asking one
            assert time.monotonic() < deadline
            time.sleep(0.2)
        assert client.post("/api/ask", json={"question": "When are bonfires allowed?"}).status_code == 200
    assert "Traceback" not in running.log.read_text()


def test_compacted_replaced_and_deleted_underneath(serve, index, encoder, tmp_path):
    with serve(tmp_path, "--index", f"demo={index}") as running, running.client() as client:

        def search() -> httpx.Response:
            return client.post("/api/search", json={"query": "how is leave accrued?"})

        assert search().json()["spans"][0]["doc_id"] == "lighthouse-handbook.md"
        with Engine.open(index, encoder=encoder) as engine:
            engine.remove("glass-river.txt")
            engine.compact()
        assert search().json()["spans"][0]["doc_id"] == "lighthouse-handbook.md"

        with Engine.open(tmp_path / "other", create=True, encoder=encoder) as engine:
            engine.add(Document("new.txt", "new.txt", "Leave is accrued by the hour."))
        shutil.rmtree(index)
        gone = search()
        assert gone.status_code == 503
        assert gone.headers["retry-after"]
        assert str(tmp_path) not in gone.text
        assert client.get("/readyz").status_code == 503
        assert client.get("/healthz").status_code == 200
        (listed,) = client.get("/api/indexes").json()["indexes"]
        assert listed["error"] and str(tmp_path) not in listed["error"]
        assert 'lmkrag_index_up{index="demo"} 0.0' in client.get("/metrics").text

        (tmp_path / "other").rename(index)
        assert search().json()["spans"][0]["text"] == "Leave is accrued by the hour."
        assert client.get("/readyz").status_code == 200
    assert "Traceback" not in running.log.read_text()


def test_replaced_by_an_index_of_another_encoder(serve, index, tmp_path):
    from lmkrag import LandmarkEncoder

    with serve(tmp_path, "--index", f"demo={index}") as running, running.client() as client:
        assert client.post("/api/search", json={"query": "leave"}).status_code == 200
        with Engine.open(tmp_path / "other", create=True, encoder=LandmarkEncoder.load(overlap=0.25)) as engine:
            engine.add(Document("new.txt", "new.txt", "Leave is accrued by the hour."))
        shutil.rmtree(index)
        (tmp_path / "other").rename(index)
        reply = client.post("/api/search", json={"query": "leave"})
        assert reply.status_code == 200, reply.text
        assert reply.json()["spans"][0]["doc_id"] == "new.txt"
