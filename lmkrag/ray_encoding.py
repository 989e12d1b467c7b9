"""Encode files on the machines of a Ray cluster, which all see the files and the index under the same paths.

Ray Data hands batches of files to workers. A worker writes each batch beside the index, as a small index of its own;
the process that was started adopts it, in one commit.
"""

import contextlib
import logging
import os
import shutil
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lmkrag.encoder.index_encoder import IndexEncoders
from lmkrag.errors import IndexCorrupt, MissingExtra, StorageError, UsageError
from lmkrag.index.store import IndexStore
from lmkrag.index.working import WorkingFolder
from lmkrag.ingest.file_batches import FileBatch, adopt_batch, encode_batch, is_batch, plan_batches
from lmkrag.ingest.report import Run
from lmkrag.ingest.walk import Found

_BATCH = 1 << 20  # bytes of files
_CORES = 4  # of a worker without a GPU
_ROUNDS = 2  # in which a batch is tried: a worker's disk may be full
_PATIENCE = 10.0  # seconds to reach the cluster; Ray itself tries for minutes
_START = 60.0  # seconds for a worker to start


def encode_on_ray(store: IndexStore, address: str, files: list[Found], run: Run) -> list[Found]:
    """Encode changed files on a cluster and commit them, as :data:`lmkrag.ingest.sources.Encode`; too few are returned.

    What is encoded can be searched while the rest is encoded. Batches lie beside the index, in a working folder, until
    they are adopted; those that an interrupted run has left there are adopted by the next.

    Raises MissingExtra: Ray is not installed. UsageError: no cluster answers, its cores are taken, or something else
    has the working folder's name. StorageError: the cluster failed.
    """
    batches = plan_batches(files, run.known, store, size=_BATCH)
    if len(batches) < 2:
        return files
    work = WorkingFolder(store.path, "ray")
    work.claim()
    out = work.new.resolve()
    out.mkdir(exist_ok=True)
    for partial in out.glob(".*"):
        shutil.rmtree(partial, ignore_errors=True)
    waiting = {batch.name: batch for batch in batches}
    failures: dict[str, str] = {}

    def adopt(name: str) -> None:
        if not is_batch(out / name):
            failures[name] = f"a worker wrote {out / name}, but it is not there for this process; use a shared disk"
            return
        try:
            adopt_batch(store, out / name, run)
            batch = waiting.pop(name)
            run.advance(batch.files[-1].doc_id, batch.bytes)
        except IndexCorrupt as error:
            failures[name] = str(error)
        shutil.rmtree(out / name)

    for name in [name for name in waiting if is_batch(out / name)]:
        adopt(name)
    with connected(address) if waiting else contextlib.nullcontext() as ray:
        for _ in range(_ROUNDS):
            for name, failures[name] in _run_workers(ray, store, out, list(waiting.values())) if waiting else ():
                if not failures[name]:
                    adopt(name)
    for name, batch in waiting.items():
        for file in batch.files:
            run.skip(file.doc_id, f"can't be encoded on Ray: {failures[name]}", size=file.stamp.size)
    work.remove()
    return []


def _run_workers(ray: Any, store: IndexStore, out: Path, batches: Sequence[FileBatch]) -> Iterator[tuple[str, str]]:
    """Yield the names of batches as they are done, and why one can't be encoded or nothing.

    Ray starts workers again that die, and gives them their batches again.
    """
    from ray.data.exceptions import SystemException

    logging.getLogger("ray.data").setLevel(logging.ERROR)
    workers, resources = _share_resources(ray)
    waiting = ray.data.from_items([{"batch": batch} for batch in batches], override_num_blocks=len(batches))
    waiting.context.enable_progress_bars = waiting.context.print_on_execution_start = False
    waiting.context.execution_no_progress_timeout_s = -1  # a long file takes its time
    waiting.context.max_consecutive_actor_init_deaths = workers  # with the machines that they start on
    encoded = waiting.map_batches(
        EncodeBatch,
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(size=min(workers, len(batches)), max_tasks_in_flight_per_actor=1),
        fn_constructor_args=(str(store.path.resolve()), str(out), str(Path.cwd())),
        **resources,
    )
    try:
        for row in encoded.iter_rows():
            yield row["name"], row["failure"]
    except (ray.exceptions.RayError, SystemException) as error:
        raise StorageError(f"Ray failed ({_first_line(error)}); what was committed is kept, run it again") from error


def _share_resources(ray: Any) -> tuple[int, dict[str, int]]:
    """Return how many workers there is room for, and what Ray sets aside for each: a GPU, else some cores."""
    machines = [machine["Resources"] for machine in ray.nodes() if machine["Alive"]]
    cards = sum(int(machine.get("GPU", 0)) for machine in machines)
    cores = [int(machine.get("CPU", 0)) for machine in machines]
    share = max(1, min(_CORES, max(cores)))
    resources = {"num_cpus": 1, "num_gpus": 1} if cards else {"num_cpus": share}
    started, _ = ray.wait([ray.remote(lambda: None).options(**resources).remote()], timeout=_START)
    if not started:
        raise UsageError(f"no worker has started on the Ray cluster in {_START:.0f} seconds: are its cores taken?")
    return cards or sum(machine // share for machine in cores), resources


class EncodeBatch:
    """What a worker does. State: the index that batches are meant for, and its encoder, once they are needed."""

    def __init__(self, target: str, out: str, here: str) -> None:
        """Take the index, the folder of batches, and the directory from which the encoder's path may start."""
        with contextlib.suppress(OSError):
            os.chdir(here)
        self._path, self._out = Path(target), Path(out)
        self._target: IndexStore | None = None
        self._encoders: IndexEncoders | None = None

    def __call__(self, rows: dict[str, Any]) -> dict[str, Any]:
        """Encode a batch, the one row; return its name, and why it can't be encoded or nothing."""
        batch, failure = rows["batch"][0], ""
        try:
            target = self._target = self._target or IndexStore.open(self._path)
            encoders = self._encoders = self._encoders or IndexEncoders(self._path, target.encoder)
            encode_batch(batch, self._out, lambda: encoders.encoder, target)
        except Exception as error:  # the other batches go on
            failure = _first_line(error)
        return {"name": np.array([batch.name]), "failure": np.array([failure])}


@contextlib.contextmanager
def connected(address: str) -> Iterator[Any]:
    """Give the module ``ray``, connected to the cluster at an address; a process that is connected already stays so.

    ``HOST:PORT``, ``auto`` for the cluster that this machine belongs to, or ``local`` for one that is started here.
    Raises MissingExtra: Ray is not installed. UsageError: no cluster answers.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # it is written to standard error
    try:
        import ray.data
    except ImportError:
        raise MissingExtra("ray", "ray") from None
    if ray.is_initialized():
        yield ray
        return
    try:
        host, _, port = address.rpartition(":")
        if port.isdecimal():
            socket.create_connection((host.strip("[]") or "localhost", int(port)), timeout=_PATIENCE).close()
        with contextlib.chdir(os.sep):  # Ray has its workers import modules from the working directory
            ray.init(
                address=address,
                include_dashboard=False if address == "local" else None,
                logging_level=logging.ERROR,
                log_to_driver=False,
            )
    except (OSError, ValueError, RuntimeError) as error:  # ConnectionError is an OSError
        message = f"no Ray cluster can be reached at {address!r} ({_first_line(error)})"
        raise UsageError(f"{message}; start one with: ray start --head") from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _first_line(error: BaseException) -> str:
    """Return the first line of what an error says, or what it is called."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
