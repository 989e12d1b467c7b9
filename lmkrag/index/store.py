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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from lmkrag.errors import IndexCorrupt, IndexLocked, IndexMismatch, IndexNotFound, StorageError, UsageError
from lmkrag.index import catalog
from lmkrag.index.catalog import DocumentRow, Run
from lmkrag.index.recipes import DEFAULT_RECIPE, choose_recipe, load_recipe, recipe_from_json, recipe_to_json
from lmkrag.index.vectors import Segment, SegmentFile, build_segment, sync
from lmkrag.types import Document, EncoderSpec, Recipe, Sentence

_CATALOG = "catalog.sqlite"
_NEW_CATALOG = "catalog.new"
_LEFTOVERS = {"segments", "write.lock", *(_NEW_CATALOG + end for end in ("", "-wal", "-shm", "-journal"))}
_MAX_SEGMENTS = 8  # more are merged after an add: every search visits each

Vectors = NDArray[np.float32]
Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Staged:
    """A document ready to be committed: its sentences, and where it was read from."""

    document: Document
    sentences: Sequence[Sentence]
    root: str
    stat: tuple[int, int]


@dataclass(frozen=True)
class LiveSegment:
    """A segment in a snapshot: which of its rows are alive, and which sentences they are."""

    segment: Segment
    runs: tuple[Run, ...]

    @cached_property
    def rows(self) -> Ids:
        """The live rows, in order."""
        parts = [np.arange(row, row + count) for row, _, count in self.runs]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    @cached_property
    def sentences(self) -> Ids:
        """``[rows of the file]``: the sentence of each row, -1 where it is dead."""
        ids = np.full(self.segment.file.rows, -1, np.int64)
        for row, sentence, count in self.runs:
            ids[row : row + count] = np.arange(sentence, sentence + count)
        return ids

    @property
    def whole(self) -> bool:
        """True when no row is dead."""
        return sum(count for _, _, count in self.runs) == self.segment.file.rows


@dataclass(frozen=True)
class Snapshot:
    """One committed state of the index, for as long as the reader holds it."""

    connection: sqlite3.Connection
    generation: int
    segments: tuple[LiveSegment, ...]

    def search_dense(self, queries: Vectors, top: int, allowed: Ids | None = None) -> tuple[Vectors, Ids]:
        """Find the sentences nearest to each query by inner product.

        Args:
            queries: ``[n, dimensions]`` float32 of length one.
            top: how many sentences a query.
            allowed: ``[m, 2]`` ranges of sentence ids ``[first, stop)`` to search in, sorted; None for all.

        Returns:
            Scores ``[n, k]`` and sentence ids ``[n, k]`` with ``k <= top``, best first, ties by id; id -1 where there
            are no more.
        """
        scores = [np.zeros((len(queries), 0), np.float32)]
        ids = [np.zeros((len(queries), 0), np.int64)]
        for live in self.segments:
            alive = None if live.whole else live.sentences >= 0
            if allowed is not None:
                inside = _inside(live.sentences, allowed)
                alive = inside if alive is None else alive & inside
            if alive is not None and not alive.any():
                continue
            found, rows = live.segment.search(queries, top, alive)
            scores.append(np.where(rows >= 0, found, -np.inf))
            ids.append(np.where(rows >= 0, live.sentences[rows], -1))
        all_scores, all_ids = np.concatenate(scores, axis=1), np.concatenate(ids, axis=1)
        order = np.lexsort((all_ids, -all_scores), axis=1)[:, :top]
        return np.take_along_axis(all_scores, order, 1), np.take_along_axis(all_ids, order, 1)

    def read_vectors(self, sentences: Ids) -> Vectors:
        """Return the stored vectors ``[len(sentences), dimensions]`` of some sentences."""
        vectors: Vectors | None = None
        for live in self.segments:
            if not live.runs:
                continue
            starts = np.array(sorted((sentence, row, count) for row, sentence, count in live.runs))
            run = np.searchsorted(starts[:, 0], sentences, side="right") - 1
            offset = sentences - starts[run, 0]
            mine = (run >= 0) & (offset < starts[run, 2])
            if not mine.any():
                continue
            found = live.segment.read(starts[run[mine], 1] + offset[mine])
            if vectors is None:
                vectors = np.zeros((len(sentences), found.shape[1]), np.float32)
            vectors[mine] = found
        if vectors is None:
            raise IndexCorrupt("no segment holds the sentences asked for; run lmkrag verify")
        return vectors


def _inside(ids: Ids, ranges: Ids) -> NDArray[np.bool_]:
    if not len(ranges):
        return np.zeros(len(ids), bool)
    position = np.searchsorted(ranges[:, 0], ids, side="right") - 1
    inside: NDArray[np.bool_] = (position >= 0) & (ids < ranges[position, 1])
    return inside


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
        self._segments: dict[str, Segment] = {}
        self._live: tuple[int, tuple[LiveSegment, ...]] = (-1, ())
        self._lock = FileLock(str(path / "write.lock"), timeout=0, is_singleton=False)

    @classmethod
    def create(cls, path: Path, *, encoder: EncoderSpec, recipe: str | None = None) -> Self:
        """Make an empty index in a new or empty directory."""
        if path.exists() and (not path.is_dir() or not {entry.name for entry in path.iterdir()} <= _LEFTOVERS):
            raise UsageError(f"{path}: not empty and not an index; choose another directory")
        chosen = load_recipe(recipe or DEFAULT_RECIPE)
        store = cls(path, encoder, chosen)
        try:
            (path / "segments").mkdir(parents=True, exist_ok=True)
            with store._locked():
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
        new.rename(self.path / _CATALOG)
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
            with contextlib.closing(catalog.connect(path / _CATALOG)) as connection:
                meta = catalog.read_meta(connection)
            version = int(meta["format"])
            if version > catalog.FORMAT_VERSION:
                raise IndexMismatch(
                    f"{path}: format {version} of a newer lmkrag (this one reads {catalog.FORMAT_VERSION}): upgrade"
                )
            encoder = EncoderSpec(**json.loads(meta["encoder"]))
            return cls(path, encoder, recipe_from_json(meta["recipe"]))
        except (sqlite3.Error, KeyError, ValueError, TypeError) as error:
            raise IndexCorrupt(f"{path / _CATALOG}: the catalog can't be read ({error})") from error

    @staticmethod
    def exists(path: Path) -> bool:
        """Return whether there is an index at ``path``."""
        return (path / _CATALOG).is_file()

    def close(self) -> None:
        """Close every connection."""
        with self._guard:
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
            generation, segments = self._load_segments(connection, nested) if vectors else (0, ())
            yield Snapshot(connection, generation, segments)
        except sqlite3.DatabaseError as error:
            raise _wrapped(self.path, error) from error
        finally:
            if not nested and connection.in_transaction:
                connection.execute("ROLLBACK")

    def _load_segments(self, connection: sqlite3.Connection, nested: bool) -> tuple[int, tuple[LiveSegment, ...]]:
        while True:
            generation = catalog.generation(connection)
            if generation == self._live[0]:
                return self._live
            try:
                live = tuple(
                    LiveSegment(self._segment(file), tuple(runs)) for file, runs in catalog.read_segments(connection)
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
            names = {part.segment.file.name for part in live}
            with self._guard:
                self._live = (generation, live)
                self._segments = {name: segment for name, segment in self._segments.items() if name in names}
            return generation, live

    def _segment(self, file: SegmentFile) -> Segment:
        segment = self._segments.get(file.name)
        if segment is None:
            segment = Segment(self.path / "segments" / file.name, file)
            with self._guard:
                self._segments[file.name] = segment
        return segment

    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = catalog.connect(self.path / _CATALOG)
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
        with self._locked():
            try:
                self._collect_orphans()
                yield
            except sqlite3.DatabaseError as error:
                raise _wrapped(self.path, error) from error
            except OSError as error:
                reason = f"writing failed ({error}); what was committed before is kept"
                raise StorageError(f"{self.path}: {reason}") from error

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
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

    def stage_segment(self, vectors: Vectors) -> SegmentFile:
        """Write vectors to a durable segment file; it exists once :meth:`commit` names it."""
        recipe = choose_recipe(self.recipe, len(vectors))
        return self._build(iter([vectors]), len(vectors), recipe)

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
            ranges = [
                (
                    catalog.insert_document(connection, item.document, item.sentences, item.root, item.stat),
                    len(item.sentences),
                )
                for item in staged
            ]
            for file, runs in _spread(segments, ranges):
                catalog.insert_segment(connection, file, runs)

    def compact(self) -> None:
        """Rewrite all segments into one, under the recipe, without the dead rows."""
        with self.reading() as snapshot:
            merged = list(snapshot.segments)
            total = catalog.count_sentences(snapshot.connection)
            wanted = choose_recipe(self.recipe, total)
            if len(merged) == 1 and merged[0].whole and merged[0].segment.file.recipe == wanted:
                return
            self._merge(merged)
        with contextlib.closing(catalog.connect(self.path / _CATALOG)) as connection:
            connection.execute("INSERT INTO lexical (lexical) VALUES ('optimize')")
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def merge_small(self) -> None:
        """Merge segments when there are many, leaving the largest alone while it outweighs the others."""
        with self.reading() as snapshot:
            if len(snapshot.segments) <= _MAX_SEGMENTS:
                return
            by_size = sorted(snapshot.segments, key=lambda live: len(live.rows))
            rest = sum(len(live.rows) for live in by_size[:-1])
            merged = by_size[:-1] if len(by_size[-1].rows) > 2 * rest else by_size
            self._merge(sorted(merged, key=lambda live: live.segment.file.name))

    def _merge(self, merged: Sequence[LiveSegment]) -> None:
        total = sum(len(live.rows) for live in merged)
        files: list[tuple[SegmentFile, list[Run]]] = []
        if total:
            slices = (vectors for live in merged for vectors in live.segment.slices(live.rows))
            runs, row = [], 0
            for live in merged:
                for _, sentence, count in live.runs:
                    runs.append((row, sentence, count))
                    row += count
            files.append((self._build(slices, total, choose_recipe(self.recipe, total)), runs))
        with self._transaction() as connection:
            for live in merged:
                catalog.delete_segment(connection, live.segment.file.name)
            for file, file_runs in files:
                catalog.insert_segment(connection, file, file_runs)
        self._collect_orphans()

    def _build(self, slices: Iterator[Vectors], rows: int, recipe: Recipe) -> SegmentFile:
        path = self.path / "segments" / f"{uuid.uuid4().hex}.faiss"
        return build_segment(path, slices, rows, self.encoder.dimensions, recipe)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with contextlib.closing(catalog.connect(self.path / _CATALOG)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                catalog.next_generation(connection)
                connection.execute("COMMIT")
            except BaseException:
                connection.execute("ROLLBACK")
                raise

    def _collect_orphans(self) -> None:
        with contextlib.closing(catalog.connect(self.path / _CATALOG)) as connection:
            known = {file.name for file, _ in catalog.read_segments(connection)}
        for path in (self.path / "segments").iterdir():
            if path.name not in known:
                path.unlink()

    def find(self, doc_id: str) -> DocumentRow | None:
        """Return the catalog's row of a document."""
        with self.reading(vectors=False) as snapshot:
            return catalog.find_document(snapshot.connection, doc_id)


def _spread(
    segments: Sequence[SegmentFile], ranges: Sequence[tuple[int, int]]
) -> Iterator[tuple[SegmentFile, list[Run]]]:
    """Lay ranges of sentence ids, end to end, over the rows of segments, end to end."""
    remaining = [(first, count) for first, count in ranges if count]
    remaining.reverse()
    for file in segments:
        runs, row = [], 0
        while row < file.rows:
            first, count = remaining.pop()
            taken = min(count, file.rows - row)
            runs.append((row, first, taken))
            row += taken
            if taken < count:
                remaining.append((first + taken, count - taken))
        yield file, runs
    if remaining:
        raise ValueError("fewer vectors than sentences were staged")


def _wrapped(path: Path, error: sqlite3.DatabaseError) -> StorageError:
    if isinstance(error, sqlite3.OperationalError):
        return StorageError(f"{path}: the catalog can't be used ({error}); what was committed before is kept")
    return IndexCorrupt(f"{path / _CATALOG}: the catalog is damaged ({error}); run lmkrag verify")
