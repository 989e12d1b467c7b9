"""The lock of an index directory's one writer."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from lmkrag.errors import IndexLocked, StorageError


@contextlib.contextmanager
def lock_index(path: Path) -> Iterator[None]:
    """Hold the lock of an index directory's one writer.

    Raises:
        IndexLocked: somebody else holds it. StorageError: the directory can't be written to.
    """
    lock = FileLock(str(path / "write.lock"), timeout=0, is_singleton=False)  # a forked child needs one of its own
    try:
        lock.acquire()
    except Timeout:
        raise IndexLocked(f"{path}: another process is writing to this index; try again when it is done") from None
    except OSError as error:
        raise StorageError(f"{path}: can't be written to ({error})") from error
    try:
        yield
    finally:
        lock.release()
