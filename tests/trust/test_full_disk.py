"""A disk that is really full: a small file system in memory, where that may be mounted."""

import contextlib
import os
import re
import resource
import shutil
import signal
import subprocess
import sys

import pytest

from lmkrag import Document, Engine
from lmkrag.errors import SnapshotExpired, StorageError
from lmkrag.index.store import IndexStore


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", folder], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("a file system can't be mounted here")
    yield folder
    subprocess.run(
        ["umount", "--lazy", folder], check=True
    )  # a traceback may hold what was about to be read


def fill(path):
    """Write until not a byte is free."""
    with path.open("wb", buffering=0) as file:
        for size in (1 << 20, 4_096, 1):
            with contextlib.suppress(OSError):
                while file.write(b"x" * size) == size:
                    pass


def test_a_full_disk_is_told_and_removing_makes_room(small_disk, encoder):
    texts = [f"Pump {number} is oiled every {number + 2} days. " * 2_000 for number in range(6)]
    with Engine.open(small_disk / "index", create=True, encoder=encoder, rerank=False) as engine:
        for number, text in enumerate(texts):
            engine.add(Document(f"d{number}", "", text))
        fill(small_disk / "other")
        for call in (
            lambda: engine.remove("d0"),
            engine.compact,
            lambda: engine.add(Document("new", "", texts[0])),
        ):
            with pytest.raises(StorageError, match=r"disk is full|No space left on device") as told:
                call()
            assert "what was committed before is kept" in str(told.value)
            assert "\n" not in str(told.value) and "rollback" not in str(told.value)
        del told  # its traceback holds what it was about to read
        assert engine.search("Pump 3 is oiled every 5 days.", mode="lexical")[0].doc_id == "d3"
        assert engine.verify() == ()
        os.truncate(small_disk / "other", os.path.getsize(small_disk / "other") - (1 << 20))
        before = os.statvfs(small_disk).f_bavail
        assert engine.remove([f"d{number}" for number in range(5)]) == 5
        assert engine.search("pump")  # in the new state: nothing holds the files of the old one
        assert os.statvfs(small_disk).f_bavail > before
        engine.compact()
        engine.add(Document("new", "", texts[0]))
        assert [info.doc_id for info in engine.documents()] == ["d5", "new"]
        assert engine.verify() == ()


# Of the built index, which other tests may have open: SQLite would write into what its log has room for.
LOGS = shutil.ignore_patterns("*-wal", "*-shm")

READS = {
    "search": ["search", "how is leave accrued?"],
    "ask": ["ask", "how is leave accrued?"],
    "list": ["list"],
    "list by a filter": ["list", "--filter", "kind=pdf"],
    "verify": ["verify", "--json"],
    "status": ["status"],
    "show": ["show", "glass-river.txt"],
    "chat": ["chat"],
    "check": ["check", "-"],
}
SAID = '"Leave is accrued by the month"'


@pytest.mark.parametrize("command", READS)
def test_an_index_is_read_where_not_a_byte_is_free(
    small_disk, built_index, lmkrag_process, lmkrag, command
):
    """Nor for caches, settings and temporary files."""
    index = small_disk / "index"
    shutil.copytree(built_index, index, ignore=LOGS)
    names = {
        "HOME": "home",
        "XDG_CACHE_HOME": "home/cache",
        "TMPDIR": "home",
        "XDG_CONFIG_HOME": "home/config",
    }
    (small_disk / "home").mkdir()
    fill(small_disk / "other")
    places = {name: str(small_disk / place) for name, place in names.items()}
    result = lmkrag_process(*READS[command], "--index", index, env=places, stdin=SAID)
    assert (result.returncode, "Traceback" in result.stderr) == (0, False), result.stderr
    assert result.stdout == lmkrag(
        *READS[command], "--index", built_index, stdin=SAID
    ).stdout.replace(str(built_index), str(index)) or (
        command == "status" and "documents    5" in result.stdout
    )
    for writing in (["remove", "glass-river.txt"], ["index-tools", "compact"]):
        result = lmkrag_process(*writing, "--index", index, env=places)
        assert (result.returncode, result.stderr.count("\n")) == (1, 1)
        assert "the disk is full; what was committed before is kept" in result.stderr


@pytest.mark.parametrize("command", READS)
def test_an_index_is_read_by_who_may_write_no_byte(index, command):
    """As on a full disk, and everywhere else: also where a file system can't be mounted."""

    def forbid() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    arguments = [sys.executable, "-m", "lmkrag", *READS[command], "--index", str(index)]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "LMKRAG_RERANK": "off"}
    result = subprocess.run(
        arguments,
        capture_output=True,
        text=True,
        input=SAID,
        env=environment,
        preexec_fn=forbid,
        timeout=120,
    )
    assert (result.returncode, "Traceback" in result.stderr) == (0, False), result.stderr
    assert result.stdout


def test_a_reader_without_room_notices_a_writer(small_disk, built_index):
    index = small_disk / "index"
    shutil.copytree(built_index, index, ignore=LOGS)
    fill(small_disk / "other")
    with pytest.MonkeyPatch.context() as patch, contextlib.closing(IndexStore.open(index)) as store:
        patch.setattr(
            "tempfile.tempdir", str(small_disk)
        )  # no room for a copy of the catalog, either
        expired = pytest.raises(
            SnapshotExpired, match="somebody has written to the index meanwhile"
        )
        with expired, store.reader.snapshot() as snapshot:
            assert len(list(snapshot.all_documents())) == 5
            (small_disk / "other").unlink()
            with Engine.open(index) as engine:
                engine.remove("glass-river.txt")
        with store.reader.snapshot() as snapshot:
            assert len(list(snapshot.all_documents())) == 4


def test_what_a_killed_writer_had_committed_is_read_where_not_a_byte_is_free(
    small_disk, built_index, lmkrag_process
):
    """The log of the catalog has it, since the process had no time to write it there."""
    index = small_disk / "index"
    shutil.copytree(built_index, index, ignore=LOGS)
    script = f"""
import os, signal
from lmkrag import Document, Engine
engine = Engine.open({str(index)!r}, rerank=False)
engine.search("leave")
engine.add(Document("new.md", "", "The gate is green."), progress=False)
os.kill(os.getpid(), signal.SIGKILL)
"""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    killed = subprocess.run([sys.executable, "-c", script], env=environment, timeout=120)
    assert killed.returncode == -signal.SIGKILL
    assert (index / "catalog.sqlite-wal").stat().st_size
    fill(small_disk / "other")
    assert "new.md" in lmkrag_process("list", "--index", index).stdout.splitlines()
    assert "The gate is green." in lmkrag_process("search", "green gate", "--index", index).stdout


@pytest.mark.parametrize("size", ["100k", "150k", "200k"])
def test_no_index_is_half_made(tmp_path, lmkrag_process, size):
    """The catalog of a new index may be in its log alone, which has another name then."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", disk], capture_output=True
    ).returncode:
        pytest.skip("a file system can't be mounted here")
    try:
        (tmp_path / "note.md").write_text("The gate is green.")
        for _ in range(2):
            result = lmkrag_process("index", tmp_path / "note.md", "--index", disk / "index")
            assert (result.returncode, result.stderr.count("\n")) == (1, 1)
            assert re.search("No space left on device|disk is full", result.stderr), result.stderr
        subprocess.run(["mount", "-o", "remount,size=9m", disk], check=True)
        assert (
            "1 added"
            in lmkrag_process("index", tmp_path / "note.md", "--index", disk / "index").stderr
        )
        assert lmkrag_process("verify", "--index", disk / "index").returncode == 0
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)
