"""Index by several processes: encode batches, adopt each as it is done."""

import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path

from lmkrag.cluster.batches import BATCH_BYTES, Batch, files_of, find_batches, is_batch, plan_batches, read_record
from lmkrag.cluster.processes import Outcome, Workers, encoding_batches
from lmkrag.cluster.processes import Progress as BatchProgress
from lmkrag.corpus.walk import Found, printable
from lmkrag.index.adopting import UNCHANGED, adopt_index
from lmkrag.index.catalog import DocumentRow
from lmkrag.index.opening import Store
from lmkrag.index.store import IndexStore
from lmkrag.index.working import WorkingFolder
from lmkrag.ingest.changes import find_changes
from lmkrag.ingest.report import EncodedFiles, Progress, Run
from lmkrag.ingest.sources import Encode, divide_files
from lmkrag.specs import EncoderSpec, Recipe
from lmkrag.types import IndexReport

_NOTHING = EncodedFiles(IndexReport(), [], [])

_BATCHES_PER_WORKER = 8  # at least: the last ones keep all processes busy
_ALONE = Workers()
_LEAST = 128 << 10  # bytes of a batch: in smaller ones the encoder reads too few windows together


def encode_by_workers(store: Store, workers: Workers) -> Encode:
    """Return what encodes changed files for :class:`lmkrag.ingest.sources.Files` in several processes.

    What they have encoded can be searched while the rest is encoded. Batches lie beside the index, in a working folder,
    until they are adopted; those that an interrupted run has left there are adopted by the next.

    Args:
        store: to write to.
        workers: who encodes.

    Raises:
        UsageError: something else has the working folder's name.
    """

    def encode(files: list[Found], run: Run) -> list[Found]:
        work = WorkingFolder(store.path, "workers")
        work.claim()
        left = _Adoption(store, work.new, run).encode(files, workers)
        work.remove()
        return left

    return encode


def _encoding(
    batches: Sequence[Batch],
    out: Path,
    spec: EncoderSpec,
    recipe: Recipe | None,
    workers: Workers,
    *,
    targets: Mapping[str, Path] | None = None,
    progress: BatchProgress | None = None,
) -> AbstractContextManager[Iterator[Outcome]]:
    """Have batches encoded on this machine, or on a cluster."""
    if workers.ray is None:
        return encoding_batches(batches, out, spec, recipe, workers=workers.count, targets=targets, progress=progress)
    from lmkrag.cluster.ray_encoding import encoding_batches_on_ray

    return encoding_batches_on_ray(
        batches,
        out,
        spec,
        recipe,
        address=workers.ray,
        workers=workers.count,
        gpus=workers.gpus,
        targets=targets,
        progress=progress,
    )


class _Adoption:
    """Batches on their way into an index."""

    def __init__(self, store: Store, out: Path, run: Run) -> None:
        self._store, self._out, self._run = store, out, run
        self._inside: dict[str, int] = {}  # bytes that are encoded, by batch
        self._guard = threading.Lock()

    def encode(self, files: list[Found], workers: Workers) -> list[Found]:
        """Encode files, and return them if there are too few."""
        files = self._adopt_leftovers(files)
        total = sum(file.stamp.size for file in files)
        size = max(_LEAST, min(BATCH_BYTES, total // (workers.count * _BATCHES_PER_WORKER)))
        homes: dict[str, int] = {}
        batches: list[Batch] = []
        for number, own in divide_files(self._store, files).items():
            planned = plan_batches(own, self._store.encoder, None, size=size)
            homes.update((batch.name, number) for batch in planned)
            batches += planned
        if len(batches) < 2:
            return files
        batches.sort(key=lambda batch: -batch.bytes)  # the long ones first, so that all processes end together
        with _encoding(
            batches,
            self._out,
            self._store.encoder,
            None,
            workers,
            targets={name: self._store.parts[number].path for name, number in homes.items()},
            progress=self._progress,
        ) as outcomes:
            for batch, failure in outcomes:
                with self._guard:
                    self._inside.pop(batch.name, None)
                if failure:
                    for file in batch.files:
                        self._run.skip(file.doc_id, failure, size=file.stamp.size)
                else:
                    folder = self._out / batch.name
                    self._adopt(folder, read_record(folder), batch.bytes, homes[batch.name])
        return []

    def _adopt(self, folder: Path, done: EncodedFiles, size: int, number: int) -> None:
        touched = [(self._store.to_global(number, key), stamp) for key, stamp in done.touched]
        adopted = adopt_index(self._store.parts[number], folder, link=True)
        self._run.adopted(replace(done, touched=touched), adopted, size)
        shutil.rmtree(folder)

    def _adopt_leftovers(self, files: list[Found]) -> list[Found]:
        """Adopt the batches of an interrupted run whose files are as they were; return the other files."""
        wanted = {printable(str(file.path)): file for file in files}
        for folder in sorted(self._out.glob("*")) if self._out.is_dir() else []:
            made_of = dict(files_of(folder)) if is_batch(folder) else {}
            same = [wanted[path] for path, stamp in made_of.items() if path in wanted and wanted[path].stamp == stamp]
            homes = list(divide_files(self._store, same))
            if made_of and len(same) == len(made_of) and len(homes) == 1:
                done = replace(read_record(folder), touched=[], removed=[])  # those are found anew
                self._adopt(folder, done, sum(file.stamp.size for file in same), homes[0])
                for file in same:
                    del wanted[printable(str(file.path))]
            else:
                shutil.rmtree(folder, ignore_errors=True)
        return list(wanted.values())

    def _progress(self, batch: Batch, doc_id: str, done: int) -> None:
        with self._guard:
            self._inside[batch.name] = done
            total = sum(self._inside.values())
        self._run.inside(doc_id, total)


def encode_sources(
    sources: Sequence[Path],
    out: Path,
    spec: EncoderSpec,
    recipe: Recipe | None = None,
    *,
    workers: Workers = _ALONE,
    batch_bytes: int = BATCH_BYTES,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    progress: Progress | None = None,
) -> IndexReport:
    """Encode files and directories into batches in ``out``; those that are there already are not made again.

    Args:
        sources: files and directories.
        out: the folder of batches.
        spec: of the encoder.
        recipe: how to store vectors; the default one without.
        workers: who encodes.
        batch_bytes: size of the files of a batch, about.
        include: globs; only files that match.
        exclude: globs; no files that match.
        progress: called as documents are encoded.

    Returns:
        Documents that were encoded now (``added``), and those of batches that were there (``unchanged``).

    Raises:
        UsageError: a source does not exist, or a glob can't be parsed. StorageError: a batch can't be written.
    """
    run = Run({}, progress)
    changes = find_changes(sources, {}, {}, include=include, exclude=exclude)
    run.skipped = changes.skipped
    batches = plan_batches(changes.to_read, spec, recipe, size=batch_bytes)
    missing = []
    for batch in batches:
        if is_batch(out / batch.name):
            done = read_record(out / batch.name).report
            run.unchanged += done.added
            run.skipped += done.skipped
        else:
            missing.append(batch)
    if not missing:
        return run.report()
    run.total = sum(batch.bytes for batch in missing)
    inside: dict[str, int] = {}

    def follow(batch: Batch, doc_id: str, done: int) -> None:
        inside[batch.name] = done
        run.inside(doc_id, sum(inside.copy().values()))

    with _encoding(missing, out, spec, recipe, workers, progress=follow) as outcomes:
        for batch, failure in outcomes:
            _count(run, batch, out, failure)
    return run.report()


def _count(run: Run, batch: Batch, out: Path, failure: str) -> None:
    if failure:
        for file in batch.files:
            run.skip(file.doc_id, failure)
        return
    done = read_record(out / batch.name).report
    run.added += done.added
    run.sentences += done.sentences
    run.characters += done.characters
    run.skipped += done.skipped


def adopt_batches(store: Store, folders: Sequence[Path]) -> IndexReport:
    """Adopt batches, or whole indexes, each in a commit of its own.

    A document whose ``doc_id`` belongs to another file here, or of which the index has a later version, is refused with
    a line; one that is here just so is left alone.

    Args:
        store: to write to.
        folders: batches, folders of batches, or indexes.

    Raises:
        UsageError: a folder holds no batch. IndexMismatch: another encoder made one. IndexCorrupt: one is damaged;
            those before it are adopted.
    """
    run = Run({})
    batches = [batch for folder in folders for batch in find_batches(folder)]
    with store.writing():
        for batch in batches:
            done = replace(read_record(batch), touched=[], removed=[])  # those are of the index it was meant for
            for number, part in enumerate(store.parts):
                wanted = partial(_belongs, store, number)
                run.adopted(done if number == 0 else _NOTHING, adopt_index(part, batch, _refuse, wanted=wanted), 0)
        for part in store.parts:
            part.drop_dead()
            part.merge_small()
    return run.report()


def _belongs(store: Store, number: int, row: DocumentRow) -> bool:
    return store.number_of(row.doc_id, row.meta) == number


def create_for(path: Path, folder: Path) -> None:
    """Make an empty index that can adopt a batch, of its encoder and recipe.

    Raises:
        UsageError: ``folder`` holds no batch.
    """
    first = IndexStore.open(find_batches(folder)[0])
    IndexStore.create(path, encoder=first.encoder, recipe=first.recipe).close()
    first.close()


def _refuse(new: DocumentRow, old: DocumentRow) -> str:
    if old.path != new.path:
        there = Path(old.path).exists() or not old.root
        return f"another document here has this doc_id ({old.path})" if there else ""
    if old.fingerprint == new.fingerprint:
        return UNCHANGED
    return "the index has a later version of it" if old.mtime_ns > new.mtime_ns else ""
