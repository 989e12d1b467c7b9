"""An index on Qdrant: vectors and a log of commits there, and a copy of all but the vectors here, made from the log.

The copy is an index directory in the user's cache, whose files name points of Qdrant where they would have vectors.
Whoever reads looks at the log twice a second at most, and writes what is new to the copy. Whoever writes uploads vectors
under fresh ids, brings the copy up to entry N, and inserts entry N + 1 unless somebody else has: that is the commit.
"""

import contextlib
import json
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from sqlite3 import Connection as Catalog
from typing import Any, NamedTuple, Self, cast

import numpy as np
from platformdirs import user_cache_path

from lmkrag.arrays import Vectors
from lmkrag.errors import IndexLocked, IndexMismatch, StorageError, UsageError
from lmkrag.index import catalog
from lmkrag.index.catalog import FORMAT_VERSION, SkippedFile
from lmkrag.index.files import File, Tables
from lmkrag.index.ranges import expand_ranges
from lmkrag.index.segments import SegmentFile
from lmkrag.index.staged import Staged
from lmkrag.index.store import IndexStore
from lmkrag.index.vectors.recipes import DEFAULT_RECIPE
from lmkrag.index.vectors.vector_set import Slices
from lmkrag.qdrant.connection import Address, Connection, in_parts
from lmkrag.qdrant.entries import Entry, UploadedRows
from lmkrag.qdrant.log import SESSION, Header, Log
from lmkrag.qdrant.points import write_points
from lmkrag.qdrant.snapshot import QdrantReader, QdrantSnapshot
from lmkrag.specs import EncoderSpec, Recipe
from lmkrag.system import FileStamp
from lmkrag.types import IndexStatus

_RECIPE = Recipe("qdrant", "points on Qdrant")
_ELSEWHERE = File(0, "")
_LATEST = 86_400.0  # seconds after the upload of vectors in which they may be committed
_OVER = 2 * _LATEST  # seconds after which vectors of no document are deleted
_PAUSE = 0.02  # seconds before another look whether another process has updated the copy
_VERIFIED = 1_000  # points looked for at once


class Position(NamedTuple):
    """How far a copy is in the log."""

    head: int
    token: str  # of that entry


class QdrantStore(IndexStore):
    """An index on Qdrant. State: the copy, and what this writer has uploaded and not committed."""

    def __init__(self, connection: Connection, folder: Path, settings: dict[str, Any], encoder: EncoderSpec) -> None:
        super().__init__(folder, encoder, _RECIPE, chooses_encoder=settings["chooses"])
        self.place = connection.address.text
        self.log = Log(connection)
        self.reader = QdrantReader(folder, encoder, connection, self.refresh)
        self._connection, self._identity = connection, settings["token"]
        self._encoder = encoder  # as it was when this writer began
        self._session, self._began, self._next_point = 0, 0.0, 0
        self._uploaded: dict[str, UploadedRows] = {}

    def renew_locks(self) -> None:
        """Begin with locks that no thread holds."""
        super().renew_locks()
        self._writing = threading.Lock()

    @classmethod
    def create(
        cls, path: Path, *, encoder: EncoderSpec, recipe: str | Recipe | None = None, chooses_encoder: bool = False
    ) -> Self:
        """Make an empty index, or open the one that another process has just made."""
        if (recipe.name if isinstance(recipe, Recipe) else recipe or DEFAULT_RECIPE) != DEFAULT_RECIPE:
            raise UsageError(f"recipe {recipe!r}: recipes are for directories; Qdrant keeps vectors in its own way")
        connection = Connection(Address.parse(str(path)))
        settings = {"token": uuid.uuid4().hex, "encoder": asdict(encoder), "chooses": chooses_encoder}
        Log(connection).create(encoder.dimensions, settings)
        connection.close()
        return cls.open(path)

    @classmethod
    def open(cls, path: Path, *, recipe: Recipe | None = None) -> Self:
        """Open an index by its address. Raises IndexNotFound, UsageError; StorageError: Qdrant, or the cache."""
        connection = Connection(Address.parse(str(path)))
        settings = Log(connection).read_settings()
        folder = user_cache_path("lmkrag", appauthor=False) / "qdrant" / f"{settings['token']}-{FORMAT_VERSION}"
        encoder = EncoderSpec(**settings["encoder"])
        try:
            folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            while not IndexStore.exists(folder):
                with contextlib.suppress(UsageError, IndexLocked):  # another process makes it
                    IndexStore.create(folder, encoder=encoder, recipe=_RECIPE).close()
        except OSError as error:
            raise StorageError(f"{folder}: can't be made ({error}); XDG_CACHE_HOME names another folder") from error
        with contextlib.closing(IndexStore.open(folder)) as copy:
            store = cls(connection, folder, settings, copy.encoder)
        store.refresh(wait=True)
        return store

    def close(self) -> None:
        """Close the copy and the connection."""
        super().close()
        self._connection.close()

    def status(self) -> IndexStatus:
        """Return what the index holds; its segments and bytes are those of the copy."""
        status, points = super().status(), self._connection.call("count", exact=False).count
        dead = max(0, points - status.sentences - self._read_position().head)
        return replace(status, path=self.place, dead=dead)

    # The copy

    def refresh(self, *, wait: bool = False) -> None:
        """Write what is new in the log to the copy; without ``wait``, leave that to another that is at it."""
        while self._read_news(self._read_position()):
            try:
                with super().writing():
                    self._replay()
                return
            except IndexLocked:
                if not wait:
                    return
                time.sleep(_PAUSE)

    def _read_position(self) -> Position:
        with self.reader.connection() as connection:
            stored = catalog.read_meta(connection).get("log")
        return Position(1, self._identity) if stored is None else Position(*json.loads(stored))

    def _read_news(self, position: Position) -> list[Header]:
        try:
            return self.log.read_after(*position)
        except StorageError as error:
            raise IndexMismatch(f"{error}: delete the copy {self.path} and open it again") from error

    def _replay(self) -> None:
        self._position = self._read_position()
        while news := self._read_news(self._position):
            for header in news:
                self._apply(header)
        super().merge_small()

    def _apply(self, header: Header) -> None:
        """Write an entry to the copy, in one transaction."""
        entry = self.log.read_entry(header)
        self._position = Position(header.number, header.token)
        if entry.encoder is not None:
            super().change_encoder(entry.encoder)
        elif entry.notes_files:
            with self.reader.snapshot(segments=False) as snapshot:
                rows = [(snapshot.find_document(doc_id), stamp) for doc_id, stamp in entry.touched]
            touched = [(row.id, stamp) for row, stamp in rows if row is not None]
            super().note_files(touched=touched, skipped=entry.skipped, forgotten=entry.forgotten)
        else:
            super().commit(entry.staged, [self._write_rows(part) for part in entry.segments], removed=entry.removed)

    def _write_rows(self, part: UploadedRows) -> SegmentFile:
        points = np.arange(part.first, part.first + part.rows)
        return self._write(part.rows, lambda: [points], lambda: part.words, lambda: part.structure, _RECIPE)

    def _write_vectors(self, path: Path, read: Slices, rows: int, recipe: Recipe) -> File:
        return write_points(path, read, rows)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Catalog]:
        """Change the copy, all or nothing, and record how far it is in the log."""
        with super().transaction() as connection:
            yield connection
            connection.execute("INSERT OR REPLACE INTO meta VALUES ('log', ?)", (json.dumps(self._position),))

    # Writing

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Be the one writer of this store; others may write at the same time. Raises IndexLocked."""
        if not self._writing.acquire(blocking=False):
            raise IndexLocked(f"{self.place}: this program is already writing to this index; wait until that is done")
        try:
            self.refresh(wait=True)
            self._encoder = self.encoder
            yield
        finally:
            self._session, self._uploaded = 0, {}
            self._writing.release()

    def stage_segment(self, vectors: Sequence[Vectors], words: Tables, structure: Tables) -> SegmentFile:
        """Upload vectors; they are part of the index once :meth:`commit` names the segment."""
        if not self._session:
            self._session, self._began = self._append(Entry()), time.time()
            self._next_point = self._session * SESSION
        rows, name = sum(map(len, vectors)), uuid.uuid4().hex
        self._uploaded[name] = UploadedRows(self._next_point, rows, words, structure)
        self.log.upload_vectors(self._next_point, vectors)
        self._next_point += rows
        return SegmentFile(name, rows, _RECIPE, _ELSEWHERE, _ELSEWHERE, _ELSEWHERE)

    def commit(
        self, staged: Sequence[Staged], segments: Sequence[SegmentFile] = (), *, removed: Iterable[str] = ()
    ) -> None:
        """Make one batch exist, all or nothing, on all machines: see :meth:`lmkrag.index.store.IndexStore.commit`."""
        self._append(Entry(staged, [self._uploaded.pop(segment.name) for segment in segments], list(removed)))
        self._session = 0

    def commit_removed(self, doc_ids: Iterable[str]) -> None:
        """Remove documents, with what is attached to them, in one step."""
        self.commit([], removed=doc_ids)

    def note_files(
        self,
        *,
        touched: Iterable[tuple[int, FileStamp]] = (),
        skipped: Iterable[SkippedFile] = (),
        forgotten: Iterable[str] = (),
    ) -> None:
        """Record stamps of unchanged files by document row id, files skipped, and paths that are skipped no more."""
        stamps = dict(touched)
        with self.reader.snapshot(segments=False) as snapshot:
            named = [(row.doc_id, stamps[row.id]) for row in snapshot.all_documents(among=stamps)]
        entry = Entry(touched=named, skipped=list(skipped), forgotten=list(forgotten))
        if entry.notes_files:
            self._append(entry)

    def change_encoder(self, encoder: EncoderSpec) -> None:
        """Record another encoder in an index without documents. Raises UsageError: its vectors have another size."""
        if encoder.dimensions != self.encoder.dimensions:
            raise UsageError(f"{self.place}: made for vectors of another size; name --encoder for a new index")
        self._append(Entry(encoder=encoder))
        self._encoder = encoder

    def merge_small(self) -> None:
        """Do nothing: segments of the copy are merged when it is brought up to date."""

    def _append(self, entry: Entry) -> int:
        """Commit an entry: insert it after all that are there; return its number."""
        token = uuid.uuid4().hex
        pieces, last = self.log.upload_pieces(self._session, entry.pack())
        while True:
            self.refresh(wait=True)
            if self.encoder != self._encoder:
                raise IndexMismatch(f"{self.place}: another writer has chosen another encoder; run it again")
            if self._session and time.time() - self._began > _LATEST:
                raise StorageError(f"{self.place}: vectors that wait for a day may be deleted; run it again")
            head = self._read_position().head
            if self.log.insert(head + 1, last, token=token, pieces=pieces):
                self.refresh(wait=True)
                return head + 1

    # Maintenance

    def compact(self) -> None:
        """Delete vectors that are of no document and were written two days ago; merge the copy."""
        with self.reader.snapshot() as snapshot:
            for points in self.log.scan_points():
                sentences = cast(QdrantSnapshot, snapshot).find_sentences(np.array(points, np.int64)).tolist()
                dead = [point for point, sentence in zip(points, sentences, strict=True) if sentence < 0]
                headers = self.log.read_headers({point // SESSION for point in dead})
                over = {header.number for header in headers if time.time() - header.time > _OVER}
                self.log.delete(point for point in dead if point // SESSION in over)
        with super().writing():
            self._position = self._read_position()
            super().compact()

    def find_lost_vectors(self) -> Iterator[str]:
        """Yield a line for each document of which Qdrant has lost vectors."""
        with self.reader.snapshot() as snapshot:
            first, stop = snapshot.documents.living
            lost: set[int] = set()
            for part in in_parts(expand_ranges(first, stop - first), _VERIFIED):
                points = cast(QdrantSnapshot, snapshot).find_points(sentences := np.array(part))
                records = self._connection.call("retrieve", points.tolist(), with_payload=False)
                gone = np.isin(points, [int(record.id) for record in records], invert=True)
                lost |= set(snapshot.documents.keys[snapshot.documents.owners(sentences[gone])].tolist())
            for row in snapshot.all_documents(among=lost):
                yield f"document {row.doc_id!r}: Qdrant has lost vectors of it; remove it and index its file again"
