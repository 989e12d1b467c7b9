"""Encode files on the machines of a Ray cluster, which all see the files and the index under the
same paths.

Ray Data hands batches of files to workers. A worker writes each batch beside the index, as a small
index of its own; the process that was started adopts it, in one commit. A batch is named by what
went into it: the names, places, sizes and times of its files, their earlier versions in the index
it is meant for, and the encoder. A batch that exists is not encoded again.

    a1b2c3.../catalog.sqlite, segments/     an ordinary index
    a1b2c3.../batch.json                    the unchanged, skipped and removed files; written last
"""

import contextlib
import hashlib
import json
import logging
import os
import shutil
import socket
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lmkrag.encoder.index_encoder import IndexEncoders
from lmkrag.errors import IndexCorrupt, StorageError, UsageError, needs
from lmkrag.index import catalog
from lmkrag.index.catalog import DocumentRow
from lmkrag.index.copying import adopt_index
from lmkrag.index.pool import CATALOG
from lmkrag.index.store import IndexStore
from lmkrag.index.working import WorkingFolder
from lmkrag.ingest.ingest import GetEncoder, encode_files
from lmkrag.ingest.report import Run
from lmkrag.ingest.walk import SourceFile
from lmkrag.system.files import FileStamp, printable
from lmkrag.system.platform import sync
from lmkrag.types import Skipped

_RECORD = "batch.json"
_TRIES = 3  # of a batch whose process dies


@dataclass(frozen=True, slots=True)
class FileBatch:
    """Files that are encoded together.

    Attributes:
        name: name of the folder of their index, a hash.
        files: the files, in order.
        bytes: size of all files together.
    """

    name: str
    files: tuple[SourceFile, ...]
    bytes: int


def plan_batches(
    files: Sequence[SourceFile], known: Mapping[str, DocumentRow], target: IndexStore, *, size: int
) -> list[FileBatch]:
    """Group files into batches.

    Where a batch ends depends on its own files only: without the files of some batches, the others
    are the same.

    Args:
        files: the files, in order.
        known: the documents of the index, by ``doc_id``.
        target: the index that the batches are meant for.
        size: the least number of bytes of a batch; the last one may be smaller.
    """
    batches: list[FileBatch] = []
    group: list[SourceFile] = []
    grouped = 0  # bytes
    for position, file in enumerate(files, 1):
        group.append(file)
        grouped += file.stamp.size
        if grouped >= size or position == len(files):
            entries = [
                (
                    each.doc_id,
                    printable(str(each.path)),
                    *each.stamp,
                    (row := known.get(each.doc_id)) and row.id,
                )
                for each in group
            ]
            content = json.dumps([catalog.FORMAT_VERSION, target.encoder.fingerprint, entries])
            name = hashlib.sha256(content.encode()).hexdigest()[:32]
            batches.append(FileBatch(name, tuple(group), grouped))
            group, grouped = [], 0
    return batches


def _is_whole(folder: Path) -> bool:
    """Return whether a folder has a complete batch: its record is written last."""
    return (folder / _RECORD).is_file()


def encode_batch(batch: FileBatch, out: Path, encoder: GetEncoder, target: IndexStore) -> None:
    """Encode a batch into a folder of its own, unless it exists.

    Args:
        batch: the files.
        out: the folder of all batches.
        encoder: loads the encoder; called only if there is something to encode.
        target: the index that the batch is meant for; windows that it has are not encoded again.

    Raises:
        StorageError: the processes that encoded this batch died three times.
    """
    if _is_whole(out / batch.name):
        return
    if len(list(out.glob(f".{batch.name}.*"))) == _TRIES:
        raise StorageError(
            f"the process that read it died {_TRIES} times (is there enough memory?)"
        )
    partial = out / f".{batch.name}.{uuid.uuid4().hex}"
    try:
        with contextlib.closing(IndexStore.create(partial, encoder=target.encoder)) as store:
            run = encode_files(store, encoder, batch.files, target=target)
        with contextlib.closing(catalog.connect(partial / CATALOG)) as connection:
            # One file can be read where nobody may write.
            connection.execute("PRAGMA journal_mode = DELETE")
        # Write the record last, and rename the whole folder: a killed worker leaves no batch.
        record = {
            "unchanged": run.unchanged,
            "skipped": [astuple(file) for file in run.skipped],
            "touched": run.touched,
            "removed": run.removed,
        }
        (partial / _RECORD).write_text(json.dumps(record), "utf-8")
        sync(partial / _RECORD)
        sync(partial)
        partial.rename(out / batch.name)
        sync(out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def adopt_batch(store: IndexStore, folder: Path, run: Run) -> None:
    """Adopt a batch in one commit, and count it.

    Args:
        store: the index that adopts.
        folder: the folder of the batch.
        run: counts its documents and skipped files.

    Raises:
        IndexCorrupt: the batch is damaged; nothing is adopted.
    """
    record = json.loads((folder / _RECORD).read_bytes())
    adopted = adopt_index(store, folder)
    run.added += adopted.added
    run.updated += adopted.updated
    run.removed_already += adopted.removed
    run.sentences += adopted.sentences
    run.characters += adopted.characters
    run.unchanged += record["unchanged"]
    run.skipped += [Skipped(*values) for values in record["skipped"]]
    run.touched += [(key, FileStamp(*stamp)) for key, stamp in record["touched"]]
    run.removed += record["removed"]


_BATCH = 1 << 20  # bytes of files
_CORES = 4  # of a worker without a GPU
_ROUNDS = 2  # in which a batch is tried: a worker's disk may be full
_PATIENCE = 10.0  # seconds to reach the cluster; Ray itself tries for minutes
_START = 60.0  # seconds for a worker to start


def encode_on_ray(
    store: IndexStore, address: str, files: list[SourceFile], run: Run
) -> list[SourceFile]:
    """Encode changed files on a cluster, and commit them: see :data:`lmkrag.ingest.sources.Encode`.

    Committed batches can be searched while others are encoded. Batches are in a working folder
    beside the index until they are adopted, also those of an interrupted run.

    Args:
        store: the index.
        address: address of the cluster: see :func:`connected`.
        files: the changed files.
        run: counts documents and skipped files.

    Returns:
        The files that are to be encoded here: those of a single batch, else none.

    Raises:
        MissingExtra: Ray is not installed.
        UsageError: no cluster answers, its cores are taken, or the working folder exists and was
            not created by lmkrag.
        StorageError: the cluster failed; what was committed is kept.
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
        if not _is_whole(out / name):
            failures[name] = (
                f"a worker wrote {out / name}, but it is not there for this process; use "
                "a shared disk"
            )
            return
        try:
            adopt_batch(store, out / name, run)
            batch = waiting.pop(name)
            run.advance(batch.files[-1].doc_id, batch.bytes)
        except IndexCorrupt as error:
            failures[name] = str(error)
        shutil.rmtree(out / name)

    # Adopt the batches of an interrupted run, then have workers encode the others.
    for name in [name for name in waiting if _is_whole(out / name)]:
        adopt(name)
    with connected(address) if waiting else contextlib.nullcontext() as ray:
        for _ in range(_ROUNDS):
            for name, failures[name] in (
                _run_workers(ray, store, out, list(waiting.values())) if waiting else ()
            ):
                if not failures[name]:
                    adopt(name)
    for name, batch in waiting.items():
        for file in batch.files:
            run.skip(
                file.doc_id, f"can't be encoded on Ray: {failures[name]}", size=file.stamp.size
            )
    work.remove()
    return []


def _run_workers(
    ray: Any, store: IndexStore, out: Path, batches: Sequence[FileBatch]
) -> Iterator[tuple[str, str]]:
    """Yield the name of each finished batch, and its error or an empty string. Workers that die are
    restarted.
    """
    from ray.data.exceptions import SystemException

    logging.getLogger("ray.data").setLevel(logging.ERROR)
    workers, resources = _share_resources(ray)
    waiting = ray.data.from_items(
        [{"batch": batch} for batch in batches], override_num_blocks=len(batches)
    )
    waiting.context.enable_progress_bars = waiting.context.print_on_execution_start = False
    waiting.context.execution_no_progress_timeout_s = -1  # a long file takes its time
    waiting.context.max_consecutive_actor_init_deaths = (
        workers  # with the machines that they start on
    )
    encoded = waiting.map_batches(
        EncodeBatch,
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(
            size=min(workers, len(batches)), max_tasks_in_flight_per_actor=1
        ),
        fn_constructor_args=(str(store.path.resolve()), str(out), str(Path.cwd())),
        **resources,
    )
    try:
        for row in encoded.iter_rows():
            yield row["name"], row["failure"]
    except (ray.exceptions.RayError, SystemException) as error:
        raise StorageError(
            f"Ray failed ({_first_line(error)}); what was committed is kept, run it again"
        ) from error


def _share_resources(ray: Any) -> tuple[int, dict[str, int]]:
    """Return the number of workers that fit the cluster, and the resources of each: a GPU, else
    some cores.
    """
    machines = [machine["Resources"] for machine in ray.nodes() if machine["Alive"]]
    cards = sum(int(machine.get("GPU", 0)) for machine in machines)
    cores = [int(machine.get("CPU", 0)) for machine in machines]
    share = max(1, min(_CORES, max(cores)))
    resources = {"num_cpus": 1, "num_gpus": 1} if cards else {"num_cpus": share}
    started, _ = ray.wait([ray.remote(lambda: None).options(**resources).remote()], timeout=_START)
    if not started:
        raise UsageError(
            f"no worker has started on the Ray cluster in {_START:.0f} seconds: are its "
            "cores taken?"
        )
    return cards or sum(machine // share for machine in cores), resources


class EncodeBatch:
    """Encodes batches on a worker. State: the target index and its encoder, opened on first use."""

    def __init__(self, target: str, out: str, here: str) -> None:
        """Take the paths of a run.

        Args:
            target: the index that the batches are meant for.
            out: the folder of all batches.
            here: the working directory of the run, from which the encoder's path may start.
        """
        with contextlib.suppress(OSError):
            os.chdir(here)
        self._path, self._out = Path(target), Path(out)
        self._target: IndexStore | None = None
        self._encoders: IndexEncoders | None = None

    def __call__(self, rows: dict[str, Any]) -> dict[str, Any]:
        """Encode the batch of a single row; return its name, and its error or an empty string."""
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
    """Yield the module ``ray``, connected to a cluster; an existing connection is used and kept.

    Args:
        address: ``HOST:PORT``, ``auto`` for the cluster that this machine belongs to, or ``local``
            for one that is started here.

    Raises:
        MissingExtra: Ray is not installed.
        UsageError: no cluster answers.
    """
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # it is written to standard error
    with needs("ray", "ray"):
        import ray.data
    if ray.is_initialized():
        yield ray
        return
    try:
        host, _, port = address.rpartition(":")
        if port.isdecimal():
            socket.create_connection(
                (host.strip("[]") or "localhost", int(port)), timeout=_PATIENCE
            ).close()
        with contextlib.chdir(os.sep):  # from which Ray has its workers import modules
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
    """Return the first line of the message of an error, or the name of its type."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
