"""Put the documents of an index into another; nothing is encoded.

``copy_documents`` copies them between indexes of any kind, in several commits; ``adopt_index``
links the segments of a directory in one commit.
"""

import contextlib
import os
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from lmkrag.errors import IndexCorrupt, IndexMismatch
from lmkrag.index import catalog, catalog_segments
from lmkrag.index.files import MappedFile, Tables
from lmkrag.index.ranges import clip_runs, join_runs
from lmkrag.index.segments import SegmentFile
from lmkrag.index.snapshot import Snapshot
from lmkrag.index.staged import Staged
from lmkrag.index.store import IndexStore
from lmkrag.index.words.postings import PostingsBuilder
from lmkrag.sentences.languages import document_language
from lmkrag.sentences.split import with_contexts
from lmkrag.sentences.structure import ParagraphTracker, StructureTable
from lmkrag.specs import CODE, SENTENCE_KINDS, Sentence
from lmkrag.system.platform import sync
from lmkrag.types import IndexReport

_BATCH = 16_384  # sentences of a commit: what a killed copy has to repeat


def copy_documents(old: IndexStore, new: IndexStore) -> IndexReport:
    """Copy documents with their vectors into another index.

    Documents that ``new`` has in the same version are left, and others of its own stay. A killed
    copy goes on where it was.

    Args:
        old: the index that is read.
        new: the index that is written.

    Returns:
        The counts of documents added, updated and unchanged in ``new``.

    Raises:
        IndexMismatch: another encoder made one of the indexes.
        IndexCorrupt: a document of ``old`` is damaged; those before it are copied.
        IndexLocked: another process is writing to ``new``.
    """
    if new.encoder.fingerprint != old.encoder.fingerprint:
        raise IndexMismatch(
            f"{new.place}: made with {new.encoder.name!r}, {old.place} with {old.encoder.name!r}"
        )
    with new.writing(), old.reader.snapshot() as snapshot:
        with new.reader.snapshot(segments=False) as there:
            known = {
                row.doc_id: (row.fingerprint, row.content_checksum) for row in there.all_documents()
            }
        documents = list(snapshot.all_documents())
        rows = [
            row
            for row in documents
            if known.get(row.doc_id) != (row.fingerprint, row.content_checksum)
        ]
        for part in _divide(rows):
            staged = [catalog.read_stored(snapshot.connection, row) for row in part]
            vectors = [
                snapshot.read_vectors(row.first_sentence + np.arange(row.sentences)) for row in part
            ]
            new.commit(staged, [new.stage_segment(vectors, *build_tables(staged))])
            new.merge_small()
    updated = sum(row.doc_id in known for row in rows)
    return _report(rows, updated, unchanged=len(documents) - len(rows))


def _report(rows: Sequence[catalog.DocumentRow], updated: int, **more: Any) -> IndexReport:
    """Return the report of copied documents, of which some were updated."""
    sentences, characters = sum(row.sentences for row in rows), sum(row.length for row in rows)
    return IndexReport(
        len(rows) - updated, updated, sentences=sentences, characters=characters, **more
    )


def _divide(rows: list[catalog.DocumentRow]) -> Iterator[list[catalog.DocumentRow]]:
    """Yield consecutive documents in groups of at least 16,384 sentences; the last one may be
    smaller.
    """
    first = sentences = 0
    for stop, row in enumerate(rows, 1):
        sentences += row.sentences
        if sentences >= _BATCH or stop == len(rows):
            yield rows[first:stop]
            first, sentences = stop, 0


def build_tables(documents: Sequence[Staged]) -> tuple[Tables, Tables]:
    """Return the words and the structure of documents, laid end to end.

    Args:
        documents: the documents of a segment, in order.

    Returns:
        The tables of the ``.words`` and of the ``.structure`` file, a row for each sentence.
    """
    words, structure = PostingsBuilder(), StructureTable()
    for staged in documents:
        kinds = [SENTENCE_KINDS[kind] for kind in staged.sentences.kinds.tolist()]
        borders = pairwise([0, *staged.sentences.ends.tolist()])
        sentences = [
            Sentence(start, end, kind) for (start, end), kind in zip(borders, kinds, strict=True)
        ]
        texts = [
            sentence.read(staged.text)
            for sentence in with_contexts(staged.text, sentences, staged.document.kind)
        ]
        document = staged.document
        title = "" if document.kind == CODE else document.title
        words.add(texts, document_language(staged.text, document.kind), title)
        structure.add(
            ((staged.text[s.start : s.end], s.kind) for s in sentences),
            ParagraphTracker(document.kind),
        )
    return words.take(len(words)), structure.take(len(structure))


def adopt_index(store: IndexStore, folder: Path) -> IndexReport:
    """Put the documents of another index into this one, inside :meth:`IndexStore.writing`, in one
    commit.

    A document replaces the one here of the same ``doc_id``; an attachment that the new version no
    longer has is removed. Every file and value of the other index is compared with its checksum.

    Args:
        store: the index that adopts.
        folder: the directory of the other index, on the same file system. Nothing was ever removed
            from it; the files of its segments are linked under fresh names.

    Returns:
        The counts of documents added, updated and removed.

    Raises:
        IndexNotFound: ``folder`` is no index.
        IndexMismatch: another encoder made it.
        IndexCorrupt: it is damaged; nothing was taken.
    """
    with contextlib.closing(IndexStore.open(folder)) as other, other.reader.snapshot() as snapshot:
        if other.encoder.fingerprint != store.encoder.fingerprint:
            raise IndexMismatch(
                f"{folder}: made with encoder {other.encoder.name!r} "
                f"({other.encoder.fingerprint[:8]}), "
                f"this index with {store.encoder.name!r} ({store.encoder.fingerprint[:8]})"
            )
        rows = sorted(snapshot.all_documents(), key=lambda row: row.first_sentence)
        return _adopt(store, folder, snapshot, rows)


def _adopt(
    store: IndexStore, folder: Path, snapshot: Snapshot, rows: list[catalog.DocumentRow]
) -> IndexReport:
    """Link the segments of another index, and record its documents and segments in one
    transaction.
    """
    segments = catalog_segments.read_segments(snapshot.connection)
    if sum(file.rows for file, _ in segments) != snapshot.documents.sentences:
        raise IndexCorrupt(f"{folder}: its segments hold more than its documents")
    # Link the files first: until the commit no row names them.
    linked = [_link(store, folder, file) for file, _ in segments]
    sync(store.path / "segments")
    names = {row.doc_id for row in rows}
    updated = removed = 0
    with store.transaction() as connection:
        here: list[int] = []  # the first sentence that each document gets
        for row in rows:
            if old := catalog.find_row(connection, row.doc_id):
                gone = [
                    item
                    for item in catalog.find_attachments(connection, old)
                    if item.doc_id not in names
                ]
                for deleted in (*gone, old):
                    catalog.delete_document(connection, deleted)
                updated += 1
                removed += len(gone)
            here.append(
                catalog.insert_document(connection, catalog.read_stored(snapshot.connection, row))
            )
        # The rows of the segments are the sentences that the documents got here.
        for file, (_, runs) in zip(linked, segments, strict=True):
            parts, owners = clip_runs(runs, snapshot.documents.first, snapshot.documents.stop)
            parts[:, 1] += (np.array(here, np.int64) - snapshot.documents.first)[owners]
            catalog_segments.insert_segment(connection, file, join_runs(parts))
        catalog.write_skipped(connection, catalog.read_skipped(snapshot.connection).values(), ())
        catalog.next_generation(connection)
        store.check_files(linked)
    return _report(rows, updated, removed=removed)


def _link(store: IndexStore, other: Path, file: SegmentFile) -> SegmentFile:
    """Link the files of a segment under a fresh name, each compared with its checksum."""
    linked = replace(file, name=uuid.uuid4().hex)
    for (old, recorded), new in zip(file.files.items(), linked.files, strict=True):
        MappedFile(other / "segments" / old, recorded).read()
        os.link(other / "segments" / old, store.path / "segments" / new)
    return linked
