"""Save what is whole of a damaged index: copy it into a new one, and say what has to be read from its source again."""

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from lmkrag.errors import IndexCorrupt
from lmkrag.index import catalog
from lmkrag.index.catalog import DocumentRow, Ids
from lmkrag.index.lexical import WordCounter
from lmkrag.index.paragraphs import ParagraphTracker
from lmkrag.index.snapshot import gather_vectors, sort_runs
from lmkrag.index.staged import SentenceTable, Staged, WindowTable
from lmkrag.index.store import CATALOG, IndexStore, Vectors
from lmkrag.index.vectors import VectorFile
from lmkrag.types import SENTENCE_KINDS, Document

_BATCH = 65_536  # sentences copied at a time


@dataclass(frozen=True, slots=True)
class Salvage:
    """What was found: documents copied whole, rows of those that were not, and how many rows could not be read."""

    kept: int
    lost: tuple[DocumentRow, ...]
    unknown: int


def salvage(old: IndexStore, new: IndexStore) -> Salvage:
    """Copy every whole document of ``old`` into ``new``, which is empty.

    A document is whole when its row, text and sentences are what was written and a sound file has its vectors. Words
    are counted anew, so a damaged words file loses nothing.
    """
    kept, lost = 0, []
    with contextlib.closing(catalog.connect(old.path / CATALOG)) as connection, new.writing():
        parts = list(_sound_parts(old, connection))
        rows, unknown = _rows(connection)
        batch: list[tuple[Staged, Vectors]] = []
        for row in rows:
            found = _read(connection, row, parts)
            if found is None:
                lost.append(row)
                continue
            batch.append(found)
            kept += 1
            if sum(len(vectors) for _, vectors in batch) >= _BATCH:
                _commit(new, batch)
                batch = []
        if batch:
            _commit(new, batch)
        new.merge_small()
    return Salvage(kept, tuple(lost), unknown)


def _sound_parts(store: IndexStore, connection: sqlite3.Connection) -> Iterator[tuple[VectorFile, Ids]]:
    """Each vector file that is what was written, with its runs by sentence."""
    for key in _keys(connection, "segment"):
        try:
            file, runs = catalog.read_segments(connection, key)[0]
            path = store.path / "segments" / file.names[0]
            yield VectorFile(path, file.vectors, file.rows, file.recipe), sort_runs(runs)
        except (IndexCorrupt, sqlite3.Error, IndexError):
            continue


def _rows(connection: sqlite3.Connection) -> tuple[list[DocumentRow], int]:
    rows, unknown = [], 0
    for key in _keys(connection, "document"):
        try:
            rows.append(catalog.read_documents(connection, [key])[key])
        except (IndexCorrupt, sqlite3.Error):
            unknown += 1
    return sorted(rows, key=lambda row: row.doc_id), unknown


def _keys(connection: sqlite3.Connection, table: str) -> list[int]:
    """The row ids of a table, from both ends: a broken page hides only what is on it."""
    found: set[int] = set()
    for order in ("ASC", "DESC"):
        with contextlib.suppress(sqlite3.Error):
            for (key,) in connection.execute(f"SELECT id FROM {table} NOT INDEXED ORDER BY id {order}"):
                found.add(int(key))
    return sorted(found)


def _read(
    connection: sqlite3.Connection, row: DocumentRow, parts: Sequence[tuple[VectorFile, Ids]]
) -> tuple[Staged, Vectors] | None:
    try:
        text = catalog.read_text(connection, row, 0, row.length)
        borders = catalog.read_borders(connection, row, 0, row.sentences)
        kinds = catalog.read_kinds(connection, row)
        marks, ordinals = catalog.read_windows(connection, row)
    except (IndexCorrupt, sqlite3.Error):
        return None
    vectors = gather_vectors(parts, np.arange(row.first_sentence, row.first_sentence + row.sentences))
    if vectors is None or catalog.checksum_document(row.doc_id, text, borders[1:]) != row.checksum:
        return None
    document = Document(
        row.doc_id, row.path, text, row.title, row.kind, row.page_starts, row.meta, fingerprint=row.fingerprint
    )
    sentences = SentenceTable(borders[1:].tolist(), kinds.tolist())
    windows = WindowTable(marks.tolist(), ordinals.tolist())
    return Staged(document, text, sentences, row.root, (row.size, row.mtime_ns), windows), vectors


def _commit(store: IndexStore, batch: Sequence[tuple[Staged, Vectors]]) -> None:
    words = WordCounter()
    for staged, _ in batch:
        borders = pairwise([0, *staged.sentences.ends.tolist()])
        kinds = [SENTENCE_KINDS[kind] for kind in staged.sentences.kinds.tolist()]
        texts = (staged.text[start:end] for start, end in borders)
        words.add(zip(texts, kinds, strict=True), ParagraphTracker())
    segment = store.stage_segment([vectors for _, vectors in batch], words.tables())
    store.commit([staged for staged, _ in batch], [segment])


def rebuild(path: Path) -> tuple[Salvage, Path]:
    """Put what is whole of a damaged index in its place; the damaged one is kept beside it.

    Returns:
        What was found, and where the damaged index is now.

    Raises:
        IndexCorrupt: not even what the index was made with can be read.
    """
    old = IndexStore.open(path)
    repaired, damaged = _beside(path, "repaired"), _beside(path, "damaged")
    with old.locked():
        new = IndexStore.create(repaired, encoder=old.encoder, recipe=old.recipe)
        found = salvage(old, new)
        new.close()
        old.close()
        path.rename(damaged)
        repaired.rename(path)
    return found, damaged


def _beside(path: Path, word: str) -> Path:
    """A name beside ``path`` that nothing has."""
    number = 0
    while (place := path.with_name(f"{path.name}.{word}{number or ''}")).exists():
        number += 1
    return place
