"""Backups: one state of an index beside its writer, damaged, refused, run again, on another file system."""

import json
import os
import shutil
import sqlite3
import tempfile
import threading
from pathlib import Path

import pytest

from lmkrag import Document, Engine
from lmkrag.errors import IndexCorrupt, IndexLocked, IndexNotFound, StorageError, UsageError
from lmkrag.index.backup import back_up_index
from lmkrag.index.files import lock_index
from lmkrag.index.working import WorkingFolder


def answers(path) -> list:
    with Engine.open(path, rerank=False) as engine:
        assert engine.verify() == ()
        spans = [
            (span.doc_id, span.start, span.score) for span in engine.search("who approves leave?")
        ]
        return [[info.doc_id for info in engine.documents()], spans]


def contents(path) -> dict:
    return {file.relative_to(path): file.read_bytes() for file in path.rglob("*") if file.is_file()}


@pytest.fixture(params=["links", "copies"])
def copy(request, tmp_path):
    """Where a copy is kept: beside the index, or on another file system, which has no links to it."""
    if request.param == "links":
        yield tmp_path / "copies" / "copy"
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        if Path(folder).stat().st_dev == tmp_path.stat().st_dev:
            pytest.skip("/dev/shm is on the file system of the index")
        yield Path(folder) / "copies" / "copy"


def test_a_copy_is_an_index_and_follows_its_source(engine, index, copy):
    first = back_up_index(index, copy)
    assert (first.documents, first.new_files) == (5, 3)
    expected = answers(index)
    assert answers(copy) == expected
    again = back_up_index(index, copy)
    assert (again.documents, again.sentences, again.new_files, again.new_bytes) == (
        5,
        first.sentences,
        0,
        0,
    )

    engine.remove("beekeeping.html")
    engine.add([Document("memo", "", "A memo about the winch.")])
    third = back_up_index(index, copy)
    assert third.documents == 5 and third.new_files == 3 and third.new_bytes < first.new_bytes
    assert answers(copy) == answers(index) != expected
    engine.compact()
    assert back_up_index(index, copy).new_files == 3
    names = {path.name for path in (index / "segments").iterdir()}
    assert {path.name for path in (copy / "segments").iterdir()} == names and len(names) == 3
    assert [path.name for path in copy.parent.iterdir()] == [copy.name]
    with Engine.open(copy) as other:
        other.add([Document("own", "", "A page of its own.")])
        assert other.search("its own page")[0].doc_id == "own"


def test_the_catalog_of_a_copy_needs_no_log(engine, index, copy):
    """The write-ahead log of the index, which is not empty, is part of the copy's catalog."""
    engine.add([Document("memo", "", "A memo about the winch.")])
    assert (index / "catalog.sqlite-wal").stat().st_size
    back_up_index(index, copy)
    assert sorted(path.name for path in copy.iterdir()) == [
        "backup.json",
        "catalog.sqlite",
        "segments",
    ]
    with sqlite3.connect(f"file:{copy}/catalog.sqlite?immutable=1", uri=True) as connection:
        assert connection.execute("SELECT count(*) FROM document").fetchone() == (6,)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_segments_are_links_where_they_can_be(index, copy):
    back_up_index(index, copy)
    linked = {
        (copy / "segments" / path.name).stat().st_ino == path.stat().st_ino
        for path in (index / "segments").iterdir()
    }
    assert linked == {copy.stat().st_dev == index.stat().st_dev}


@pytest.mark.parametrize("name", ["catalog.sqlite", ".faiss", ".words", ".structure"])
def test_a_damaged_index_replaces_no_copy(engine, index, tmp_path, name):
    """A bit flipped in a file is an error, and the earlier copy stays; a page of the catalog may hold nothing."""
    damaged, copy = tmp_path / "damaged", tmp_path / "copy"
    back_up_index(index, copy)
    engine.remove("beekeeping.html")
    engine.compact()
    back_up_index(index, tmp_path / "whole")  # without a log, which hides damage to the catalog
    shutil.copytree(tmp_path / "whole", damaged)
    before, after = answers(copy), answers(damaged)
    path = next(path for path in damaged.rglob("*") if path.is_file() and path.name.endswith(name))
    whole = path.read_bytes()
    refused = 0
    used = [position for position, byte in enumerate(whole) if byte]
    for position in used[len(used) // 32 :: len(used) // 16][:16]:
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0x20]) + whole[position + 1 :])
        try:
            back_up_index(damaged, copy)
            assert answers(copy) == after and name == "catalog.sqlite"
            shutil.rmtree(copy)
            back_up_index(index, copy)
            before = after
        except (IndexCorrupt, StorageError):
            refused += 1
            assert answers(copy) == before
    assert refused == 16 or (name == "catalog.sqlite" and refused > 8)
    path.write_bytes(whole)
    assert back_up_index(damaged, copy).documents == 4


def test_a_damaged_index_is_named(index, tmp_path):
    back_up_index(index, tmp_path / "copy")
    words = next((index / "segments").glob("*.words"))
    whole = words.read_bytes()
    words.unlink()
    words.write_bytes(whole[:-1] + b"x")
    shutil.rmtree(tmp_path / "copy" / "segments")
    with pytest.raises(
        IndexCorrupt, match=rf"{words.name}: this file is damaged \(checksum\); restore a backup"
    ):
        back_up_index(index, tmp_path / "copy")
    words.unlink()
    with pytest.raises(IndexCorrupt, match=rf"{words.name}: this file is gone"):
        back_up_index(index, tmp_path / "copy")


def test_a_damaged_copy_is_replaced_from_the_index(index, tmp_path):
    copy = tmp_path / "copy"
    back_up_index(index, copy)
    for number, path in enumerate(sorted((copy / "segments").iterdir())):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.unlink()  # it is a link
        if number:
            path.write_bytes(data)
    (copy / "catalog.sqlite").write_bytes(b"\0" * 8_192)
    assert back_up_index(index, copy).new_files == 3
    assert answers(copy) == answers(index)


def test_what_an_interrupted_run_left_is_used_if_it_is_whole(index, tmp_path):
    copy = tmp_path / "copy"
    work = WorkingFolder(copy, "backup")
    work.claim()
    (work.new / "segments").mkdir(parents=True)
    (work.new / "catalog.sqlite-wal").write_bytes(b"half")
    vectors, words, _ = sorted((index / "segments").iterdir())
    shutil.copyfile(vectors, work.new / "segments" / vectors.name)
    (work.new / "segments" / words.name).write_bytes(words.read_bytes()[:-7])
    (work.new / "segments" / "other.words").write_bytes(b"of another state")
    kept = (work.new / "segments" / vectors.name).stat().st_ino
    assert back_up_index(index, copy).new_files == 2
    assert (copy / "segments" / vectors.name).stat().st_ino == kept
    assert answers(copy) == answers(index)


def test_beside_a_writer_every_copy_is_one_state(engine, index, copy):
    """Each commit adds a document and replaces another; compactions remove the files that are being copied."""
    stop = threading.Event()
    engine.add(
        [
            Document("state", "", "State 0 of the winch."),
            Document("twin", "", "State 0 of the winch."),
        ]
    )

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            text = f"State {number} of the winch."
            engine.add([Document("state", "", text), Document("twin", "", text)])
            engine.compact()

    writer = threading.Thread(target=write)
    writer.start()
    states = []
    try:
        while len(states) < 8 or states[0] == states[-1]:
            back_up_index(index, copy)
            with Engine.open(copy, rerank=False) as opened:
                assert opened.verify() == () and len(opened.documents()) == 7
                texts = [opened.read(name) for name in ("state", "twin")]
            assert texts[0] == texts[1]
            states.append(int(texts[0].split()[1]))
    finally:
        stop.set()
        writer.join()
    assert states == sorted(states) and states[0] < states[-1]


def test_a_reader_of_the_copy_goes_on_while_it_is_replaced(engine, index, tmp_path):
    copy = tmp_path / "copy"
    back_up_index(index, copy)
    with Engine.open(copy, rerank=False) as reader:
        before = [span.doc_id for span in reader.search("which stones moved?")]
        with reader._store.reader.snapshot() as held:
            engine.add([Document("memo", "", "A memo about the winch.")])
            back_up_index(index, copy)
            assert len(held.documents.keys) == 5
        assert reader.search("the memo about the winch")[0].doc_id == "memo"
        assert before


def test_what_is_refused(index, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "letter.txt").write_text("mine")
    copy, moved = tmp_path / "copy", tmp_path / "moved"
    back_up_index(index, copy)
    shutil.copytree(copy, moved)  # restored elsewhere: an index of its own
    (tmp_path / "file").write_text("mine")
    for source, target, message in (
        (index, other, "other: exists and was not made by lmkrag backup; choose another directory"),
        (index, moved, "moved: exists and was not made by lmkrag backup"),
        (index, tmp_path / "file", "file: exists and was not made by lmkrag backup"),
        (copy, index, "index: exists and was not made by lmkrag backup"),
        (copy, copy, "choose a directory outside of the index"),
        (index, index / "copy", "choose a directory outside of the index"),
    ):
        before = contents(tmp_path)
        with pytest.raises(UsageError, match=message):
            back_up_index(source, target)
        assert contents(tmp_path) == before
    with pytest.raises(IndexNotFound):
        back_up_index(tmp_path / "nowhere", tmp_path / "new")
    assert not (tmp_path / "new").exists()
    marker = copy / "backup.json"
    whole = marker.read_bytes()
    for position in range(len(whole) - 2):
        marker.write_bytes(
            whole[:position] + bytes([whole[position] ^ 0x01]) + whole[position + 1 :]
        )
        with pytest.raises(UsageError, match="was not made by lmkrag backup"):
            back_up_index(index, copy)


def test_two_at_once_and_a_writer_of_the_copy(index, tmp_path):
    copy = tmp_path / "copy"
    back_up_index(index, copy)
    with lock_index(copy), pytest.raises(IndexLocked):
        back_up_index(index, copy)
    work = WorkingFolder(copy, "backup")
    work.claim()
    with lock_index(work.path), pytest.raises(IndexLocked):
        back_up_index(index, copy)
    with lock_index(index):
        assert back_up_index(index, copy).new_files == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_place_that_can_not_be_written(index, tmp_path):
    (tmp_path / "closed").mkdir(mode=0o500)
    with pytest.raises(StorageError, match="can't be written"):
        back_up_index(index, tmp_path / "closed" / "copy")


def test_on_the_command_line(lmkrag, index, tmp_path):
    copy = tmp_path / "copy"
    done = lmkrag("backup", index, copy)
    assert (
        done.returncode == 0 and "5 documents" in done.stderr and "; 3 new files, " in done.stderr
    ), done.stderr
    again = lmkrag("backup", index, copy, "--json")
    assert json.loads(again.stdout)["documents"] == 5 and json.loads(again.stdout)["new_files"] == 0
    assert "approves leave" in lmkrag("search", "who approves leave?", "--index", copy).stdout
    assert lmkrag("verify", "--index", copy).returncode == 0
    refused = lmkrag("backup", index, tmp_path)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    shutil.copytree(copy, tmp_path / "restored")
    assert (
        "approves leave"
        in lmkrag("search", "who approves leave?", "--index", tmp_path / "restored").stdout
    )
