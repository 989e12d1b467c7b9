"""Save what is whole of a damaged index: copy it into a new one, and say what has to be read from its source again."""

import contextlib
import shutil
import sqlite3
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lmkrag.arrays import Ids, Vectors
from lmkrag.errors import REPAIR, IndexCorrupt
from lmkrag.index import catalog, catalog_segments
from lmkrag.index.catalog import DocumentRow
from lmkrag.index.catalog_texts import read_stored
from lmkrag.index.files import MappedFile, Tables, sync
from lmkrag.index.pool import CATALOG
from lmkrag.index.ranges import sort_runs
from lmkrag.index.snapshot import gather_vectors
from lmkrag.index.staged import Staged
from lmkrag.index.store import IndexStore, read_recorded
from lmkrag.index.vectors.vector_set import SUFFIX, VectorFile
from lmkrag.index.working import WorkingFolder
from lmkrag.specs import EncoderSpec, Recipe

ReadTables = Callable[[Sequence[Staged]], tuple[Tables, Tables]]  # the postings and the structure of documents
_BATCH = 65_536  # sentences copied at a time
_PAGES_OFFSET, _CHANGES_OFFSET, _VALID_FOR_OFFSET = 28, 24, 92  # in the header of a SQLite database


@dataclass(frozen=True, slots=True)
class Salvage:
    """What was saved: documents copied whole, rows of those that were not, and how many rows could not be read."""

    kept: int
    lost: tuple[DocumentRow, ...]
    unknown: int


def salvage_index(
    path: Path,
    work: WorkingFolder,
    read_tables: ReadTables,
    *,
    encoder: Callable[[], EncoderSpec] | None = None,
    recipe: str | None = None,
) -> Salvage:
    """Copy every whole document of a damaged index, which is locked, into a new index in a working folder.

    A document is whole when its row, text and sentences are what was written and a sound file has its vectors. Words
    and structure are read from the text again, so that their files may be damaged. ``encoder`` and ``recipe`` count
    only where the index can't say what it was made with.

    Raises IndexCorrupt: not even what the index was made with can be read, and it was not given.
    """
    work.remove()
    work.claim()
    work.new.mkdir()
    try:
        with contextlib.closing(catalog.connect(_readable_catalog(path / CATALOG, work.new))) as connection:
            chosen_recipe: Recipe | str | None
            try:
                spec, chosen_recipe = read_recorded(path, catalog.read_meta(connection))
            except (IndexCorrupt, sqlite3.Error, KeyError, ValueError, TypeError):
                if encoder is None:
                    message = f"{path / CATALOG}: the record of the encoder is damaged; {REPAIR} --encoder NAME"
                    raise IndexCorrupt(message) from None
                spec, chosen_recipe = encoder(), recipe
            for leftover in work.new.iterdir():
                leftover.unlink()  # the open connection still reads the copy
            created = IndexStore.create(work.new, encoder=spec, recipe=chosen_recipe)
            with contextlib.closing(created) as new, new.writing():
                return _copy(path, connection, new, read_tables)
    except BaseException as error:
        work.remove()
        if isinstance(error, sqlite3.DatabaseError):
            raise IndexCorrupt(
                f"{path / CATALOG}: the catalog can't be read ({error}), nor rebuilt: index the sources again"
            ) from error
        raise


def keep_damaged(work: WorkingFolder) -> Path | None:
    """Move the damaged index, once another has its place, out of the working folder; return where it is now."""
    if not work.old.exists():
        return None
    number = 0
    while (damaged := work.index.with_name(f"{work.index.name}.damaged{number or ''}")).exists():
        number += 1
    work.old.rename(damaged)
    sync(damaged.parent)
    work.remove()
    return damaged


def _readable_catalog(path: Path, work: Path) -> Path:
    """The catalog, or a copy of it in ``work`` whose first page, the header and the schema, is as it must have been."""
    try:
        with contextlib.closing(catalog.connect(path)) as connection:
            if connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'document'").fetchone()[0]:
                return path
    except sqlite3.DatabaseError:
        pass  # its first page is damaged
    fresh = work / "fresh.sqlite"
    with contextlib.closing(catalog.connect(fresh, create=True)) as connection:
        catalog.create_schema(connection, {"encoder": "", "recipe": ""})
    page = bytearray(fresh.read_bytes()[: catalog.PAGE_SIZE])
    size = path.stat().st_size
    struct.pack_into(">I", page, _PAGES_OFFSET, size // catalog.PAGE_SIZE)
    for offset in (_CHANGES_OFFSET, _VALID_FOR_OFFSET):  # equal, or SQLite does not believe the size
        struct.pack_into(">I", page, offset, 1)
    copy = work / "copy.sqlite"
    shutil.copyfile(path, copy)
    with copy.open("r+b") as file:
        file.write(page[:size])
    log = Path(f"{path}-wal")
    if log.exists():
        shutil.copyfile(log, f"{copy}-wal")
    return copy


def _copy(path: Path, connection: sqlite3.Connection, new: IndexStore, read_tables: ReadTables) -> Salvage:
    parts = list(_sound_parts(path, connection))
    rows, unknown = _rows(connection)
    kept: int = 0
    lost: list[DocumentRow] = []
    batch: list[tuple[Staged, Vectors]] = []
    for row in rows:
        whole = _read(connection, row, parts)
        if whole is None:
            lost.append(row)
            continue
        batch.append(whole)
        kept += 1
        if sum(len(vectors) for _, vectors in batch) >= _BATCH:
            _commit(new, batch, read_tables)
            batch = []
    if batch:
        _commit(new, batch, read_tables)
    new.merge_small()
    return Salvage(kept, tuple(lost), unknown)


def _sound_parts(path: Path, connection: sqlite3.Connection) -> Iterator[tuple[VectorFile, Ids]]:
    """Each set of vectors that can be opened, with its runs by sentence."""
    for key in catalog.row_keys(connection, "segment"):
        try:
            file, runs = catalog_segments.read_segments(connection, key)[0]
            mapped = MappedFile(path / "segments" / (file.name + SUFFIX), file.vectors)
            yield VectorFile(mapped, file.rows, file.recipe), sort_runs(runs)
        except (IndexCorrupt, sqlite3.Error, IndexError):
            continue


def _rows(connection: sqlite3.Connection) -> tuple[list[DocumentRow], int]:
    rows, unknown = [], 0
    for key in catalog.row_keys(connection, "document"):
        try:
            rows.append(catalog.read_documents(connection, [key])[key])
        except (IndexCorrupt, sqlite3.Error):
            unknown += 1
    return sorted(rows, key=lambda row: row.doc_id), unknown


def _read(
    connection: sqlite3.Connection, row: DocumentRow, parts: Sequence[tuple[VectorFile, Ids]]
) -> tuple[Staged, Vectors] | None:
    try:
        staged = read_stored(connection, row)
        vectors = gather_vectors(parts, np.arange(row.first_sentence, row.first_sentence + row.sentences))
    except (IndexCorrupt, sqlite3.Error):
        return None
    return None if vectors is None else (staged, vectors)


def _commit(store: IndexStore, batch: Sequence[tuple[Staged, Vectors]], read_tables: ReadTables) -> None:
    documents = [staged for staged, _ in batch]
    segment = store.stage_segment([vectors for _, vectors in batch], *read_tables(documents))
    store.commit(documents, [segment])
