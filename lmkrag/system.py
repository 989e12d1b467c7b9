"""Paths, processes, forks and threads of the operating system."""

import ctypes
import hashlib
import os
import re
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from lmkrag.errors import LmkragError

PYTHON = (sys.executable, "-P")  # no modules from the working directory, which may be of unknown origin
T = TypeVar("T")

ABANDONED: ContextVar[threading.Event] = ContextVar("ABANDONED")  # set once the request of the running call has ended
_FORK_WAITS = 3.0  # seconds
_PR_SET_PDEATHSIG = 1  # of Linux's prctl


def is_address(path: object) -> bool:
    """Return whether an index lies on Qdrant instead of in a directory.

    >>> is_address("qdrant://localhost:6333/handbook"), is_address("indexes/handbook")
    (True, False)
    """
    return str(path).startswith(("qdrant:", "qdrant+https:"))


def locate_index(path: str | Path) -> Path:
    """Return the directory of an index without links, or its address on Qdrant as it is."""
    return Path(path) if is_address(path) else Path(path).resolve()


def absolute_index(path: str | Path) -> Path:
    """Return the absolute path of an index, whose links may lead to another one later, or its address as it is."""
    return Path(path) if is_address(path) else Path(path).absolute()


def stop_if_abandoned() -> None:
    """Raise TimeoutError if the request of the running call has ended."""
    if (abandoned := ABANDONED.get(None)) and abandoned.is_set():
        raise TimeoutError("the request has ended")


class FileStamp(NamedTuple):
    """The size of a file in bytes and the time of its last change in nanoseconds; a file with the same is unchanged."""

    size: int
    mtime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> "FileStamp":
        """Return the stamp of a file from its status."""
        return cls(status.st_size, max(-(2**63), min(status.st_mtime_ns, 2**63 - 1)))  # what SQLite can store


@lru_cache(maxsize=1_000)
def hash_file(path: Path, stamp: FileStamp) -> str:
    """Return the SHA-256 of a file, cached by its stamp."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class computed_once(cached_property[T]):  # noqa: N801
    """A ``cached_property`` without the lock of Python 3.11, which may stay locked in a forked process."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        super().__init__(compute)
        self.lock = nullcontext()


class LateRegex:
    """A regular expression that is compiled on first use, since a command needs few of them."""

    def __init__(self, *arguments: Any) -> None:
        self._arguments = arguments

    def __getattr__(self, name: str) -> Any:
        value = self.__dict__[name] = getattr(re.compile(*self._arguments), name)
        return value


def check_platform() -> None:
    """Raise LmkragError where lmkrag can't run: its locks, memory maps and limits are those of POSIX."""
    if sys.platform == "win32":
        raise LmkragError("lmkrag runs on Linux and macOS; on Windows, use the Windows Subsystem for Linux")


def set_wait_policy() -> None:
    """Let OpenMP's threads sleep while they wait, unless the user set a policy.

    By default they spin, and two processes that encode on one machine take each other's cores
    (``benchmarks/two_processes.py``). Call it before torch and FAISS are imported.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def printable(name: str) -> str:
    """Return a file name as text that can be stored: bytes that are not UTF-8 are written out."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def find_path(name: str) -> Path:
    """Return the path that :func:`printable` wrote, where a file of that very name does not exist."""
    path = Path(name)
    if "\\x" in name and not os.path.lexists(path):
        data = re.sub(rb"\\x([0-9a-f]{2})", lambda match: bytes.fromhex(match[1].decode()), name.encode())
        return Path(os.fsdecode(data))
    return path


def count_cpus() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class HoldsLocks(Protocol):
    """An object with locks, which a thread may hold while another thread forks."""

    def renew_locks(self) -> None:
        """Replace the locks by free ones, and forget who waits for them."""


_lock_owners: "weakref.WeakSet[HoldsLocks]" = weakref.WeakSet()


def renew_in_forks(owner: HoldsLocks) -> None:
    """Renew the locks of an object in forked processes, which lack the threads that hold them."""
    _lock_owners.add(owner)


def _renew_all() -> None:
    for owner in list(_lock_owners):
        owner.renew_locks()


class ForkGate:
    """Delays a fork until no other thread is inside, for a few seconds at most; threads that enter wait for the fork.

    It is for locks of others that would stay locked in the child: that of SQLite's allocator, those of imports.
    """

    def __init__(self) -> None:
        self._local = threading.local()
        self.renew_locks()
        renew_in_forks(self)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self._close, after_in_parent=self._open)

    def renew_locks(self) -> None:
        """Open the gate, with no thread inside but this one."""
        self._guard = threading.Condition()
        self._inside, self._forking = self._depth, False

    @contextmanager
    def enter(self) -> Iterator[None]:
        """Stay inside during a ``with`` block."""
        with self._guard:
            while self._forking and not self._depth:  # a thread inside may enter again
                self._guard.wait()
            self._count(1)
        try:
            yield
        finally:
            with self._guard:
                self._count(-1)
                self._guard.notify_all()

    def _count(self, change: int) -> None:
        self._inside += change
        self._local.count = self._depth + change

    @property
    def _depth(self) -> int:
        """How often this thread is inside, which does not keep it from forking."""
        return getattr(self._local, "count", 0)

    def _close(self) -> None:
        self._guard.acquire()  # until the fork is done
        self._forking = True
        self._guard.wait_for(lambda: self._inside <= self._depth, _FORK_WAITS)

    def _open(self) -> None:
        self._forking = False
        self._guard.notify_all()
        self._guard.release()


fork_gate = ForkGate()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)


def end_with_parent() -> None:
    """End this process when its parent ends, however that happens; only on Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
