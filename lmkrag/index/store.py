"""The index directory: its sole writer and its commit point.

    catalog.sqlite    the single source of truth, in WAL mode
    segments/         immutable files; one that the catalog does not name does not exist
    write.lock        held by the one writer

A batch writes a segment under a fresh name, fsyncs it, then one SQLite transaction records
documents, sentences and the segment. A crash at any instant leaves the state before; files that no
row names are collected by the next writer.
"""

import contextlib
import errno
import json
import os
import sqlite3
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Self

from lmkrag.errors import (
    REPAIR,
    IndexCorrupt,
    IndexLocked,
    IndexMismatch,
    IndexNotFound,
    StorageError,
    UsageError,
)
from lmkrag.index import catalog, catalog_segments
from lmkrag.index.columns import refresh_columns
from lmkrag.index.files import File, Tables, lock_index, write_tables
from lmkrag.index.live import LiveSegment, choose_groups, lay_runs, lay_sentences
from lmkrag.index.location import is_address
from lmkrag.index.pool import CATALOG, IndexReader, wrap_error
from lmkrag.index.segments import SegmentFile, merge_structures
from lmkrag.index.staged import Staged
from lmkrag.index.vectors.recipes import DEFAULT_RECIPE, build_recipe, choose_recipe, load_recipe
from lmkrag.index.vectors.vector_set import SUFFIX, Slices, check_factory, write_vectors
from lmkrag.index.words.postings import merge_postings
from lmkrag.index.working import complete_exchanges, remove_leftovers
from lmkrag.specs import EncoderSpec, Recipe
from lmkrag.system.files import FileStamp
from lmkrag.system.platform import sync
from lmkrag.system.processes import refuse_fork
from lmkrag.types import IndexStatus
from lmkrag.types.arrays import Vectors

_NEW_CATALOG = "catalog.new"
_CHOOSES = "chooses_encoder"  # in the catalog of an index whose encoder nobody named
_SHARDS = "shards.json"  # of an index that a development version divided into several
_ENDS = ("", "-wal", "-shm", "-journal")  # of the names of a catalog's files
_LEFTOVERS = {"segments", "write.lock", *(_NEW_CATALOG + end for end in _ENDS)}


class IndexStore:
    """An index directory. One process writes, inside :meth:`writing`; any number read.

    Attributes:
        path: the directory.
        place: the index as users name it, a directory or an address.
        encoder: the encoder that made the index.
        chooses_encoder: whether the first documents may choose another encoder by their language.
        recipe: how vectors are stored.
        reader: gives snapshots of the index.
    """

    def __init__(
        self, path: Path, encoder: EncoderSpec, recipe: Recipe, *, chooses_encoder: bool = False
    ) -> None:
        """Take an existing index; :meth:`open` and :meth:`create` are the usual ways to a store.

        Args:
            path: the directory.
            encoder: the encoder that made the index.
            recipe: how vectors are stored.
            chooses_encoder: whether the first documents may choose another encoder by their
                language.
        """
        self.path = path
        self.place: Path | str = path  # as users name it
        self.encoder = encoder
        self.chooses_encoder = chooses_encoder  # with its first documents
        self.recipe = recipe
        self.reader = IndexReader(path, encoder)
        self._writer = threading.Lock()
        self._process = os.getpid()

    @classmethod
    def create(
        cls,
        path: Path,
        *,
        encoder: EncoderSpec,
        recipe: str | Recipe | None = None,
        chooses_encoder: bool = False,
    ) -> Self:
        """Make an empty index in a new or empty directory.

        Args:
            path: the directory; created if it is missing.
            encoder: the encoder that will make the index.
            recipe: how vectors are stored: a recipe, its name, or a ``.toml`` file; None for
                ``auto``.
            chooses_encoder: whether the first documents may choose another encoder by their
                language, since the user named none.

        Raises:
            UsageError: the directory is not empty, or FAISS can't build the recipe.
            IndexLocked: another process is writing there.
            StorageError: nothing can be written there.
        """
        if path.exists() and (
            not path.is_dir() or not {entry.name for entry in path.iterdir()} <= _LEFTOVERS
        ):
            raise UsageError(f"{path}: not empty and not an index; choose another directory")
        chosen = recipe if isinstance(recipe, Recipe) else load_recipe(recipe or DEFAULT_RECIPE)
        check_factory(chosen, encoder.dimensions)
        store = cls(path, encoder, chosen, chooses_encoder=chooses_encoder)
        try:
            (path / "segments").mkdir(parents=True, exist_ok=True)
            with store.locked():
                if cls.exists(path):
                    raise UsageError(
                        f"{path}: another process has just made an index here; open it"
                    )
                store._create_catalog()
        except (OSError, sqlite3.Error) as error:
            raise StorageError(f"{path}: can't create an index here ({error})") from error
        return store

    def _create_catalog(self) -> None:
        """Write the catalog under another name and rename it: killed half-way, there is no index
        yet.
        """
        new = self.path / _NEW_CATALOG
        for end in _ENDS:
            Path(f"{new}{end}").unlink(missing_ok=True)
        recipe = json.dumps(asdict(self.recipe), sort_keys=True)
        meta = {"encoder": json.dumps(asdict(self.encoder)), "recipe": recipe}
        if self.chooses_encoder:
            meta[_CHOOSES] = "1"
        with contextlib.closing(catalog.connect(new, create=True)) as connection:
            catalog.create_schema(connection, meta)
        if Path(
            f"{new}-wal"
        ).exists():  # closing the catalog would have written it there, had there been room
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(new)
        new.rename(self.path / CATALOG)
        sync(self.path)

    @classmethod
    def open(cls, path: Path, *, recipe: Recipe | None = None) -> Self:
        """Open an index.

        Args:
            path: the directory.
            recipe: how new segments store their vectors; None for the index's own recipe.

        Raises:
            IndexNotFound: there is no index.
            IndexMismatch: its format is of another version of lmkrag.
            IndexCorrupt: its catalog can't be read.
            StorageError: the catalog can't be opened.
        """
        if not cls.exists(path):
            complete_exchanges(path)
        if not cls.exists(path):
            raise IndexNotFound(
                f"{path}: no index here; make one with: lmkrag index PATH --index {path}"
            )
        again = "index the sources again, elsewhere"
        if (path / _SHARDS).is_file():
            raise IndexMismatch(
                f"{path}: an index with shards, which lmkrag no longer reads: {again}"
            )
        # the encoder is what is to be read: a reader compares it only when another index takes this
        # one's place
        reader = IndexReader(path, EncoderSpec(name="", fingerprint="", dimensions=0))
        try:
            with reader.connection() as connection:
                meta = catalog.read_meta(connection)
                version = int(meta["format"])
                if version != catalog.FORMAT_VERSION:
                    newer = f"a newer lmkrag (this one reads {catalog.FORMAT_VERSION}): upgrade"
                    older = f"an older lmkrag: {again}"
                    writer = newer if version > catalog.FORMAT_VERSION else older
                    raise IndexMismatch(f"{path}: format {version} of {writer}")
                encoder = EncoderSpec(**json.loads(meta["encoder"]))
                recipe = recipe or build_recipe(json.loads(meta["recipe"]))
                return cls(path, encoder, recipe, chooses_encoder=_CHOOSES in meta)
        except sqlite3.OperationalError as error:
            raise wrap_error(path, error) from error
        except (sqlite3.Error, KeyError, ValueError, TypeError, IndexCorrupt) as error:
            raise IndexCorrupt(
                f"{path / CATALOG}: the catalog can't be read ({error}); {REPAIR}"
            ) from error
        finally:
            reader.close()

    def status(self) -> IndexStatus:
        """Return the counts and the settings of the index."""
        with self.reader.snapshot(segments=False) as snapshot:
            return catalog_segments.read_status(
                self.path, snapshot.connection, self.encoder, self.recipe
            )

    @staticmethod
    def exists(path: Path) -> bool:
        """Return whether there is an index at a path.

        An index with shards, which :meth:`open` refuses, counts.

        Raises:
            UsageError: the path is an address on Qdrant.
        """
        if is_address(path):
            raise UsageError(
                f"{path}: this is for directories; copy it to one: lmkrag index-tools "
                f"copy {path} DIR"
            )
        return (path / CATALOG).is_file() or (path / _SHARDS).is_file()

    def close(self) -> None:
        """Close the reader; snapshots that are held stay good."""
        self.reader.close()

    # Writing

    @contextlib.contextmanager
    def writing(self, *, job: str = "") -> Iterator[None]:
        """Be the one writer. What a killed writer left behind is collected first.

        So is the working folder of an interrupted job.

        Args:
            job: the name of the job that writes, which goes on with its own working folder; empty
                for none.

        Raises:
            IndexLocked: somebody is writing.
            IndexMismatch: an index of another encoder has taken this one's place.
            StorageError: writing failed, as on a full disk; what was committed before is kept.
        """
        with self.locked():
            try:
                # first: a full disk has no room for the catalog's log
                remove_leftovers(self.path, job=job)
                self.reader.check_encoder()
                self._collect_orphans()
                yield
            except sqlite3.DatabaseError as error:
                raise wrap_error(self.path, error) from error
            except OSError as error:
                reason = f"writing failed ({error}); what was committed before is kept"
                raise StorageError(f"{self.path}: {reason}") from error

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the writer's lock, which is not re-entrant.

        Raises:
            IndexLocked: another process, or another thread of this one, is writing.
            StorageError: the directory can't be written to.
        """
        refuse_fork(self._process, self.path)
        if not self._writer.acquire(blocking=False):
            raise IndexLocked(
                f"{self.path}: this program is already writing to this index; wait until "
                "that is done"
            )
        try:
            with lock_index(self.path):
                yield
        finally:
            self._writer.release()

    def change_encoder(self, encoder: EncoderSpec) -> None:
        """Record another encoder, inside :meth:`writing`, in an index without documents."""
        with self.transaction() as connection:
            catalog.write_encoder(connection, json.dumps(asdict(encoder)))
            catalog.next_generation(connection)
            self.encoder = self.reader.encoder = encoder

    def stage_segment(
        self, vectors: Sequence[Vectors], words: Tables, structure: Tables
    ) -> SegmentFile:
        """Write the files of a segment; it exists once :meth:`commit` names it.

        Args:
            vectors: arrays ``[n, dimensions]`` float32 of length one, in order.
            words: the tables of the same sentences' words.
            structure: the tables of their structure.

        Returns:
            The record of the segment for the commit.

        Raises:
            OSError: a file can't be written.
        """
        rows = sum(map(len, vectors))
        with self.reader.snapshot() as snapshot:
            recipe = choose_recipe(self.recipe, rows, of=snapshot.documents.sentences)
        return self._write(rows, lambda: vectors, lambda: words, lambda: structure, recipe)

    def commit(
        self,
        staged: Sequence[Staged],
        segments: Sequence[SegmentFile] = (),
        *,
        removed: Iterable[str] = (),
    ) -> None:
        """Commit one batch, all or nothing.

        An old version of each document is replaced.

        Args:
            staged: new documents, in order.
            segments: staged segments, whose rows in order are the sentences of ``staged`` in order.
            removed: names of documents to remove, with what is attached to them.

        Raises:
            StorageError: a file of a segment is gone; nothing is committed.
            ValueError: the segments have more or fewer rows than there are sentences.
        """
        with self.transaction() as connection:
            for doc_id in removed:
                if row := catalog.find_row(connection, doc_id):
                    for gone in (*catalog.find_attachments(connection, row), row):
                        catalog.delete_document(connection, gone)
            for item in staged:
                if row := catalog.find_row(connection, item.document.doc_id):
                    catalog.delete_document(connection, row)
            ranges = [
                (catalog.insert_document(connection, item), len(item.sentences)) for item in staged
            ]
            for file, runs in lay_sentences(segments, ranges):
                catalog_segments.insert_segment(connection, file, runs)
            catalog.next_generation(connection)
            self.check_files(segments)

    def commit_removed(self, doc_ids: Iterable[str]) -> None:
        """Remove documents, with what is attached to them, in one commit; segments without live
        rows are deleted.
        """
        with self.reader.snapshot(segments=False) as snapshot:
            snapshot.check_rows()
        self.commit([], removed=doc_ids)
        with self.reader.snapshot() as snapshot:
            if dead := [live for live in snapshot.segments if not live.alive]:
                self._merge(dead, snapshot.documents.sentences)

    def note_files(
        self,
        *,
        touched: Iterable[tuple[int, FileStamp]] = (),
        skipped: Iterable[catalog.SkippedFile] = (),
        forgotten: Iterable[str] = (),
    ) -> None:
        """Record what is known of files that were not encoded, in one transaction.

        Args:
            touched: row ids of documents with the new stamps of their unchanged files.
            skipped: files that can't be indexed as they are.
            forgotten: paths of files that are skipped no more.
        """
        with self.transaction() as connection:
            for key, stamp in touched:
                catalog.touch_document(connection, key, stamp)
            catalog.write_skipped(connection, skipped, forgotten)

    def compact(self) -> None:
        """Rewrite all segments into one, by the recipe for its size, without the dead rows."""
        with self.reader.snapshot() as snapshot:
            merged = list(snapshot.segments)
            recipe = choose_recipe(self.recipe, snapshot.documents.sentences)
            if len(merged) == 1 and merged[0].whole and merged[0].segment.file.recipe == recipe:
                return
            self._merge(merged, snapshot.documents.sentences)
        with contextlib.closing(catalog.connect(self.path / CATALOG)) as connection:
            connection.execute("VACUUM")
            # while somebody reads, the log stays as it is
            connection.execute("PRAGMA busy_timeout = 0")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def merge_small(self) -> None:
        """Merge segments of one size if there are many (see
        :func:`lmkrag.index.live.choose_groups`).

        Exact segments are rewritten by the recipe once the index is too large for exact search.
        """
        while True:
            with self.reader.snapshot() as snapshot:
                segments, sentences = snapshot.segments, snapshot.documents.sentences
            exact = (live for live in segments if live.segment.file.recipe.name == "flat")
            outgrown = (
                [live]
                for live in exact
                if choose_recipe(self.recipe, live.alive, of=sentences).name != "flat"
            )
            groups = choose_groups(segments) or list(outgrown)
            if not groups:
                return
            for group in groups:
                self._merge(group, sentences)

    def _merge(self, merged: Sequence[LiveSegment], sentences: int) -> None:
        """Replace several segments by one, in one transaction; without live rows they are only
        deleted.
        """
        total = sum(live.alive for live in merged)
        written = []
        if total:
            file = self._write(
                total,
                lambda: (vectors for live in merged for vectors in live.segment.slices(live.rows)),
                lambda: merge_postings(
                    [(live.segment.postings, live.rows) for live in merged], self.path / "segments"
                ),
                lambda: merge_structures([(live.segment.structure, live.rows) for live in merged]),
                choose_recipe(self.recipe, total, of=sentences),
            )
            written.append(file)
        with self.transaction() as connection:
            for live in merged:
                catalog_segments.delete_segment(connection, live.segment.file.name)
            for file in written:
                catalog_segments.insert_segment(connection, file, lay_runs(merged))
            catalog.next_generation(connection)
            self.check_files(written)
        self._collect_orphans()

    def _write(
        self,
        rows: int,
        vectors: Slices,
        words: Callable[[], Tables],
        structure: Callable[[], Tables],
        recipe: Recipe,
    ) -> SegmentFile:
        """Write the files of a segment and make them durable, one in memory at a time.

        Args:
            rows: number of sentences.
            vectors: yields the vectors in order; called twice if the recipe learns from them.
            words: returns the tables of words.
            structure: returns the tables of structure.
            recipe: how the vectors are stored; a factory, not tiers.

        Returns:
            The record of the segment for the commit.
        """
        folder, name = self.path / "segments", uuid.uuid4().hex
        vectors_file = self._write_vectors(folder / (name + SUFFIX), vectors, rows, recipe)
        words_file = write_tables(folder / f"{name}.words", words())
        structure_file = write_tables(folder / f"{name}.structure", structure())
        sync(folder)
        return SegmentFile(name, rows, recipe, vectors_file, words_file, structure_file)

    def _write_vectors(self, path: Path, read: Slices, rows: int, recipe: Recipe) -> File:
        """Write the vectors of a segment; a store on Qdrant has them elsewhere."""
        return write_vectors(path, read, rows, self.encoder.dimensions, recipe)

    def find_lost_vectors(self) -> Iterator[str]:
        """Yield a line for each document whose vectors lie elsewhere and are lost; here all lie in
        segments.
        """
        yield from ()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Change the catalog inside :meth:`writing`: commit at the end of the block, roll back on
        an error.
        """
        with contextlib.closing(catalog.connect(self.path / CATALOG)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                refresh_columns(connection)
                connection.execute("COMMIT")
            except BaseException:
                # SQLite itself has rolled back where the disk is full
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def check_files(self, segments: Iterable[SegmentFile]) -> None:
        """Refuse to commit a segment whose files are gone.

        Raises:
            StorageError: a file is gone, or of another size.
        """
        for segment in segments:
            for name, file in segment.files.items():
                path = self.path / "segments" / name
                if not path.is_file() or path.stat().st_size != file.bytes:
                    raise StorageError(
                        f"{path}: gone before it was committed; what was committed before is kept"
                    )

    def _collect_orphans(self) -> None:
        """Remove files of segments that the catalog does not name."""
        with contextlib.closing(catalog.connect(self.path / CATALOG)) as connection:
            recorded = {
                name
                for file, _ in catalog_segments.read_segments(connection)
                for name in file.files
            }
        for path in (self.path / "segments").iterdir():
            if path.name not in recorded:
                path.unlink()
