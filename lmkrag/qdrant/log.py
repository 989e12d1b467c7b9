"""The log of an index on Qdrant: what was committed, in which order.

Entries are points without a vector, with the ids 1, 2, 3, ... One is inserted only if there is none of its id, so that
whoever comes second has to read what the first one wrote, and to try the next number: this insertion is the commit. Ids
of other points begin with the number of an entry, the session of the writer that made them: no two are the same.
"""

import base64
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from qdrant_client import models

from lmkrag.arrays import Vectors
from lmkrag.errors import IndexCorrupt, IndexNotFound, StorageError, UsageError
from lmkrag.qdrant.connection import Connection, in_parts
from lmkrag.qdrant.entries import Entry

VECTOR = "sentence"  # the name of vectors in the collection
SESSION = 1 << 32  # ids of a session; those from the middle on are of pieces of entries
_PIECES = SESSION // 2
_PIECE = 4 << 20  # bytes of an entry in one point; a request has 32 MiB at most
_VECTORS, _IDS = 256, 4_096  # in one call
_AHEAD = 64  # entries looked for at once
_FORMAT = 1
_MAJORITY = models.ReadConsistencyType.MAJORITY


class Header(NamedTuple):
    """An entry of the log without what it says."""

    number: int
    token: str  # drawn by its writer, who knows it again by that
    time: float
    pieces: Sequence[int] = ()  # points that hold what it says, but for the last piece, which it has itself


class Log:
    """Reads and extends the log, and uploads vectors."""

    def __init__(self, connection: Connection) -> None:
        self._call, self._address = connection.call, connection.address

    def create(self, dimensions: int, settings: dict[str, Any]) -> None:
        """Make the collection with its first entry, unless somebody else has made it meanwhile."""
        vectors = models.VectorParams(size=dimensions, distance=models.Distance.DOT, on_disk=True)
        int8 = models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=0.99, always_ram=True)
        try:
            if not self._call("collection_exists"):
                self._call(
                    "create_collection",
                    vectors_config={VECTOR: vectors},
                    quantization_config=models.ScalarQuantization(scalar=int8),
                    on_disk_payload=True,
                    shard_number=self._address.shards,
                    replication_factor=self._address.replicas,
                    write_consistency_factor=self._address.replicas // 2 + 1,
                )
        except StorageError:
            if not self._call("collection_exists"):
                raise
        self.insert(1, b"", lmkrag=_FORMAT, **settings)

    def read_settings(self) -> dict[str, Any]:
        """Return what the first entry has. Raises IndexNotFound: there is none; UsageError: a collection of others."""
        text = self._address.text
        missing = IndexNotFound(f"{text}: no index here; make one with: lmkrag index PATH --index {text}")
        try:
            records = self._read([1])
        except IndexNotFound:
            raise missing from None
        if not records and not self._call("count", exact=False).count:
            raise missing
        settings: dict[str, Any] = records[0].payload if records else {}
        if settings.get("lmkrag") != _FORMAT:
            raise UsageError(f"{text}: a collection of others, or of another version of lmkrag; choose another name")
        return settings

    def read_after(self, number: int, token: str) -> list[Header]:
        """Return entries after one, in order. Raises StorageError: that one is not there any more."""
        headers = self.read_headers(range(number, number + _AHEAD))
        if not headers or headers[0][:2] != (number, token):
            raise StorageError(f"{self._address.text}: another index, or an older state of it, is in its place")
        return [header for place, header in enumerate(headers) if header.number == number + place][1:]

    def read_headers(self, numbers: Iterable[int]) -> list[Header]:
        """Return those of some entries that are there, in order."""
        records = self._read(numbers, models.PayloadSelectorInclude(include=list(Header._fields[1:])))
        return [Header(number=int(record.id), **record.payload) for record in records]

    def read_entry(self, header: Header) -> Entry:
        """Return what an entry says. Raises IndexCorrupt: a piece of it is gone or damaged."""
        records = [record for number in (*header.pieces, header.number) for record in self._read([number])]
        if len(records) <= len(header.pieces):
            raise IndexCorrupt(f"{self._address.text}: entry {header.number} of the log is not whole")
        return Entry.unpack(b"".join(base64.b64decode(record.payload["data"]) for record in records))

    def _read(self, numbers: Iterable[int], payload: Any = True) -> list[Any]:
        records = self._call("retrieve", list(numbers), with_payload=payload, consistency=_MAJORITY)
        return sorted(records, key=lambda record: int(record.id))

    def insert(self, number: int, data: bytes, **payload: Any) -> bool:
        """Insert an entry unless there is one of its number; return whether it is the one that is there."""
        ordering, mode = models.WriteOrdering.STRONG, models.UpdateMode.INSERT_ONLY
        self._upsert([_make_point(number, data, time=time.time(), **payload)], ordering=ordering, update_mode=mode)
        return [header.token for header in self.read_headers([number])] == [payload["token"]]

    def upload_pieces(self, session: int, data: bytes) -> tuple[list[int], bytes]:
        """Write what an entry says, but for the last piece; return the ids of the points, and that piece."""
        starts = range(0, len(data) - _PIECE, _PIECE)
        points = [session * SESSION + _PIECES + number for number in range(len(starts))]
        for point, start in zip(points, starts, strict=True):
            self._upsert([_make_point(point, data[start : start + _PIECE])])
        return points, data[len(starts) * _PIECE :]

    def upload_vectors(self, first: int, vectors: Sequence[Vectors]) -> None:
        """Write vectors ``[n, dimensions]`` as points from an id on, in the 16 bits that a directory has of them."""
        for part in (block[start : start + _VECTORS] for block in vectors for start in range(0, len(block), _VECTORS)):
            values = part.astype(np.float16).astype(np.float32).tolist()
            self._upsert(models.Batch(ids=list(range(first, first + len(part))), vectors={VECTOR: values}))
            first += len(part)

    def _upsert(self, points: Any, **options: Any) -> None:
        self._call("upsert", points, wait=True, **options)

    def scan_points(self) -> Iterator[list[int]]:
        """Yield the ids of all vectors, some at a time."""
        offset: int | None = SESSION
        while offset is not None:
            records, offset = self._call("scroll", limit=_IDS, offset=offset, with_payload=False)
            yield [point for record in records if (point := int(record.id)) % SESSION < _PIECES]

    def delete(self, points: Iterable[int]) -> None:
        """Delete points."""
        for part in in_parts(points, _IDS):
            self._call("delete", models.PointIdsList(points=part), wait=True)


def _make_point(number: int, data: bytes, **payload: Any) -> models.PointStruct:
    return models.PointStruct(id=number, vector={}, payload={**payload, "data": base64.b64encode(data).decode()})
