"""What lmkrag asks of the system beyond what every system has, each with what happens without it.

Nothing else in lmkrag imports ``fcntl`` or ``resource``, loads the C library, or reads ``/proc``
(``tests/contract/test_platform.py``), so that macOS, which has half of it and refuses some, needs
no thought elsewhere. ``lmkrag mcp`` imports this module first, so it imports little itself.
"""

import errno
import fcntl
import math
import os
import resource
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

_PR_SET_PDEATHSIG = 1  # of Linux's prctl
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # of Linux's renameat2
_UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EXDEV, errno.ENOLCK)
_PARENT_EVERY = 1.0  # seconds between two looks at the parent

ADDRESSES, DATA = 0, 5  # of Linux's statm: what a process takes


def read_proc(name: str) -> str:
    """Return the text of a file of ``/proc``; empty where there is none, as on macOS."""
    try:
        return Path("/proc", name).read_text("utf-8")
    except OSError:
        return ""


def count_cpus() -> int:
    """Return how many processors this process may use; all of them where the system can't tell."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def measure_memory(kind: int, process: int | None = None) -> int:
    """Return how many bytes a process takes; 0 where the system does not tell.

    Args:
        kind: :data:`ADDRESSES`, or :data:`DATA` of its own.
        process: its id; None for this one.
    """
    fields = read_proc(f"{process or 'self'}/statm").split()
    return int(fields[kind]) * resource.getpagesize() if fields else 0


def measure_card() -> tuple[int, int]:
    """Return the free and all bytes of the first graphics card; 0 where this process has loaded no
    library of CUDA, or CUDA fails, as in a fork of a process that uses it.
    """
    import ctypes

    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    with suppress(AttributeError):
        ctypes.CDLL(None).cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total))
    return free.value, total.value


def limit_memory(size: int) -> bool:
    """Limit the addresses of this process in bytes; return False where the system refuses, as
    macOS does.
    """
    return _limit(resource.RLIMIT_AS, size)


def find_memory_limit() -> int:
    """Return how many bytes of addresses this process may use."""
    return resource.getrlimit(resource.RLIMIT_AS)[0]


def allowed_memory(size: int) -> int:
    """Return how many bytes of addresses a child process may have: ``size``, or less if this
    process may have less.
    """
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    return size if most == resource.RLIM_INFINITY else min(size, most)


def limit_processor(seconds: int) -> None:
    """Have the system end this process once it has used its processors for more seconds."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _limit(resource.RLIMIT_CPU, math.ceil(used.ru_utime + used.ru_stime) + seconds)


def leave_no_core() -> None:
    """Have the system write no memory to the disk when this process crashes."""
    _limit(resource.RLIMIT_CORE, 0)


def _limit(kind: int, soft: int) -> bool:
    """Set a limit of this process, or as much of it as is allowed; return whether that worked."""
    _, hard = resource.getrlimit(kind)
    try:
        resource.setrlimit(
            kind, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard)
        )
    except (ValueError, OSError):
        return False
    return True


def end_with_parent() -> None:
    """End this process when its parent ends, however that happens: at once on Linux, elsewhere
    within a second.
    """
    import ctypes

    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    except AttributeError:
        threading.Thread(target=_end_after, args=(os.getppid(),), daemon=True).start()


def _end_after(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_PARENT_EVERY)
    os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def hold_lock(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock of a file, which is created if need be.

    On a file system without locks nothing is locked.

    Args:
        path: the file.
        wait: whether to wait for whoever holds the lock.

    Raises:
        BlockingIOError: somebody holds it, and ``wait`` is false.
        OSError: the file can't be opened.
    """
    with path.open("ab") as file:
        _lock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            yield
        finally:
            _lock(file, fcntl.LOCK_UN)  # closing alone would leave it to a child with the file


def _lock(file: IO[bytes], operation: int) -> None:
    try:
        fcntl.flock(file, operation)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise


def is_locked(path: Path) -> bool | None:
    """Return whether somebody holds the lock of a file, or that can't be told; None where its file
    system has no locks.
    """
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError as error:
        return None if error.errno in _UNSUPPORTED else True
    return False


def sync(path: Path) -> None:
    """Force a file, or a directory's entries, to the disk.

    macOS leaves them in the disk's own memory unless it is told otherwise.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)  # type: ignore[attr-defined,unused-ignore]
    except (AttributeError, OSError):  # not macOS, or a file system that it knows little of
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def exchange(first: Path, second: Path) -> bool:
    """Exchange two paths in one step (Linux's renameat2); return False if the system or file system
    can't.
    """
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "renameat2"):
        return False
    paths = os.fsencode(first), os.fsencode(second)
    if libc.renameat2(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in _UNSUPPORTED:
        return False
    raise OSError(code, os.strerror(code), str(second))
