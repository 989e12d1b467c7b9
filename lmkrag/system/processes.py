"""Processes of this machine: how they are started and forked."""

import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from lmkrag.errors import UsageError

# Without modules from the working directory, which may be of unknown origin.
PYTHON = (sys.executable, "-P")
T = TypeVar("T")


class computed_once(cached_property[T]):  # noqa: N801
    """A ``cached_property`` without the lock of Python 3.11, which may stay locked in a forked
    process.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        super().__init__(compute)
        self.lock = nullcontext()


def set_wait_policy() -> None:
    """Let OpenMP's threads sleep while they wait, unless the user set a policy.

    By default they spin, and two processes that encode on one machine take each other's cores
    (``benchmarks/two_processes.py``). Call it before torch and FAISS are imported.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def refuse_fork(process: int, what: Path | str) -> None:
    """Raise UsageError unless this is still the process, by its id, that opened something.

    A forked process has the locks that other threads held at the fork, but not these threads, and
    can't use connections to SQLite; so it opens its own.
    """
    if process != os.getpid():
        raise UsageError(
            f"{what}: opened before this process was forked; open it again in this process"
        )
