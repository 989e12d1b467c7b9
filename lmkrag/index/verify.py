"""Verify every file and row of an index."""

import contextlib
from collections.abc import Iterator

import numpy as np

from lmkrag.errors import IndexCorrupt, StorageError
from lmkrag.index import catalog, catalog_segments
from lmkrag.index.columns import find_wrong_columns, read_ranges
from lmkrag.index.ranges import clip_runs, sort_runs
from lmkrag.index.snapshot import Snapshot
from lmkrag.index.store import IndexStore

_TRIES = 20  # beside a writer that never rests


def find_problems(store: IndexStore) -> tuple[str, ...]:
    """Check every file and row of an index, and that each sentence has exactly one vector.

    Args:
        store: an open index. If a writer commits meanwhile, the check is repeated.

    Returns:
        The problems, one line each; an empty tuple if the index is intact.
    """
    for _ in range(_TRIES):
        before = after = -1
        try:
            with store.reader.snapshot(segments=False) as snapshot:
                before = catalog.generation(snapshot.connection)
                problems = tuple(_problems(store, snapshot))
        except StorageError as error:
            problems = (str(error),)
        with contextlib.suppress(StorageError), store.reader.snapshot(segments=False) as snapshot:
            after = catalog.generation(snapshot.connection)
        if not problems or before == after:
            break
    return problems


def _problems(store: IndexStore, snapshot: Snapshot) -> Iterator[str]:
    """Yield the problems of one state: of SQLite, segments, columns, documents and vectors
    elsewhere.
    """
    connection = snapshot.connection
    for (line,) in connection.execute("PRAGMA integrity_check(20)"):
        if line != "ok":
            yield f"catalog: {line}"
    catalog.read_meta(connection)
    documents = read_ranges(connection)
    parts = [np.zeros((0, 3), np.int64)]
    for file, runs in catalog_segments.read_segments(connection):
        try:
            store.reader.segment_type(store.path / "segments", file).check()
        except IndexCorrupt as error:
            yield str(error)
        if int(runs[:, 2].sum()) != file.rows or not np.array_equal(
            runs[:, 0], np.cumsum(runs[:, 2]) - runs[:, 2]
        ):
            yield f"segment {file.name}: its runs do not tile its {file.rows} rows"
        parts.append(runs)
    runs, owners = clip_runs(sort_runs(np.concatenate(parts)), documents.first, documents.stop)
    wrong = np.bincount(owners, runs[:, 2], len(documents.keys)) != documents.stop - documents.first
    twice = runs[1:, 1] < np.maximum.accumulate(runs[:, 1] + runs[:, 2])[:-1]
    wrong[owners[1:][twice]] = True
    incomplete = set(documents.keys[wrong].tolist())
    yield from find_wrong_columns(connection)
    for document in catalog.scan_documents(connection):
        if document.id in incomplete:
            yield f"document {document.doc_id!r}: not every sentence has exactly one vector"
        try:
            _, ends, _ = catalog.read_content(connection, document)
            catalog.read_windows(connection, document)
        except IndexCorrupt as error:
            yield str(error)
            continue
        if (np.diff(ends, prepend=0) <= 0).any() or document.length != (
            ends[-1] if len(ends) else 0
        ):
            yield f"document {document.doc_id!r}: its sentences do not tile its text"
    yield from store.find_lost_vectors()
