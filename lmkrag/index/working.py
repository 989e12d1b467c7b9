"""The folder beside an index in which a job builds a new one, and the exchange of the two.

.NAME.lmkrag-JOB/
working-folder     the marker: a folder without it is not ours and is left alone
new/               the index that the job builds
old/               the earlier index, once they are exchanged
"""

import contextlib
import os
import shutil
from pathlib import Path

from lmkrag.errors import IndexLocked, UsageError
from lmkrag.index.files import LOCK, lock_index
from lmkrag.system.platform import exchange, is_locked, sync

JOBS = ("reindex", "backup")  # whose folders are removed by whoever writes to the index next
_MARKER = "working-folder"


class WorkingFolder:
    """The working folder of one job on one index. State: its content on disk."""

    def __init__(self, index: Path, job: str) -> None:
        """Take an index directory and the name of a job; nothing is created so far."""
        self.index, self.job = index.resolve(), job
        self.path = self.index.with_name(f".{self.index.name}.lmkrag-{job}")
        self.new, self.old = self.path / "new", self.path / "old"

    def is_left_over(self) -> bool:
        """Return whether the job was interrupted, and no process goes on with it."""
        if not os.path.isfile(self.path / _MARKER):  # noqa: PTH113  # Path's raises
            return False
        folders = self.path, self.index, self.old  # one of which the job locks
        return all(is_locked(folder / LOCK) is False for folder in folders)

    def claim(self) -> None:
        """Create the folder, or take over that of an interrupted job.

        Raises:
            UsageError: the name is taken by something that lmkrag did not create.
        """
        marker = self.path / _MARKER
        # of a job that was killed right here
        empty = self.path.is_dir() and not any(self.path.iterdir())
        if os.path.lexists(self.path) and not marker.is_file() and not empty:
            raise UsageError(
                f"{self.path}: exists and was not created by lmkrag; move it elsewhere"
            )
        self.path.mkdir(exist_ok=True)
        marker.touch()

    def finish_interrupted(self) -> None:
        """Complete an interrupted exchange; afterwards ``old`` exists only if there was one."""
        marker = self.path / _MARKER
        if not marker.is_file():
            return
        inode = marker.read_text("utf-8")
        if inode and self.new.exists() and str(self.new.stat().st_ino) != inode:
            self.new.rename(self.old)  # the exchange was done, and nothing after it
        if not self.index.exists() and self.old.exists():
            (self.new if self.new.exists() else self.old).rename(self.index)
        sync(self.path.parent)

    def keep_new(self) -> None:
        """Remove ``old`` and forget its exchange, so that a job can continue with ``new``."""
        shutil.rmtree(self.old, ignore_errors=True)
        (self.path / _MARKER).write_text("", "utf-8")
        sync(self.path / _MARKER)

    def take_place(self) -> None:
        """Put ``new`` in the place of the index, in one step if the system can; the index becomes
        ``old``.
        """
        (self.path / _MARKER).write_text(str(self.new.stat().st_ino), "utf-8")
        sync(self.path / _MARKER)
        if not self.index.exists():
            self.new.rename(self.index)
        elif exchange(self.new, self.index):
            self.new.rename(self.old)
        else:
            self.index.rename(self.old)
            self.new.rename(self.index)
        sync(self.path.parent)

    def remove(self) -> None:
        """Remove the folder and what is in it, if lmkrag created it."""
        if (self.path / _MARKER).is_file():
            # the marker last: killed here, the folder is still ours
            for part in (self.new, self.old):
                shutil.rmtree(part, ignore_errors=True)
            (self.path / LOCK).unlink(missing_ok=True)
            shutil.rmtree(self.path, ignore_errors=True)


def complete_exchanges(index: Path) -> None:
    """Complete the exchange of an index with a new one, if a job was killed in the midst of it."""
    for job in JOBS:
        WorkingFolder(index, job).finish_interrupted()


def remove_leftovers(index: Path, *, job: str) -> None:
    """Remove working folders of interrupted jobs, inside the lock of the index's writer.

    Args:
        index: the directory of the index.
        job: the job whose folder stays; empty to remove all.
    """
    for other in JOBS:
        work = WorkingFolder(index, other)
        if other == job or not (work.path / _MARKER).is_file():
            continue
        # a backup locks its own folder
        with contextlib.suppress(IndexLocked), lock_index(work.path):
            work.remove()
