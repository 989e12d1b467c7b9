"""Take the documents of another index as they are: nothing is encoded, and one commit makes all of them exist."""

import os
import shutil
import sqlite3
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from lmkrag.arrays import Ids
from lmkrag.errors import IndexMismatch, UsageError
from lmkrag.index import catalog, catalog_segments
from lmkrag.index.catalog import DocumentRow
from lmkrag.index.files import sync
from lmkrag.index.segments import SegmentFile
from lmkrag.index.store import IndexStore
from lmkrag.index.stored import read_stored

Refusal = Callable[[DocumentRow, DocumentRow], str]
"""Why a document of the other index must not take the place of one here; empty if it may, or ``UNCHANGED``."""

UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Adopted:
    """What was taken: how many documents are new here, took another's place, or were here; (doc_id, reason) refused.

    ``removed`` counts attachments that their documents no longer have.
    """

    added: int
    updated: int
    unchanged: int
    removed: int
    refused: tuple[tuple[str, str], ...]
    sentences: int
    characters: int


def adopt_index(
    store: IndexStore,
    folder: Path,
    refuse: Refusal = lambda _new, _old: "",
    *,
    wanted: Callable[[DocumentRow], bool] = lambda _: True,
    link: bool = False,
) -> Adopted:
    """Put the documents of another index into this one, inside :meth:`IndexStore.writing`.

    Every file and value of the other index is compared with its checksum. Its segments get fresh names. An attachment
    that a document here has and its new version has not is removed.

    Args:
        store: to write to.
        folder: the other index, which is not changed.
        refuse: asked where a document of the same ``doc_id`` is here.
        wanted: which documents to take; the others are left where they are.
        link: share the files of segments instead of copying them, where the other index is about to be deleted.

    Raises:
        UsageError: ``folder`` is this index. IndexNotFound: it is none. IndexMismatch: another encoder made it.
        IndexCorrupt: it is damaged; nothing was taken.
    """
    if folder.resolve() == store.path.resolve():
        raise UsageError(f"{folder}: an index can't adopt itself")
    other = IndexStore.open(folder)
    try:
        if other.encoder.fingerprint != store.encoder.fingerprint:
            raise IndexMismatch(
                f"{folder}: made with encoder {other.encoder.name!r} ({other.encoder.fingerprint[:8]}), "
                f"this index with {store.encoder.name!r} ({store.encoder.fingerprint[:8]})"
            )
        with other.reader.snapshot() as snapshot:
            rows = sorted(filter(wanted, snapshot.all_documents()), key=lambda row: row.first_sentence)
            segments = [
                (_take(store, other.path, file, link=link), runs)
                for file, runs in (catalog_segments.read_segments(snapshot.connection) if rows else ())
            ]
            sync(store.path / "segments")
            with store.transaction() as connection:
                return _adopt(connection, snapshot.connection, rows, segments, refuse, store)
    finally:
        other.close()


def _take(store: IndexStore, other: Path, file: SegmentFile, *, link: bool) -> SegmentFile:
    """Copy or link the files of a segment under a fresh name."""
    taken = replace(file, name=uuid.uuid4().hex)
    old_folder, new_folder = other / "segments", store.path / "segments"
    for old, new in zip(file.files, taken.files, strict=True):
        source, target = old_folder / old, new_folder / new
        if link:
            os.link(source, target)
        else:
            shutil.copyfile(source, target)
            sync(target)
    return taken


def _adopt(
    connection: sqlite3.Connection,
    other: sqlite3.Connection,
    rows: list[DocumentRow],
    segments: list[tuple[SegmentFile, Ids]],
    refuse: Refusal,
    store: IndexStore,
) -> Adopted:
    """Write all of it into one transaction."""
    names = {row.doc_id for row in rows}
    firsts: dict[int, tuple[int, int, int]] = {}  # by its first sentence there: its sentences, and their first here
    refused: list[tuple[str, str]] = []
    updated = unchanged = removed = sentences = characters = 0
    for row in rows:
        old = catalog.find_document(connection, row.doc_id)
        if old is not None and (reason := refuse(row, old)):
            if reason == UNCHANGED:
                unchanged += 1
            else:
                refused.append((row.doc_id, reason))
            continue
        if old is not None:
            for attachment in catalog.find_attachments(connection, old):
                if attachment.doc_id not in names:
                    catalog.delete_document(connection, attachment)
                    removed += 1
            catalog.delete_document(connection, old)
            updated += 1
        staged = read_stored(other, row)
        firsts[row.first_sentence] = (row.first_sentence, row.sentences, catalog.insert_document(connection, staged))
        sentences += row.sentences
        characters += row.length
    for file, runs in segments:
        catalog_segments.insert_segment(connection, file, _renumber(connection, runs, list(firsts.values())))
    skipped = catalog.read_skipped(other)
    catalog.write_skipped(connection, skipped.values(), ())
    catalog.next_generation(connection)
    store.check_files([file for file, _ in segments])
    added = len(rows) - len(refused) - updated - unchanged
    return Adopted(added, updated, unchanged, removed, tuple(refused), sentences, characters)


def _renumber(connection: sqlite3.Connection, runs: Ids, documents: list[tuple[int, int, int]]) -> Ids:
    """The runs ``[n, 3]`` of a segment with the sentence ids of this index; sentences of no document get spare ones.

    ``documents`` are (first sentence there, sentences, first sentence here), by the first.
    """
    starts = np.array([first for first, _, _ in documents], np.int64)
    found: list[tuple[int, int, int]] = []
    for row, first, count in runs.tolist():
        while count:
            position = int(np.searchsorted(starts, first, side="right")) - 1
            there, length, here = documents[position] if position >= 0 else (0, 0, 0)
            if position >= 0 and first < there + length:
                taken = min(count, there + length - first)
                found.append((row, here + first - there, taken))
            else:
                following = documents[position + 1][0] if position + 1 < len(documents) else first + count
                taken = min(count, following - first)
                found.append((row, catalog.reserve_sentences(connection, taken), taken))
            row, first, count = row + taken, first + taken, count - taken
    return np.array(found, np.int64).reshape(-1, 3)
