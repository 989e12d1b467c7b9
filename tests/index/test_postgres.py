"""An index whose vectors are in PostgreSQL is an index like any other."""

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import threading
import time
from urllib.parse import urlsplit

import asyncpg
import pytest

from lmkrag import Engine
from lmkrag.cluster.snapshots import Remote
from lmkrag.errors import IndexCorrupt, StorageError, UsageError
from lmkrag.index import postgres as module
from lmkrag.reindexing import reindex
from lmkrag.repairing import repair_index

QUESTIONS = ["How is leave accrued?", "which stones moved?", "When is the lamp lit?", "bees"]


@pytest.fixture
def built(postgres, built_index, encoder, tmp_path):
    path = tmp_path / "index"
    with Engine.open(path, create=True, encoder=encoder, recipe="pgvector-exact") as engine:
        engine.adopt([built_index])
    return path


def spans(engine, **options):
    return [
        [(span.doc_id, span.start, span.end) for span in engine.search(question, rerank=False, **options)]
        for question in QUESTIONS
    ]


def ask(statement, *values):
    async def fetch():
        connection = await asyncpg.connect(os.environ[module.ADDRESS])
        try:
            return await connection.fetch(statement, *values)
        finally:
            await connection.close()

    return asyncio.run(fetch())


def tables(path):
    """How many of the tables that an index's files stand for there are."""
    names = [file.stem for file in (path / "segments").glob("*.pgvector")]
    return len(ask("SELECT 1 FROM pg_tables WHERE schemaname = 'lmkrag' AND tablename = ANY($1)", names))


@pytest.mark.parametrize("options", [{}, {"mode": "dense"}, {"filter": "kind=pdf"}, {"level": "span", "top_k": 3}])
def test_it_finds_what_an_index_in_files_finds(built, built_index, options):
    with Engine.open(built) as ours, Engine.open(built_index) as files:
        assert spans(ours, **options) == spans(files, **options)
        assert ours.verify() == ()
        assert ours.status().recipe == "pgvector-exact"


def test_documents_come_change_and_go(built, encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_GRACE", "0 seconds")
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.txt").write_text("The ferry leaves at nine. Nobody waits.")
    with Engine.open(built, encoder=encoder) as engine:
        engine.add(notes)
        (notes / "a.txt").write_text("The ferry leaves at ten. Nobody waits.")
        engine.add(notes)
        assert "ten" in engine.search("When does the ferry leave?", top_k=1)[0].text
        engine.compact()
        assert tables(built) == 1
        engine.remove("a.txt")
        assert all(span.doc_id != "a.txt" for span in engine.search("When does the ferry leave?"))
        assert engine.verify() == ()
    assert ask("SELECT count(*) FROM lmkrag.segment WHERE retired IS NOT NULL")[0][0] == 0


def test_documents_are_adopted_from_it_and_encoded_into_it(built, built_index, encoder, corpus, tmp_path):
    path = tmp_path / "encoded"
    with Engine.open(path, create=True, encoder=encoder, recipe="pgvector-exact") as engine:
        engine.add(corpus)
        assert tables(path) == len(list((path / "segments").glob("*.pgvector"))) > 0
        with Engine.open(built) as other:
            assert spans(engine) == spans(other)
    files = tmp_path / "files"
    with Engine.open(files, create=True, encoder=encoder) as engine:
        engine.adopt([built])
        with Engine.open(built_index) as other:
            assert spans(engine) == spans(other)
    assert not list((files / "segments").glob("*.pgvector"))


def test_a_search_that_began_before_goes_on(built, encoder, corpus):
    with Engine.open(built, encoder=encoder) as engine, engine._reading() as snapshot:
        with Engine.open(built) as other:
            other.remove("glass-river.txt")
            other.compact()
        (live,) = snapshot.segments
        _, rows = live.segment.vectors.search(engine.encoder.encode_queries(QUESTIONS), 3)
        assert (rows >= 0).all()
        assert ask("SELECT count(*) FROM lmkrag.segment WHERE retired IS NOT NULL")[0][0] > 0


def test_a_copy_leaves_the_vectors_of_the_original(built, encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_GRACE", "0 seconds")
    copy = tmp_path / "copy"
    shutil.copytree(built, copy)
    with Engine.open(copy, encoder=encoder) as engine:
        engine.remove("glass-river.txt")
        engine.compact()
    with Engine.open(built) as engine:
        assert engine.verify() == ()
        assert any(span.doc_id == "glass-river.txt" for span in engine.search("Why was it called the Glass River?"))


def test_killed_between_the_vectors_and_the_commit(built, tmp_path):
    """What no catalog names is not found, and the next writer collects it."""
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.txt").write_text("The ferry leaves at nine.")
    code = (
        "import os; from lmkrag import Engine; from lmkrag.index import store; "
        "store.IndexStore.commit = lambda *_, **__: os._exit(9); "
        f"Engine.open({str(built)!r}).add({str(notes)!r})"
    )
    before = tables(built)
    killed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert killed.returncode == 9, killed.stderr
    assert tables(built) == before + 1
    with Engine.open(built) as engine:
        assert engine.verify() == ()
        assert engine.count().documents == 5
        engine.add(notes)
        assert engine.verify() == ()
    assert tables(built) == len(list((built / "segments").glob("*.pgvector"))) == before + 1


def test_vectors_that_are_gone_are_told_and_encoded_again(built, built_index):
    (name,) = [file.stem for file in (built / "segments").glob("*.pgvector")]
    ask(f'DROP TABLE lmkrag."{name}"')
    ask("DELETE FROM lmkrag.segment WHERE name = $1", name)
    with (
        pytest.raises(IndexCorrupt, match="its vectors are gone from the database; run lmkrag repair"),
        Engine.open(built) as engine,
    ):
        engine.search(QUESTIONS[0])
    assert repair_index(built).restored == 5
    with Engine.open(built) as ours, Engine.open(built_index) as files:
        assert ours.verify() == ()
        assert ours.status().recipe == "pgvector-exact"
        assert spans(ours) == spans(files)


def test_there_and_back(built, built_index, monkeypatch):
    """Another recipe moves the vectors, and leaves none behind."""
    monkeypatch.setattr(module, "_GRACE", "0 seconds")
    (name,) = [file.stem for file in (built / "segments").glob("*.pgvector")]
    reindex(built, recipe="auto", overlap=0.5)
    assert ask("SELECT count(*) FROM lmkrag.segment WHERE name = $1", name)[0][0] == 0
    with Engine.open(built) as ours, Engine.open(built_index) as files:
        assert spans(ours) == spans(files)
    reindex(built, recipe="pgvector", overlap=0.5)
    with Engine.open(built) as ours, Engine.open(built_index) as files:
        assert spans(ours) == spans(files)
    assert tables(built) == 1


def test_a_snapshot_can_not_hold_what_is_in_a_database(built, tmp_path):
    with pytest.raises(UsageError, match="its vectors are in a database"):
        Remote(str(tmp_path / "kept")).push(built)


def test_shards_are_searched_as_one(built, built_index, tmp_path):
    with Engine.open(built) as engine:
        engine.reshard(2)
    with Engine.open(built) as ours, Engine.open(built_index) as files:
        assert spans(ours) == spans(files)
        assert ours.verify() == ()


def test_no_address_no_database_no_password_in_the_error(built, monkeypatch, tmp_path):
    monkeypatch.delenv(module.ADDRESS)
    with Engine.open(built) as engine, pytest.raises(UsageError, match="set LMKRAG_POSTGRES to the address"):
        engine.search(QUESTIONS[0])
    monkeypatch.setenv(module.ADDRESS, "postgresql://me:secret@127.0.0.1:1/nowhere")
    with (
        Engine.open(built) as engine,
        pytest.raises(StorageError, match=r"127.0.0.1/nowhere of LMKRAG_POSTGRES") as told,
    ):
        engine.search(QUESTIONS[0])
    assert "secret" not in str(told.value)
    with pytest.raises(StorageError):
        Engine.open(tmp_path / "new", create=True, recipe="pgvector")
    assert not (tmp_path / "new").exists()


def test_a_database_that_goes_away_comes_back(built):
    with Engine.open(built) as engine:
        before = spans(engine)
        own = "pid <> pg_backend_pid() AND application_name <> 'pg_isready'"
        ask(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND {own}")
        with contextlib.suppress(StorageError):  # the last may die while it is asked
            engine.search(QUESTIONS[0])
        assert spans(engine) == before


class Line:
    """A port before a database, which can say that its connections end. State: the connections open now."""

    _ENDED = b"SFATAL\0C57P01\0Mterminating connection due to administrator command\0\0"

    def __init__(self, folder):
        self._socket = f"{folder}/.s.PGSQL.5432"
        self._clients = []
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        server = self._run(asyncio.start_server(self._connect, "127.0.0.1", 0))
        self.address = f"postgresql://postgres:@127.0.0.1:{server.sockets[0].getsockname()[1]}/postgres"

    def _run(self, call):
        return asyncio.run_coroutine_threadsafe(call, self._loop).result(10)

    async def _connect(self, reader, writer):
        self._clients.append(writer)
        other_reader, other_writer = await asyncio.open_unix_connection(self._socket)
        try:
            await asyncio.gather(self._pass(reader, other_writer), self._pass(other_reader, writer))
        finally:
            self._clients.remove(writer)

    async def _pass(self, reader, writer):
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        writer.close()

    def end(self):
        """Tell the clients that their connections end, as a server does just before it closes them."""

        async def tell():
            for client in self._clients:
                client.write(b"E" + (len(self._ENDED) + 4).to_bytes(4, "big") + self._ENDED)
                await client.drain()
            return len(self._clients)

        return self._run(tell())


def test_connections_that_were_ended_while_idle_are_replaced(built, postgres, monkeypatch):
    line = Line(urlsplit(postgres.get_uri()).query.removeprefix("host="))
    monkeypatch.setenv(module.ADDRESS, line.address)
    with Engine.open(built) as engine:
        before = spans(engine)
        for _ in range(3):
            assert line.end() > 0
            time.sleep(0.2)  # they have read it
            assert spans(engine) == before
