"""Look at a whole index: what it holds, and whether every file and row is what was written."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from lmkrag.arrays import Ids
from lmkrag.errors import IndexCorrupt, StorageError
from lmkrag.index import catalog
from lmkrag.index.catalog import DocumentRow
from lmkrag.index.codec import checksum_content
from lmkrag.index.segments import Segment
from lmkrag.index.shards import ShardedStore, Store
from lmkrag.index.snapshot import Snapshot
from lmkrag.index.store import IndexStore
from lmkrag.types import IndexStatus

_TRIES = 20  # beside a writer that never rests


def read_status(store: Store) -> IndexStatus:
    """Return what an index holds, without reading its vectors."""
    if not isinstance(store, ShardedStore):
        return _read_status(store)
    return combine_status(store.path, [_read_status(part) for part in store.shards])


def combine_status(path: Path, parts: Sequence[IndexStatus]) -> IndexStatus:
    """Return what shards hold together, those of the index at ``path``."""
    numbers = ("documents", "sentences", "characters", "dead", "segments", "bytes", "skipped")
    counts = {name: sum(getattr(part, name) for part in parts) for name in numbers}
    kinds = sum((Counter(part.kinds) for part in parts), Counter())
    roots = sum((Counter(part.roots) for part in parts), Counter())
    return replace(
        parts[0],
        **counts,
        path=str(path),
        changed=max(part.changed for part in parts),
        kinds=dict(sorted(kinds.items())),
        roots=dict(sorted(roots.items())),
        shards=len(parts),
    )


def _read_status(store: IndexStore) -> IndexStatus:
    with store.reader.snapshot(segments=False) as snapshot:
        documents = list(catalog.all_documents(snapshot.connection))
        segments = catalog.read_segments(snapshot.connection)
        version = int(catalog.read_meta(snapshot.connection)["format"])
        skipped = len(catalog.read_skipped(snapshot.connection))
    sentences = sum(row.sentences for row in documents)
    return IndexStatus(
        path=str(store.path),
        documents=len(documents),
        sentences=sentences,
        characters=sum(row.length for row in documents),
        dead=sum(file.rows for file, _ in segments) - sentences,
        segments=len(segments),
        bytes=sum(path.stat().st_size for path in store.path.rglob("*") if path.is_file()),
        recipe=store.recipe.name,
        encoder=store.encoder.name,
        fingerprint=store.encoder.fingerprint,
        dimensions=store.encoder.dimensions,
        version=version,
        skipped=skipped,
        changed=datetime.fromtimestamp(_changed_at(store), UTC).isoformat(timespec="seconds"),
        roots=dict(sorted(Counter(row.root for row in documents if row.root).items())),
        kinds=dict(sorted(Counter(row.kind for row in documents).items())),
    )


def _changed_at(store: IndexStore) -> float:
    """When the catalog was last written to: its log, where there is one, is written first."""
    return max(path.stat().st_mtime for path in store.path.glob("catalog.sqlite*") if not path.name.endswith("-shm"))


def find_problems(store: Store) -> tuple[str, ...]:
    """Check the catalog, each document against its checksum, each segment file, and that each sentence has a vector.

    Returns:
        One line per problem; empty when the index is whole.
    """
    if isinstance(store, ShardedStore):
        parts = enumerate(map(find_problems, store.shards))
        return tuple(f"shard {number}: {problem}" for number, problems in parts for problem in problems)
    for _ in range(_TRIES):
        before, problems = _find_problems(store)
        if not problems or before == _generation(store):
            break  # else a writer has removed files while they were being checked
    return problems


def _find_problems(store: IndexStore) -> tuple[int, tuple[str, ...]]:
    """The generation that was checked, and what is wrong with it."""
    generation = -1
    try:
        with store.reader.snapshot(segments=False) as snapshot:
            generation = catalog.generation(snapshot.connection)
            return generation, tuple(_problems(store, snapshot))
    except StorageError as error:
        return generation, (str(error),)


def _generation(store: IndexStore) -> int:
    try:
        with store.reader.snapshot(segments=False) as snapshot:
            return catalog.generation(snapshot.connection)
    except StorageError:
        return -1


def _problems(store: IndexStore, snapshot: Snapshot) -> Iterator[str]:
    connection = snapshot.connection
    for (line,) in connection.execute("PRAGMA integrity_check(20)"):
        if line != "ok":
            yield f"catalog: {line}"
    catalog.read_meta(connection)
    live = catalog.read_ranges(connection)
    covered = np.zeros(int(live.stop.max(initial=0)), np.int64)
    for file, runs in catalog.read_segments(connection):
        try:
            Segment(store.path / "segments", file)
        except IndexCorrupt as error:
            yield str(error)
        if int(runs[:, 2].sum()) != file.rows or not np.array_equal(runs[:, 0], np.cumsum(runs[:, 2]) - runs[:, 2]):
            yield f"segment {file.name}: its runs do not tile its {file.rows} rows"
        for _, sentence, count in runs[live.owners(runs[:, 1]) >= 0]:
            covered[sentence : sentence + count] += 1
    for document in catalog.all_documents(connection):
        yield from _document_problems(snapshot, document, covered)


def _document_problems(snapshot: Snapshot, row: DocumentRow, covered: Ids) -> Iterator[str]:
    if (covered[row.first_sentence : row.first_sentence + row.sentences] != 1).any():
        yield f"document {row.doc_id!r}: not every sentence has exactly one vector"
    try:
        borders = catalog.read_borders(snapshot.connection, row, 0, row.sentences)
        text = catalog.read_text(snapshot.connection, row, 0, row.length)
        catalog.read_windows(snapshot.connection, row)
    except IndexCorrupt as error:
        yield str(error)
        return
    if borders[0] != 0 or borders[-1] != row.length or (np.diff(borders) <= 0).any():
        yield f"document {row.doc_id!r}: its sentences do not tile its text"
    if checksum_content(row.doc_id, text, borders[1:]) != row.content_checksum:
        yield f"document {row.doc_id!r}: its checksum is wrong"
