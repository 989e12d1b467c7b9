"""An index on Qdrant beside the same documents in a directory.

In qdrant-client's local mode, or on a server where ``LMKRAG_TEST_QDRANT=qdrant://HOST:6333`` names one.
"""

import json
import os
import threading
import uuid

import httpx
import numpy as np
import pytest
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from lmkrag import Document, Engine
from lmkrag.errors import (
    DocumentNotFound,
    IndexClosed,
    IndexLocked,
    IndexMismatch,
    IndexNotFound,
    SnapshotExpired,
    StorageError,
    UsageError,
)
from lmkrag.ingest.copying import copy_index
from lmkrag.qdrant import connection as connections
from lmkrag.qdrant.connection import Address, Connection
from lmkrag.qdrant.points import OPENING
from lmkrag.qdrant.store import QdrantStore
from lmkrag.search.weights import WEIGHTS

QUESTIONS = ["When does the gate open?", "Who keeps the lighthouse?", "glass river", "rent of the boathouse", "`6.25`"]
WRITES = {"upsert", "delete", "set_payload", "create_collection"}


@pytest.fixture
def address():
    text = f"{os.environ.get('LMKRAG_TEST_QDRANT', 'qdrant://:memory:')}/test-{uuid.uuid4().hex[:12]}"
    yield text
    connection = Connection(Address.parse(text))
    for kind in ("sentences", "documents", "log"):
        connection.call("delete_collection", f"{connection.address.name}-{kind}")


@pytest.fixture
def both(address, encoder, tmp_path):
    """Engines on Qdrant and on a directory."""
    with (
        Engine.open(address, create=True, encoder=encoder, rerank=False) as there,
        Engine.open(tmp_path / "index", create=True, encoder=encoder, rerank=False) as here,
    ):
        yield there, here


def compare(there, here, question, atol=2e-3, **options):
    found, expected = there.search(question, **options), here.search(question, **options)
    plain = [
        [(s.doc_id, s.start, s.end, s.text, s.headings, s.line, s.paragraph, s.page, s.title, s.stale) for s in spans]
        for spans in (found, expected)
    ]
    assert plain[0] == plain[1]
    scores = [[value for s in spans for value in (s.score, s.coverage)] for spans in (found, expected)]
    np.testing.assert_allclose(*scores, atol=atol)  # a directory keeps vectors in 16 bits
    return found


@pytest.mark.parametrize("rerank", [False, True])
@pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
def test_a_search_finds_what_it_finds_in_a_directory(both, corpus, mode, rerank):
    for engine in both:
        assert engine.add(corpus).added == 5
    for question in QUESTIONS[:2] if rerank else QUESTIONS:  # reading takes its time
        for level in ("passage",) if rerank else ("passage", "sentence", "document"):
            compare(*both, question, mode=mode, rerank=rerank, level=level)


def test_filters_keep_the_same_documents(both, corpus):
    notes = [
        Document(f"notes/{n}.txt", text=f"Gate {n} opens at {n}.", meta={"year": 2000 + n, "tags": ["a", str(n)]})
        for n in range(1, 8)
    ]
    for engine in both:
        engine.add(corpus)
        engine.add(notes)
    for expression in (
        "kind=pdf",
        "not kind=pdf",
        "path=notes",
        "year>=2005",
        "tags=3 or tags=b",
        "author=nobody",
        "not year>2003",
        "doc_id in (glass-river.txt, notes/1.txt)",
        "path=reports/* and title=*",
    ):
        there, here = (engine.documents(filter=expression) for engine in both)
        assert there == here, expression
        for mode in ("hybrid", "lexical"):
            assert len(compare(*both, "When does the gate open?", filter=expression, mode=mode)) > 0 or not here


def test_the_document_that_a_question_names(both):
    for engine in both:
        engine.add(
            [
                Document(name.lower(), text=f"Lease between the town and {name}.\n\nThe rent is {rent} crowns.\n")
                for name, rent in (("Aurora", 10), ("Bright", 20), ("Calder", 30), ("Dunlin", 40))
            ],
        )
    found = compare(*both, "In the lease with Calder, what is the rent?")
    assert "30" in found[0].text
    compare(*both, "In the lease with Calder, what is the rent?", filter="not doc_id=aurora")


def test_what_is_read_back(both, corpus):
    there, here = both
    for engine in both:
        engine.add(corpus)
    assert there.documents() == here.documents()
    assert there.documents(after="glass-river.txt", limit=2) == here.documents(after="glass-river.txt", limit=2)
    for info in here.documents():
        assert there.document(info.doc_id) == here.document(info.doc_id)
    assert there.read("glass-river.txt", 20, 90) == here.read("glass-river.txt", 20, 90)
    scores = [engine.score_sentences("gate", "glass-river.txt") for engine in both]
    assert [(s.start, s.end) for s in scores[0]] == [(s.start, s.end) for s in scores[1]]
    np.testing.assert_allclose(*([s.score for s in one] for one in scores), atol=2e-3)
    with pytest.raises(DocumentNotFound, match=r"did you mean 'glass-river\.txt'"):
        there.read("glas-river.txt")
    status, expected = there.status(), here.status()
    for name in ("documents", "sentences", "characters", "kinds", "roots", "skipped", "fingerprint"):
        assert getattr(status, name) == getattr(expected, name)
    assert there.verify() == ()


def test_files_that_change(both, tmp_path):
    there = both[0]
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
    compare(*both, "When does the ferry leave?")
    (folder / "a.txt").unlink()
    for engine in both:
        assert engine.add(folder, prune=True).removed == 1
        assert engine.remove(filter="doc_id=b.txt") == 1
        assert engine.search("ferry") == []
    assert there.status().sentences == 0
    assert there.status().dead == 0


def test_words_of_removed_documents_weigh_no_more(both):
    texts = [Document(f"{n}", text=f"Common words here. Word{n} and rare{n % 3}.") for n in range(30)]
    for engine in both:
        engine.add(texts)
        engine.remove([f"{n}" for n in range(0, 20)])
        engine.add([Document("25", text="Other words now. Rare1 again.")])
    compare(*both, "common rare1 words", mode="lexical")
    there = both[0]
    there.compact()
    compare(*both, "common rare1 words", mode="lexical")
    with Engine.open(there.status().path, encoder=there.encoders.encoder, rerank=False) as opened:
        compare(opened, both[1], "common rare1 words", mode="lexical")


def test_many_commits_are_merged(address, encoder):
    with Engine.open(address, create=True, encoder=encoder, rerank=False) as engine:
        for n in range(20):
            engine.add([Document(f"{n % 15}", text=f"Number {n} is here. It is the {n}th.")])
        with engine._store.reader.snapshot() as snapshot:
            assert len(snapshot.state.entries) < 40  # of 60: three for each run
        with Engine.open(address, encoder=encoder, rerank=False) as other:
            assert [info.doc_id for info in other.documents()] == [info.doc_id for info in engine.documents()]
            assert other.status() == engine.status()
            assert other.search("Number 17")[0].doc_id == "2"
        assert engine.verify() == ()


class Killed(BaseException):
    """Ends a writer as a signal would."""


def break_calls(monkeypatch, before):
    """Have every call of the client go through ``before(method)``, which may raise."""
    real = connections.QdrantClient

    class Client(real):
        def __getattribute__(self, name):
            found = super().__getattribute__(name)
            if name not in WRITES and name not in ("query_points", "query_batch_points", "retrieve", "scroll"):
                return found

            def called(*args, **options):
                before(name, lambda: found(*args, **options))
                return found(*args, **options)

            return called

    for server, (client, users) in connections._local.items():
        client.__class__ = Client
        monkeypatch.setitem(connections._local, server, (client, users))
    monkeypatch.setattr(connections, "QdrantClient", Client)
    monkeypatch.setattr(connections, "_PAUSES", (0.0, 0.0, 0.0))
    yield
    for client, _ in connections._local.values():
        client.__class__ = real


OLD = [Document("kept", text="The kiln is lit on Monday."), Document("changed", text="The bell rings at one.")]
NEW = [Document("changed", text="The bell rings at two. Twice."), Document("fresh", text="The dam was built by Ada.")]


def contents(engine):
    return {info.doc_id: engine.document(info.doc_id).text for info in engine.documents()}


@pytest.mark.parametrize("fault", ["killed", "lost"])
def test_a_writer_that_ends_at_any_step(address, encoder, monkeypatch, fault):
    before, after = ({doc.doc_id: doc.text for doc in docs} for docs in (OLD, [*OLD, *NEW]))
    steps, ended = 0, set()
    state = {"left": None}

    def fail(name, _):
        if state["left"] is None or (name not in WRITES and state["left"] > 0):
            return
        if state["left"] == 0:
            raise Killed if fault == "killed" else ResponseHandlingException(httpx.ConnectError("no route"))
        state["left"] -= 1

    patching = break_calls(monkeypatch, fail)
    with Engine.open(address, create=True, encoder=encoder, rerank=False) as engine:
        engine.add(OLD)
        next(patching)
        for steps in range(100):
            writer = Engine.open(address, encoder=encoder, rerank=False)
            state["left"] = steps
            try:
                writer.add(NEW)
                break
            except Killed:
                pass
            except StorageError as error:
                assert "can't be reached" in str(error) and "what was committed is kept" in str(error)
            finally:
                state["left"] = None
            with Engine.open(address, encoder=encoder, rerank=False) as reader:
                now = contents(reader)
                assert now in (before, after), steps
                ended.add(now == after)
                assert reader.verify() == ()
                assert [s.text for s in reader.search("When does the bell ring?", level="sentence", top_k=1)] == [
                    "The bell rings at one." if now == before else "The bell rings at two."
                ]
                assert reader.search("bell rings", mode="lexical")[0].doc_id == "changed"
                if now == after:  # back to the state before, by another writer
                    reader.remove(["fresh"])
                    reader.add([OLD[1]])
        assert steps >= 6
        assert ended == {True, False}
        assert contents(engine) == after
        assert engine.verify() == ()
        next(patching, None)


def test_what_a_dead_writer_left_is_swept(address, encoder, monkeypatch):
    def die(*_):
        raise Killed

    with Engine.open(address, create=True, encoder=encoder, rerank=False) as engine:
        engine.add(OLD)
        writer = Engine.open(address, encoder=encoder, rerank=False)
        with monkeypatch.context() as patching, pytest.raises(Killed):
            patching.setattr(QdrantStore, "_find_gone", die)  # all points are written, nothing is committed
            writer.add(NEW)
        assert engine.status().dead == 3
        assert {span.doc_id for span in engine.search("bell dam", top_k=5)} <= {"kept", "changed"}
        engine.add([Document("later", text="It rains.")])  # not silent for an hour yet
        assert engine.status().dead == 3
        with pytest.raises(StorageError, match="silent for too long"), monkeypatch.context() as patching:
            real = QdrantStore._find_gone

            def wait(*arguments):  # another writer sweeps in the instant before the commit
                patching.setattr(QdrantStore, "_find_gone", real)
                with monkeypatch.context() as sooner:
                    sooner.setattr("lmkrag.qdrant.store._IDLE", -1.0)
                    engine.compact()
                return real(*arguments)

            patching.setattr(QdrantStore, "_find_gone", wait)
            writer.add(NEW)
        assert engine.status().dead == 0
        assert contents(engine) == {doc.doc_id: doc.text for doc in OLD} | {"later": "It rains."}
        assert writer.add(NEW).added == 1
        assert engine.verify() == ()


def test_a_reply_that_is_lost_is_asked_for_again(address, encoder, monkeypatch):
    seen = set()

    def fail_first(name, call):
        if name not in seen:
            seen.add(name)
            if name in WRITES:
                call()  # done, but nobody learns of it
            raise ResponseHandlingException(httpx.ReadTimeout("timed out"))

    patching = break_calls(monkeypatch, fail_first)
    next(patching)
    with Engine.open(address, create=True, encoder=encoder, rerank=False) as engine:
        seen.clear()
        engine.add(OLD)
        seen.clear()
        engine.add(NEW)
        assert contents(engine) == {doc.doc_id: doc.text for doc in [*OLD, *NEW]}
        seen.clear()
        assert engine.search("Who built the dam?")[0].doc_id == "fresh"
        assert engine.verify() == ()
    next(patching, None)


@pytest.mark.parametrize(
    ("status", "message"), [(401, "QDRANT_API_KEY"), (404, "is gone"), (400, "answered 400: wrong size")]
)
def test_what_a_server_refuses(address, encoder, monkeypatch, status, message):
    def refuse(name, _):
        if name == "query_points":
            raise UnexpectedResponse(status, "", b"wrong size", httpx.Headers())

    patching = break_calls(monkeypatch, refuse)
    with Engine.open(address, create=True, encoder=encoder, rerank=False) as engine:
        engine.add(OLD)
        next(patching)
        with pytest.raises(StorageError, match=message):
            engine.search("bell")
        next(patching, None)


def test_two_writers_and_four_readers(address, encoder):  # noqa: C901
    Engine.open(address, create=True, encoder=encoder).close()
    errors: list[BaseException] = []
    done = threading.Event()

    def text(name, version):
        return " ".join(f"{name.title()} number {n} has version {version}." for n in range(6))

    def write(name):
        try:
            with Engine.open(address, encoder=encoder, rerank=False) as engine:
                for version in range(6):
                    engine.add([Document(name, text=text(name, version)), Document("both", text=text("both", version))])
        except BaseException as error:
            errors.append(error)

    def read():
        try:
            with Engine.open(address, encoder=encoder, rerank=False) as engine:
                while not done.is_set():
                    try:
                        for span in engine.search("which version has ann, bob or both"):
                            assert len({part.split()[-1] for part in span.text.split(".") if part.strip()}) == 1
                        for info in engine.documents():
                            versions = {part.split()[-1] for part in engine.read(info.doc_id).split(".") if part}
                            assert len(versions) == 1
                    except SnapshotExpired:  # a document was replaced three times while it was read
                        continue
        except BaseException as error:
            errors.append(error)

    readers = [threading.Thread(target=read) for _ in range(4)]
    writers = [threading.Thread(target=write, args=(name,)) for name in ("ann", "bob")]
    for thread in readers + writers:
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    for thread in readers:
        thread.join()
    assert errors == []
    with Engine.open(address, encoder=encoder, rerank=False) as engine:
        found = contents(engine)
        assert found == {name: text(name, 5) for name in ("ann", "bob", "both")}
        assert engine.verify() == ()
        assert engine.status().dead == 0


def test_a_copy_in_both_directions(both, corpus, tmp_path, encoder):
    there, here = both
    here.add(corpus)
    path, address = here.status().path, there.status().path
    report = copy_index(path, address)
    assert (report.added, report.unchanged) == (5, 0)
    assert copy_index(path, address).unchanged == 5
    for question in QUESTIONS:
        compare(*both, question, atol=1e-6)
    copy_index(address, str(tmp_path / "back"))
    with Engine.open(tmp_path / "back", encoder=encoder, rerank=False) as back:
        assert back.documents() == here.documents()
        assert back.verify() == ()
        for question in QUESTIONS:
            compare(there, back, question, atol=1e-6)
    with pytest.raises(IndexNotFound):
        copy_index(str(tmp_path / "nothing"), address)


def test_the_commands(lmkrag, address, corpus, built_index):
    assert "5 added" in lmkrag("index-tools", "copy", built_index, address).stderr
    assert "5 unchanged" in lmkrag("index", corpus, "--index", address).stderr
    assert "glass-river.txt" in lmkrag("list", "--index", address).stdout
    assert json.loads(lmkrag("status", "--json", "--index", address).stdout)["documents"] == 5
    assert lmkrag("status", "--check", "--index", address).returncode == 0
    assert json.loads(lmkrag("search", "glass river", "--json", "--index", address).stdout.splitlines()[0])
    question = ("ask", "What does a keeper do in fog?", "--index")
    assert lmkrag(*question, address).stdout == lmkrag(*question, built_index).stdout
    assert lmkrag("show", "glass-river.txt", "--index", address).stdout == (corpus / "glass-river.txt").read_text()
    assert lmkrag("verify", "--index", address).returncode == 0
    assert lmkrag("remove", "glass-river.txt", "--index", address).returncode == 0
    assert lmkrag("index-tools", "compact", "--index", address).returncode == 0
    for command in (["reindex"], ["repair"]):
        refused = lmkrag("index-tools", *command, "--index", address)
        assert (refused.returncode, "index-tools copy" in refused.stderr) == (2, True)
    refused = lmkrag("index", corpus, "--ray", "local", "--index", address)
    assert (refused.returncode, "copy it to Qdrant" in refused.stderr) == (2, True)


def test_a_server_of_an_index_on_qdrant(address, encoder, corpus):
    from starlette.testclient import TestClient

    from lmkrag.server.app import create_app
    from lmkrag.server.settings import ServerSettings, name_indexes

    with Engine.open(address, create=True, encoder=encoder) as engine:
        engine.add(corpus)
    served = name_indexes((address,))
    assert list(served) == [address.rpartition("/")[2]]
    with TestClient(create_app(ServerSettings(served, host="127.0.0.1")), base_url="http://127.0.0.1:8700") as client:
        found = client.post("/api/search", json={"query": "glass river"}).json()
        assert found["spans"][0]["doc_id"] == "glass-river.txt"
        assert client.get("/api/documents").json()["documents"]
    with pytest.raises(UsageError, match="on Qdrant"):
        create_app(ServerSettings(served, host="127.0.0.1", writable=True))


@pytest.mark.parametrize(
    "text",
    [
        "qdrant://",
        "qdrant://host",
        "qdrant://host:6333/a b",
        "qdrant://key@host:6333/a",
        "qdrant://host:6333/a?replicas=0",
        "qdrant://host:6333/a?size=2",
    ],
)
def test_what_is_no_address(text):
    with pytest.raises(UsageError, match="qdrant"):
        Engine.open(text)


def test_the_parts_of_an_address():
    address = Address.parse("qdrant+https://q.example:6333/handbook?replicas=2&shards=6")
    assert (address.server, address.name, address.replicas, address.shards) == (
        "https://q.example:6333",
        "handbook",
        2,
        6,
    )
    assert address.text == "qdrant+https://q.example:6333/handbook"
    assert Address.parse("qdrant:///var/data/handbook").server == "/var/data"


def test_opening(address, encoder, tmp_path):
    with pytest.raises(IndexNotFound, match="lmkrag index PATH --index qdrant:"):
        Engine.open(address)
    with pytest.raises(UsageError, match="recipes are for folders"):
        Engine.open(address, create=True, recipe="exact")
    engine = Engine.open(address, create=True, encoder=encoder)
    with engine._store.writing(), pytest.raises(IndexLocked):
        engine.add([Document("a", text="b.")])
    engine.close()
    with pytest.raises(IndexClosed):
        engine.search("anything")
    folder = f"qdrant://{tmp_path}/local/trial"
    with Engine.open(folder, create=True, encoder=encoder, rerank=False) as local:
        local.add(OLD)
    with Engine.open(folder, encoder=encoder, rerank=False) as local:
        assert local.search("kiln")[0].doc_id == "kept"


def test_an_index_in_the_place_of_another(address, encoder):
    with Engine.open(address, create=True, encoder=encoder, rerank=False) as engine:
        engine.add(OLD)
        connection = Connection(Address.parse(address))
        for kind in ("log", "sentences", "documents"):
            connection.call("delete_collection", f"{connection.address.name}-{kind}")
        with Engine.open(address, create=True, encoder=encoder, rerank=False) as other:
            other.add([Document("new", text="The pond is frozen.")])
            assert [span.doc_id for span in engine.search("bell")] == ["new"]


def test_documents_open_with_as_many_words_as_searches_have_it():
    assert (WEIGHTS.opening_share, WEIGHTS.min_opening, WEIGHTS.opening) == OPENING


def test_a_damaged_text_is_told(address, encoder):
    with Engine.open(address, create=True, encoder=encoder) as engine:
        engine.add(OLD)
        store = engine._store
        with store.reader.snapshot() as snapshot:
            key = int(snapshot.documents.keys[0])
            row = snapshot.find_document("kept")
        store._connection.call("set_payload", store._documents, {"row": "[]"}, points=[row.id], wait=True)
        store._connection.call("delete", store._sentences, [max(key, row.id + 0)], wait=True)
        assert any("checksum" in problem for problem in engine.verify())


def test_another_encoder(address, encoder, tmp_path):
    Engine.open(address, create=True, encoder=encoder).close()
    other = Engine.open(tmp_path / "other", create=True, encoder="landmark-multilingual")
    other.close()
    with pytest.raises(IndexMismatch):
        copy_index(str(tmp_path / "other"), address)
