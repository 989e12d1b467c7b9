"""Take the documents of another index as they are: nothing is encoded, and one commit makes all of them exist."""

import os
import uuid
from dataclasses import replace
from pathlib import Path

import numpy as np

from lmkrag.errors import IndexCorrupt, IndexMismatch
from lmkrag.index import catalog, catalog_segments
from lmkrag.index.catalog import DocumentRow
from lmkrag.index.catalog_texts import read_stored
from lmkrag.index.files import MappedFile, sync
from lmkrag.index.ranges import clip_runs, join_runs
from lmkrag.index.segments import SegmentFile
from lmkrag.index.snapshot import Snapshot
from lmkrag.index.store import IndexStore
from lmkrag.types import IndexReport


def adopt_index(store: IndexStore, folder: Path) -> IndexReport:
    """Put the documents of another index into this one, inside :meth:`IndexStore.writing`; return their counts.

    A document replaces the one here of the same ``doc_id``; an attachment that the new version no longer has is
    removed. Every file and value of the other index is compared with its checksum. Nothing was ever removed from
    ``folder``, and it is on the same file system: the files of its segments are linked under fresh names.

    Raises IndexNotFound: ``folder`` is no index. IndexMismatch: another encoder made it. IndexCorrupt: it is damaged;
    nothing was taken.
    """
    other = IndexStore.open(folder)
    try:
        if other.encoder.fingerprint != store.encoder.fingerprint:
            raise IndexMismatch(
                f"{folder}: made with encoder {other.encoder.name!r} ({other.encoder.fingerprint[:8]}), "
                f"this index with {store.encoder.name!r} ({store.encoder.fingerprint[:8]})"
            )
        with other.reader.snapshot() as snapshot:
            rows = sorted(snapshot.all_documents(), key=lambda row: row.first_sentence)
            return _adopt(store, folder, snapshot, rows)
    finally:
        other.close()


def _adopt(store: IndexStore, folder: Path, snapshot: Snapshot, rows: list[DocumentRow]) -> IndexReport:
    segments = catalog_segments.read_segments(snapshot.connection)
    if sum(file.rows for file, _ in segments) != snapshot.documents.sentences:
        raise IndexCorrupt(f"{folder}: its segments hold more than its documents")
    linked = [_link(store, folder, file) for file, _ in segments]
    sync(store.path / "segments")
    names = {row.doc_id for row in rows}
    updated = removed = 0
    with store.transaction() as connection:
        here: list[int] = []  # the first sentence that each document gets
        for row in rows:
            old = catalog.find_document(connection, row.doc_id)
            if old is not None:
                gone = [item for item in catalog.find_attachments(connection, old) if item.doc_id not in names]
                for deleted in (*gone, old):
                    catalog.delete_document(connection, deleted)
                updated += 1
                removed += len(gone)
            here.append(catalog.insert_document(connection, read_stored(snapshot.connection, row)))
        for file, (_, runs) in zip(linked, segments, strict=True):
            parts, owners = clip_runs(runs, snapshot.documents.first, snapshot.documents.stop)
            parts[:, 1] += (np.array(here, np.int64) - snapshot.documents.first)[owners]
            catalog_segments.insert_segment(connection, file, join_runs(parts))
        catalog.write_skipped(connection, catalog.read_skipped(snapshot.connection).values(), ())
        catalog.next_generation(connection)
        store.check_files(linked)
    return IndexReport(
        added=len(rows) - updated,
        updated=updated,
        removed=removed,
        sentences=sum(row.sentences for row in rows),
        characters=sum(row.length for row in rows),
    )


def _link(store: IndexStore, other: Path, file: SegmentFile) -> SegmentFile:
    """Link the files of a segment under a fresh name, each compared with its checksum."""
    linked = replace(file, name=uuid.uuid4().hex)
    for (old, recorded), new in zip(file.files.items(), linked.files, strict=True):
        MappedFile(other / "segments" / old, recorded).read()
        os.link(other / "segments" / old, store.path / "segments" / new)
    return linked
