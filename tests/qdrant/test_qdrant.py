"""An index on Qdrant beside the same documents in a directory.

In qdrant-client's local mode, or on a server where ``LMKRAG_TEST_QDRANT=qdrant://HOST:6333`` names one. The local mode
has no network, replicas, approximate search or quantization, and is in one process: threads stand for machines, each
with a cache of its own. ``rest_server.py`` puts HTTP before it, so that processes can be killed, or before Qdrant's own
engine, on which searches are compared, too, where ``qdrant-edge-py`` is installed.
"""

import contextlib
import http.server
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import httpx
import numpy as np
import pytest
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from lmkrag import Document, Engine
from lmkrag.errors import (
    DocumentNotFound,
    IndexClosed,
    IndexCorrupt,
    IndexLocked,
    IndexMismatch,
    IndexNotFound,
    MissingExtra,
    StorageError,
    UsageError,
)
from lmkrag.index import copying
from lmkrag.index.copying import copy_documents
from lmkrag.index.store import IndexStore
from lmkrag.index.verify import find_problems
from lmkrag.qdrant import connection as connections
from lmkrag.qdrant import snapshot as snapshots
from lmkrag.qdrant import store as stores
from lmkrag.qdrant.connection import Connection
from lmkrag.qdrant.store import QdrantStore

LOCAL = "qdrant://:memory:"
SERVER = os.environ.get("LMKRAG_TEST_QDRANT", LOCAL)
QUESTIONS = [
    "When does the gate open?",
    "Who keeps the lighthouse?",
    "glass river",
    "rent of the boathouse",
    "`6.25`",
]


@pytest.fixture(autouse=True)
def machine(monkeypatch, tmp_path):
    """The cache of this machine; another one is at ``machine.with_name("other")``."""
    path = tmp_path / "machine"
    monkeypatch.setenv("XDG_CACHE_HOME", str(path))
    return path


@pytest.fixture
def address():
    text = f"{SERVER}/test-{uuid.uuid4().hex[:12]}"
    yield text
    with contextlib.suppress(IndexNotFound):
        Connection(text).call("delete_collection")


@pytest.fixture
def open_engine(address, encoder, machine, monkeypatch):
    """Open the index, on another machine if one is named."""
    with contextlib.ExitStack() as stack:

        def open_one(name="machine", **options):
            monkeypatch.setenv("XDG_CACHE_HOME", str(machine.with_name(name)))
            options = {"encoder": encoder, "rerank": False, **options}
            return stack.enter_context(Engine.open(address, create=True, **options))

        yield open_one


@pytest.fixture
def both(open_engine, encoder, tmp_path):
    """Engines on Qdrant and on a directory."""
    with Engine.open(tmp_path / "index", create=True, encoder=encoder, rerank=False) as here:
        yield open_engine(), here


@contextlib.contextmanager
def serving_points(*arguments):
    """Run ``rest_server.py``; yield its address."""
    command = [sys.executable, str(Path(__file__).with_name("rest_server.py")), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield f"qdrant://127.0.0.1:{process.stdout.readline().strip()}"
        process.kill()


@pytest.fixture(scope="module", params=["server", "exact engine", "engine with graphs"])
def searched(request, tmp_path_factory):
    """The address of what is searched: ``SERVER``, or Qdrant's engine, by itself or by graphs and codes."""
    if request.param == "server":
        yield SERVER
        return
    pytest.importorskip("qdrant_edge")
    kilobytes = ["1"] if request.param == "engine with graphs" else []
    with serving_points(str(tmp_path_factory.mktemp("shards")), *kilobytes) as address:
        yield address


@pytest.fixture(scope="module")
def copies(searched, built_index, encoder, tmp_path_factory):
    """Engines on the index of the sample corpus and on a copy of it on Qdrant."""
    text = f"{searched}/test-{uuid.uuid4().hex[:12]}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        with contextlib.closing(IndexStore.open(built_index)) as old:
            store = QdrantStore.create(Path(text), encoder=old.encoder)
            assert copy_documents(old, store).added == 5
    with (
        Engine(store, encoder, rerank=False) as there,
        Engine.open(built_index, encoder=encoder, rerank=False) as here,
    ):
        yield there, here
    Connection(text).call("delete_collection")


def describe(spans):
    return [
        (s.doc_id, s.start, s.end, s.text, s.headings, s.line, s.page, s.title, s.stale)
        for s in spans
    ]


def compare(engine, other, question, **options):
    found, expected = (each.search(question, **options) for each in (engine, other))
    assert describe(found) == describe(expected)
    scores = [
        [value for s in spans for value in (s.score, s.coverage)] for spans in (found, expected)
    ]
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-5)
    return found


@pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
def test_a_search_finds_what_it_finds_in_a_directory(copies, mode):
    for question in QUESTIONS:
        for level in ("passage", "span", "sentence", "document"):
            compare(copies[0], copies[1], question, mode=mode, level=level)
    compare(copies[0], copies[1], QUESTIONS[0], mode=mode, rerank=True)


def test_a_search_makes_few_calls(copies, monkeypatch):
    calls, real = [], Connection.call
    monkeypatch.setattr(
        Connection, "call", lambda *args, **options: calls.append(args[1]) or real(*args, **options)
    )
    there, log_call = copies[0], copies[0]._store.log._call
    for mode, most in (("lexical", 0), ("dense", 3), ("hybrid", 3)):
        for question in QUESTIONS:
            there._store.reader._next_look = float("inf")
            calls.clear()
            there.search(question, mode=mode)
            assert len(calls) <= most, (mode, question, calls)
    monkeypatch.setattr(
        there._store.log,
        "_call",
        lambda *args, **options: calls.append(args[0]) or log_call(*args, **options),
    )
    there._store.reader._next_look = 0.0
    calls.clear()
    there.search("glass", mode="lexical")
    there.documents()
    assert calls == ["retrieve"]  # whether the log has grown, at most twice a second


@pytest.mark.parametrize("limits", [(1_000, 50_000), (2, 50_000), (2, 2)])
def test_filters_keep_the_same_documents(copies, monkeypatch, limits):
    for name, limit in zip(("_SCORED", "_LISTED"), limits, strict=True):
        monkeypatch.setattr(snapshots, name, limit)
    there, here = copies
    for expression in (
        "kind=pdf",
        "not kind=pdf",
        "path=*glass*",
        "author=nobody",
        "doc_id=glass-river.txt or kind=html",
    ):
        documents = [engine.documents(filter=expression) for engine in copies]
        assert documents[0] == documents[1]
        for mode in ("hybrid", "dense"):
            assert (
                compare(there, here, "When does the gate open?", filter=expression, mode=mode)
                or not documents[0]
            )


def test_the_document_that_a_question_names(both):
    leases = (("Aurora", 10), ("Bright", 20), ("Calder", 30), ("Dunlin", 40))
    texts = [
        Document(n.lower(), text=f"Lease between the town and {n}.\n\nThe rent is {r} crowns.\n")
        for n, r in leases
    ]
    for engine in both:
        engine.add(texts)
    assert "30" in compare(both[0], both[1], "In the lease with Calder, what is the rent?")[0].text
    compare(
        both[0], both[1], "In the lease with Calder, what is the rent?", filter="not doc_id=aurora"
    )


def test_what_is_read_back(copies):
    there, here = copies
    assert there.documents() == here.documents()
    assert there.documents(after="glass-river.txt", limit=2) == here.documents(
        after="glass-river.txt", limit=2
    )
    for info in here.documents():
        assert there.document(info.doc_id) == here.document(info.doc_id)
    scores = [engine.score_sentences("gate", "glass-river.txt") for engine in copies]
    np.testing.assert_allclose(
        [s.score for s in scores[0]], [s.score for s in scores[1]], atol=1e-5
    )
    with pytest.raises(DocumentNotFound, match=r"in qdrant://.*did you mean 'glass-river\.txt'"):
        there.read("glas-river.txt")
    status, expected = there.status(), here.status()
    for name in ("documents", "sentences", "characters", "kinds", "roots", "dead", "fingerprint"):
        assert getattr(status, name) == getattr(expected, name)
    assert status.path.startswith("qdrant://")
    assert there.verify() == ()


def test_files_that_change(both, tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "a.txt").write_text("The ferry leaves at nine. It is red.")
    (folder / "b.txt").write_text("The mill is old. It has two wheels.")
    (folder / "c.pdf").write_bytes(b"no pdf")
    for engine in both:
        report = engine.add(folder)
        assert (report.added, len(report.skipped)) == (2, 1)
        assert engine.add(folder).unchanged == 2
    (folder / "a.txt").write_text("The ferry leaves at ten. It is red. It is loud.")
    os.utime(folder / "b.txt", (1, 1))
    (folder / "c.pdf").unlink()
    for engine in both:
        report = engine.add(folder, prune=True)
        assert (report.updated, report.unchanged) == (1, 1)
        assert engine.add(folder).unchanged == 2
    compare(both[0], both[1], "When does the ferry leave?")
    (folder / "a.txt").unlink()
    for engine in both:
        assert engine.add(folder, prune=True).removed == 1
        assert engine.remove(filter="doc_id=b.txt") == 1
        assert engine.remove(filter="doc_id=b.txt") == 0
        assert engine.search("ferry") == []
    assert both[0].status().sentences == 0


def contents(engine):
    return {info.doc_id: engine.document(info.doc_id).text for info in engine.documents()}


def test_other_machines_see_the_same(open_engine, both, address):
    writer, here = both
    reader = open_engine("other")
    for number in range(12):  # the segments of a copy are merged on the way
        for engine in both:
            engine.add(
                [Document(f"{number % 9}", text=f"Number {number} is here. It is the {number}th.")]
            )
    for engine in both:
        engine.remove("3")
    reader._store.reader._next_look = 0.0
    newcomer = open_engine("third")
    for engine in (writer, reader, newcomer):
        assert contents(engine) == contents(here)
        compare(engine, here, "Number 11 is the 11th")
        compare(engine, here, "number", mode="dense", top_k=20)
        assert engine.verify() == ()
    with newcomer._store.reader.snapshot() as snapshot:
        assert len(snapshot.segments) < 9


def test_documents_from_two_machines_are_put_in_an_order(open_engine):
    one, other = open_engine(), open_engine("other")
    one.add([Document("a", text="The well is deep."), Document("both", text="The first version.")])
    other.add(
        [Document("b", text="The well is dry."), Document("both", text="The second version.")]
    )
    one._store.reader._next_look = 0.0
    for engine in (one, other):
        assert contents(engine) == {
            "a": "The well is deep.",
            "b": "The well is dry.",
            "both": "The second version.",
        }
        assert engine.verify() == ()


# Writers that end, and connections that are lost


class Killed(BaseException):
    """Ends a writer as a signal would."""


LOST = ResponseHandlingException(httpx.ConnectError("no route"))


@pytest.fixture
def faults(monkeypatch):
    """Have calls of connections that are opened from now on go through ``faults["hook"](name, call)``."""
    hooks = {"hook": lambda name, call: call()}
    real = Connection._connect

    class Client:
        def __init__(self, client):
            self._client = client

        def __getattr__(self, name):
            method = getattr(self._client, name)
            return lambda *args, **options: hooks["hook"](name, lambda: method(*args, **options))

    monkeypatch.setattr(Connection, "_connect", lambda self: Client(real(self)))
    monkeypatch.setattr(connections, "_PAUSES", (0.0, 0.0, 0.0))
    return hooks


OLD = [
    Document("kept", text="The kiln is lit on Monday."),
    Document("changed", text="The bell rings at one."),
]
NEW = [
    Document("changed", text="The bell rings at two. Twice."),
    Document("fresh", text="The dam was built by Ada."),
]
BEFORE, AFTER = ({doc.doc_id: doc.text for doc in docs} for docs in (OLD, [*OLD, *NEW]))


def fail_at(step, *, error, after=False, forever=False):
    """A hook whose call number ``step``, and with ``forever`` all that follow, fail before or after they are made."""
    count = -1

    def hook(name, call):
        nonlocal count
        count += 1
        if count == step or (forever and count > step):
            if after:
                call()
            raise error
        return call()

    return hook


@pytest.mark.parametrize("way", ["killed before", "killed after", "lost"])
def test_a_writer_that_ends_at_any_call(open_engine, faults, machine, monkeypatch, way):
    monkeypatch.setattr(stores, "_PIECE", 200)  # entries of several pieces
    watcher = open_engine("watcher")
    watcher.add(OLD)
    ended = []
    for step in range(100):
        writer = open_engine("writer")
        error, options = (
            (LOST, {"forever": True})
            if way == "lost"
            else (Killed(), {"after": way.endswith("after")})
        )
        faults["hook"] = fail_at(step, error=error, **options)
        try:
            writer.add(NEW)
            break
        except Killed:
            pass
        except StorageError as failure:
            assert "Qdrant can't be reached (no route); what was committed is kept" in str(failure)
        finally:
            faults["hook"] = lambda name, call: call()
        watcher._store.reader._next_look = writer._store.reader._next_look = 0.0
        now = contents(watcher)
        assert now in (BEFORE, AFTER)
        assert contents(writer) == now
        ended.append(now == AFTER)
        bell = "The bell rings at one." if now == BEFORE else "The bell rings at two."
        assert [
            s.text for s in watcher.search("When does the bell ring?", level="sentence", top_k=1)
        ] == [bell]
        if now == AFTER:  # back to the state before
            watcher.remove(["fresh"])
            watcher.add([OLD[1]])
    assert step > 8
    assert set(ended) == {True, False}
    for engine in (watcher, writer, open_engine("newcomer")):
        engine._store.reader._next_look = 0.0
        assert contents(engine) == AFTER
        assert engine.verify() == ()


def test_a_reply_that_is_lost_is_asked_for_again(open_engine, faults):
    seen = {"close"}  # has no reply

    def lose_first(name, call):
        reply = call()  # done, but nobody learns of it
        if name not in seen:
            seen.add(name)
            raise ResponseHandlingException(httpx.ReadTimeout("timed out"))
        return reply

    faults["hook"] = lose_first
    engine = open_engine()
    for documents in (OLD, NEW):
        seen.intersection_update({"close"})
        engine.add(documents)
    assert contents(engine) == AFTER
    seen.intersection_update({"close"})
    assert engine.search("Who built the dam?")[0].doc_id == "fresh"
    assert engine.status().dead == 1  # the sentence that was replaced
    assert engine.verify() == ()


def die(*args, **options):
    raise Killed


def test_vectors_of_no_document_are_deleted_after_two_days(open_engine, monkeypatch):
    monkeypatch.setattr(stores, "_GRACE", 0.0)
    engine, writer = open_engine(), open_engine()
    engine.add([*OLD, Document("gone", text="It rained. It snowed.")])
    engine.remove("gone")

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(QdrantStore, "commit", die)  # all vectors are there then
        writer.add(NEW)
    assert engine.status().dead == 5
    assert {span.doc_id for span in engine.search("bell dam rain", top_k=5)} <= {"kept", "changed"}
    engine.compact()  # they may still be committed
    assert engine.status().dead == 5
    monkeypatch.setattr(stores, "_OLD", -1.0)
    engine.compact()
    assert engine.status().dead == 0
    assert contents(engine) == BEFORE
    assert engine.verify() == ()
    monkeypatch.setattr(stores, "_LATEST", -1.0)
    with pytest.raises(StorageError, match="wait for a day"):
        writer.add(NEW)
    assert contents(engine) == BEFORE


@pytest.mark.parametrize(
    ("status", "kind", "message"),
    [
        (401, StorageError, "set QDRANT_API_KEY to a key that may do this"),
        (404, IndexNotFound, "no index here; make one with"),
        (400, StorageError, r"Qdrant refused \(400\): wrong size"),
        (503, StorageError, r"Qdrant refused \(503\)"),
    ],
)
def test_what_a_server_refuses(open_engine, faults, status, kind, message):
    engine = open_engine()
    engine.add(OLD)

    def refuse(name, call):
        raise UnexpectedResponse(status, "", b"wrong size", httpx.Headers())

    faults["hook"] = refuse
    engine._store.reader._next_look = 0.0
    with pytest.raises(kind, match=message):
        engine.search("bell")
    faults["hook"] = lambda name, call: call()


def test_two_writers_and_four_readers(open_engine):  # noqa: C901
    first = open_engine()
    engines = [
        first,
        open_engine("other"),
        *(open_engine(name) for name in ("machine", "machine", "other", "third")),
    ]
    errors: list[BaseException] = []
    done = threading.Event()

    def text(name, version):
        return " ".join(f"{name.title()} number {n} has version {version}." for n in range(5))

    def write(name, engine):
        for version in range(5):
            engine.add(
                [
                    Document(name, text=text(name, version)),
                    Document("both", text=text("both", version)),
                ]
            )

    def read(engine):
        while not done.is_set():
            for span in engine.search("which version has ann, bob or both", level="document"):
                assert (
                    len(
                        {
                            word
                            for word in span.text.split()
                            if word[0].isdigit() and word.endswith(".")
                        }
                    )
                    == 1
                )
            for info in engine.documents():
                with contextlib.suppress(DocumentNotFound):
                    assert (
                        len(
                            {
                                part.split()[-1]
                                for part in engine.read(info.doc_id).split(".")
                                if part
                            }
                        )
                        == 1
                    )

    def run(job, *args):
        try:
            job(*args)
        except BaseException as error:
            errors.append(error)

    readers = [threading.Thread(target=run, args=(read, engine)) for engine in engines[2:]]
    writers = [
        threading.Thread(target=run, args=(write, *pair))
        for pair in zip(("ann", "bob"), engines, strict=False)
    ]
    for thread in readers + writers:
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    for thread in readers:
        thread.join()
    assert errors == []
    for engine in (*engines, open_engine("newcomer")):
        engine._store.reader._next_look = 0.0
        assert contents(engine) == {name: text(name, 4) for name in ("ann", "bob", "both")}
        assert engine.verify() == ()


@contextlib.contextmanager
def serving(status, body):
    """Serve one reply to all requests; yield the address and the headers of the requests."""
    seen = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append(dict(self.headers))
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"qdrant://127.0.0.1:{server.server_port}/handbook", seen
        server.shutdown()


@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
def test_a_server_that_is_too_old(monkeypatch):
    monkeypatch.setenv("QDRANT_API_KEY", "a key")
    with (
        serving(200, {"title": "qdrant", "version": "1.16.3"}) as (address, seen),
        pytest.raises(
            StorageError,
            match=r"Qdrant 1\.16\.3 can't tell which of two writers was first; 1\.17 can",
        ),
    ):
        Engine.open(address)
    assert seen[0].get("Api-Key", seen[0].get("api-key")) == "a key"


def test_a_server_that_fails_or_is_not_there(monkeypatch):
    monkeypatch.setattr(connections, "_PAUSES", (0.0,))
    with (
        serving(403, {"status": "no"}) as (address, _),
        pytest.raises(StorageError, match="QDRANT_API_KEY") as failure,
    ):
        Engine.open(address)
    assert not isinstance(failure.value, IndexNotFound)
    with pytest.raises(StorageError, match=r"127\.0\.0\.1.*can't be reached .*see that it runs"):
        Engine.open(address)


@pytest.fixture(scope="module")
def rest_server():
    """The address of a process that answers Qdrant's requests."""
    if SERVER != LOCAL:
        yield SERVER
        return
    with serving_points() as address:
        yield address


def test_processes_that_are_killed_while_they_write(
    rest_server, built_index, encoder, monkeypatch, machine
):
    address, pause = Path(f"{rest_server}/killed-{uuid.uuid4().hex[:12]}"), 0.02
    monkeypatch.setattr(copying, "_BATCH", 20)
    counts = []
    with contextlib.closing(IndexStore.open(built_index)) as old:
        QdrantStore.create(address, encoder=old.encoder).close()
        texts = {row.doc_id: row.length for row in _rows(old)}
        while not counts or counts[-1] < len(texts):
            child = os.fork()
            if not child:
                with (
                    contextlib.closing(IndexStore.open(built_index)) as source,
                    contextlib.closing(QdrantStore.open(address)) as store,
                ):
                    copy_documents(source, store)
                    os._exit(0)
            time.sleep(pause)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            for name in ("machine", "other"):
                monkeypatch.setenv("XDG_CACHE_HOME", str(machine.with_name(name)))
                with contextlib.closing(QdrantStore.open(address)) as store:
                    lengths = {row.doc_id: row.length for row in _rows(store)}
                    assert lengths.items() <= texts.items()
                    assert find_problems(store) == ()
            counts.append(len(lengths))
            pause *= 1.5
        assert counts == sorted(counts)
    with Engine(QdrantStore.open(address), encoder, rerank=False) as there:
        with Engine.open(built_index, encoder=encoder, rerank=False) as here:
            for question in QUESTIONS:
                compare(there, here, question)
        assert there.remove("glass-river.txt") == 1


def _rows(store):
    with store.reader.snapshot() as snapshot:
        return list(snapshot.all_documents())


# The rest of lmkrag


def test_a_copy_in_both_directions(copies, open_engine, tmp_path, encoder):
    there, here = copies
    stored = there._store, here._store
    assert copy_documents(here._store, there._store).unchanged == 5
    with contextlib.closing(IndexStore.create(tmp_path / "back", encoder=encoder.spec)) as store:
        report = copy_documents(stored[0], store)
        assert (report.added, report.sentences) == (5, here.status().sentences)
    with Engine.open(tmp_path / "back", encoder=encoder, rerank=False) as back:
        assert back.documents() == here.documents()
        assert back.verify() == ()
        for question in QUESTIONS:
            compare(there, back, question)


def test_the_commands(lmkrag, address, corpus, built_index, machine):
    env = {"XDG_CACHE_HOME": str(machine)}

    def run(*arguments):
        return lmkrag(*arguments, env=env)

    assert "5 added" in run("index-tools", "copy", built_index, address).stderr
    assert "5 unchanged" in run("index", corpus, "--index", address).stderr
    assert "glass-river.txt" in run("list", "--index", address).stdout
    assert json.loads(run("status", "--json", "--index", address).stdout)["documents"] == 5
    assert run("status", "--check", "--index", address).returncode == 0
    assert json.loads(
        run("search", "glass river", "--json", "--index", address).stdout.splitlines()[0]
    )
    question = ("ask", "What does a keeper do in fog?", "--index")
    assert run(*question, address).stdout == run(*question, built_index).stdout
    assert (
        run("show", "glass-river.txt", "--index", address).stdout
        == (corpus / "glass-river.txt").read_text()
    )
    assert run("verify", "--index", address).returncode == 0
    assert run("remove", "glass-river.txt", "--index", address).returncode == 0
    assert address in run("install", "cursor", "--dry-run", "--index", address).stdout.replace(
        ":/", "://", 1
    )
    for command in (["index-tools", "reindex", "--index", address], ["backup", address, "out"]):
        refused = run(*command)
        assert (refused.returncode, "index-tools copy" in refused.stderr) == (2, True)
    refused = run("index", corpus, "--ray", "local", "--index", address)
    assert (refused.returncode, "copy it to Qdrant" in refused.stderr) == (2, True)
    assert (
        "no index here; make one with: lmkrag index PATH --index qdrant://"
        in run("list", "--index", f"{address}x").stderr
    )


def test_a_server_of_an_index_on_qdrant(copies):
    from starlette.testclient import TestClient

    from lmkrag.server.app import create_app
    from lmkrag.server.settings import ServerSettings, name_indexes

    address = copies[0].status().path
    served = name_indexes((address,))
    assert list(served) == [address.rpartition("/")[2]]
    with TestClient(
        create_app(ServerSettings(served, host="127.0.0.1")), base_url="http://127.0.0.1:8700"
    ) as client:
        found = client.post("/api/search", json={"query": "glass river"}).json()
        assert found["spans"][0]["doc_id"] == "glass-river.txt"
        assert len(client.get("/api/documents").json()["documents"]) == 5
    with pytest.raises(UsageError, match="uploads are for directories"):
        create_app(ServerSettings(served, host="127.0.0.1", writable=True))


def test_frameworks_search_it(copies):
    from lmkrag.integrations.langchain import LandmarkRetriever as LangChain
    from lmkrag.integrations.llama_index import LandmarkRetriever as LlamaIndex

    for make, ask in (
        (
            lambda engine: LangChain(engine=engine, k=3),
            lambda retriever: retriever.invoke("glass river"),
        ),
        (
            lambda engine: LlamaIndex(engine=engine, similarity_top_k=3),
            lambda retriever: retriever.retrieve("glass river"),
        ),
    ):
        texts = [
            [getattr(item, "page_content", "") or item.text for item in ask(make(engine))]
            for engine in copies
        ]
        assert texts[0] == texts[1] != []


@pytest.mark.parametrize(
    "text",
    [
        "qdrant://",
        "qdrant://host",
        "qdrant://host:6333/a b",
        "qdrant://key@host:6333/a",
        "qdrant://host:port/a",
    ],
)
def test_what_is_no_address(text):
    with pytest.raises(UsageError, match=r"qdrant://HOST:6333/NAME.*QDRANT_API_KEY"):
        Engine.open(text)


def test_without_the_extra(monkeypatch):
    for name in [
        name for name in sys.modules if name.startswith(("lmkrag.qdrant", "qdrant_client"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "qdrant_client", None)
    with pytest.raises(
        MissingExtra, match=r"qdrant-client is not installed: pip install 'lmkrag\[qdrant\]'"
    ):
        Engine.open("qdrant://localhost:6333/handbook")


def test_the_parts_of_an_address(monkeypatch):
    monkeypatch.setattr(Connection, "call", lambda *_: type("Info", (), {"version": "1.17.0"}))
    for text, server, name in (
        ("qdrant+https://q.example:6333/handbook", "https://q.example:6333", "handbook"),
        ("qdrant://[::1]:6333/b", "http://[::1]:6333", "b"),
    ):
        connection = Connection(Path(text))
        assert (connection.text, connection.server, connection.name) == (text, server, name)


def test_opening(address, encoder, open_engine):
    with pytest.raises(
        IndexNotFound, match="no index here; make one with: lmkrag index PATH --index qdrant:"
    ):
        Engine.open(address)
    with pytest.raises(UsageError, match="recipes are for directories"):
        Engine.open(address, create=True, recipe="flat")
    engine = open_engine()
    with engine._store.writing(), pytest.raises(IndexLocked, match="already writing"):
        engine.add(OLD)
    with (
        pytest.raises(StorageError, match="what was committed before is kept"),
        engine._store.writing(),
    ):
        raise sqlite3.OperationalError("disk I/O error")  # of the copy
    engine.close()
    with pytest.raises(IndexClosed):
        engine.search("anything")


def test_a_collection_of_others(address, encoder):
    from qdrant_client import models

    connection = Connection(address)
    size = models.VectorParams(size=2, distance=models.Distance.DOT)
    connection.call("create_collection", vectors_config=size)
    connection.call("upsert", [models.PointStruct(id=7, vector=[0, 1])], wait=True)
    with pytest.raises(UsageError, match="choose another name"):
        Engine.open(address, create=True, encoder=encoder)


def test_an_index_in_the_place_of_another(open_engine, address):
    engine = open_engine()
    engine.add(OLD)
    engine._store._connection.call("delete_collection")
    engine._store.reader._next_look = 0.0
    with pytest.raises(IndexNotFound, match="no index here"):
        engine.documents()
    other = open_engine()
    other.add([Document("new", text="The pond is frozen.")])
    engine._store.reader._next_look = 0.0
    with pytest.raises(IndexMismatch, match="open it again"):
        engine.search("bell")
    assert [span.doc_id for span in other.search("bell")] == ["new"]


def test_an_older_state_is_told_and_a_new_copy_made(open_engine):
    from qdrant_client import models

    engine = open_engine()
    for documents in (OLD, NEW):
        engine.add(documents)
    call = engine._store._connection.call
    call("delete", models.PointIdsList(points=[4, 5]), wait=True)  # as a snapshot of Qdrant has it
    with pytest.raises(IndexMismatch, match=f"older state.*delete the copy {engine._store.path}"):
        open_engine()
    shutil.rmtree(engine._store.path)
    assert contents(open_engine()) == BEFORE


def test_what_qdrant_has_lost_is_told(open_engine):
    from qdrant_client import models

    engine = open_engine()
    engine.add(OLD)
    with engine._store.reader.snapshot() as snapshot:
        row = snapshot.find_document("kept")
        points = snapshot.find_points(
            np.arange(row.first_sentence, row.first_sentence + row.sentences)
        )
    engine._store._connection.call("delete", models.PointIdsList(points=points.tolist()), wait=True)
    assert ["'kept': Qdrant has lost vectors" in problem for problem in engine.verify()] == [True]
    with pytest.raises(StorageError, match="run lmkrag verify"):
        engine.score_sentences("kiln", "kept")
    engine._store._connection.call("set_payload", {"data": "AAAA"}, points=[3], wait=True)
    with pytest.raises(IndexCorrupt):
        open_engine("other")


def test_a_row_that_the_copy_has_lost_is_told(open_engine):
    engine = open_engine()
    engine.add(OLD)
    with (
        contextlib.closing(sqlite3.connect(engine._store.path / "catalog.sqlite")) as catalog,
        catalog,
    ):
        for (name,) in catalog.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall():
            catalog.execute(f"DROP TRIGGER {name}")
        catalog.execute("DELETE FROM document WHERE doc_id = 'kept'")
    reads = [
        lambda: engine.documents(),
        lambda: engine.documents(filter="kind=text"),
        lambda: engine.document("kept"),
        lambda: engine.search("kiln"),
    ]
    for read in reads:
        with pytest.raises(IndexCorrupt, match="rows are lost"):
            read()
    assert any("columns of documents" in problem for problem in engine.verify())


def test_the_encoder_of_an_index_is_its_own(open_engine, address, encoder, tmp_path):
    with Engine.open(tmp_path / "other", create=True, encoder="landmark-multilingual") as other:
        store = other._store
        with pytest.raises(IndexMismatch, match="made with"):
            copy_documents(store, open_engine()._store)


def test_documents_of_other_languages_choose_the_encoder(address, open_engine):
    german = (
        "Der Leuchtturm steht am Ufer des Flusses. Das Tor wird jeden Morgen um sieben Uhr geöffnet. Im Winter bleibt "
        "es geschlossen, weil niemand kommt. Der Wärter wohnt in einem kleinen Haus und führt ein Buch über das Wetter."
    )
    engine, early = open_engine(encoder=None), open_engine("other", encoder=None)
    engine.add([Document("turm", text=german)])
    assert engine.status().encoder == "landmark-multilingual"
    assert engine.search("Wann öffnet das Tor?")[0].doc_id == "turm"
    early._store.reader._next_look = 0.0
    assert early.status().encoder == "landmark-multilingual"
    assert open_engine("third", encoder=None).status().encoder == "landmark-multilingual"
