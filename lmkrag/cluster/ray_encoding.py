"""Encode batches in actors of a Ray cluster. All machines see files, batches and index under the same paths."""

import contextlib
import os
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from lmkrag.cluster.batches import Batch, encode_batch, is_batch
from lmkrag.cluster.processes import Outcome, Progress
from lmkrag.cluster.ray_cluster import connected, first_line
from lmkrag.cluster.worker import read_found, write_found
from lmkrag.encoder.index_encoder import IndexEncoders
from lmkrag.errors import LmkragError, StorageError, UsageError
from lmkrag.index.store import IndexStore
from lmkrag.index.vectors.recipes import recipe_from_json, recipe_to_json
from lmkrag.specs import EncoderSpec, Recipe

_TRIES = 3  # of a batch whose worker dies or can't write
_WAIT = 60.0  # seconds for a worker to start, or to start again
_PAUSE = 0.5  # seconds


class BatchEncoder:
    """What an actor does. State: the encoder and the indexes that it has opened."""

    def __init__(self, encoder: dict[str, Any], recipe: str | None, out: str, here: str) -> None:
        """Take how to encode, as JSON has it, and the directory that paths of files start from."""
        with contextlib.suppress(OSError):  # then there are none of them on this machine, which is said of each file
            os.chdir(here)
        self._spec = EncoderSpec(**encoder)
        self._recipe = recipe_from_json(recipe) if recipe else None
        self._out = Path(out)
        self._encoders = IndexEncoders(self._out, self._spec)
        self._targets: dict[str, IndexStore] = {}

    def process(self) -> int:
        """Return the process that this is: it has started."""
        return os.getpid()

    def encode(self, name: str, files: list[dict[str, Any]], target: str | None) -> str:
        """Encode a batch; return why it can't be, or nothing."""
        batch = Batch(name, tuple(map(read_found, files)))
        try:
            if target and target not in self._targets:
                self._targets[target] = IndexStore.open(Path(target))
            self._out.mkdir(parents=True, exist_ok=True)
            encode_batch(
                batch,
                self._out,
                lambda: self._encoders.encoder,
                self._spec,
                self._recipe,
                target=self._targets[target] if target else None,
            )
        except LmkragError as error:
            return str(error)
        return ""


class _Task(NamedTuple):
    batch: Batch
    tries: int


@contextmanager
def encoding_batches_on_ray(
    batches: Sequence[Batch],
    out: Path,
    spec: EncoderSpec,
    recipe: Recipe | None,
    *,
    address: str,
    workers: int,
    gpus: float = 0.0,
    targets: Mapping[str, Path] | None = None,
    progress: Progress | None = None,
) -> Iterator[Iterator[Outcome]]:
    """Encode batches; within the context, iterate over what became of each, as it is done.

    A worker or machine that dies is replaced, and its batch tried again; so is one that can't be written where it was.

    Args:
        batches: to encode, the first ones first.
        out: the folder of batches, on a disk that all machines share.
        spec: of the encoder, which each worker loads.
        recipe: how to store vectors; the default one without.
        address: of the cluster: see :func:`lmkrag.cluster.ray_cluster.connected`.
        workers: number of actors; the cores of the cluster are divided between them.
        gpus: share of a card that each takes.
        targets: by the names of batches, the indexes that they are meant for.
        progress: called when a batch is done.

    Raises:
        MissingExtra: Ray is not installed. UsageError: no cluster answers, or it has no cards.
    """
    out.mkdir(parents=True, exist_ok=True)
    target_paths = {name: str(path.resolve()) for name, path in (targets or {}).items()}
    with connected(address) as ray:
        resources = ray.cluster_resources()
        if gpus > resources.get("GPU", 0):
            raise UsageError(
                f"the Ray cluster has {resources.get('GPU', 0):g} GPUs, and each worker is to take {gpus:g}"
            )
        cores = [int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]]
        count = max(1, min(workers, len(batches), sum(cores)))
        actor_class = ray.remote(BatchEncoder).options(
            num_cpus=_share_cores(cores, count),
            num_gpus=gpus,
            max_restarts=-1,
            scheduling_strategy="SPREAD",
        )
        setup = (asdict(spec), None if recipe is None else recipe_to_json(recipe), str(out.resolve()), str(Path.cwd()))
        actors = [actor_class.remote(*setup) for _ in range(count)]
        try:
            yield _encode(ray, actors, batches, out, target_paths, progress)
        finally:
            for actor in actors:
                ray.kill(actor)


def _share_cores(cores: Sequence[int], workers: int) -> int:
    """Return the most cores that each worker can have, given those of each machine.

    >>> _share_cores([4, 4, 2], 2), _share_cores([4, 4, 2], 3), _share_cores([2], 4)
    (4, 2, 1)
    """
    share = max(1, sum(cores) // workers)
    while share > 1 and sum(machine // share for machine in cores) < workers:
        share -= 1
    return share


def _encode(
    ray: Any,
    actors: Sequence[Any],
    batches: Sequence[Batch],
    out: Path,
    target_paths: Mapping[str, str],
    progress: Progress | None,
) -> Iterator[Outcome]:
    """Give each actor that is there a batch at a time, until there is an outcome of every one."""
    waiting = deque(_Task(batch, 1) for batch in batches)
    starting = {actor.process.remote(): actor for actor in actors}
    running: dict[Any, tuple[Any, _Task]] = {}
    idle: list[Any] = []
    failures = dict.fromkeys(actors, 0)  # in a row; one whose disk is full would soon have failed at every batch
    lost: dict[Any, float] = {}  # since when an actor that died is being started again
    left, failure = len(batches), ""
    timeout: float | None = _WAIT
    while left:
        while idle and waiting:
            actor, task = idle.pop(), waiting.popleft()
            files = [write_found(file) for file in task.batch.files]
            running[actor.encode.remote(task.batch.name, files, target_paths.get(task.batch.name))] = actor, task
        if not (starting or running):
            raise StorageError(f"no worker on the Ray cluster can go on: {failure}")
        done = _await_one(ray, [*starting, *running], timeout)
        timeout = None
        actor, finished = running.pop(done[0]) if done[0] in running else (starting.pop(done[0]), None)
        alive, failure = _receive(ray, done[0], reading=finished is not None)
        if finished is None and not alive:
            # Calls fail until Ray has started the actor again, which takes its time on a busy machine.
            if time.monotonic() - lost.setdefault(actor, time.monotonic()) < _WAIT:
                time.sleep(_PAUSE)
                starting[actor.process.remote()] = actor
            continue
        lost.pop(actor, None)
        if finished and not failure and not is_batch(out / finished.batch.name):
            failure = f"a worker wrote the batch to {out}, but it is not there for this process; use a shared disk"
        failures[actor] = failures[actor] + 1 if failure else 0
        if failures[actor] < _TRIES:
            if alive:
                idle.append(actor)
            else:
                starting[actor.process.remote()] = actor  # once Ray has started it again
        if finished is None:
            continue
        if failure and finished.tries < _TRIES:
            waiting.append(_Task(finished.batch, finished.tries + 1))
            continue
        left -= 1
        if progress is not None:
            progress(finished.batch, finished.batch.files[-1].doc_id, finished.batch.bytes)
        yield finished.batch, failure


def _await_one(ray: Any, references: list[Any], timeout: float | None) -> list[Any]:
    """Wait until an actor has answered."""
    done: list[Any]
    done, _ = ray.wait(references, num_returns=1, timeout=timeout)
    if not done:
        raise UsageError(f"no worker has started on the Ray cluster in {_WAIT:.0f} seconds: are its cores taken?")
    return done


def _receive(ray: Any, reference: Any, *, reading: bool) -> tuple[bool, str]:
    """Return whether an actor is alive, and why it could not read a batch, or nothing."""
    try:
        answer = ray.get(reference)
    except ray.exceptions.RayError as error:
        why = first_line(getattr(error, "cause", None) or error)  # what was raised there, if anything was
        return False, f"the worker that read it died ({why}; is there enough memory?)"
    return True, answer if reading else ""
