"""A disk that is really full: a small file system in memory, where that may be mounted."""

import os
import subprocess

import pytest

from lmkrag import Document, Engine
from lmkrag.errors import StorageError


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip("a file system can't be mounted here")
    yield folder
    subprocess.run(["umount", folder], check=True)


def fill(path):
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            pass


def test_a_full_disk_is_told_and_removing_makes_room(small_disk, encoder):
    texts = [f"Pump {number} is oiled every {number + 2} days. " * 2_000 for number in range(6)]
    with Engine.open(small_disk / "index", create=True, encoder=encoder, rerank=False) as engine:
        for number, text in enumerate(texts):
            engine.add(Document(f"d{number}", "", text))
        fill(small_disk / "other")
        for call in (lambda: engine.remove("d0"), engine.compact, lambda: engine.add(Document("new", "", texts[0]))):
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
