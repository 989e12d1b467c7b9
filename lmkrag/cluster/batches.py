"""Batches: some files, encoded into a small whole index that another one adopts.

A batch is a folder that is named by what went into it: the names, places, sizes and times of its files, the encoder
and how it reads. So a batch that exists need not be made again, and a run that was interrupted goes on.

    a1b2c3.../catalog.sqlite, segments/     an ordinary index
    a1b2c3.../batch.json                    what became of its files; written last
"""

import contextlib
import hashlib
import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lmkrag.corpus.walk import Found, printable
from lmkrag.errors import IndexCorrupt, UsageError
from lmkrag.index import catalog
from lmkrag.index.files import sync
from lmkrag.index.pool import CATALOG
from lmkrag.index.shards import ShardedStore, shard_folders
from lmkrag.index.store import IndexStore
from lmkrag.ingest.ingest import encode_files
from lmkrag.ingest.report import EncodedFiles, Progress
from lmkrag.specs import EncoderSpec, Recipe
from lmkrag.system import FileStamp
from lmkrag.types import IndexReport, Skipped

if TYPE_CHECKING:  # torch takes seconds to import; who plans and adopts batches needs none of it
    from lmkrag.encoder.landmark import LandmarkEncoder

BATCH_BYTES = 4 << 20
"""Bytes of files in a batch; a larger file is a batch of its own."""

_RECORD = "batch.json"
_FORMAT = 1


class Batch(NamedTuple):
    """Files that are encoded together, and the name of the folder that this gives."""

    name: str
    files: tuple[Found, ...]

    @property
    def bytes(self) -> int:
        """The size of its files together."""
        return sum(file.stamp.size for file in self.files)


def plan_batches(files: Sequence[Found], encoder: EncoderSpec, recipe: Recipe | None, *, size: int) -> list[Batch]:
    """Group files, in their order, into batches of about ``size`` bytes."""
    batches: list[Batch] = []
    group: list[Found] = []
    grouped = 0  # bytes
    for file in files:
        if group and grouped + file.stamp.size > size:
            batches.append(_name_batch(group, encoder, recipe))
            group, grouped = [], 0
        group.append(file)
        grouped += file.stamp.size
    if group:
        batches.append(_name_batch(group, encoder, recipe))
    return batches


def _name_batch(files: Sequence[Found], encoder: EncoderSpec, recipe: Recipe | None) -> Batch:
    entries = [(file.doc_id, printable(str(file.path)), *file.stamp) for file in files]
    version = (_FORMAT, catalog.FORMAT_VERSION, encoder.fingerprint, recipe and recipe.name)
    name = hashlib.sha256(json.dumps([version, entries]).encode()).hexdigest()[:32]
    return Batch(name, tuple(files))


def encode_batch(
    batch: Batch,
    out: Path,
    encoder: "Callable[[], LandmarkEncoder]",
    spec: EncoderSpec,
    recipe: Recipe | None = None,
    *,
    target: IndexStore | None = None,
    progress: Progress | None = None,
) -> Path:
    """Encode the files of a batch, and return its folder in ``out``; one that is there already is left as it is.

    Args:
        batch: what to read.
        out: the folder of batches.
        encoder: gives the encoder; called only when there is something to encode.
        spec: of the encoder.
        recipe: how to store vectors; the default one without.
        target: the index that the batch is meant for: what it has of the files is not encoded again.
        progress: called as documents are encoded.

    Raises:
        StorageError: the batch can't be written.
    """
    folder = out / batch.name
    if is_batch(folder):
        return folder
    partial = out / f".{batch.name}.{os.getpid()}"
    shutil.rmtree(partial, ignore_errors=True)
    try:
        store = IndexStore.create(partial, encoder=spec, recipe=recipe)
        done = encode_files(store, encoder, batch.files, target=target, progress=progress)
        store.close()
        with contextlib.closing(catalog.connect(partial / CATALOG)) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")  # one file, which can be read where nobody may write
        _write_record(partial, done)
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
        sync(out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def _write_record(folder: Path, done: EncodedFiles) -> None:
    path = folder / _RECORD
    path.write_text(json.dumps({"format": _FORMAT, **asdict(done)}), "utf-8")
    sync(path)
    sync(folder)


def is_batch(folder: Path) -> bool:
    """Return whether a folder is a batch that is whole."""
    return (folder / _RECORD).is_file() and IndexStore.exists(folder)


def find_batches(path: Path) -> list[Path]:
    """Return the batches at ``path``: itself, or those in it.

    Raises:
        UsageError: there are none.
    """
    if ShardedStore.exists(path):
        return shard_folders(path)
    if is_batch(path) or IndexStore.exists(path):
        return [path]
    found = sorted(folder for folder in path.iterdir() if is_batch(folder)) if path.is_dir() else []
    if not found:
        raise UsageError(f"{path}: no batches here; make some with: lmkrag cluster encode PATH... --out {path}")
    return found


def read_record(folder: Path) -> EncodedFiles:
    """Return what became of the files of a batch; of an ordinary index, nothing but its documents.

    Raises:
        IndexCorrupt: its record can't be read.
    """
    if not is_batch(folder):
        return EncodedFiles(IndexReport(), [], [])
    try:
        record = json.loads((folder / _RECORD).read_bytes())
        skipped = tuple(Skipped(**one) for one in record["report"]["skipped"])
        report = IndexReport(**{**record["report"], "skipped": skipped})
        touched = [(key, FileStamp(*stamp)) for key, stamp in record["touched"]]
        return EncodedFiles(report, touched, record["removed"])
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise IndexCorrupt(
            f"{folder / _RECORD}: can't be read ({error}); remove the batch and encode it again"
        ) from error


def files_of(folder: Path) -> Iterator[tuple[str, FileStamp]]:
    """Yield the path and the stamp of the files that the documents of a batch were read from.

    Raises:
        IndexCorrupt: its catalog can't be read.
    """
    try:
        with contextlib.closing(catalog.connect(folder / CATALOG, immutable=True)) as connection:
            for row in catalog.all_documents(connection):
                if catalog.owner_of(row) is None:
                    yield row.path, FileStamp(row.size, row.mtime_ns)
    except sqlite3.Error as error:
        raise IndexCorrupt(f"{folder}: its catalog can't be read ({error})") from error
