"""Catalogs that somebody has crafted are refused; what is packed in them does not grow without bound."""

import sqlite3
import zlib
from contextlib import closing

import numpy as np
import pytest

from lmkrag import Document, Engine
from lmkrag.errors import IndexCorrupt, StorageError
from lmkrag.index import catalog, codec


def change(index, *statements):
    with closing(sqlite3.connect(index / "catalog.sqlite")) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def test_a_schema_is_not_trusted(index):
    with closing(catalog.connect(index / "catalog.sqlite")) as connection:
        assert connection.execute("PRAGMA trusted_schema").fetchone() == (0,)


def test_what_the_index_is_made_with_is_a_table(index):
    change(
        index,
        "ALTER TABLE meta RENAME TO hidden",
        "CREATE VIEW meta AS SELECT key, CASE key WHEN 'encoder' THEN hex(zeroblob(100000000)) ELSE value END AS value "
        "FROM hidden",
    )
    with pytest.raises(IndexCorrupt, match="has no table of what the index is made with"):
        Engine.open(index)


def test_an_empty_catalog_is_damaged(index):
    for path in index.glob("catalog.sqlite*"):
        path.unlink()
    (index / "catalog.sqlite").touch()
    with pytest.raises(
        StorageError, match=r"no table of what the index is made with.*restore a backup"
    ):
        Engine.open(index)


@pytest.mark.parametrize(
    "body", [zlib.compress(b"\0" * (1 << 22)), zlib.compress(b"text")[:-4], b"no stream"]
)
def test_packed_values_are_unpacked_within_bounds(monkeypatch, body):
    monkeypatch.setattr(codec, "_MAX_UNPACKED", 1 << 20)
    with pytest.raises(IndexCorrupt, match="the catalog is damaged at text 1 0"):
        codec.unpack_text(codec.checksum("text 1 0", body) + body, 1, 0)
    assert codec.unpack_text(codec.pack_text("text", 1, 0), 1, 0) == "text"
    runs = np.array([[0, 1, 2]])
    assert (codec.unpack_runs(codec.pack_runs(runs, "s"), "s") == runs).all()


def test_a_name_that_is_not_there_is_compared_with_its_neighbours_only(tmp_path, encoder):
    with Engine.open(tmp_path / "index", create=True, encoder=encoder, rerank=False) as engine:
        engine.add(
            Document(f"notes/{number:04}.md", "", "The gate is red.") for number in range(700)
        )
        with engine._reading(segments=False) as snapshot:
            near = snapshot.nearby_ids("notes/0350.mdd")
        assert len(near) == 500 and "notes/0350.md" in near
        with pytest.raises(ValueError, match=r"did you mean 'notes/0350.md'\?"):
            engine.read("notes/0350.mdd")
        assert [info.doc_id for info in engine.documents(after="notes/0010.md", limit=2)] == [
            "notes/0011.md",
            "notes/0012.md",
        ]
        assert engine.documents(after="zzz") == [] and engine.documents(limit=0) == []
        assert (
            len(engine.documents(filter="path=notes/001?.md", after="notes/0013.md", limit=4)) == 4
        )
