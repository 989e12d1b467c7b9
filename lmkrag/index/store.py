"""The index directory: its sole writer, its commit point, and snapshots for readers.

    catalog.sqlite    the single source of truth, in WAL mode
    segments/         immutable FAISS files; one that the catalog does not name does not exist
    write.lock        held by the one writer

A batch writes a segment under a fresh name, fsyncs it, then one SQLite transaction records documents, sentences and
the segment. A crash at any instant leaves the state before; files that no row names are collected by the next writer.
"""

import contextlib
import json
import sqlite3
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from lmkrag.errors import IndexCorrupt, IndexLocked, IndexMismatch, IndexNotFound, StorageError, UsageError
from lmkrag.index import catalog
from lmkrag.index.catalog import DocumentRow, Ids, Living
from lmkrag.index.checks import sync
from lmkrag.index.merging import choose_groups, lay_runs, read_vectors, read_words
from lmkrag.index.recipes import DEFAULT_RECIPE, choose_recipe, load_recipe, recipe_from_json, recipe_to_json
from lmkrag.index.segments import Segment, SegmentFile, write_segment
from lmkrag.index.snapshot import LiveSegment, Snapshot
from lmkrag.index.staged import Staged
from lmkrag.index.vectors import Slices
from lmkrag.types import EncoderSpec, Recipe

CATALOG = "catalog.sqlite"
_NEW_CATALOG = "catalog.new"
_LEFTOVERS = {"segments", "write.lock", *(_NEW_CATALOG + end for end in ("", "-wal", "-shm", "-journal"))}
_NOTHING = Living(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64))
_UNREAD: tuple[int, Living, tuple[LiveSegment, ...]] = (-1, _NOTHING, ())

Vectors = NDArray[np.float32]


class IndexStore:
    """An index directory. Reading: any number of threads and processes. Writing: one, inside :meth:`writing`."""

    def __init__(self, path: Path, encoder: EncoderSpec, recipe: Recipe) -> None:
        """Take what :meth:`open` or :meth:`create` found."""
        self.path = path
        self.encoder = encoder
        self.recipe = recipe
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._guard = threading.Lock()
        self._titles: dict[int, frozenset[int]] = {}
        self._segments: dict[str, Segment] = {}
        self._state = _UNREAD
        self._lock = FileLock(str(path / "write.lock"), timeout=0, is_singleton=False)

    @classmethod
    def create(cls, path: Path, *, encoder: EncoderSpec, recipe: str | Recipe | None = None) -> Self:
        """Make an empty index in a new or empty directory."""
        if path.exists() and (not path.is_dir() or not {entry.name for entry in path.iterdir()} <= _LEFTOVERS):
            raise UsageError(f"{path}: not empty and not an index; choose another directory")
        chosen = recipe if isinstance(recipe, Recipe) else load_recipe(recipe or DEFAULT_RECIPE)
        store = cls(path, encoder, chosen)
        try:
            (path / "segments").mkdir(parents=True, exist_ok=True)
            with store.locked():
                if cls.exists(path):
                    raise UsageError(f"{path}: another process has just made an index here; open it")
                store._create_catalog()
        except (OSError, sqlite3.Error) as error:
            raise StorageError(f"{path}: can't create an index here ({error})") from error
        return store

    def _create_catalog(self) -> None:
        """Write the catalog under another name and rename it: killed half-way, there is no index yet."""
        new = self.path / _NEW_CATALOG
        new.unlink(missing_ok=True)
        meta = {"encoder": json.dumps(asdict(self.encoder)), "recipe": recipe_to_json(self.recipe)}
        with contextlib.closing(catalog.connect(new, create=True)) as connection:
            catalog.create_schema(connection, meta)
        sync(new)
        new.rename(self.path / CATALOG)
        sync(self.path)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open an existing index.

        Raises:
            IndexNotFound: there is none. IndexMismatch: a newer lmkrag made it. IndexCorrupt: its catalog is damaged.
        """
        if not cls.exists(path):
            raise IndexNotFound(f"{path}: no index here; make one with: lmkrag index PATH --index {path}")
        try:
            with contextlib.closing(catalog.connect(path / CATALOG)) as connection:
                meta = catalog.read_meta(connection)
            version = int(meta["format"])
            if version > catalog.FORMAT_VERSION:
                raise IndexMismatch(
                    f"{path}: format {version} of a newer lmkrag (this one reads {catalog.FORMAT_VERSION}): upgrade"
                )
            if version < catalog.FORMAT_VERSION:
                raise IndexMismatch(f"{path}: format {version} of an older lmkrag: index the sources again, elsewhere")
            encoder = EncoderSpec(**json.loads(meta["encoder"]))
            return cls(path, encoder, recipe_from_json(meta["recipe"]))
        except sqlite3.OperationalError as error:
            raise _wrapped(path, error) from error
        except (sqlite3.Error, KeyError, ValueError, TypeError, IndexCorrupt) as error:
            raise IndexCorrupt(f"{path / CATALOG}: the catalog can't be read ({error}); run lmkrag repair") from error

    @staticmethod
    def exists(path: Path) -> bool:
        """Return whether there is an index at ``path``."""
        return (path / CATALOG).is_file()

    def close(self) -> None:
        """Close every connection and let go of every file."""
        with self._guard:
            self._segments.clear()
            self._state = _UNREAD
            for connection in self._connections:
                connection.close()
            self._connections.clear()
            self._local = threading.local()

    # Reading

    @contextlib.contextmanager
    def reading(self, *, vectors: bool = True) -> Iterator[Snapshot]:
        """Hold one committed state, whatever a writer does meanwhile; without its segments unless ``vectors``."""
        connection = self._connection()
        nested = connection.in_transaction
        try:
            if not nested:
                connection.execute("BEGIN")
            state = self._load_state(connection, nested) if vectors else (0, _NOTHING, ())
            yield Snapshot(connection, *state, self._titles)
        except sqlite3.DatabaseError as error:
            raise _wrapped(self.path, error) from error
        finally:
            if not nested and connection.in_transaction:
                connection.execute("ROLLBACK")

    def _load_state(self, connection: sqlite3.Connection, nested: bool) -> tuple[int, Living, tuple[LiveSegment, ...]]:
        while True:
            generation = catalog.generation(connection)
            if generation == self._state[0]:
                return self._state
            living = catalog.read_living(connection)
            try:
                live = tuple(
                    LiveSegment(self._segment(file), runs, living) for file, runs in catalog.read_segments(connection)
                )
            except IndexCorrupt:
                # A compaction may have replaced the file after this snapshot was taken: then there is a newer one.
                if nested:
                    raise
                connection.execute("ROLLBACK")
                connection.execute("BEGIN")
                if catalog.generation(connection) == generation:
                    raise
                continue
            if sum(part.alive for part in live) != living.sentences:
                raise IndexCorrupt(f"{self.path}: the segments do not hold each sentence once; run lmkrag repair")
            names = {part.segment.file.name for part in live}
            state = (generation, living, live)
            with self._guard:
                self._state = state
                self._segments = {name: segment for name, segment in self._segments.items() if name in names}
            return state

    def _segment(self, file: SegmentFile) -> Segment:
        segment = self._segments.get(file.name)
        if segment is None:
            segment = Segment(self.path / "segments", file)
            with self._guard:
                self._segments[file.name] = segment
        return segment

    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            try:
                connection = catalog.connect(self.path / CATALOG)
            except sqlite3.DatabaseError as error:
                raise _wrapped(self.path, error) from error
            self._local.connection = connection
            with self._guard:
                self._connections.append(connection)
        return connection

    # Writing

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Be the one writer; what a killed writer left behind is collected first.

        Raises:
            IndexLocked: another process is writing.
        """
        with self.locked():
            try:
                self._collect_orphans()
                yield
            except sqlite3.DatabaseError as error:
                raise _wrapped(self.path, error) from error
            except OSError as error:
                reason = f"writing failed ({error}); what was committed before is kept"
                raise StorageError(f"{self.path}: {reason}") from error

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the writer's lock.

        Raises:
            IndexLocked: another process is writing.
        """
        try:
            self._lock.acquire()
        except Timeout:
            raise IndexLocked(
                f"{self.path}: another process is writing to this index; try again when it is done"
            ) from None
        except OSError as error:
            raise StorageError(f"{self.path}: can't be written to ({error})") from error
        try:
            yield
        finally:
            self._lock.release()

    def stage_segment(self, vectors: Sequence[Vectors], tables: dict[str, NDArray[Any]]) -> SegmentFile:
        """Write vectors and words to a durable segment; it exists once :meth:`commit` names it.

        Args:
            vectors: each ``[n, dimensions]``, end to end.
            tables: of the same sentences, from :meth:`lmkrag.index.lexical.WordCounter.tables`.
        """
        rows = sum(map(len, vectors))
        return self._write(rows, lambda: vectors, lambda: tables, choose_recipe(self.recipe, rows))

    def commit(
        self,
        staged: Sequence[Staged],
        segments: Sequence[SegmentFile] = (),
        *,
        removed: Iterable[str] = (),
        touched: Iterable[tuple[int, tuple[int, int]]] = (),
    ) -> None:
        """Make one batch exist, all or nothing: the commit point.

        Args:
            staged: new or changed documents; an old version of each is replaced.
            segments: segment files, whose rows in order are the sentences of ``staged`` in order.
            removed: ``doc_id`` of documents to remove.
            touched: (document row id, new size and time) of unchanged files.
        """
        with self._transaction() as connection:
            for doc_id in [*removed, *(item.document.doc_id for item in staged)]:
                row = catalog.find_document(connection, doc_id)
                if row is not None:
                    catalog.delete_document(connection, row)
            for key, stat in touched:
                catalog.touch_document(connection, key, stat)
            ranges = [(catalog.insert_document(connection, item), len(item.sentences)) for item in staged]
            for file, runs in _lay_out(segments, ranges):
                catalog.insert_segment(connection, file, runs)

    def compact(self) -> None:
        """Rewrite all segments into one, under the recipe, without the dead rows."""
        with self.reading() as snapshot:
            merged = list(snapshot.segments)
            wanted = choose_recipe(self.recipe, snapshot.living.sentences)
            if len(merged) == 1 and merged[0].whole and merged[0].segment.file.recipe == wanted:
                return
            self._merge(merged, snapshot.living.sentences)
        with contextlib.closing(catalog.connect(self.path / CATALOG)) as connection:
            connection.execute("VACUUM")
            connection.execute("PRAGMA busy_timeout = 0")  # while somebody reads, the log stays as it is
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def merge_small(self) -> None:
        """Merge small segments when there are many, in bounded memory; :meth:`compact` makes one of all."""
        with self.reading() as snapshot:
            for group in choose_groups(snapshot.segments):
                self._merge(group, snapshot.living.sentences)

    def _merge(self, merged: Sequence[LiveSegment], sentences: int) -> None:
        """Put one segment in the place of several, in an index of so many sentences."""
        total = sum(live.alive for live in merged)
        written: list[tuple[SegmentFile, Ids]] = []
        if total:
            recipe = choose_recipe(self.recipe, total, of=sentences)
            file = self._write(total, lambda: read_vectors(merged), lambda: read_words(merged), recipe)
            written.append((file, lay_runs(merged)))
        with self._transaction() as connection:
            for live in merged:
                catalog.delete_segment(connection, live.segment.file.name)
            for file, file_runs in written:
                catalog.insert_segment(connection, file, file_runs)
        self._collect_orphans()

    def _write(
        self, rows: int, vectors: Slices, words: Callable[[], dict[str, NDArray[Any]]], recipe: Recipe
    ) -> SegmentFile:
        return write_segment(
            self.path / "segments",
            uuid.uuid4().hex,
            vectors,
            words,
            rows=rows,
            dimensions=self.encoder.dimensions,
            recipe=recipe,
        )

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with contextlib.closing(catalog.connect(self.path / CATALOG)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                catalog.next_generation(connection)
                connection.execute("COMMIT")
            except BaseException:
                connection.execute("ROLLBACK")
                raise

    def _collect_orphans(self) -> None:
        with contextlib.closing(catalog.connect(self.path / CATALOG)) as connection:
            known = {name for file, _ in catalog.read_segments(connection) for name in file.names}
        for path in (self.path / "segments").iterdir():
            if path.name not in known:
                path.unlink()

    def find(self, doc_id: str) -> DocumentRow | None:
        """Return the catalog's row of a document."""
        with self.reading(vectors=False) as snapshot:
            return catalog.find_document(snapshot.connection, doc_id)


def _lay_out(segments: Sequence[SegmentFile], ranges: Sequence[tuple[int, int]]) -> Iterator[tuple[SegmentFile, Ids]]:
    """Lay ranges of sentence ids, end to end, over the rows of segments, end to end: yield each segment's runs."""
    remaining = [(first, count) for first, count in ranges if count]
    remaining.reverse()
    for file in segments:
        runs, row = [], 0
        while row < file.rows:
            if not remaining:
                raise ValueError("more vectors than sentences were staged")
            first, count = remaining.pop()
            taken = min(count, file.rows - row)
            runs.append((row, first, taken))
            row += taken
            if taken < count:
                remaining.append((first + taken, count - taken))
        yield file, np.array(runs, np.int64).reshape(len(runs), 3)
    if remaining:
        raise ValueError("fewer vectors than sentences were staged")


def _wrapped(path: Path, error: sqlite3.DatabaseError) -> StorageError:
    if isinstance(error, sqlite3.OperationalError):
        return StorageError(f"{path}: the catalog can't be used ({error}); what was committed before is kept")
    return IndexCorrupt(f"{path / CATALOG}: the catalog is damaged ({error}); run lmkrag repair")
