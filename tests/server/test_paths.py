"""Clients learn ids and places, and no folder of the server: every route is asked, and those to come."""

import json
from pathlib import Path
from typing import Any

import pytest

from lmkrag import Document, Engine
from lmkrag.errors import UsageError
from lmkrag.server.settings import ServerSettings

GOLDEN = Path(__file__).parent.parent / "data" / "openapi.json"
QUESTION = "How often is the crank turned?"
LAMP = "/api/documents/lamp.md"
PDF = "/api/documents/reports%2Fviaduct-inspection.pdf"
CITED = {
    "doc_id": "lamp.md",
    "start": 8,
    "end": 44,
    "quote": "The crank is turned 62 times at dusk.",
}
REQUESTS: dict[str, list[Any]] = {
    "GET /api/documents": ["/api/documents", "/api/documents?filter=kind%3Dmarkdown"],
    "GET /api/documents/{doc_id}": [LAMP, PDF, "/api/documents/lost.md"],
    "GET /api/documents/{doc_id}/blocks": [f"{LAMP}/blocks"],
    "GET /api/documents/{doc_id}/matches": [f"{LAMP}/matches?query=crank"],
    "GET /api/documents/{doc_id}/original": [
        f"{LAMP}/original",
        "/api/documents/crank.txt/original",
        "/api/documents/lost.md/original",
    ],
    "GET /api/documents/{doc_id}/outline": [f"{LAMP}/outline"],
    "GET /api/documents/{doc_id}/pages/{number}.webp": [f"{PDF}/pages/1.webp"],
    "GET /api/documents/{doc_id}/places": [f"{PDF}/places?start=0&end=9"],
    "GET /api/documents/{doc_id}/relevance": [f"{LAMP}/relevance?query=crank"],
    "GET /api/documents/{doc_id}/text": [f"{LAMP}/text"],
    "PUT /api/documents/{doc_id}": [
        ("/api/documents/new.pdf", b"%PDF-1.4 broken"),
        ("/api/documents/first.pdf/x", b"x"),
    ],
    "DELETE /api/documents/{doc_id}": ["/api/documents/none.md"],
    "GET /api/indexes": ["/api/indexes"],
    "GET /api/jobs/{job_id}": ["/api/jobs/{job}"],
    "GET /api/status": ["/api/status"],
    "GET /api/overview": ["/api/overview"],
    "POST /api/feedback": [("/api/feedback", {"index": "demo", "question": QUESTION})],
    "POST /api/login": [("/api/login", {"token": "any"})],
    "POST /api/logout": [("/api/logout", {})],
    "GET /api/search": ["/api/search?q=crank"],
    "POST /api/search": [
        ("/api/search", {"query": QUESTION, "explain": True, "boxes": True, "blocks": True})
    ],
    "POST /api/search/batch": [("/api/search/batch", {"queries": [QUESTION, "viaduct"]})],
    "POST /api/ask": [
        ("/api/ask", {"question": QUESTION, "stream": stream, "blocks": True})
        for stream in (False, True)
    ],
    "POST /api/check": [
        ("/api/check", {"citations": [CITED]}),
        ("/api/check", {"text": f'"{CITED["quote"]}"'}),
    ],
    "GET /v1/models": ["/v1/models"],
    "GET /v1/models/{model}": ["/v1/models/demo"],
    "POST /v1/chat/completions": [
        (
            "/v1/chat/completions",
            {
                "model": "demo",
                "messages": [{"role": "user", "content": QUESTION}],
                "stream": stream,
            },
        )
        for stream in (False, True)
    ],
    "POST /v1/rerank": [("/v1/rerank", {"query": "crank", "documents": ["The crank.", "A lamp."]})],
    "POST /retrieval": [("/retrieval", {"knowledge_id": "demo", "query": QUESTION})],
    "GET /healthz": ["/healthz"],
    "GET /readyz": ["/readyz"],
    "GET /metrics": ["/metrics"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, corpus):
    """An index of files, one of which is skipped and one is gone, and of a document from another framework."""
    folder = tmp_path_factory.mktemp("paths").resolve() / "private-folder"
    (folder / "docs" / "reports").mkdir(parents=True)
    (folder / "docs" / "lamp.md").write_text(f"# Lamp\n\n{CITED['quote']}\n")
    (folder / "docs" / "oil.md").write_text("# Oil\n\nThe crank is oiled on Mondays.\n")
    (folder / "docs" / "reports" / "bad.pdf").write_bytes(b"%PDF-1.4 broken")
    (folder / "docs" / "reports" / "viaduct-inspection.pdf").write_bytes(
        (corpus / "reports" / "viaduct-inspection.pdf").read_bytes()
    )
    other = str(folder / "elsewhere" / "crank.txt")
    document = Document(
        "crank.txt", other, "The crank is painted red.", meta={"file_path": other, "colour": "red"}
    )
    with Engine.open(folder / "index", create=True) as engine:
        engine.add(folder / "docs")
        engine.add(
            [
                document,
                Document("page", "https://harbour.example/crank", "A crank costs 12 pounds."),
            ]
        )
    (folder / "docs" / "oil.md").unlink()
    return folder


def operations() -> list[str]:
    described = json.loads(GOLDEN.read_text())["paths"]
    return [f"{method.upper()} {path}" for path, methods in described.items() for method in methods]


def test_no_reply_names_a_folder(serve, folder):
    assert sorted(REQUESTS) == sorted(operations())
    options = ["--index", f"demo={folder / 'index'}", "--writable"]
    with serve(folder, *options) as running, running.client() as client:
        job = client.put("/api/documents/first.pdf", content=b"%PDF-1.4 broken").json()["job_id"]
        for operation, requests in REQUESTS.items():
            method = operation.partition(" ")[0]
            for request in requests:
                path, body = (request, None) if isinstance(request, str) else request
                content = {"content": body} if isinstance(body, bytes) else {"json": body}
                reply = client.request(method, path.format(job=job), **content)
                assert "private-folder" not in reply.text, (operation, reply.text)
                assert reply.status_code < 500, (operation, reply.text)


def test_what_clients_learn_instead(serve, folder):
    with (
        serve(folder, "--index", f"demo={folder / 'index'}") as running,
        running.client() as client,
    ):
        found = client.post("/api/search", json={"query": "crank", "top_k": 9}).json()["spans"]
        paths = {span["doc_id"]: span["path"] for span in found}
        assert paths["lamp.md"] == "lamp.md" and paths["crank.txt"] == "crank.txt"
        assert paths["page"] == "https://harbour.example/crank"
        assert next(span["meta"] for span in found if span["doc_id"] == "crank.txt") == {
            "file_path": "crank.txt",
            "colour": "red",
        }
        status = client.get("/api/status").json()
        assert (status["path"], status["roots"]) == ("demo", {})
        assert "reports/bad.pdf" in [file["path"] for file in status["skipped_files"]]


def test_a_filter_does_not_find_out_where_files_lie(serve, folder):
    with (
        serve(folder, "--index", f"demo={folder / 'index'}") as running,
        running.client() as client,
    ):

        def count(expression: str) -> int:
            found = client.post(
                "/api/search", json={"query": "crank", "filter": expression}
            ).json()["spans"]
            listed = client.get("/api/documents", params={"filter": expression}).json()["total"]
            assert bool(found) == bool(listed)
            return listed

        for hidden in (
            f"path={folder}/docs",
            "path=/*",
            "root=/*",
            'path<"0"',
            f'root="{folder}/docs"',
            "root>0",
        ):
            assert count(f"doc_id=lamp.md and {hidden}") == 0, hidden
        assert count("path=lamp.md") == count("path=reports") == 1
        assert count("path=https://*") == 1


def test_the_owner_of_the_machine_may_ask_for_paths(serve, folder):
    options = ["--index", f"demo={folder / 'index'}", "--show-paths"]
    with serve(folder, *options) as running, running.client() as client:
        assert client.get(LAMP).json()["path"] == str(folder / "docs" / "lamp.md")
        assert client.get("/api/status").json()["path"] == str(folder / "index")
        assert (
            client.get("/api/documents", params={"filter": f"path={folder}/docs"}).json()["total"]
            == 3
        )
    with pytest.raises(UsageError, match="--show-paths is for this machine, and others reach 0"):
        ServerSettings(
            {"demo": folder / "index"},
            host="0.0.0.0",
            token="a-token-of-the-tests",
            show_paths=True,
        )
