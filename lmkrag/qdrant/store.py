"""An index on Qdrant: any number of writers and readers, and its commit point.

    NAME-sentences    a point a sentence: its vector, its words, which document it is of
    NAME-documents    a point a document: its row, words and title; a point a block of its text; files that were skipped
    NAME-log          a point a commit: see :mod:`lmkrag.qdrant.log`; point 0 has the settings

A batch writes points under fresh ids, waits, then inserts one entry into the log, then deletes the points
of what it replaced. A crash at any instant leaves the state before or after; points that no entry names are swept.
"""

import contextlib
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple, Self

import numpy as np
from qdrant_client import models

from lmkrag.arrays import Vectors
from lmkrag.errors import (
    IndexCorrupt,
    IndexLocked,
    IndexMismatch,
    IndexNotFound,
    SnapshotExpired,
    StorageError,
    UsageError,
)
from lmkrag.index.catalog import DocumentRow, SkippedFile
from lmkrag.index.files import Tables
from lmkrag.index.searchable import retry_expired
from lmkrag.index.staged import Staged
from lmkrag.qdrant.connection import Address, Connection
from lmkrag.qdrant.log import KINDS, SESSION, Entry, Log, Sparse, State, from_model, in_parts, sum_words
from lmkrag.qdrant.points import Rows, count_document, count_words, make_document, make_row, make_sentences, row_payload
from lmkrag.qdrant.snapshot import QdrantReader, QdrantSnapshot
from lmkrag.specs import EncoderSpec
from lmkrag.system import FileStamp, renew_in_forks
from lmkrag.types import IndexStatus, Skipped

FORMAT_VERSION = 1
_IDLE = 3_600.0  # seconds after which a writer that was not heard of is taken for dead
_LISTED = 200  # skipped files
_SKIPPED = uuid.UUID("8f6d3c1e-52a4-4b0e-9c58-1f0a7f1d9b11")  # names the points of skipped files


class _Gone(NamedTuple):
    """A document that a commit removes."""

    key: int
    words: dict[str, Sparse]
    counts: dict[str, int]


class QdrantStore:
    """An index on Qdrant; ``reader`` gives snapshots. State: the ids that this writer may use, inside ``writing``."""

    def __init__(self, connection: Connection, log: Log, settings: dict[str, Any]) -> None:
        self._connection, self._log, self._settings = connection, log, settings
        self.path = connection.address.text
        self.encoder = EncoderSpec(**settings["encoder"])
        self.chooses_encoder: bool = settings["chooses_encoder"]
        self.reader = QdrantReader(connection, log)
        self._sentences, self._documents = (f"{connection.address.name}-{kind}" for kind in ("sentences", "documents"))
        self.renew_locks()
        renew_in_forks(self)

    def renew_locks(self) -> None:
        """Begin with locks that no thread holds."""
        self._writer = threading.Lock()
        self._log.renew_locks()
        self._session = self._next = 0

    @classmethod
    def open(cls, text: str) -> Self | None:
        """Open an index; None if there is none. Raises StorageError. IndexMismatch: another version of lmkrag's."""
        connection = Connection(Address.parse(text))
        log = Log(connection)
        if not connection.call("collection_exists", log.name):
            connection.close()
            return None
        found = connection.call("retrieve", log.name, [0], consistency="majority")
        if not found:
            connection.close()
            return None
        settings = found[0].payload
        if settings["format"] != FORMAT_VERSION:
            connection.close()
            raise IndexMismatch(f"{text}: format {settings['format']} of another lmkrag: upgrade, or index again")
        return cls(connection, log, settings)

    @classmethod
    def create(cls, text: str, *, encoder: EncoderSpec, chooses_encoder: bool = False) -> Self:
        """Make an empty index, its settings last: killed half-way, there is no index yet."""
        address = Address.parse(text)
        connection = Connection(address)
        log = Log(connection)
        spread: dict[str, Any] = {
            "replication_factor": address.replicas,
            "write_consistency_factor": address.replicas // 2 + 1,
        }
        many = spread | ({"shard_number": address.shards} if address.shards else {}) | {"on_disk_payload": True}
        dense = models.VectorParams(size=encoder.dimensions, distance=models.Distance.DOT, on_disk=True)
        dense.quantization_config = models.ScalarQuantization(
            scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=0.99, always_ram=True)
        )
        sparse = models.SparseVectorParams()
        collections: dict[str, dict[str, Any]] = {
            f"{address.name}-sentences": many
            | {"vectors_config": {"dense": dense}, "sparse_vectors_config": {"words": sparse}},
            f"{address.name}-documents": many
            | {"vectors_config": {}, "sparse_vectors_config": dict.fromkeys(("words", "counts", "openings"), sparse)},
            log.name: spread
            | {"vectors_config": {}, "sparse_vectors_config": dict.fromkeys(KINDS, sparse), "shard_number": 1},
        }
        for name, options in collections.items():
            try:
                connection.call("create_collection", name, **options)
            except (StorageError, ValueError):  # the latter in the local mode
                if not connection.call("collection_exists", name):
                    raise
        fields = {"document": models.PayloadSchemaType.INTEGER, "doc_id": models.PayloadSchemaType.KEYWORD}
        for name, keys in (("sentences", ["document"]), ("documents", ["document", "doc_id", "kind"])):
            for key in () if address.is_local else keys:
                kind = fields.get(key, models.PayloadSchemaType.KEYWORD)
                connection.call("create_payload_index", f"{address.name}-{name}", key, field_schema=kind, wait=True)
        settings = {
            "format": FORMAT_VERSION,
            "index": uuid.uuid4().hex,
            "time": time.time(),
            "encoder": asdict(encoder),
            "chooses_encoder": chooses_encoder,
        }
        other = settings | {"index": uuid.uuid4().hex}
        for payload in (settings, other):  # the second one must not take the first one's place
            log.insert(models.PointStruct(id=0, vector={}, payload=payload))
        connection.close()
        made = cls.open(text)
        if made is not None and made._settings["index"] == other["index"]:
            raise StorageError(f"{text}: this Qdrant does not know insert_only, lmkrag needs 1.17 or later: upgrade")
        if made is None or made.encoder != encoder:
            raise UsageError(f"{text}: another process has just made an index here; open it")
        return made

    def close(self) -> None:
        """Refuse new snapshots."""
        if not self.reader.closed:
            self.reader.closed = True
            self._connection.close()

    # Writing

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Be one of the writers; what writers that died an hour ago left behind is swept first."""
        if not self._writer.acquire(blocking=False):
            raise IndexLocked(f"{self.path}: this program is already writing to this index; wait until that is done")
        try:
            self._check_encoder()
            self._sweep()
            yield
            if self._session:
                self._note(closed=self._session)
        finally:
            self._session = 0
            self._writer.release()

    def _check_encoder(self) -> None:
        (found,) = self._connection.call("retrieve", self._log.name, [0], consistency="majority") or [None]
        if found is None:
            raise IndexNotFound(f"{self.path}: the index is gone")
        if EncoderSpec(**found.payload["encoder"]) != self.encoder:
            raise IndexMismatch(f"{self.path}: replaced by an index of another encoder; open it again")

    def change_encoder(self, encoder: EncoderSpec) -> None:
        """Record another encoder, inside :meth:`writing`, in an index without documents."""
        if encoder.dimensions != self.encoder.dimensions:
            raise UsageError(f"{self.path}: made for {self.encoder.dimensions} dimensions: name the --encoder")
        self._settings = self._settings | {"encoder": asdict(encoder)}
        point = models.PointStruct(id=0, vector={}, payload=self._settings)
        self._connection.call("upsert", self._log.name, [point], wait=True, ordering=models.WriteOrdering.STRONG)
        self.encoder = encoder

    def stage_segment(self, vectors: Sequence[Vectors], words: Tables, structure: Tables) -> Rows:
        """Keep vectors, on disk, words and structure of the same sentences until :meth:`commit`."""
        with tempfile.TemporaryFile() as file:
            for part in vectors:
                part.astype("<f4").tofile(file)
            file.flush()
            shape = (sum(map(len, vectors)), self.encoder.dimensions)
            stored = np.memmap(file, "<f4", "r", shape=shape)  # good without the file's name
        return Rows.of(stored, words, structure)

    def commit(self, staged: Sequence[Staged], segments: Sequence[Rows] = (), *, removed: Iterable[str] = ()) -> None:
        """Make one batch exist, all or nothing: see :meth:`lmkrag.index.store.IndexStore.commit`."""
        entry = Entry(session=self._open_session() if staged else None)
        added, words, totals = [], [], Counter[str]()
        for item, parts in _divide(staged, segments):
            key, self._next = self._next, self._next + len(item.sentences)
            of_document, row = count_words(item, parts), make_row(item, key)
            counts = count_document(row, of_document.length, frozenset().union(*(part.languages for part in parts)))
            self._write_points(self._documents, make_document(item, row, of_document, counts))
            first = key
            for part in parts:
                self._write_points(self._sentences, make_sentences(part, key, first, of_document.title))
                first += len(part.lengths)
            added.append((key, len(item.sentences)))
            ones = Sparse(of_document.counts.words, np.ones(len(of_document.counts.words)))
            words.append({"sentences": of_document.sentences, "documents": ones, "openings": of_document.openings})
            totals.update(counts)
        entry.added = np.array(added, np.int64).reshape(-1, 2)
        names, removed = [item.document.doc_id for item in staged], list(removed)
        gone: list[_Gone] = []

        def build(state: State) -> Entry | None:
            nonlocal gone
            gone = self._find_gone(state, names, removed)
            if not staged and not gone:
                return None
            counts = totals.copy()
            for document in gone:
                counts.subtract(document.counts)
            every = [*words, *(document.words for document in gone)]
            sums = {kind: sum_words(one[kind] for one in every) for kind in KINDS}
            return replace(entry, removed=np.array([one.key for one in gone], np.int64), counts=counts, words=sums)

        self._log.append(build)
        self._delete_documents([document.key for document in gone])

    def _open_session(self) -> int:
        """Take ids that nobody has used, once inside :meth:`writing`."""

        def build(state: State) -> Entry:
            opened.append(max(state.sessions["opened"], default=0) + SESSION)
            return Entry(sessions={"opened": opened[-1:]})

        if not self._session:
            opened: list[int] = []
            self._log.append(build)
            self._session = self._next = opened[-1]
        return self._session

    def _write_points(self, collection: str, points: Iterable[models.PointStruct]) -> None:
        for part in in_parts(points):
            self._connection.call("upsert", collection, part, wait=True)

    def _find_gone(self, state: State, names: list[str], removed: list[str]) -> list[_Gone]:
        """The documents of some names in a state, and what is attached to those ``removed``."""
        snapshot = QdrantSnapshot(self.reader, state)
        rows = {row.id: row for name in {*names, *removed} if (row := snapshot.find_document(name)) is not None}
        for row in list(rows.values()):
            if row.doc_id in removed:
                rows |= {attached.id: attached for attached in snapshot.find_attachments(row)}
        return [self._read_gone(row) for row in rows.values()]

    def _read_gone(self, row: DocumentRow) -> _Gone:
        """What an index loses with a document: read from its points, and negative."""
        options: dict[str, Any] = {"with_vectors": ["words", "openings"], "with_payload": ["counts"]}
        records = self._connection.call("retrieve", self._documents, [row.id], **options)
        if not records:
            raise SnapshotExpired(f"{self.path}: a document was replaced; try again")
        found = {name: from_model(records[0].vector.get(name)) for name in ("words", "openings")}
        sentences = []
        for part in in_parts(range(row.id, row.id + row.sentences)):
            points = self._connection.call("retrieve", self._sentences, part, with_vectors=["words"])
            of_part = (from_model(point.vector.get("words")).words for point in points)
            sentences.append(sum_words(Sparse(words, np.ones(len(words))) for words in of_part))
        words = {"sentences": sum_words(sentences), "documents": found["words"], "openings": found["openings"]}
        negative = {kind: Sparse(vector.words, -vector.values) for kind, vector in words.items()}
        return _Gone(row.id, negative, records[0].payload["counts"])

    def _delete_documents(self, keys: Iterable[int]) -> None:
        for part in in_parts(keys):
            self._delete(models.FieldCondition(key="document", match=models.MatchAny(any=part)))

    def _delete(self, condition: models.FieldCondition) -> None:
        selector = models.FilterSelector(filter=models.Filter(must=[condition]))
        for collection in (self._sentences, self._documents):
            self._connection.call("delete", collection, selector, wait=True)

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

        def read() -> list[DocumentRow]:
            with self.reader.snapshot() as snapshot:
                living = snapshot.documents.find(np.array(sorted(stamps), np.int64))
                return list(snapshot.read_rows(snapshot.documents.keys[living].tolist()))

        for row in [replace(row, **stamps[row.id]._asdict()) for row in retry_expired(read)]:
            self._connection.call("set_payload", self._documents, row_payload(row), points=[row.id], wait=True)
            self.reader.forget(row.id)
        paths: list[Any] = [_skipped_id(path) for path in forgotten]
        if paths:
            self._connection.call("delete", self._documents, models.PointIdsList(points=paths), wait=True)
        files = (
            models.PointStruct(
                id=_skipped_id(file.path),
                vector={},
                payload={"kind": "skipped", "file": [getattr(file, name) for name in SkippedFile.__slots__]},
            )
            for file in skipped
        )
        self._write_points(self._documents, files)

    def merge_small(self) -> None:
        """Merge entries of the log where there are many of a size."""
        self._log.merge()

    def compact(self) -> None:
        """Sweep what writers left behind that are silent for an hour, and merge the log; Qdrant does the rest."""
        self._sweep()
        self._log.merge(everything=True)

    def _sweep(self) -> None:
        """Delete points of removed documents, and those that dead writers had not committed.

        No entry of a session that was fenced can follow, so that what lies after its last document is nobody's.
        """
        state = self._log.refresh()
        self._delete_documents(state.removed - self.reader.swept)
        self.reader.swept |= state.removed
        open_sessions = state.sessions["opened"] - state.sessions["closed"] - {self._session}
        for session in open_sessions:
            if state.active.get(session, 0.0) > time.time() - _IDLE:
                continue
            state = self._note(fenced=session)
            stops = state.documents.stop[(state.documents.keys >= session) & (state.documents.keys < session + SESSION)]
            between = models.Range(gte=float(stops.max(initial=session)), lt=float(session + SESSION))
            self._delete(models.FieldCondition(key="document", range=between))
            self._note(closed=session)

    def _note(self, **sessions: int) -> State:
        return self._log.append(lambda _: Entry(sessions={name: [first] for name, first in sessions.items()}))

    # Reading

    def status(self) -> IndexStatus:
        """Return what the index holds; ``bytes`` are Qdrant's to tell."""
        with self.reader.snapshot() as snapshot:
            state, skipped = snapshot.state, snapshot.read_skipped()
        counts = {name: number for name, number in sorted((+state.counts).items())}
        points = self._connection.call("count", self._sentences, exact=False).count
        segments = self._connection.call("get_collection", self._sentences).segments_count
        return IndexStatus(
            path=self.path,
            documents=len(state.documents.keys),
            sentences=state.documents.sentences,
            characters=counts.get("characters", 0),
            dead=max(0, points - state.documents.sentences),
            segments=segments,
            bytes=0,
            recipe="qdrant",
            encoder=self.encoder.name,
            fingerprint=self.encoder.fingerprint,
            dimensions=self.encoder.dimensions,
            version=FORMAT_VERSION,
            generation=state.head,
            skipped=len(skipped),
            unread_pages=counts.get("unread_pages", 0),
            changed=datetime.fromtimestamp(state.changed, UTC).isoformat(timespec="seconds"),
            **{
                kind: {name[6:]: number for name, number in counts.items() if name.startswith(f"{kind} ") and name[6:]}
                for kind in ("kinds", "roots")
            },
            skipped_files=tuple(Skipped(path, skipped[path].reason) for path in sorted(skipped)[:_LISTED]),
        )

    def find_problems(self) -> tuple[str, ...]:
        """Check every document, its text and that each sentence has a vector; return one line a problem."""
        problems: list[str] = []
        with self.reader.snapshot() as snapshot:
            self.reader.points = {}  # read again
            for key in snapshot.documents.keys.tolist():
                try:
                    (row,) = snapshot.read_rows([key])
                    snapshot.read_stored(row)
                    snapshot.read_windows(row)
                    _check_vectors(snapshot, row)
                except SnapshotExpired:
                    if key in self._log.refresh().documents.keys:
                        problems.append(f"document {key}: points of it are gone; index its file again")
                except (IndexCorrupt, KeyError, ValueError, TypeError) as error:
                    problems.append(str(error))
        return tuple(problems)


def _check_vectors(snapshot: QdrantSnapshot, row: DocumentRow) -> None:
    for part in in_parts(range(row.id, row.id + row.sentences)):
        lengths = np.linalg.norm(snapshot.read_vectors(np.array(part, np.int64)), axis=1)
        if (np.abs(lengths - 1) > 0.01).any():
            raise IndexCorrupt(f"document {row.doc_id!r}: a vector has not length one; index its file again")


def _skipped_id(path: str) -> str:
    return str(uuid.uuid5(_SKIPPED, path))


def _divide(staged: Sequence[Staged], segments: Sequence[Rows]) -> Iterator[tuple[Staged, list[Rows]]]:
    """Yield each document with its rows, which lie in the segments end to end."""
    number = start = 0
    for item in staged:
        needed, parts = len(item.sentences), []
        if not needed:
            raise UsageError(f"document {item.document.doc_id!r} has no sentences")
        while needed:
            segment = segments[number]
            count = min(needed, len(segment.lengths) - start)
            stop = start + count
            parts.append(
                segment._replace(
                    vectors=segment.vectors[start:stop],
                    starts=segment.starts[start : stop + 1],
                    lengths=segment.lengths[start:stop],
                    positions=segment.positions[start:stop],
                    roles=segment.roles[start:stop],
                )
            )
            needed -= count
            number, start = (number + 1, 0) if stop == len(segment.lengths) else (number, stop)
        yield item, parts
