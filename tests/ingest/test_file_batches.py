"""Batches of files: encoded into small indexes, adopted whole."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmkrag import Engine
from lmkrag.errors import IndexCorrupt, IndexMismatch, StorageError
from lmkrag.index.catalog import DocumentRow
from lmkrag.index.store import IndexStore
from lmkrag.ingest.changes import read_known
from lmkrag.ingest.ray_encoding import adopt_batch, encode_batch, plan_batches
from lmkrag.ingest.report import Run
from lmkrag.ingest.walk import SourceFile, walk
from lmkrag.system.files import FileStamp


@pytest.fixture
def engine(tmp_path, encoder):
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        yield engine


@pytest.fixture
def out(tmp_path) -> Path:
    (tmp_path / "batches").mkdir()
    return tmp_path / "batches"


@pytest.fixture
def store(engine):
    return engine._store


@pytest.fixture(scope="module")
def any_store(built_index):
    with Engine.open(built_index) as engine:
        yield engine._store


def make_files(sizes) -> list[SourceFile]:
    paths = [Path(f"/docs/{number}.txt") for number in range(len(sizes))]
    return [
        SourceFile(path, path.name, "/docs", FileStamp(size, 1), str(path))
        for path, size in zip(paths, sizes, strict=True)
    ]


@given(st.lists(st.integers(0, 2_000), max_size=30), st.sets(st.integers(0, 30)))
def test_batches_are_the_same_without_the_files_of_others(any_store, sizes, adopted):
    batches = plan_batches(make_files(sizes), {}, any_store, size=1_000)
    assert [file for batch in batches for file in batch.files] == make_files(sizes)
    assert all(batch.bytes == sum(file.stamp.size for file in batch.files) for batch in batches)
    assert all(batch.bytes >= 1_000 for batch in batches[:-1])
    left = [batch for number, batch in enumerate(batches) if number not in adopted]
    assert (
        plan_batches([file for batch in left for file in batch.files], {}, any_store, size=1_000)
        == left
    )


def test_a_batch_is_named_by_what_goes_into_it(any_store):
    (file,) = make_files([10])
    known = read_known(any_store)
    row = next(iter(known.values()))

    def name(file: SourceFile, row: DocumentRow | None = None) -> str:
        (batch,) = plan_batches(
            [file], {} if row is None else {file.doc_id: row}, any_store, size=1
        )
        return batch.name

    names = [
        name(file),
        name(replace(file, doc_id="other.txt")),
        name(replace(file, path=Path("/docs/other.txt"))),
        name(replace(file, stamp=FileStamp(10, 2))),
        name(file, row),
        name(file, replace(row, id=row.id + 1)),
    ]
    assert len(set(names)) == len(names)
    assert name(file) == names[0]


def test_a_batch_that_exists_is_not_encoded_again(store, encoder, corpus, out):
    (batch,) = plan_batches(list(walk(corpus)), {}, store, size=1 << 20)
    encode_batch(batch, out, lambda: encoder, store)
    assert [path.name for path in out.iterdir()] == [batch.name]
    assert (out / batch.name / "batch.json").is_file()
    encode_batch(batch, out, lambda: pytest.fail("it was read again"), store)


def test_a_batch_that_processes_die_of_is_refused(store, encoder, corpus, out):
    (batch,) = plan_batches(list(walk(corpus / "glass-river.txt")), {}, store, size=1)
    for _ in range(3):
        child = os.fork()
        if not child:
            encode_batch(batch, out, lambda: os._exit(9), IndexStore.open(store.path))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    with pytest.raises(
        StorageError, match=r"the process that read it died 3 times \(is there enough memory\?\)"
    ):
        encode_batch(batch, out, lambda: encoder, store)


def test_a_damaged_batch_is_not_adopted(engine, store, encoder, corpus, out):
    (batch,) = plan_batches(list(walk(corpus)), {}, store, size=1 << 20)
    encode_batch(batch, out, lambda: encoder, store)
    segment = next((out / batch.name / "segments").glob("*.words"))
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    run = Run({})
    with pytest.raises(IndexCorrupt, match="damaged"), store.writing():
        adopt_batch(store, out / batch.name, run)
    assert (run.added, engine.documents()) == (0, [])
    segment.write_bytes(whole)
    with store.writing():
        adopt_batch(store, out / batch.name, run)
    shutil.rmtree(out)
    assert (run.added, len(engine.documents())) == (5, 5)
    assert not engine.verify()
    assert engine.search("who approves leave?")


def test_a_batch_of_another_encoder_is_not_adopted(store, encoder, corpus, out, tmp_path):
    with Engine.open(tmp_path / "other", create=True, encoder="all-MiniLM-L6-v2") as other:
        (batch,) = plan_batches(list(walk(corpus / "glass-river.txt")), {}, other._store, size=1)
        encode_batch(batch, out, lambda: other.encoders.encoder, other._store)
    with pytest.raises(IndexMismatch, match="made with encoder"), store.writing():
        adopt_batch(store, out / batch.name, Run({}))
