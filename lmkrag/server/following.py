"""A process that indexes folders while they are served, and again whenever something in them changes."""

import json
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from lmkrag.server.settings import IndexingProgress
from lmkrag.system import PYTHON

# uvicorn ends the process by the signal that stopped it, so nothing after it is sure to run.
_WATCH = "from lmkrag.system import end_with_parent; end_with_parent(); from lmkrag.cli import main; main()"


class FolderFollower:
    """Keeps the index of folders up to date. State: the process, and how far it is."""

    def __init__(self, folders: Sequence[Path], index: Path, environment: Mapping[str, str]) -> None:
        """Start the process with an environment of its own: it may use more threads than a server's searches."""
        arguments = ["index", *map(str, folders), "--index", str(index), "--watch", "--json"]
        self._progress: IndexingProgress | None = IndexingProgress(0, 0)
        command = [*PYTHON, "-c", _WATCH, *arguments]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        threading.Thread(target=self._listen, name="lmkrag-following", daemon=True).start()

    def progress(self) -> IndexingProgress | None:
        """Return how far the process is; None while the index is up to date, or if the process has ended."""
        return self._progress

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            record = json.loads(line)
            self._progress = IndexingProgress(record["done"], record["total"]) if "done" in record else None
        self._progress = None

    def __enter__(self) -> Self:
        """Return the follower."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process."""
        self._process.terminate()
        self._process.wait()
