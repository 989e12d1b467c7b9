"""The log of an index on Qdrant: what was committed. Its entries are points of one collection, their ids 1, 2, 3, ...

An entry is inserted only if there is none of its id: whoever comes second reads what the first one wrote, and tries the
next id. That one insertion is the commit of a batch of documents. An entry says which documents it adds and removes,
and by how much it changes the totals; its sparse vectors say in how many sentences, documents and openings each word is
more or less. All of that adds up in any order, so that several entries can be replaced by their sum.
"""

import base64
import math
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from qdrant_client import models

from lmkrag.arrays import Hashes, Ids
from lmkrag.errors import SnapshotExpired, StorageError
from lmkrag.index.ranges import NO_DOCUMENTS, DocumentRanges
from lmkrag.qdrant.connection import Connection

SESSION = 1 << 28  # ids that a writer takes at a time; with 2 ** 25 such sessions JSON still holds every id exactly
KINDS = ("sentences", "documents", "openings")  # what words are counted in
_PAGE = 256  # entries read at once
_MERGED, _FACTOR, _LARGEST = 16, 8, 400_000  # entries of a size that are merged; words of a merged one at most
_GRACE = 60.0  # seconds for which replaced entries are left to readers


class Sparse(NamedTuple):
    """A sparse vector: words ``[n]`` as 32 bits, increasing, and a value of each."""

    words: Ids
    values: NDArray[Any]


NO_SPARSE = Sparse(np.zeros(0, np.int64), np.zeros(0, np.float32))


def in_parts(items: Iterable[Any], size: int = 256) -> Iterator[list[Any]]:
    """Yield the items that go into one call each."""
    items = iter(items)
    while part := list(islice(items, size)):
        yield part


def fold(words: Hashes) -> Ids:
    """Return the 32 bits that stand for words in sparse vectors, by their hashes."""
    return ((words ^ (words >> np.uint64(32))) & np.uint64(0xFFFFFFFF)).astype(np.int64)


def sum_words(parts: Iterable[Sparse]) -> Sparse:
    """Return the sum of sparse vectors."""
    parts = [NO_SPARSE, *parts]
    words, place = np.unique(np.concatenate([part.words for part in parts]), return_inverse=True)
    values = np.bincount(place, np.concatenate([part.values for part in parts]), len(words))
    kept = values != 0
    return Sparse(words[kept], values[kept].astype(np.float32))


def to_model(vector: Sparse) -> models.SparseVector:
    """Return a sparse vector as the client takes it."""
    return models.SparseVector(indices=vector.words.tolist(), values=vector.values.tolist())


def from_model(vector: Any) -> Sparse:
    """Return a sparse vector that the client gives."""
    if vector is None:
        return NO_SPARSE
    words, values = np.array(vector.indices, np.int64), np.array(vector.values, np.float32)
    order = np.argsort(words)
    return Sparse(words[order], values[order])


@dataclass(slots=True)
class Entry:
    """An entry on its way into the log."""

    added: Ids = field(default_factory=lambda: np.zeros((0, 2), np.int64))  # document and number of its sentences
    removed: Ids = field(default_factory=lambda: np.zeros(0, np.int64))
    counts: Mapping[str, int] = field(default_factory=dict)
    words: Mapping[str, Sparse] = field(default_factory=dict)  # by what they are counted in
    sessions: Mapping[str, list[int]] = field(default_factory=dict)  # opened, fenced, closed: their first ids
    replaces: list[int] = field(default_factory=list)
    session: int | None = None  # whose documents they are


class State(NamedTuple):
    """The sum of the log up to one entry."""

    head: int
    identity: str  # drawn when the index was made
    documents: DocumentRanges
    removed: frozenset[int]  # documents whose points may still be there
    counts: Counter[str]
    sessions: Mapping[str, frozenset[int]]
    active: Mapping[int, float]  # when each session was last heard of
    entries: Mapping[int, int]  # how many words each entry has
    replaced: Mapping[int, float]  # entries that others stand for, and since when
    changed: float
    frequencies: dict[int, Ids]  # of words looked up in this state: in how many of each kind they are


_NAMES = ("opened", "fenced", "closed")
_EMPTY = State(0, "", NO_DOCUMENTS, frozenset(), Counter(), dict.fromkeys(_NAMES, frozenset()), {}, {}, {}, 0.0, {})


class Log:
    """Reads and extends the log. State: the newest sum that was read. For any number of threads."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self.name = connection, f"{connection.address.name}-log"
        self.state = _EMPTY
        self.renew_locks()

    def renew_locks(self) -> None:
        """Begin with a lock that no thread holds."""
        self._guard = threading.Lock()

    def refresh(self) -> State:
        """Read what was committed since, and return the newest state."""
        with self._guard:
            while not self._read(self.state):
                self.state = _EMPTY
            return self.state

    def _read(self, state: State) -> bool:
        """Add the entries after a state to it; False where the log is another one, or has replaced what is known."""
        records, offset = [], state.head
        while offset is not None:
            page, offset = self._connection.call(
                "scroll", self.name, limit=_PAGE, offset=offset, consistency=models.ReadConsistencyType.MAJORITY
            )
            records += page
        if not records or (
            state.head and (records[0].id != state.head or records[0].payload["index"] != state.identity)
        ):
            if not records and not state.head:
                raise StorageError(f"{self._connection.address.text}: the log of the index is empty; restore a backup")
            return False
        identity, fresh = records[0].payload["index"], records[1:]  # the first is the settings, or known
        if not fresh and state.head:
            return True
        replaced = dict(state.replaced)
        for record in fresh:
            gone = record.payload["replaces"]
            if state.head and not state.entries.keys() >= set(gone) - {one.id for one in fresh}:
                return False
            replaced |= dict.fromkeys(gone, record.payload["time"])
        counts, sessions = state.counts.copy(), {name: set(state.sessions[name]) for name in _NAMES}
        active, entries, removed = dict(state.active), dict(state.entries), set[int]()
        before = state.documents
        added = [np.column_stack([before.keys, before.stop - before.first])]
        for record in fresh:
            payload, number = record.payload, int(record.id)
            entries[number] = payload["size"]
            for name in _NAMES:
                sessions[name] |= set(payload[name])
            for session in (*payload["opened"], *([payload["session"]] if payload["session"] else [])):
                active[session] = max(active.get(session, 0.0), payload["time"])
            if number in replaced or (state.head and payload["replaces"]):
                continue  # counted by the entry that replaces it, or it was counted before
            added.append(_unpack(payload["added"]).reshape(-1, 2))
            removed |= set(_unpack(payload["removed"]).tolist())
            counts.update(payload["counts"])
        if state.head and any(record.id in replaced for record in fresh):
            return False  # rare: written and replaced since the last look
        table = np.concatenate(added)
        gone_ids = np.array(sorted(removed | state.removed), np.int64)
        table = table[np.isin(table[:, 0], gone_ids, invert=True)]
        table = table[np.argsort(table[:, 0])]
        self.state = State(
            int(records[-1].id),
            identity,
            DocumentRanges(table[:, 0], table[:, 0], table[:, 0] + table[:, 1]),
            frozenset(removed | state.removed),
            counts,
            {name: frozenset(sessions[name]) for name in _NAMES},
            active,
            {number: size for number, size in entries.items() if number not in replaced},
            replaced,
            records[-1].payload["time"],
            {},
        )
        return True

    def append(self, build: Callable[[State], Entry | None]) -> State:
        """Commit what ``build`` makes of the newest state; it is called again where another writer was sooner.

        Raises StorageError: the ids of the session were given up, because its writer was not heard of for long.
        """
        while True:
            state = self.refresh()
            try:
                entry = build(state)
            except SnapshotExpired:
                if self.refresh().head == state.head:
                    raise
                continue
            if entry is None:
                return state
            if entry.session is not None and entry.session in state.sessions["fenced"]:
                raise StorageError(
                    f"{self._connection.address.text}: this writer was silent for too long and another one has swept "
                    "what it had not committed; what was committed is kept: run it again"
                )
            mine, number = uuid.uuid4().hex, state.head + 1
            payload = {
                "entry": mine,
                "index": state.identity,
                "time": time.time(),
                "session": entry.session,
                "added": _pack(entry.added),
                "removed": _pack(entry.removed),
                "counts": {name: count for name, count in entry.counts.items() if count},
                "replaces": entry.replaces,
                "size": sum(len(vector.words) for vector in entry.words.values()),
                **{name: entry.sessions.get(name, []) for name in _NAMES},
            }
            vectors: dict[str, Any] = {
                name: to_model(vector) for name, vector in entry.words.items() if len(vector.words)
            }
            self.insert(models.PointStruct(id=number, vector=vectors, payload=payload))
            (record,) = self._connection.call("retrieve", self.name, [number], consistency="majority")
            if record.payload["entry"] == mine:
                return self.refresh()

    def insert(self, point: models.PointStruct) -> None:
        """Insert a point unless there is one of its id, wherever else somebody tries."""
        self._connection.call(
            "upsert",
            self.name,
            [point],
            wait=True,
            ordering=models.WriteOrdering.STRONG,
            update_mode=models.UpdateMode.INSERT_ONLY,
        )

    def count_words(self, state: State, words: Hashes) -> Ids:
        """Return in how many sentences, documents and openings each word is: ``[words, 3]``."""
        known, folded = state.frequencies, fold(words).tolist()
        missing = [word for word in dict.fromkeys(folded) if word not in known]
        if missing:
            limit = 2 * (len(state.entries) + len(state.replaced)) + _PAGE
            requests = [
                models.QueryRequest(query=models.SparseVector(indices=[word], values=[1.0]), using=kind, limit=limit)
                for word in missing
                for kind in KINDS
            ]
            replies = self._connection.call("query_batch_points", self.name, requests)
            sums = [sum(point.score for point in reply.points if point.id in state.entries) for reply in replies]
            known |= zip(missing, np.rint(np.array(sums)).astype(np.int64).reshape(-1, len(KINDS)), strict=True)
        return np.array([known[word] for word in folded], np.int64).reshape(-1, len(KINDS))

    def merge(self, *, everything: bool = False) -> None:
        """Replace entries by their sums where many are of a size; the points of what they removed are gone already."""
        state = self.refresh()
        tiers: dict[int, list[int]] = {}
        for number, size in sorted(state.entries.items(), key=lambda item: item[1]):
            tiers.setdefault(0 if everything else int(math.log(size + 1, _FACTOR)), []).append(number)
        for numbers in tiers.values():
            chosen: list[int] = []
            for number in numbers:
                if sum(state.entries[one] for one in chosen) + state.entries[number] <= _LARGEST:
                    chosen.append(number)
            if len(chosen) >= (2 if everything else _MERGED):
                self._merge(chosen)
        outdated: list[Any] = [number for number, since in state.replaced.items() if since < time.time() - _GRACE]
        if outdated:
            self._connection.call("delete", self.name, models.PointIdsList(points=outdated), wait=True)

    def _merge(self, numbers: list[int]) -> None:
        records = self._connection.call("retrieve", self.name, numbers, with_vectors=True, consistency="majority")
        payloads = [record.payload for record in records]
        table = np.concatenate([_unpack(payload["added"]).reshape(-1, 2) for payload in payloads])
        removed = np.concatenate([_unpack(payload["removed"]) for payload in payloads])
        counts = Counter[str]()
        for payload in payloads:
            counts.update(payload["counts"])
        sessions = {name: {one for payload in payloads for one in payload[name]} for name in _NAMES}
        over = sessions["opened"] & sessions["closed"]
        last = max(sessions["opened"], default=None)  # tells which ids are taken
        entry = Entry(
            added=table[np.isin(table[:, 0], removed, invert=True)],
            removed=removed[np.isin(removed, table[:, 0], invert=True)],
            counts=counts,
            words={kind: sum_words(from_model(record.vector.get(kind)) for record in records) for kind in KINDS},
            sessions={name: sorted(ones - (over - {last})) for name, ones in sessions.items()},
            replaces=sorted(int(record.id) for record in records),
        )
        self.append(lambda state: entry if state.entries.keys() >= set(numbers) else None)


def _pack(array: Ids) -> str:
    return base64.b64encode(array.astype("<i8").tobytes()).decode("ascii")


def _unpack(text: str) -> Ids:
    return np.frombuffer(base64.b64decode(text), "<i8").astype(np.int64)
