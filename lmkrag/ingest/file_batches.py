"""Batches: some files, encoded into a small whole index that another one adopts.

A batch is a folder that is named by what went into it: the names, places, sizes and times of its files, their earlier
versions in the index it is meant for, and the encoder. One that exists is not encoded again.

    a1b2c3.../catalog.sqlite, segments/     an ordinary index
    a1b2c3.../batch.json                    what became of its other files; written last
"""

import contextlib
import hashlib
import json
import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from lmkrag.errors import StorageError
from lmkrag.index import catalog
from lmkrag.index.adopting import adopt_index
from lmkrag.index.catalog import DocumentRow
from lmkrag.index.files import sync
from lmkrag.index.pool import CATALOG
from lmkrag.index.store import IndexStore
from lmkrag.ingest.ingest import GetEncoder, encode_files
from lmkrag.ingest.report import Run
from lmkrag.ingest.walk import Found
from lmkrag.system import FileStamp, printable
from lmkrag.types import Skipped

_RECORD = "batch.json"
_TRIES = 3  # of a batch whose process dies


@dataclass(frozen=True, slots=True)
class FileBatch:
    """Files that are encoded together, ``bytes`` in all, and the name of the folder that this gives."""

    name: str
    files: tuple[Found, ...]
    bytes: int


def plan_batches(
    files: Sequence[Found], known: Mapping[str, DocumentRow], target: IndexStore, *, size: int
) -> list[FileBatch]:
    """Group files, in their order, into batches of at least ``size`` bytes; the last one may be smaller.

    Where a group ends depends on its own files only: without the files of some batches, the others are the same.
    ``known`` are the documents of ``target``, the index that the batches are meant for, by ``doc_id``.
    """
    batches: list[FileBatch] = []
    group: list[Found] = []
    grouped = 0  # bytes
    for position, file in enumerate(files, 1):
        group.append(file)
        grouped += file.stamp.size
        if grouped >= size or position == len(files):
            batches.append(FileBatch(_name_batch(group, known, target), tuple(group), grouped))
            group, grouped = [], 0
    return batches


def _name_batch(files: Sequence[Found], known: Mapping[str, DocumentRow], target: IndexStore) -> str:
    rows = [known.get(file.doc_id) for file in files]
    entries = [
        (file.doc_id, printable(str(file.path)), *file.stamp, row and row.id)
        for file, row in zip(files, rows, strict=True)
    ]
    described = json.dumps([catalog.FORMAT_VERSION, target.encoder.fingerprint, entries])
    return hashlib.sha256(described.encode()).hexdigest()[:32]


def is_batch(folder: Path) -> bool:
    """Return whether a folder is a batch that is whole."""
    return (folder / _RECORD).is_file()


def encode_batch(batch: FileBatch, out: Path, encoder: GetEncoder, target: IndexStore) -> None:
    """Encode the files of a batch into its folder in ``out``, unless it is there.

    Raises StorageError: the batch can't be written, or several processes have died of it.
    """
    if is_batch(out / batch.name):
        return
    if len(list(out.glob(f".{batch.name}.*"))) == _TRIES:
        raise StorageError(f"the process that read it died {_TRIES} times (is there enough memory?)")
    partial = out / f".{batch.name}.{uuid.uuid4().hex}"
    try:
        with contextlib.closing(IndexStore.create(partial, encoder=target.encoder)) as store:
            run = encode_files(store, encoder, batch.files, target=target)
        with contextlib.closing(catalog.connect(partial / CATALOG)) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")  # one file, which can be read where nobody may write
        skipped = [astuple(file) for file in run.skipped]
        record = {"unchanged": run.unchanged, "skipped": skipped, "touched": run.touched, "removed": run.removed}
        (partial / _RECORD).write_text(json.dumps(record), "utf-8")
        sync(partial / _RECORD)
        sync(partial)
        partial.rename(out / batch.name)
        sync(out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def adopt_batch(store: IndexStore, folder: Path, run: Run) -> None:
    """Put the documents of a batch into the index it was meant for, in one commit; count them in ``run``.

    Raises IndexCorrupt: the batch is damaged; nothing was taken.
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
