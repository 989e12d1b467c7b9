"""An index on Qdrant: vectors and a log of commits there, and a local copy of everything else, made
from the log.

The copy is an index directory in the user's cache. A reader polls the log, twice a second at most,
and applies new entries to the copy. A writer uploads vectors under fresh ids, applies the log up to
entry N to the copy, and inserts entry N + 1 unless another writer has: that is the commit.
"""

import contextlib
import json
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
from qdrant_client import models

from lmkrag.errors import IndexLocked, IndexMismatch, StorageError, UsageError
from lmkrag.index import catalog
from lmkrag.index.files import File, Tables
from lmkrag.index.pool import IndexReader, wrap_error
from lmkrag.index.ranges import expand_ranges
from lmkrag.index.segments import SegmentFile
from lmkrag.index.staged import Staged
from lmkrag.index.store import IndexStore
from lmkrag.index.vectors.recipes import DEFAULT_RECIPE
from lmkrag.qdrant.connection import Connection, in_parts
from lmkrag.qdrant.log import SESSION, Entry, Header, Log, UploadedRows
from lmkrag.qdrant.snapshot import QdrantReader, QdrantSnapshot, write_points
from lmkrag.specs import EncoderSpec, Recipe
from lmkrag.system.cache import cache_path, make_private
from lmkrag.types import IndexStatus
from lmkrag.types.arrays import Vectors

_RECIPE = Recipe("qdrant", "points on Qdrant")
_ELSEWHERE = File(0, "")
_LATEST = 86_400.0  # seconds after their upload in which vectors may be committed
_OLD = 2 * _LATEST  # seconds after which unreferenced vectors are deleted
_PAUSE = 0.02  # seconds between two checks whether another process has updated the copy
_GRACE = 2.0  # seconds in which readers learn which documents are removed
_SCANNED = 4_096  # points per call
_PIECE = 4 << 20  # bytes of an entry in one point; a request has 32 MiB at most


class QdrantStore(IndexStore):
    """An index on Qdrant.

    State: the local copy, and the vectors that this writer has uploaded and not committed.

    Attributes:
        log: the log of commits.
    """

    def __init__(
        self, connection: Connection, folder: Path, settings: dict[str, Any], encoder: EncoderSpec
    ) -> None:
        """Take an existing index; :meth:`open` and :meth:`create` are the usual ways to a store.

        Args:
            connection: the connection to the server.
            folder: the directory of the local copy.
            settings: the payload of the log's first entry.
            encoder: the encoder of the index.
        """
        super().__init__(folder, encoder, _RECIPE, chooses_encoder=settings["chooses"])
        self.place: str = connection.text
        self.log = Log(connection, folder)
        self.reader = QdrantReader(folder, encoder, connection, self.refresh)
        self._connection, self._start = connection, json.dumps([1, settings["token"]])
        # ``position``: the entry that is being written to the copy
        self._replaying = threading.local()
        self._encoder = encoder  # as it was when this writer began
        self._session, self._began, self._next_point = 0, 0.0, 0
        self._uploaded: dict[str, UploadedRows] = {}
        self._writing = threading.Lock()

    @classmethod
    def create(
        cls,
        path: Path,
        *,
        encoder: EncoderSpec,
        recipe: str | Recipe | None = None,
        chooses_encoder: bool = False,
    ) -> Self:
        """Create an empty index, or open one that another process has just created.

        Args:
            path: the address of the index.
            encoder: the encoder that will make the index.
            recipe: must be None or ``auto``: Qdrant keeps vectors in its own way.
            chooses_encoder: whether the first documents may choose another encoder by their
                language.

        Raises:
            UsageError: ``recipe`` is another one, or the collection was not made by lmkrag.
            StorageError: the server can't be reached, or the cache can't be written to.
        """
        if (
            recipe.name if isinstance(recipe, Recipe) else recipe or DEFAULT_RECIPE
        ) != DEFAULT_RECIPE:
            raise UsageError(
                f"{path}: recipes are for directories; Qdrant keeps vectors in its own way"
            )
        connection = Connection(path)
        settings = {
            "token": uuid.uuid4().hex,
            "encoder": asdict(encoder),
            "chooses": chooses_encoder,
        }
        Log(connection).create(encoder.dimensions, settings)
        connection.close()
        return cls.open(path)

    @classmethod
    def open(cls, path: Path, *, recipe: Recipe | None = None) -> Self:
        """Open an index by its address; the local copy is brought up to date.

        Raises:
            IndexNotFound: there is no index.
            UsageError: it is no address, or the collection was not made by lmkrag.
            StorageError: the server can't be reached, or the cache can't be written to.
        """
        connection = Connection(path)
        settings = Log(connection).read_settings()
        folder = cache_path("qdrant", f"{settings['token']}-{catalog.FORMAT_VERSION}")
        while not IndexStore.exists(folder):
            try:
                make_private(folder)
                IndexStore.create(
                    folder, encoder=EncoderSpec(**settings["encoder"]), recipe=_RECIPE
                ).close()
            except OSError as error:
                raise StorageError(
                    f"{folder}: the cache can't be written to ({error.strerror or error})"
                ) from error
            except (
                UsageError,
                IndexLocked,
            ) as error:  # another process is creating it, or it is something else
                if isinstance(error, UsageError) and not IndexStore.exists(folder):
                    raise
        with contextlib.closing(IndexStore.open(folder)) as copy:
            store = cls(connection, folder, settings, copy.encoder)
        store.refresh(wait=True)
        return store

    def close(self) -> None:
        """Close the copy and the connection."""
        super().close()
        self._connection.close()

    def status(self) -> IndexStatus:
        """Return what the index holds; segments, bytes and skipped files are those of the copy."""
        status, points = super().status(), self._connection.call("count", exact=False).count
        return replace(
            status,
            path=self.place,
            dead=max(0, points - self._read_position()[0] - status.sentences),
        )

    def refresh(self, *, wait: bool = False) -> None:
        """Apply new entries of the log to the copy.

        Args:
            wait: whether to wait while another process does so; else it is left to that process.
        """
        while self.log.read_after(*self._read_position()):
            try:
                with super().writing():
                    while news := self.log.read_after(*self._read_position()):
                        for header in news:
                            self._apply(header)
                    super().merge_small()
            except IndexLocked:
                if not wait:
                    return
                time.sleep(_PAUSE)

    def _read_position(self) -> tuple[int, str]:
        """Return number and token of the last entry that was applied to the copy."""
        with IndexReader.snapshot(self.reader, segments=False) as snapshot:
            position = json.loads(catalog.read_meta(snapshot.connection).get("log", self._start))
        return position[0], position[1]

    def _apply(self, header: Header) -> None:
        """Write an entry to the copy, in one transaction."""
        entry = Entry() if header.pieces is None else Entry.unpack(self.log.read_data(header))
        self._replaying.position = header[:2]
        try:
            if entry.encoder is not None:
                super().change_encoder(entry.encoder)
            else:
                super().commit(
                    entry.staged, [*map(self._write_rows, entry.segments)], removed=entry.removed
                )
        finally:
            self._replaying.position = None

    def _write_rows(self, part: UploadedRows) -> SegmentFile:
        """Write the segment of uploaded rows into the copy."""
        first, rows, words, structure = part
        points: Any = np.arange(first, first + rows)
        return self._write(rows, lambda: [points], lambda: words, lambda: structure, _RECIPE)

    _write_vectors = staticmethod(write_points)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Change the copy atomically, and record the last applied entry of the log."""
        with super().transaction() as connection:
            yield connection
            if (position := getattr(self._replaying, "position", None)) is not None:
                connection.execute(
                    "INSERT OR REPLACE INTO meta VALUES ('log', ?)", (json.dumps(position),)
                )

    @contextlib.contextmanager
    def writing(self, *, job: str = "") -> Iterator[None]:
        """Be the one writer of this process; other processes may write at the same time.

        Args:
            job: not used; jobs are for directories.

        Raises:
            IndexLocked: this program is already writing to the index.
            StorageError: the server can't be reached.
        """
        if not self._writing.acquire(blocking=False):
            raise IndexLocked(
                f"{self.place}: this program is already writing to this index; wait "
                "until that is done"
            )
        try:
            self.refresh(wait=True)
            self._encoder = self.encoder
            yield
        except sqlite3.DatabaseError as error:
            raise wrap_error(self.path, error) from error
        finally:
            self._session, self._uploaded = 0, {}
            self._writing.release()

    def stage_segment(
        self, vectors: Sequence[Vectors], words: Tables, structure: Tables
    ) -> SegmentFile:
        """Upload vectors; they are part of the index once :meth:`commit` names the segment.

        The arguments are those of :meth:`lmkrag.index.store.IndexStore.stage_segment`.

        Raises:
            StorageError: the server can't be reached.
        """
        if not self._session:
            self._session, self._began = self._append(b"", None), time.time()
            self._next_point = self._session * SESSION
        rows, name = sum(map(len, vectors)), uuid.uuid4().hex
        self._uploaded[name] = (self._next_point, rows, words, structure)
        self.log.upload(self._next_point, np.concatenate(vectors))
        self._next_point += rows
        return SegmentFile(name, rows, _RECIPE, _ELSEWHERE, _ELSEWHERE, _ELSEWHERE)

    def commit(
        self,
        staged: Sequence[Staged],
        segments: Sequence[SegmentFile] = (),
        *,
        removed: Iterable[str] = (),
    ) -> None:
        """Commit one batch, all or nothing, for all machines.

        Args:
            staged: new documents, in order.
            segments: staged segments, whose rows in order are the sentences of ``staged`` in order.
            removed: names of documents to remove, with what is attached to them.

        Raises:
            IndexMismatch: another writer has chosen another encoder.
            StorageError: the server can't be reached, or the vectors were uploaded a day ago.
            UsageError: the batch is larger than 1 GiB.
        """
        self._commit(
            Entry(staged, [self._uploaded.pop(segment.name) for segment in segments], list(removed))
        )
        self._session = 0

    def commit_removed(self, doc_ids: Iterable[str]) -> None:
        """Remove documents, with what is attached to them, in one commit."""
        if names := list(doc_ids):
            self.commit([], removed=names)

    def change_encoder(self, encoder: EncoderSpec) -> None:
        """Record another encoder, in an index without documents."""
        self._commit(Entry(encoder=encoder))
        self._encoder = encoder

    def merge_small(self) -> None:
        """Do nothing: segments of the copy are merged when it is brought up to date."""

    def _commit(self, entry: Entry) -> None:
        """Append an entry to the log, after the pieces that it is too large for."""
        data = entry.pack()
        *pieces, last = (data[start : start + _PIECE] for start in range(0, len(data), _PIECE))
        self._append(last, [self._append(piece, None) for piece in pieces])

    def _append(self, data: bytes, pieces: Sequence[int] | None) -> int:
        """Append an entry to the log; return its number."""
        token = uuid.uuid4().hex
        while True:
            self.refresh(wait=True)
            number = self._read_position()[0] + 1
            self.reader.check_encoder()
            if self.encoder != self._encoder:
                raise IndexMismatch(
                    f"{self.place}: another writer has chosen another encoder; run it again"
                )
            if self._session and time.time() - self._began > _LATEST:
                raise StorageError(
                    f"{self.place}: vectors that wait for a day may be deleted; run it again"
                )
            if self.log.insert(number, data, token=token, pieces=pieces):
                self.refresh(wait=True)
                return number

    def compact(self) -> None:
        """Delete unreferenced vectors that are two days old, and merge the copy."""
        call, offset = self._connection.call, SESSION
        with self.reader.snapshot() as snapshot:
            time.sleep(_GRACE)
            while offset is not None:
                records, offset = call("scroll", limit=_SCANNED, offset=offset, with_payload=False)
                points = np.array([int(record.id) for record in records], np.int64)
                dead = points[cast(QdrantSnapshot, snapshot).find_sentences(points) < 0]
                headers = self.log.read_headers(np.unique(dead // SESSION).tolist())
                old = [header.number for header in headers if time.time() - header.time > _OLD]
                if expired := dead[np.isin(dead // SESSION, old)].tolist():
                    call("delete", models.PointIdsList(points=expired), wait=True)
        with super().writing():
            super().compact()

    def find_lost_vectors(self) -> Iterator[str]:
        """Yield a line for each document whose vectors Qdrant has lost."""
        with self.reader.snapshot() as snapshot:
            first, stop = snapshot.documents.living
            for part in in_parts(expand_ranges(first, stop - first), _SCANNED):
                points = cast(QdrantSnapshot, snapshot).find_points(sentences := np.array(part))
                records = self._connection.call("retrieve", points.tolist(), with_payload=False)
                lost = sentences[
                    np.isin(points, [int(record.id) for record in records], invert=True)
                ]
                keys = snapshot.documents.keys[snapshot.documents.owners(lost)]
                for row in snapshot.all_documents(among=np.unique(keys)):
                    yield (
                        f"document {row.doc_id!r}: Qdrant has lost vectors of it; remove it "
                        "and index its file again"
                    )
