"""The lock of an index directory's one writer."""

import contextlib
import errno
import fcntl
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from lmkrag.errors import IndexLocked, StorageError

LOCK = "write.lock"
"""The file whose lock the writer of a directory holds."""


def _has_locks(path: Path) -> bool:
    """Return whether the file system of an existing file knows flock, without which filelock's file is the lock."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno != errno.ENOSYS
    return True


@contextlib.contextmanager
def lock_index(path: Path) -> Iterator[None]:
    """Hold the lock of an index directory's one writer.

    Raises:
        IndexLocked: somebody else holds it. StorageError: the directory can't be written to.
    """
    lock = FileLock(str(path / LOCK), timeout=0, is_singleton=False)  # a forked child needs one of its own
    try:
        lock.acquire()
    except Timeout:
        if not _has_locks(path / LOCK):
            raise StorageError(
                f"{path}: this file system has no locks (flock), and write.lock is there, which an interrupted writer "
                "may have left; keep the index on a local disk, or remove that file if nobody is writing"
            ) from None
        raise IndexLocked(f"{path}: another process is writing to this index; try again when it is done") from None
    except OSError as error:
        raise StorageError(f"{path}: can't be written to ({error})") from error
    try:
        yield
    finally:
        lock.release()
