"""Encode batches in processes of their own on one machine. One that dies is replaced, and its batch tried again."""

import contextlib
import json
import os
import queue
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lmkrag.cluster.batches import Batch
from lmkrag.cluster.worker import write_found
from lmkrag.corpus.isolated import module_folders
from lmkrag.errors import UsageError
from lmkrag.index.vectors.recipes import recipe_to_json
from lmkrag.specs import EncoderSpec, Recipe
from lmkrag.system import PYTHON, count_cpus

_TRIES = 2  # of a batch whose process dies
_START = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from lmkrag.system import set_wait_policy
set_wait_policy()
from lmkrag.cluster.worker import serve
serve()
"""

Progress = Callable[[Batch, str, int], None]
"""Called with a batch, the name of the document that is being encoded, and the bytes of the batch that are done."""


@dataclass(frozen=True, slots=True)
class Workers:
    """Who reads and encodes.

    Args:
        count: number of processes.
        ray: address of the Ray cluster that they are on: see :func:`lmkrag.cluster.ray_cluster.connected`; None for
            processes of this machine.
        gpus: share of a card that each takes on a cluster.

    Raises:
        UsageError: a number makes no sense, or cards are asked for without a cluster.
    """

    count: int = 1
    ray: str | None = None
    gpus: float = 0.0

    def __post_init__(self) -> None:
        """Check every value."""
        if isinstance(self.count, bool) or not isinstance(self.count, int) or self.count < 1:
            raise UsageError(f"workers must be a whole number of 1 or more, not {self.count!r}")
        if self.gpus < 0 or (self.gpus and self.ray is None):
            raise UsageError("gpus is the share of a card that each worker on a Ray cluster takes, 0 or more")

    @property
    def is_parallel(self) -> bool:
        """Whether others than this process encode."""
        return self.count > 1 or self.ray is not None


Outcome = tuple[Batch, str]
"""A batch, and why it could not be encoded; empty if it was."""


@contextmanager
def encoding_batches(
    batches: Sequence[Batch],
    out: Path,
    spec: EncoderSpec,
    recipe: Recipe | None,
    *,
    workers: int,
    targets: Mapping[str, Path] | None = None,
    progress: Progress | None = None,
) -> Iterator[Iterator[Outcome]]:
    """Encode batches; within the context, iterate over what became of each, as it is done.

    Args:
        batches: to encode, the first ones first.
        out: the folder of batches.
        spec: of the encoder, which each process loads.
        recipe: how to store vectors; the default one without.
        workers: number of processes; the cores are divided between them.
        targets: by the names of batches, the indexes that they are meant for.
        progress: called from other threads.
    """
    out.mkdir(parents=True, exist_ok=True)
    setup = {
        "encoder": asdict(spec),
        "recipe": None if recipe is None else recipe_to_json(recipe),
        "out": str(out.resolve()),
        "threads": max(1, count_cpus() // workers),
    }
    waiting: queue.SimpleQueue[tuple[Batch, int]] = queue.SimpleQueue()
    done: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
    for batch in batches:
        waiting.put((batch, 1))
    target_paths = {name: str(path.resolve()) for name, path in (targets or {}).items()}
    threads = [_Worker(setup, target_paths, waiting, done, progress) for _ in range(min(workers, len(batches)))]
    try:
        for thread in threads:
            thread.start()
        yield (done.get() for _ in batches)
    finally:
        for thread in threads:
            thread.stop()


class _Worker(threading.Thread):
    """Feeds one process with batches until none are left."""

    def __init__(
        self,
        setup: dict[str, Any],
        targets: Mapping[str, str],
        waiting: "queue.SimpleQueue[tuple[Batch, int]]",
        done: "queue.SimpleQueue[Outcome]",
        progress: Progress | None,
    ) -> None:
        super().__init__(daemon=True)
        self._setup, self._targets = setup, targets
        self._waiting, self._done, self._progress = waiting, done, progress
        self._process: subprocess.Popen[bytes] | None = None
        self._guard = threading.Lock()
        self._stopped = False

    def run(self) -> None:
        while not self._stopped:
            try:
                batch, tries = self._waiting.get_nowait()
            except queue.Empty:
                break
            try:
                self._done.put((batch, self._encode(batch)))
            except (OSError, EOFError, ValueError):  # it is gone, perhaps in the midst of a line
                self._end()
                if self._stopped:
                    break
                if tries < _TRIES:
                    self._waiting.put((batch, tries + 1))
                else:
                    self._done.put((batch, f"the process that read it died {_TRIES} times (is there enough memory?)"))
        self._end()

    def _encode(self, batch: Batch) -> str:
        """Have a batch encoded; return why it could not be.

        Raises:
            OSError: the process is gone. EOFError: it ended.
        """
        process = self._start_process()
        assert process.stdin is not None
        assert process.stdout is not None
        files = [write_found(file) for file in batch.files]
        request = {"name": batch.name, "files": files, "target": self._targets.get(batch.name)}
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        for line in process.stdout:
            reply = json.loads(line)
            if "done" in reply:
                return ""
            if "failed" in reply:
                return str(reply["failed"])
            if self._progress is not None:
                self._progress(batch, reply["name"], reply["progress"])
        raise EOFError

    def _start_process(self) -> "subprocess.Popen[bytes]":
        with self._guard:
            if self._stopped:
                raise EOFError
            if self._process is None:
                environment = {**os.environ, "OMP_NUM_THREADS": str(self._setup["threads"])}
                command = [*PYTHON, "-c", _START, json.dumps(module_folders())]
                self._process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, start_new_session=True
                )
                assert self._process.stdin is not None
                self._process.stdin.write(json.dumps(self._setup).encode() + b"\n")
            return self._process

    def _end(self) -> None:
        with self._guard:
            if self._process is not None:
                self._process.kill()
                with contextlib.suppress(OSError), self._process:  # closes its pipes, which may hold what it never read
                    pass
                self._process = None

    def stop(self) -> None:
        """End the process, whatever it does."""
        self._stopped = True
        with self._guard:
            if self._process is not None:
                self._process.kill()
        if self.is_alive():
            self.join()
        self._end()
