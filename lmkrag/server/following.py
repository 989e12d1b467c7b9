"""A process that indexes the served folders, again whenever something in them changes."""

import json
import logging
import subprocess
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from lmkrag.server.settings import FollowerState, IndexingProgress
from lmkrag.system.processes import PYTHON

# uvicorn re-raises the signal that stopped it, so clean-up code after it may not run.
_WATCH = (
    "from lmkrag.system.platform import end_with_parent; end_with_parent(); "
    "from lmkrag.cli import main; main()"
)
# Seconds before the process is started again: after its first end, and at most.
_SHORTEST, _LONGEST = 1.0, 60.0

_logger = logging.getLogger(__name__)


class FolderFollower:
    """Keeps the index of folders up to date. State: the process, which is started again when it
    ends.
    """

    def __init__(
        self, folders: Sequence[Path], index: Path, environment: Mapping[str, str]
    ) -> None:
        """Start the process with its own environment: it may use more threads than the server's
        searches.
        """
        arguments = ["index", *map(str, folders), "--index", str(index), "--watch", "--json"]
        self._command = [*PYTHON, "-c", _WATCH, *arguments]
        self._environment = environment
        self._state = FollowerState(IndexingProgress(0, 0))
        self._guard = threading.Lock()
        self._stopping = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        # The system ends the process when the thread that started it ends.
        self._thread = threading.Thread(target=self._run, name="lmkrag-following", daemon=True)
        self._thread.start()

    def state(self) -> FollowerState:
        """Return the progress of indexing, and since when changes are not followed."""
        return self._state

    def _run(self) -> None:
        pause = _SHORTEST
        while True:
            with self._guard:
                if self._stopping.is_set():
                    return
                self._process = process = subprocess.Popen(
                    self._command,
                    stdout=subprocess.PIPE,
                    text=True,
                    env=self._environment,
                    # Ctrl-C is for the server, which ends this process when it has stopped
                    start_new_session=True,
                )
            if self._listen(process):
                pause = _SHORTEST
            code = process.wait()
            if self._stopping.is_set():
                return
            self._lose_track()
            _logger.error(
                "indexing of the folder ended with status %d; it starts again in %g s", code, pause
            )
            self._stopping.wait(pause)
            pause = min(_LONGEST, 2 * pause)

    def _listen(self, process: "subprocess.Popen[str]") -> bool:
        """Read the process's output until it ends; return whether it brought the index up to
        date.
        """
        assert process.stdout is not None
        succeeded = False
        for line in process.stdout:
            try:
                record = json.loads(line)
            except ValueError:
                continue  # the process was killed in the middle of a line
            if "done" in record:
                self._state = self._state._replace(
                    indexing=IndexingProgress(record["done"], record["total"])
                )
            elif "error" in record:
                self._lose_track()
            else:
                self._state, succeeded = FollowerState(), True
        return succeeded

    def _lose_track(self) -> None:
        since = self._state.not_followed_since or datetime.now(UTC).isoformat(timespec="seconds")
        self._state = FollowerState(None, since)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._guard:
            self._stopping.set()
            if self._process is not None:
                self._process.terminate()
        self._thread.join()
