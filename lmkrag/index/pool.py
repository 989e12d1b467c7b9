"""Reading an index: pooled connections, the newest state and its open segments, for any number of
threads.
"""

import contextlib
import json
import os
import shutil
import sqlite3
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from lmkrag.errors import (
    REPAIR,
    IndexClosed,
    IndexCorrupt,
    IndexMismatch,
    IndexNotFound,
    SnapshotExpired,
    StorageError,
)
from lmkrag.index import catalog, catalog_segments
from lmkrag.index.columns import read_ranges
from lmkrag.index.live import LiveSegment
from lmkrag.index.ranges import NO_DOCUMENTS, DocumentRanges
from lmkrag.index.segments import Segment, SegmentFile
from lmkrag.index.snapshot import Snapshot
from lmkrag.specs import EncoderSpec
from lmkrag.system.files import FileStamp
from lmkrag.system.processes import refuse_fork

CATALOG = "catalog.sqlite"

_MOST = 16  # snapshots held at once; further readers wait
_TRIES = 20  # copies of a catalog that changed while it was copied


class _IndexState(NamedTuple):
    """The documents and segments of one generation of the index."""

    generation: int
    documents: DocumentRanges
    segments: tuple[LiveSegment, ...]


class _Copy(NamedTuple):
    """A file that is read instead of a catalog that SQLite can't open here, and the catalog's stamp
    then.

    It is a copy in ``folder``. If there is no room for one, it is the catalog itself, which
    somebody may change.
    """

    folder: Path
    stamp: FileStamp
    remove: Callable[[], object]


_UNREAD = _IndexState(-1, NO_DOCUMENTS, ())


class IndexReader:
    """Gives snapshots of an index directory.

    Connections are borrowed for one snapshot and reused by the next, whichever thread takes it. A
    closed reader refuses new snapshots; those that are held stay good, and the last one closes what
    is left. In a forked process the reader refuses: see
    :func:`lmkrag.system.processes.refuse_fork`.

    Attributes:
        path: the directory of the index.
        encoder: the encoder that made it.
    """

    segment_type = Segment

    def __init__(self, path: Path, encoder: EncoderSpec) -> None:
        """Take an index; nothing is opened before the first snapshot.

        Args:
            path: the directory of the index.
            encoder: the encoder that made it. An index of another encoder in its place is refused.
        """
        self.path = path
        self.encoder = encoder
        self._closed = False
        self._process = os.getpid()
        self._guard = threading.Condition()
        self._held = threading.local()  # the connection of the snapshot that this thread holds
        self._idle: list[sqlite3.Connection] = []
        self._borrowed = 0
        self._copy: _Copy | None = None
        self._identity: tuple[int, int] | None = None  # device and inode of the catalog
        self._forget()

    def _forget(self) -> None:
        """Forget the last state and its open segments."""
        self._state = _UNREAD
        # those last read, and their generation
        self._documents = (_UNREAD.generation, _UNREAD.documents)
        self._segments: dict[str, Segment] = {}

    @contextlib.contextmanager
    def snapshot(self, *, segments: bool = True) -> Iterator[Snapshot]:
        """Hold one committed state of the index. In a thread that holds one, the same state is
        given again.

        Args:
            segments: whether the snapshot is to be searched; without segments it reads documents
                only.

        Raises:
            IndexClosed: the reader was closed.
            IndexNotFound: the index is gone.
            IndexMismatch: an index of another encoder has taken its place.
            IndexCorrupt: a file is damaged.
            SnapshotExpired: the state was replaced while it was read.
            StorageError: the catalog can't be opened.
        """
        refuse_fork(self._process, self.path)
        outer: sqlite3.Connection | None = getattr(self._held, "connection", None)
        try:
            if outer is not None:
                yield self._take(outer, segments, nested=True)
                return
            with self.connection() as connection:
                try:
                    connection.execute("BEGIN")
                    snapshot = self._take(connection, segments, nested=False)
                    self._held.connection = connection
                    yield snapshot
                finally:
                    self._held.connection = None
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
        except sqlite3.DatabaseError as error:
            raise wrap_error(self.path, error) from error

    def close(self) -> None:
        """Refuse new snapshots, and close what no snapshot uses."""
        with self._guard:
            self._closed = True
            self._close_idle()
            self._guard.notify_all()

    def _take(self, connection: sqlite3.Connection, segments: bool, *, nested: bool) -> Snapshot:
        """Return the snapshot that a connection holds; ``nested`` if its thread holds one
        already.
        """
        if not segments:
            return Snapshot(
                connection, partial(self._read_documents, connection, self._identity), ()
            )
        state = self._load_state(connection, nested=nested)
        return Snapshot(connection, lambda: state.documents, state.segments)

    # Connections

    @contextlib.contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """Borrow a connection, one of 16; further threads wait for one.

        Raises:
            IndexClosed: the reader was closed.
            StorageError: the catalog can't be opened.
            sqlite3.Error: SQLite can't read the catalog.
        """
        with self._guard:
            while self._borrowed >= _MOST and not self._closed:
                self._guard.wait()
            if self._closed:
                raise IndexClosed(f"{self.path}: this index was closed; open it again")
            self._borrowed += 1
        connection, source, process = None, None, self._process
        try:
            connection, source = self._open()
            with self._notice_change(source[1]):
                yield connection
        finally:
            if process == os.getpid():
                with self._guard:
                    self._borrowed -= 1
                    if connection is not None:
                        self._put_back(connection, source)
                    self._guard.notify_all()

    @contextlib.contextmanager
    def _notice_change(self, copy: _Copy | None) -> Iterator[None]:
        """Raise SnapshotExpired if a catalog that is read without a lock of SQLite has changed
        meanwhile.
        """
        try:
            yield
        except (IndexCorrupt, sqlite3.DatabaseError):
            self._check_unchanged(copy)
            raise
        self._check_unchanged(copy)

    def _check_unchanged(self, copy: _Copy | None) -> None:
        """Raise SnapshotExpired if the catalog itself is read without a lock, and has changed
        since.
        """
        if (
            copy is not None
            and copy.folder == self.path
            and self._is_outdated(copy, FileStamp.of(self._stat()))
        ):
            raise SnapshotExpired(
                f"{self.path}: somebody has written to the index meanwhile; read again"
            )

    def _is_outdated(self, copy: _Copy, stamp: FileStamp) -> bool:
        """Return whether the catalog has changed since it was copied."""
        return copy.stamp != stamp or self._has_log()

    def _put_back(self, connection: sqlite3.Connection, source: object) -> None:
        """Keep a connection for the next snapshot, or close it if its file is not the catalog any
        more.
        """
        if source == (self._identity, self._copy):
            self._idle.append(connection)
        else:  # it reads a file that is no longer the catalog
            connection.close()
        if self._closed:
            self._close_idle()

    def _open(self) -> tuple[sqlite3.Connection, tuple[object, _Copy | None]]:
        """Return an idle connection or a new one to the file that is the catalog now, and what
        identifies this file.
        """
        for _ in range(_TRIES):
            with self._guard:
                self._check_source()
                copy = self._copy
                source = (self._identity, copy)
                if self._idle:
                    return self._idle.pop(), source
            try:
                if copy is not None:
                    return catalog.connect(copy.folder / CATALOG, immutable=True), source
                return catalog.connect(self.path / CATALOG), source
            except sqlite3.OperationalError as error:
                # Where this process can't write, SQLite can only share a write-ahead log that is
                # there.
                has_room = not (
                    _is_full(error) or error.sqlite_errorname.startswith("SQLITE_CANTOPEN")
                )
                if (os.access(self.path, os.W_OK) and has_room) or self._has_log():
                    raise
            with self._guard:
                self._make_copy()
        raise StorageError(
            f"{self.path}: the catalog changes faster than it can be copied; try again"
        )

    def _check_source(self) -> None:
        """Forget what belongs to a file that is no longer the catalog, or to an older copy of
        it.
        """
        status = self._stat()
        identity = (status.st_dev, status.st_ino)
        outdated = self._copy is not None and self._is_outdated(self._copy, FileStamp.of(status))
        if identity == self._identity and not outdated:
            return
        replaced = self._identity is not None and identity != self._identity
        self._close_idle()
        self._forget()
        self._identity = identity
        if replaced:
            self.check_encoder()

    def _stat(self) -> os.stat_result:
        """Return the status of the catalog.

        Raises:
            IndexNotFound: the index is gone.
            StorageError: the directory can't be read.
        """
        try:
            return (self.path / CATALOG).stat()
        except FileNotFoundError as error:
            raise IndexNotFound(f"{self.path}: the index is gone") from error
        except OSError as error:
            raise StorageError(f"{self.path}: can't be read ({error})") from error

    def check_encoder(self, connection: sqlite3.Connection | None = None) -> None:
        """Refuse another index in this one's place, unless the same encoder made it.

        Raises:
            IndexMismatch: another encoder made it.
        """
        if connection is None:
            with contextlib.closing(catalog.connect(self.path / CATALOG)) as opened:
                self.check_encoder(opened)
            return
        if EncoderSpec(**json.loads(catalog.read_meta(connection)["encoder"])) != self.encoder:
            self._identity = None
            raise IndexMismatch(
                f"{self.path}: replaced by an index of another encoder; open it again"
            )

    def _has_log(self) -> bool:
        """Return whether there is a write-ahead log with content; a reader makes an empty one."""
        log = Path(f"{self.path / CATALOG}-wal")
        return log.exists() and log.stat().st_size > 0

    def _make_copy(self) -> None:
        """Copy the catalog to where it can be read, unless somebody writes to it meanwhile."""
        if self._copy is not None:  # another thread was sooner
            return
        stamp = FileStamp.of(self._stat())
        try:
            copy = self._copy_catalog(stamp)
        except OSError:
            copy = _Copy(self.path, stamp, _leave)
        if self._is_outdated(copy, FileStamp.of(self._stat())):
            copy.remove()
        else:
            self._copy = copy

    def _copy_catalog(self, stamp: FileStamp) -> _Copy:
        """Copy the catalog to a folder of temporary files, which goes with the reader."""
        folder = Path(tempfile.mkdtemp(prefix="lmkrag-"))
        remove = weakref.finalize(self, _remove_folder, folder, os.getpid())
        try:
            shutil.copyfile(self.path / CATALOG, folder / CATALOG)
        except OSError:
            remove()
            raise
        return _Copy(folder, stamp, remove)

    def _close_idle(self) -> None:
        """Close connections that no snapshot uses, and remove the copy of the catalog."""
        for connection in self._idle:
            connection.close()
        self._idle.clear()
        if self._copy is not None:
            self._copy.remove()
            self._copy = None
        if self._closed and not self._borrowed:
            self._forget()

    # States

    def _load_state(self, connection: sqlite3.Connection, *, nested: bool) -> _IndexState:
        """Return the documents and segments of a snapshot, from the last state if it is the same
        generation.
        """
        while True:
            generation = catalog.generation(connection)
            newest = self._state  # read once: another thread may put a newer one there
            if generation == newest.generation:
                return newest
            self.check_encoder(connection)
            documents = self._read_documents(connection, self._identity)
            try:
                live = tuple(
                    LiveSegment(self._segment(file), runs, documents)
                    for file, runs in catalog_segments.read_segments(connection)
                )
            except IndexCorrupt:
                status = self._stat()
                if (status.st_dev, status.st_ino) != self._identity and self._copy is None:
                    raise SnapshotExpired(
                        f"{self.path}: another index has taken this one's place; read again"
                    ) from None
                # A compaction may have replaced the file after this snapshot was taken: then there
                # is a newer one.
                if nested:
                    raise
                connection.execute("ROLLBACK")
                connection.execute("BEGIN")
                if catalog.generation(connection) == generation:
                    raise
                continue
            if sum(part.alive for part in live) != documents.sentences:
                raise IndexCorrupt(
                    f"{self.path}: the segments do not hold each sentence once; {REPAIR}"
                )
            names = {part.segment.file.name for part in live}
            state = _IndexState(generation, documents, live)
            with self._guard:
                self._state = state
                self._segments = {
                    name: segment for name, segment in self._segments.items() if name in names
                }
            return state

    def _read_documents(
        self, connection: sqlite3.Connection, source: tuple[int, int] | None
    ) -> DocumentRanges:
        """Return the documents of a snapshot of the catalog ``source``, given by device and
        inode.
        """
        if source != self._identity:  # another index has taken its place
            return read_ranges(connection)
        since, known = self._documents  # read once: another thread may put newer ones there
        generation = catalog.generation(connection)
        if generation != since:
            known = read_ranges(connection, known, since)
            self._documents = (generation, known)
        return known

    def _segment(self, file: SegmentFile) -> Segment:
        """Return the open files of a segment, opened on first use."""
        with self._guard:
            segment = self._segments.get(file.name)
        if segment is None:
            segment = self.segment_type(self.path / "segments", file)
            with self._guard:
                self._segments[file.name] = segment
        return segment


def _leave() -> None:
    """Leave a catalog where it is: it is no copy."""


def _remove_folder(folder: Path, process: int) -> None:
    """Remove the copy of a catalog; a forked child leaves its parent's alone."""
    if process == os.getpid():  # a forked child leaves its parent's alone
        shutil.rmtree(folder, ignore_errors=True)


def _is_full(error: sqlite3.DatabaseError) -> bool:
    """Return whether SQLite has no room for its files, one of which its connections share."""
    return getattr(error, "sqlite_errorname", "").startswith(("SQLITE_FULL", "SQLITE_IOERR_SHM"))


def wrap_error(path: Path, error: sqlite3.DatabaseError) -> StorageError:
    """Return the StorageError to raise for an error of SQLite: a full disk, a lock, or damage."""
    if _is_full(error):
        room = (
            "free some room elsewhere, then lmkrag remove and lmkrag index-tools compact can "
            "make more"
        )
        return StorageError(f"{path}: the disk is full; what was committed before is kept; {room}")
    if isinstance(error, sqlite3.OperationalError):
        return StorageError(
            f"{path}: the catalog can't be used ({error}); what was committed before is kept"
        )
    return IndexCorrupt(f"{path / CATALOG}: the catalog is damaged ({error}); {REPAIR}")
