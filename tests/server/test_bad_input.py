"""What clients get wrong, and what happens to an index underneath: a clear status, nothing lost, the server goes on."""

import asyncio
import shutil
import threading
import time
from functools import partial

import httpx
import pytest

from lmkrag import Document, Engine
from lmkrag.errors import StorageError
from lmkrag.evidence.finder import EvidenceFinder
from lmkrag.formats import pages
from lmkrag.reranker.highlights import highlight
from lmkrag.server.app import create_app
from lmkrag.server.indexes import Workers
from lmkrag.server.problems import Problem, from_error
from lmkrag.server.settings import ServerLimits, ServerSettings


@pytest.mark.parametrize(
    ("content", "status", "detail"),
    [
        (b"{", 400, "JSON"),
        (b"", 422, "Field required"),
        (b"[]", 422, "valid dictionary"),
        (b'{"query": "x", "colour": 1}', 422, "no option 'colour'"),
        (b'{"query": "x", "k": 1}', 422, "no option 'k': use top_k"),
        (b'{"question": "x"}', 422, "no option 'question': use query"),
        (b'{"query": ""}', 422, "at least 1 character"),
        (b'{"query": "   "}', 400, "the question is empty"),
        (b'{"query": 5}', 422, "valid string"),
        (b'{"query": "\\ud800"}', 422, "valid string"),
        (b'{"query": "x", "top_k": 0}', 422, "greater than or equal to 1"),
        (b'{"query": "x", "mode": "best"}', 422, "'hybrid', 'dense' or 'lexical'"),
        (b'{"query": "x", "filter": "kind="}', 400, "filter"),
        (b'{"query": "x", "index": "none"}', 404, "no index 'none': there is demo"),
        (b'{"query": "\xff\xfe"}', 400, ""),
        (b'{"query": "' + b"x" * 900_000 + b'"}', 422, "at most 10000 characters"),
        (b'{"query": "' + b"x" * 1_100_000 + b'"}', 413, "larger than"),
        (b'{"query": ' + b"[" * 100_000 + b"}", 400, ""),
    ],
)
def test_requests(client, content, status, detail):
    reply = client.post(
        "/api/search", content=content, headers={"Content-Type": "application/json"}
    )
    assert reply.status_code == status, reply.text
    assert reply.headers["content-type"] == "application/problem+json"
    assert detail in reply.json()["detail"]
    assert client.post("/api/search", json={"query": "leave", "top_k": 1}).status_code == 200


def test_a_body_without_its_header_gets_a_sentence_that_says_so(client):
    for headers, kind in (
        ({}, "none"),
        ({"Content-Type": "application/x-www-form-urlencoded"}, "application/x-www"),
    ):
        reply = client.post("/api/search", content=b'{"query": "leave"}', headers=headers)
        said = f"send the body as JSON with the header Content-Type: application/json, not {kind}"
        assert reply.status_code == 422 and reply.json()["detail"].startswith(said)
    assert "header" in client.post("/v1/chat/completions", content=b"{}").json()["error"]["message"]


@pytest.mark.parametrize("path", [".", "a", "/srv/a", "qdrant://localhost/a"])
def test_errors_name_the_index_in_place_of_its_path(path):
    messages = [
        f"{path}: the index is gone",
        f"{path}/catalog.sqlite: a page is damaged.",
        "a filter is a text. Or none.",
    ]
    details = [
        from_error(StorageError(message), "demo", path).body["detail"] for message in messages
    ]
    assert details == [
        "demo: the index is gone",
        "demo/catalog.sqlite: a page is damaged.",
        messages[-1],
    ]


def test_batch_limits(client):
    assert client.post("/api/search/batch", json={"queries": []}).status_code == 422
    assert client.post("/api/search/batch", json={"queries": ["x"] * 65}).status_code == 422


@pytest.mark.parametrize(
    ("method", "path", "status"), [("PUT", "/api/search", 405), ("POST", "/api/nothing", 404)]
)
def test_routes(client, method, path, status):
    reply = client.request(method, path)
    assert reply.status_code == status
    assert reply.json()["type"].startswith("urn:lmkrag:")


def test_a_client_that_leaves_a_stream(
    serve_process, built_index, chat_server, causal_model, tmp_path
):
    options = [
        "--reader",
        "openai",
        "--base-url",
        chat_server,
        "--model",
        causal_model,
        "--rerank",
        "off",
    ]
    with (
        serve_process(tmp_path, *options, "--index", built_index, OPENAI_API_KEY="none") as running,
        running.client() as client,
    ):
        for _ in range(3):
            body = {"question": "When are bonfires allowed?", "stream": True}
            with client.stream("POST", "/api/ask", json=body) as response:
                for line in response.iter_lines():
                    if line.startswith("event: text"):
                        break
        deadline = time.monotonic() + 30
        while "lmkrag_requests_in_flight 1.0" not in client.get("/metrics").text:  # the asking one
            assert time.monotonic() < deadline
            time.sleep(0.2)
        assert (
            client.post("/api/ask", json={"question": "When are bonfires allowed?"}).status_code
            == 200
        )
    assert "Traceback" not in running.log.read_text()


def test_compacted_replaced_and_deleted_underneath(serve_process, index, encoder, tmp_path):
    with (
        serve_process(tmp_path, "--index", f"demo={index}", "--rerank", "off") as running,
        running.client() as client,
    ):

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
        with Engine.open(
            tmp_path / "other", create=True, encoder=LandmarkEncoder.load(overlap=0.25)
        ) as engine:
            engine.add(Document("new.txt", "new.txt", "Leave is accrued by the hour."))
        shutil.rmtree(index)
        (tmp_path / "other").rename(index)
        reply = client.post("/api/search", json={"query": "leave"})
        assert reply.status_code == 200, reply.text
        assert reply.json()["spans"][0]["doc_id"] == "new.txt"


def test_costly_requests_are_bounded(client):
    long = "The gate is red. " * 1_300
    assert client.post("/v1/rerank", json={"query": "x", "documents": [long]}).status_code == 422
    many = {"query": "x", "documents": [long[:19_000]] * 11}
    assert client.post("/v1/rerank", json=many).status_code == 413
    assert client.post("/api/search", json={"query": "x", "max_tokens": 100_001}).status_code == 422
    assert (
        client.post(
            "/api/search", json={"query": "x", "max_tokens": 100_000, "top_k": 1}
        ).status_code
        == 200
    )


def test_quotations_of_a_text_are_bounded(client):
    many, long = '"the keepers may fly" ' * 201, f'"{"the keepers may fly " * 1_001}"'
    for text in (many, long):
        reply = client.post("/api/check", json={"text": text})
        assert reply.status_code == 400
        assert (
            reply.json()["detail"]
            == "a text may have 200 quotations at most, each of 20,000 characters"
        )


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("search/batch", {"queries": ["who approves leave?"] * 64}),
        ("check", {"text": '"the keepers may fly" ' * 200}),
    ],
)
def test_a_request_that_took_too_long_ends(built_index, monkeypatch, path, body):
    """Its thread is free after the question or quotation at hand, and a server stops without waiting for the rest."""
    searched = []
    whole = EvidenceFinder._search_one

    def search_slowly(*arguments):
        searched.append(time.sleep(0.2))
        return whole(*arguments)

    async def run():
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app), base_url="http://localhost"
        ) as client:
            assert (await client.post(f"/api/{path}", json=body)).status_code == 504
            service.indexes.workers.close()  # it waits for the running call
            await asyncio.sleep(0)
            assert not service.indexes.workers.pending

    app = create_app(
        ServerSettings(
            {"demo": built_index}, limits=ServerLimits(seconds=2, threads=1), rerank=False
        )
    )
    service = app._app._app.state.service  # type: ignore[attr-defined]
    monkeypatch.setattr(EvidenceFinder, "_search_one", search_slowly)
    asyncio.run(run())
    assert 1 <= len(searched) < 20


def test_texts_of_a_request_have_one_time_limit_together(built_index):
    async def run():
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://localhost", timeout=60
        ) as client:
            texts = [f"Gate {n} is red. " * 42 for n in range(256)]
            began = time.monotonic()
            reply = await client.post(
                "/v1/rerank", json={"query": "what is red?", "documents": texts}
            )
            assert (reply.status_code, reply.json()["error"]["message"]) == (
                504,
                "this took longer than 1 seconds",
            )
            assert time.monotonic() - began < 5

    app = create_app(
        ServerSettings({"demo": built_index}, limits=ServerLimits(seconds=1, threads=1))
    )
    highlight("what is red?", "The gate is red.")  # its model takes a while to start
    asyncio.run(run())


async def test_a_closing_server_leaves_a_call_that_does_not_end(monkeypatch):
    monkeypatch.setattr("lmkrag.server.indexes._LAST", 0.1)
    workers, ended = Workers(ServerLimits(seconds=0.1)), threading.Event()
    with pytest.raises(Problem, match="longer than"):
        await workers.run(partial(ended.wait, 20))
    began = time.monotonic()
    await asyncio.to_thread(workers.close)
    assert time.monotonic() - began < 5
    ended.set()


def test_a_costly_request_lets_others_in_between(built_index):
    """One thread searches; a request of many texts takes it for one text at a time."""
    app = create_app(ServerSettings(indexes={"demo": built_index}, limits=ServerLimits(threads=1)))
    texts = [f"Gate {n} is red. Lamp {n} is lit. " * 60 for n in range(10)]
    ended = []

    async def run():
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://localhost", timeout=120
        ) as client:

            async def ask(name, path, body):
                assert (await client.post(path, json=body)).status_code == 200
                ended.append(name)

            await ask("warm", "/api/search", {"query": "leave"})
            body = {"query": "what is red?", "documents": texts}
            costly = [
                asyncio.create_task(ask("rerank", "/v1/rerank", body)),
                asyncio.create_task(ask("again", "/v1/rerank", body)),
            ]
            await asyncio.sleep(0.3)
            await ask("search", "/api/search", {"query": "who approves leave?"})
            await asyncio.gather(*costly)

    asyncio.run(run())
    assert ended.index("search") == 1


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/search", {"query": "x", "explain": "yes"}),
        ("/api/search", {"query": "x", "operators": 1}),
        ("/api/ask", {"question": "x", "stream": "true"}),
        ("/v1/rerank", {"query": "x", "documents": ["y"], "return_documents": "on"}),
        (
            "/v1/chat/completions",
            {"model": "demo", "messages": [{"role": "user", "content": "x"}], "stream": 1},
        ),
    ],
)
def test_booleans_are_true_or_false(client, path, body):
    assert client.post(path, json=body).status_code == 422


def test_operators_only_where_they_are_asked_for(client):
    plain = {"query": "who approves leave -master", "level": "span"}
    assert any(
        "master" in span["text"] for span in client.post("/api/search", json=plain).json()["spans"]
    )
    with_them = client.post("/api/search", json={**plain, "operators": True}).json()["spans"]
    assert with_them and not any("master" in span["text"] for span in with_them)


def test_an_index_that_fails_at_the_start_is_tried_again(serve_settings, built_index, index):
    words = next((index / "segments").glob("*.words"))
    whole = words.read_bytes()
    words.write_bytes(whole[:-1] + b"!")
    settings = ServerSettings({"bad": index, "good": built_index}, port=0)
    with serve_settings(settings, ready=False) as running, running.client() as client:
        assert (
            client.post("/api/search", json={"query": "leave", "index": "good"}).status_code == 200
        )
        assert (
            client.post("/api/search", json={"query": "leave", "index": "bad"}).status_code == 503
        )
        assert client.get("/readyz").status_code == 503
        words.write_bytes(whole)
        deadline = time.monotonic() + 60
        while client.get("/readyz").status_code != 200:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        assert (
            client.post("/api/search", json={"query": "leave", "index": "bad"}).status_code == 200
        )


def test_places_of_a_few_pages_are_told_at_once(client):
    places = client.get(
        "/api/documents/reports/viaduct-inspection.pdf/places", params={"start": 0, "end": 2**53}
    ).json()["places"]
    assert [place["page"] for place in places] == [1, 2, 3]
    assert pages._MOST_PAGES == 20
