"""The writer's lock, on file systems with and without one."""

import errno
import fcntl

import pytest

from lmkrag import Engine
from lmkrag.errors import IndexLocked, StorageError
from lmkrag.index.files import lock_index


def test_a_second_writer_is_refused(tmp_path):
    with (
        lock_index(tmp_path),
        pytest.raises(IndexLocked, match="another process is writing"),
        lock_index(tmp_path),
    ):
        pass
    with lock_index(tmp_path):
        pass


def test_a_file_system_without_locks_is_told_from_another_writer(engine, index, monkeypatch):
    def no_locks(*_):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    assert (index / "write.lock").exists()
    with pytest.raises(StorageError, match="this file system has no locks") as refused:
        engine.remove("glass-river.txt")
    assert not isinstance(refused.value, IndexLocked)
    assert isinstance(engine, Engine) and engine.search("leave")
