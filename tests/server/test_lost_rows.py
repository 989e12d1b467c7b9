"""A row of the catalog is lost, as damage to a page of SQLite loses it: whoever would read it says so."""

import contextlib
import os
import random
import sqlite3
from pathlib import Path

import pytest

from lmkrag import Document, Engine
from lmkrag.errors import DocumentNotFound, IndexCorrupt, StorageError
from lmkrag.index.catalog import PAGE_SIZE
from lmkrag.index.store import IndexStore
from lmkrag.ingest.reindex import reindex
from lmkrag.server.settings import ServerLimits, ServerSettings

LOST = "rows are lost; restore a backup, or index the sources again, elsewhere"
TOPICS = ("anchor", "boat", "crane", "dock", "engine", "ferry", "gate", "hull", "island", "jetty")


def write_note(topic: str) -> Document:
    text = f"# {topic.title()}\n\nThe {topic} is painted in May.\n"
    return Document(f"{topic}.md", f"{topic}.md", text, kind="markdown", meta={"year": 2019})


def lose_row(index, doc_id: str) -> None:
    """Delete the row of a document behind lmkrag's back: the columns still have the document."""
    with contextlib.closing(sqlite3.connect(index / "catalog.sqlite")) as catalog, catalog:
        triggers = catalog.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall()
        for name, _ in triggers:
            catalog.execute(f"DROP TRIGGER {name}")
        catalog.execute("DELETE FROM document WHERE doc_id = ?", (doc_id,))
        for _, statement in triggers:
            catalog.execute(statement)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, encoder):
    path = tmp_path_factory.mktemp("whole") / "index"
    with Engine.open(path, create=True, encoder=encoder) as engine:
        engine.add(map(write_note, TOPICS))
    return path


@pytest.fixture
def damaged(whole, tmp_path, lmkrag):
    """The index without the row of gate.md."""
    path = tmp_path / "damaged"
    assert lmkrag("backup", whole, path).returncode == 0
    lose_row(path, "gate.md")
    return path


READS = {
    "all documents": lambda engine: engine.documents(),
    "a page": lambda engine: engine.documents(after="boat.md", limit=2),
    "a filter": lambda engine: engine.documents(filter="year=2019"),
    "a page of a filter": lambda engine: engine.documents(
        filter="year=2019", after="boat.md", limit=2
    ),
    "a filter by name": lambda engine: engine.documents(filter="doc_id=gate.md"),
    "documents by their names": lambda engine: engine.documents(doc_ids=["boat.md", "gate.md"]),
    "a document": lambda engine: engine.document("gate.md"),
    "a text": lambda engine: engine.read("gate.md"),
    "sentences": lambda engine: engine.score_sentences("paint", "gate.md"),
    "search": lambda engine: engine.search("Which gate is painted?", top_k=10),
    "ask": lambda engine: engine.ask("When is the gate painted?"),
    "add": lambda engine: engine.add(Document("new.md", "new.md", "A new note.")),
    "remove by a filter": lambda engine: engine.remove(filter="year=2019"),
    "remove another": lambda engine: engine.remove("boat.md"),
}


@pytest.mark.parametrize("read", READS)
def test_what_needs_a_lost_row_says_that_it_is_lost(damaged, encoder, read):
    with Engine.open(damaged, encoder=encoder, rerank=False) as engine:
        with pytest.raises(IndexCorrupt, match=LOST):
            READS[read](engine)
        assert engine.status().documents == len(TOPICS)  # nothing was removed or added
        assert engine.read("boat.md").startswith("# Boat")
        with pytest.raises(DocumentNotFound):
            engine.document("unknown.md")
        assert any("columns of documents" in problem for problem in engine.verify())


def test_filters_that_do_not_select_the_lost_document_work(damaged, encoder):
    with Engine.open(damaged, encoder=encoder) as engine:
        assert [info.doc_id for info in engine.documents(filter="doc_id=b*")] == ["boat.md"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["list"],
        ["list", "--json"],
        ["list", "--filter", "year=2019"],
        ["show", "gate.md"],
        ["remove", "gate.md"],
        ["remove", "--filter", "year=2019"],
        ["search", "gate"],
        ["index-tools", "reindex"],
    ],
    ids=" ".join,
)
def test_commands_exit_with_one_line(damaged, lmkrag, arguments):
    result = lmkrag(*arguments, "--index", damaged)
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1].endswith(LOST)
    assert not result.stdout


def test_a_copy_of_an_index_is_made_of_all_its_documents(damaged, tmp_path):
    from lmkrag.index.copying import copy_documents

    with contextlib.ExitStack() as stack:
        old = stack.enter_context(contextlib.closing(IndexStore.open(damaged)))
        new = stack.enter_context(
            contextlib.closing(IndexStore.create(tmp_path / "copy", encoder=old.encoder))
        )
        with pytest.raises(IndexCorrupt, match=LOST):
            copy_documents(old, new)
    with pytest.raises(IndexCorrupt, match=LOST):
        reindex(damaged)


def test_requests_say_that_the_index_is_damaged(damaged, serve_settings):
    settings = ServerSettings({"notes": damaged}, port=0)
    with serve_settings(settings, ready=False) as running, running.client() as client:
        for path in ("?filter=year=2019", "?limit=3", "/gate.md", "/gate.md/text"):
            reply = client.get(f"/api/documents{path}")
            assert (reply.status_code, reply.json()["type"]) == (503, "urn:lmkrag:index-corrupt"), (
                path
            )
            assert reply.json()["detail"].endswith(LOST)
        assert client.get("/api/documents/boat.md").json()["doc_id"] == "boat.md"


async def test_assistants_are_told(damaged):
    mcp = pytest.importorskip("mcp")
    from lmkrag.readers.extractive import ExtractiveReader
    from lmkrag.server.indexes import ServedIndexes
    from lmkrag.server.mcp import create_mcp_server

    indexes = ServedIndexes({"notes": damaged}, ServerLimits())
    with contextlib.closing(indexes):
        async with mcp.Client(create_mcp_server(indexes, ExtractiveReader())) as client:
            for arguments in ({}, {"filter": "year=2019"}):
                reply = await client.call_tool("list_documents", arguments)
                assert reply.is_error and reply.content[0].text.endswith(LOST)


def damage(data: bytes, rng: random.Random) -> bytes:
    """A catalog with a page that is partly overwritten, holds the content of another, or lost some of its cells."""
    pages, changed = range(PAGE_SIZE, len(data), PAGE_SIZE), bytearray(data)
    page = rng.choice(pages)
    kind = rng.choice(["bytes", "zeros", "copy", "cells"])
    if kind == "bytes":
        start = page + 512 * rng.randrange(PAGE_SIZE // 512)
        changed[start : start + 512] = rng.randbytes(512)
    elif kind == "zeros":
        start = page + 4_096 * rng.randrange(PAGE_SIZE // 4_096)
        changed[start : start + 4_096] = bytes(4_096)
    elif kind == "copy":
        other = rng.choice(pages)
        changed[page : page + PAGE_SIZE] = data[other : other + PAGE_SIZE]
    else:  # the number of cells stands in bytes 3 and 4 of a page
        cells = int.from_bytes(data[page + 3 : page + 5], "big")
        changed[page + 3 : page + 5] = rng.randrange(cells + 1).to_bytes(2, "big")
    return bytes(changed)


def test_no_list_is_shorter_after_damage_to_a_page(tmp_path, encoder):
    path = tmp_path / "index"
    notes = [
        Document(f"n{number % 7}/{number}.md", "", f"Lamp {number} is lit.", meta={"x": "y" * 200})
        for number in range(150)
    ]
    with Engine.open(path, create=True, encoder=encoder) as engine:
        engine.add(notes)
        names = [info.doc_id for info in engine.documents()]
    sound, rng, refused = (path / "catalog.sqlite").read_bytes(), random.Random(0), 0
    for _ in range(count := int(os.environ.get("LMKRAG_TEST_PAGES", "60"))):
        for end in ("-wal", "-shm"):
            Path(f"{path}/catalog.sqlite{end}").unlink(missing_ok=True)
        (path / "catalog.sqlite").write_bytes(damage(sound, rng))
        for options in ({}, {"filter": "kind=text"}, {"after": names[9], "limit": 70}):
            expected = names[10:80] if "limit" in options else names
            try:
                with Engine.open(path, encoder=encoder) as engine:
                    assert [info.doc_id for info in engine.documents(**options)] == expected
            except StorageError:
                refused += 1
    assert count / 2 < refused < 2.5 * count
