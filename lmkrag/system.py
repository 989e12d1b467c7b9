"""Paths, processes, forks and threads of the operating system."""

import ctypes
import hashlib
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from lmkrag.errors import LmkragError, UsageError

PYTHON = (
    sys.executable,
    "-P",
)  # no modules from the working directory, which may be of unknown origin
T = TypeVar("T")

DEADLINE: ContextVar["Deadline"] = ContextVar(
    "DEADLINE"
)  # of the request that the running call is for
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
    """Return the absolute path of an index, whose links may lead to another one later, or its
    address as it is.
    """
    return Path(path) if is_address(path) else Path(path).absolute()


@dataclass(frozen=True, slots=True)
class Deadline:
    """When a request ends: at a ``time`` of ``time.monotonic``, or once it is ``abandoned``."""

    time: float
    abandoned: threading.Event


class RequestEnded(Exception):
    """The request that the running call is for has ended: nobody waits for its result."""


def stop_if_late() -> None:
    """Raise RequestEnded if the request of the running call has ended.

    Whatever a client chooses the amount of calls this between units of work, each of which takes a
    second at most: a check from outside would only leave the work alone, and not end it. Without a
    request nothing happens.
    """
    deadline = DEADLINE.get(None)
    if deadline and (deadline.abandoned.is_set() or time.monotonic() > deadline.time):
        raise RequestEnded("the request has ended")


class FileStamp(NamedTuple):
    """The size of a file in bytes and the time of its last change in nanoseconds; a file with the
    same is unchanged.
    """

    size: int
    mtime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> "FileStamp":
        """Return the stamp of a file from its status."""
        return cls(
            status.st_size, max(-(2**63), min(status.st_mtime_ns, 2**63 - 1))
        )  # what SQLite can store


@lru_cache(maxsize=1_000)
def hash_file(path: Path, stamp: FileStamp) -> str:
    """Return the SHA-256 of a file, cached by its stamp."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class computed_once(cached_property[T]):  # noqa: N801
    """A ``cached_property`` without the lock of Python 3.11, which may stay locked in a forked
    process.
    """

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
    """Raise LmkragError where lmkrag can't run: its locks, memory maps and limits are those of
    POSIX.
    """
    if sys.platform == "win32":
        raise LmkragError(
            "lmkrag runs on Linux and macOS; on Windows, use the Windows Subsystem for Linux"
        )


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
    """Return the path that :func:`printable` wrote, where a file of that very name does not
    exist.
    """
    path = Path(name)
    if "\\x" in name and not os.path.lexists(path):
        data = re.sub(
            rb"\\x([0-9a-f]{2})", lambda match: bytes.fromhex(match[1].decode()), name.encode()
        )
        return Path(os.fsdecode(data))
    return path


def is_local_path(place: object) -> bool:
    """Return whether the place of a document names a folder of a machine, as no URL or relative
    path does.
    """
    return isinstance(place, str) and place.startswith(("/", "file:"))


def count_cpus() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def refuse_fork(process: int, what: Path | str) -> None:
    """Raise UsageError unless this is still the process, by its id, that opened something.

    A forked process has the locks that other threads held at the fork, but not these threads, and
    can't use connections to SQLite; so it opens its own.
    """
    if process != os.getpid():
        raise UsageError(
            f"{what}: opened before this process was forked; open it again in this process"
        )


def end_with_parent() -> None:
    """End this process when its parent ends, however that happens; only on Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
