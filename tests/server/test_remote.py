"""An engine behind a server does what the engine does, in Python, in frameworks and on the command line."""

import asyncio
import copy
import json
import pickle
import re
import time
from dataclasses import replace

import httpx
import pytest

from lmkrag import Engine, RemoteEngine, errors
from lmkrag import remote as remote_module
from lmkrag.conversation import Conversation
from lmkrag.errors import (
    DocumentNotFound,
    LmkragError,
    MissingExtra,
    ServerError,
    UsageError,
    list_kinds,
    make_error,
)
from lmkrag.integrations import langchain, llama_index
from lmkrag.readers.extractive import ExtractiveReader
from lmkrag.remote import _to_error
from lmkrag.server.problems import from_error

QUESTION = "how is leave accrued?"


@pytest.fixture(scope="module")
def local(built_index):
    with Engine.open(built_index) as opened:
        yield opened


@pytest.fixture(scope="module")
def remote(server):
    with RemoteEngine(f"{server.url}/demo") as opened:
        yield opened


def rounded(spans):
    return [
        (span.doc_id, span.start, span.end, span.text, span.place, span.section, dict(span.meta))
        for span in spans
    ]


def test_same_spans(local, remote):
    for options in (
        {},
        {"top_k": 2, "level": "sentence"},
        {"max_tokens": 100, "filter": "kind=markdown"},
    ):
        assert rounded(remote.search(QUESTION, **options)) == rounded(
            local.search(QUESTION, **options)
        )
    found, expected = remote.search(QUESTION)[0], local.search(QUESTION)[0]
    assert [hit.ordinal for hit in found.hits] == [hit.ordinal for hit in expected.hits]
    assert found.score == pytest.approx(expected.score, abs=1e-4)
    queries = [QUESTION, "When are bonfires allowed?"] * 40
    batch = remote.search_many(queries, top_k=1, rerank=False)
    expected = [rounded(local.search(query, top_k=1, rerank=False)) for query in queries[:2]]
    assert list(map(rounded, batch)) == expected * 40


def test_the_order_is_that_of_an_engine_here_whatever_the_servers_time_limit(
    serve, built_index, tmp_path
):
    with (
        serve(
            tmp_path, "--rerank-timeout-ms", "0.001", "--index", f"demo={built_index}"
        ) as running,
        RemoteEngine(running.url) as there,
        Engine.open(built_index) as here,
    ):
        for query in (QUESTION, "who approves leave?"):
            assert rounded(there.search(query)) == rounded(here.search(query))
        expected = rounded(here.search(query))
        assert (
            rounded(asyncio.run(there.asearch(query)))
            == rounded(there.search_many([query])[0])
            == expected
        )
        answered = rounded(here.ask(query).spans)
        assert (
            rounded(there.ask(query).spans)
            == rounded(there.ask(query, reader=ExtractiveReader()).spans)
            == answered
        )


def test_explanations(local, remote):
    found, expected = (
        engine.search(QUESTION, top_k=1, explain=True)[0] for engine in (remote, local)
    )
    assert found.explain() == expected.explain()
    with pytest.raises(UsageError, match="search with explain=True"):
        remote.search(QUESTION, top_k=1)[0].explain()
    scores, own = (
        engine.score_sentences(QUESTION, "lighthouse-handbook.md") for engine in (remote, local)
    )
    assert [(score.start, score.end) for score in scores] == [
        (score.start, score.end) for score in own
    ]


def test_same_answers(local, remote):
    found, expected = remote.ask("who approves leave?"), local.ask("who approves leave?")
    assert (found.text, found.found, found.reader) == (
        expected.text,
        expected.found,
        expected.reader,
    )
    assert [(c.number, c.quote, c.place) for c in found.citations] == [
        (c.number, c.quote, c.place) for c in expected.citations
    ]
    here = remote.ask("who approves leave?", reader=ExtractiveReader())
    assert here.text == expected.text
    assert [answer.text for answer in remote.ask_many(["who approves leave?"] * 2)] == [
        expected.text
    ] * 2
    stream = remote.ask_stream("who approves leave?")
    assert "".join(stream) == stream.answer().text == expected.text


async def test_async(local, remote):
    assert rounded(await remote.asearch(QUESTION)) == rounded(local.search(QUESTION))
    assert (await remote.aask_stream("who approves leave?").answer()).text == local.ask(
        "who approves leave?"
    ).text
    here = await remote.aask_stream("who approves leave?", reader=ExtractiveReader()).answer()
    assert here.found
    async with remote.aask_stream("who approves leave?") as stream:
        pieces = [piece async for piece in stream]
        assert "".join(pieces) == (await stream.answer()).text


def test_same_documents(local, remote):
    assert [d.doc_id for d in remote.documents()] == [d.doc_id for d in local.documents()]
    assert [d.doc_id for d in remote.documents(filter="kind=pdf")] == [
        "reports/viaduct-inspection.pdf"
    ]
    for info in local.documents():  # clients learn no folder
        assert remote.document(info.doc_id) == replace(
            local.document(info.doc_id), path=info.doc_id
        )
        assert remote.documents(doc_ids=[info.doc_id])[0] == replace(
            info, path=info.doc_id, root=""
        )
    assert remote.read("glass-river.txt", 10, 20) == local.read("glass-river.txt")[10:20]
    for start, end in ((5, 5), (5, 3), (5, -1), (10**7, None)):
        assert remote.read("glass-river.txt", start, end) == local.read(
            "glass-river.txt", start, end
        )
    assert remote.status() == replace(local.status(), path="demo", roots={})


def test_arguments_are_checked_as_on_this_machine(local, remote):
    calls = [
        lambda engine: engine.documents(limit="a"),
        lambda engine: engine.documents(limit=-1),
        lambda engine: engine.documents(after=5),
        lambda engine: engine.documents(doc_ids=[5]),
        lambda engine: engine.read("glass-river.txt", -1),
        lambda engine: engine.read(5),
        lambda engine: engine.read("\ud800"),
        lambda engine: engine.read("gone.txt", 5, 5),
        lambda engine: engine.document(None),
        lambda engine: engine.document(""),
    ]
    for call in calls:
        with pytest.raises(UsageError) as here:
            call(local)
        with pytest.raises(UsageError) as there:
            call(remote)
        assert type(here.value) is type(there.value)


def test_closed_or_at_a_wrong_address(server):
    closed = RemoteEngine(server.url)
    closed.close()
    for call in (closed.status, closed.documents, lambda: closed.ask("x")):
        with pytest.raises(errors.IndexClosed, match="closed"):
            call()
    with (
        RemoteEngine(f"{server.url}/demo/") as other,
        pytest.raises(ServerError, match="does not end in a slash"),
    ):
        other.status()


def test_every_error_can_be_pickled():
    made = [
        kind("a message")
        for kind in list_kinds().values()
        if kind not in (DocumentNotFound, MissingExtra)
    ]
    made += [DocumentNotFound("a.md", "demo", "b.md"), MissingExtra("pdf", "pypdfium2")]
    made += [
        errors.DocumentError("a message", lasting=False),
        make_error("missing-extra", "a message", ServerError),
    ]
    for error in made:
        copies = [
            pickle.loads(pickle.dumps(error, version))
            for version in range(pickle.HIGHEST_PROTOCOL + 1)
        ]
        for again in [*copies, copy.copy(error)]:
            assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_errors(remote, server):
    with pytest.raises(DocumentNotFound, match=r"no document 'x\.md' in demo"):
        remote.read("x.md")
    with pytest.raises(UsageError, match="top_k must be at least 1"):
        remote.search("x", top_k=0)
    with pytest.raises(UsageError, match="filter"):
        remote.search("x", filter="kind=pdf and")
    with (
        RemoteEngine(f"{server.url}/none") as other,
        pytest.raises(ServerError, match="no index 'none'"),
    ):
        other.search("x")
    with (
        RemoteEngine("http://127.0.0.1:9") as dead,
        pytest.raises(ServerError, match="can't be used"),
    ):
        dead.search("x")
    for url in ("localhost:8700", "ftp://localhost/x", "http://", "http://h/x?y"):
        with pytest.raises(UsageError, match="is not the URL of a server"):
            RemoteEngine(url)


def test_something_else_answers(tmp_path):
    import http.server
    import threading

    with http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler) as other:
        threading.Thread(target=other.serve_forever, args=(0.02,), daemon=True).start()
        with (
            RemoteEngine(f"http://127.0.0.1:{other.server_port}") as dead,
            pytest.raises(ServerError, match=r"status 501: is it lmkrag serve\?"),
        ):
            dead.search("x")
        other.shutdown()


def test_prefix_and_index_of_a_url():
    assert RemoteEngine("http://h:1/handbook")._index == "handbook"
    behind = RemoteEngine("https://h/lmkrag/handbook")
    assert (behind._url, behind._index) == ("https://h/lmkrag", "handbook")
    assert RemoteEngine("https://h/lmkrag/")._index == ""


def test_token(serve, built_index, tmp_path, monkeypatch):
    token = "a-token-of-the-tests"
    with serve(tmp_path, "--index", built_index, LMKRAG_TOKEN=token) as running:
        with RemoteEngine(running.url, token=token) as remote:
            assert remote.search(QUESTION)
        with (
            RemoteEngine(running.url) as remote,
            pytest.raises(ServerError, match="send the server's token"),
        ):
            remote.search(QUESTION)
        monkeypatch.setenv("LMKRAG_TOKEN", token)
        with RemoteEngine(running.url) as remote:
            assert remote.search(QUESTION)


def test_frameworks(local, remote):
    here, there = (langchain.LandmarkRetriever(engine=engine, k=3) for engine in (local, remote))
    found = [document.page_content for document in there.invoke(QUESTION)]
    assert found == [document.page_content for document in here.invoke(QUESTION)]
    node = llama_index.LandmarkRetriever(remote, similarity_top_k=3).retrieve(QUESTION)[0].node
    assert node.text == found[0]  # type: ignore[attr-defined]


def test_conversation(remote):
    conversation = Conversation(remote)
    assert conversation.ask("who approves leave?").found
    assert "end of March" in conversation.ask("and when is it lost?").text


def test_command_line(lmkrag, server, built_index, tmp_path):
    url = f"{server.url}/demo"
    for command in (
        ["search", QUESTION, "--json"],
        ["ask", "who approves leave?", "--json"],
        ["list"],
        ["status"],
    ):
        there, here = lmkrag(*command, "--server", url), lmkrag(*command, "--index", built_index)
        assert there.returncode == here.returncode == 0, there.stderr
        if command[0] == "search":
            found, expected = (json.loads(result.stdout)["spans"] for result in (there, here))
            assert [span["text"] for span in found] == [span["text"] for span in expected]
        elif command[0] == "ask":
            found, expected = (json.loads(result.stdout)["citations"] for result in (there, here))
            assert found == [{**citation, "path": citation["doc_id"]} for citation in expected]
        else:
            lines = [line for line in here.stdout.splitlines() if not line.startswith("root ")]
            assert there.stdout.splitlines() == [
                line.replace(str(built_index), "demo") for line in lines
            ]
    shown = lmkrag("show", "glass-river.txt", env={"LMKRAG_SERVER": url})
    assert shown.stdout == lmkrag("show", "glass-river.txt", "--index", built_index).stdout
    both = lmkrag("search", "x", "--server", url, "--index", built_index)
    assert both.returncode == 2 and "give --index or --server, not both" in both.stderr
    dead = lmkrag("search", "x", "--server", "http://127.0.0.1:9")
    assert dead.returncode == 1 and "can't be used" in dead.stderr
    elsewhere = {"LMKRAG_SERVER": "http://127.0.0.1:9"}
    chosen = lmkrag("show", "glass-river.txt", "--index", built_index, env=elsewhere)
    assert chosen.stdout == shown.stdout, "a flag goes before the environment"


def test_explain_on_the_command_line(lmkrag, built_index):
    told = lmkrag("search", QUESTION, "-k", "1", "--explain", "--index", built_index).stdout
    assert "words of the question: leave, accrued" in told
    assert "similarity" in told and "taken after: 2 sentences; the next sentence scores" in told


def every_error():
    for name, kind in list_kinds().items():
        if kind is DocumentNotFound:
            yield DocumentNotFound("a.md", "/place/index", "b.md")
        elif kind is MissingExtra:
            yield MissingExtra("torch", "torch")
        else:
            yield make_error(name, f"what went wrong in /place/index ({name})", LmkragError)


@pytest.mark.parametrize("error", list(every_error()), ids=lambda error: type(error).__name__)
def test_every_error_of_a_server_is_raised_as_itself(error):
    problem = from_error(error, "handbook", "/place/index")
    assert 400 <= problem.status_code < 600 and "/place/index" not in str(problem)
    raised = _to_error(problem.body, problem.status_code)
    assert type(raised) is type(error)
    assert str(raised) == str(error).replace("/place/index", "handbook")


def test_the_kinds_of_errors_are_those_of_the_tree():
    assert len(list_kinds()) == len(set(list_kinds().values())) >= 17
    drawn = re.findall(r"^ *(\w+)(?:\(\w+\))?(?=  |$)", errors.__doc__ or "", re.MULTILINE)
    assert {kind.__name__ for kind in list_kinds().values()} <= set(drawn)


def test_lines_of_unicode_do_not_end_an_event(writable):
    odd = "The ferry\u2028leaves at\u2029seven\x85 and\x0c nine\x1c sharp."
    with writable.client() as client:
        body = {"text": odd, "title": "Ferry\u2028times"}
        job = client.put("/api/documents/ferry.txt", json=body).json()
        while client.get(f"/api/jobs/{job['job_id']}").json()["state"] not in ("done", "failed"):
            time.sleep(0.05)
    with RemoteEngine(f"{writable.url}/demo") as engine:
        assert engine.read("ferry.txt") == odd
        answer = engine.ask("when does the ferry leave?")
        assert "ferry\u2028leaves" in answer.spans[0].text
        stream = engine.ask_stream("when does the ferry leave?")
        assert "".join(stream) == stream.answer().text == answer.text
        assert asyncio.run(_ask(engine)) == [answer.text, answer.text]
        found = asyncio.run(engine.asearch("when does the ferry leave?"))
        assert found[0].doc_id == "ferry.txt"


async def _ask(engine) -> list[str]:
    """Two questions of one event loop share a client."""
    answers = [
        (await engine.aask_stream("when does the ferry leave?").answer()).text for _ in range(2)
    ]
    client = engine._async_client
    assert engine._async_client is client
    await engine.aclose()
    assert client.is_closed
    return answers


def test_documents_page_by_page(server, built_index, monkeypatch):
    monkeypatch.setattr(remote_module, "_LISTED", 2)
    with RemoteEngine(server.url) as there, Engine.open(built_index) as here:
        names = [info.doc_id for info in here.documents()]
        assert [info.doc_id for info in there.documents()] == names
        assert [info.doc_id for info in there.documents(after=names[0], limit=3)] == names[1:4]
        assert len(there.documents(filter="kind=pdf")) == 1
        for wrong in ({}, 1, b"x"):
            with pytest.raises(UsageError):
                there.documents(filter=wrong or [1])
            with pytest.raises(UsageError):
                there.search_many(wrong)


async def test_requests_of_an_event_loop_share_a_client(monkeypatch):
    clients, make_client = [], httpx.AsyncClient
    monkeypatch.setattr(
        httpx,
        "AsyncClient",
        lambda **settings: clients.append(make_client(**settings)) or clients[-1],
    )
    engine = RemoteEngine("http://127.0.0.1:9")
    for _ in range(2):
        with pytest.raises(ServerError):
            await engine.asearch(QUESTION)
    await engine.aclose()
    assert len(clients) == 1
