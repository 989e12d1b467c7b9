"""What lmkrag expects of the operating system and of the threads it runs on."""

import os
import sys

from lmkrag.errors import LmkragError


def check_platform() -> None:
    """Raise LmkragError where lmkrag can't run: its locks, memory maps and limits are those of POSIX."""
    if sys.platform == "win32":
        raise LmkragError("lmkrag runs on Linux and macOS; on Windows, use the Windows Subsystem for Linux")


def set_wait_policy() -> None:
    """Let OpenMP's threads sleep while they wait, unless the user set a policy.

    By default they spin, and two processes that encode on one machine take each other's cores
    (``benchmarks/two_processes.py``). It counts only if it is set before torch and FAISS are imported.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
