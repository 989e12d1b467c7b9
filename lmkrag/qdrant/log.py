"""The log of an index on Qdrant: its commits, in order.

Entries are points without a vector, with the ids 1, 2, 3, ... An entry is inserted only if its id
is free, so that the second of two writers has to read the first one's entry and to try the next
number: this insertion is the commit. Ids of vectors begin with the number of an entry that their
writer inserted before, which makes them unique.
"""

import base64
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from qdrant_client import models

from lmkrag.errors import IndexCorrupt, IndexMismatch, StorageError, UsageError
from lmkrag.index import codec
from lmkrag.index.files import Tables
from lmkrag.index.staged import SentenceTable, Staged, WindowTable
from lmkrag.qdrant.connection import Connection
from lmkrag.specs import EncoderSpec
from lmkrag.system.files import FileStamp
from lmkrag.types import Document
from lmkrag.types.arrays import Vectors

VECTOR = "sentence"  # the name of vectors in the collection
SESSION = 1 << 32  # ids that begin with the number of an entry
_VECTORS = 256  # in one call
_AHEAD = 64  # entries looked for at once

# the first point and the number of some rows; words and structure
UploadedRows = tuple[int, int, Tables, Tables]


class Header(NamedTuple):
    """An entry of the log without its data.

    Attributes:
        number: its id, from 1.
        token: random text, by which its writer recognizes it.
        time: when it was inserted, in seconds since 1970.
        pieces: numbers of the entries with the data before its own; None for a piece of another
            entry.
    """

    number: int
    token: str  # random, by which its writer recognizes it
    time: float
    pieces: Sequence[int] | None = (
        None  # entries with the data before its own; None: a piece of another entry
    )


class Log:
    """Reads and extends the log, and uploads vectors."""

    def __init__(self, connection: Connection, copy: Path | None = None) -> None:
        """Take a connection, and the local copy, which messages name."""
        self._connection, self._call, self._copy = connection, connection.call, copy

    def create(self, dimensions: int, settings: dict[str, Any]) -> None:
        """Create the collection with its first entry, unless another process has created it.

        Args:
            dimensions: length of a vector.
            settings: the payload of the first entry.
        """
        vectors = models.VectorParams(size=dimensions, distance=models.Distance.DOT, on_disk=True)
        int8 = models.ScalarQuantizationConfig(
            type=models.ScalarType.INT8, quantile=0.99, always_ram=True
        )
        storage = {
            "quantization_config": models.ScalarQuantization(scalar=int8),
            "on_disk_payload": True,
        }
        try:
            if not self._call("collection_exists"):
                self._call("create_collection", vectors_config={VECTOR: vectors}, **storage)
        except StorageError:
            if not self._call("collection_exists"):
                raise
        self.insert(1, b"", lmkrag="1", **settings)

    def read_settings(self) -> dict[str, Any]:
        """Return the payload of the first entry.

        Raises:
            IndexNotFound: there is no index.
            UsageError: the collection was not made by this version of lmkrag.
        """
        records = self._read([1])
        if not records and not self._call("count", exact=False).count:
            raise self._connection.missing()
        settings: dict[str, Any] = records[0].payload if records else {}
        if settings.get("lmkrag") != "1":
            raise UsageError(
                f"{self._connection.text}: not made by this version of lmkrag; choose another name"
            )
        return settings

    def read_after(self, number: int, token: str) -> list[Header]:
        """Return the entries after a known one, in order.

        Args:
            number: number of the known entry.
            token: its token.

        Raises:
            IndexMismatch: that entry is gone: another index, or an older state, is in its place.
        """
        headers = self.read_headers(range(number, number + _AHEAD))
        if not headers or headers[0][:2] != (number, token):
            advice = f"open it again; if that fails, delete the copy {self._copy}"
            raise IndexMismatch(
                f"{self._connection.text}: another index, or an older state, is in its "
                f"place; {advice}"
            )
        return [header for place, header in enumerate(headers) if header.number == number + place][
            1:
        ]

    def read_headers(self, numbers: Iterable[int]) -> list[Header]:
        """Return those of some entries that exist, in order, without their data."""
        records = self._read(
            numbers, models.PayloadSelectorInclude(include=list(Header._fields[1:]))
        )
        return [Header(number=int(record.id), **record.payload) for record in records]

    def read_data(self, header: Header) -> bytes:
        """Return the data of an entry, with those of its pieces.

        Raises:
            IndexCorrupt: a piece is gone.
        """
        numbers = [*(header.pieces or ()), header.number]
        records = [record for number in numbers for record in self._read([number])]
        if len(records) < len(numbers):
            raise IndexCorrupt(
                f"{self._connection.text}: entry {header.number} of the log is gone: "
                "restore a snapshot"
            )
        return b"".join(base64.b64decode(record.payload["data"]) for record in records)

    def _read(self, numbers: Iterable[int], payload: Any = True) -> list[Any]:
        """Return the points of some entries, in order, as a majority of the replicas has them."""
        consistency = models.ReadConsistencyType.MAJORITY
        records = self._call(
            "retrieve", list(numbers), with_payload=payload, consistency=consistency
        )
        return sorted(records, key=lambda record: int(record.id))

    def insert(self, number: int, data: bytes, **payload: Any) -> bool:
        """Insert an entry unless its number is taken.

        Args:
            number: the number.
            data: the bytes of the entry.
            payload: further values, with a random ``token``.

        Returns:
            Whether the entry with this number is the inserted one.
        """
        payload |= {"time": time.time(), "data": base64.b64encode(data).decode()}
        ordering, mode = models.WriteOrdering.STRONG, models.UpdateMode.INSERT_ONLY
        point = models.PointStruct(id=number, vector={}, payload=payload)
        self._call("upsert", [point], wait=True, ordering=ordering, update_mode=mode)
        return [header.token for header in self.read_headers([number])] == [payload["token"]]

    def upload(self, first: int, vectors: Vectors) -> None:
        """Write vectors as points, rounded to 16 bits as in a directory.

        Args:
            first: id of the first point; the others follow it.
            vectors: ``[n, dimensions]`` float32 of length one.
        """
        for start in range(0, len(vectors), _VECTORS):
            part = vectors[start : start + _VECTORS].astype(np.float16).astype(np.float32)
            ids: Any = list(range(first + start, first + start + len(part)))
            self._call("upsert", models.Batch(ids=ids, vectors={VECTOR: part.tolist()}), wait=True)


class Entry(NamedTuple):
    """The content of an entry: one commit.

    Attributes:
        staged: new documents, in order.
        segments: uploaded rows, which in order are the sentences of ``staged`` in order.
        removed: names of documents to remove.
        encoder: the encoder of the index from this entry on; None if it stays.
    """

    staged: Sequence[Staged] = ()
    segments: Sequence[UploadedRows] = ()
    removed: Sequence[str] = ()
    encoder: EncoderSpec | None = None  # from now on

    def pack(self) -> bytes:
        """Return its bytes.

        Raises:
            UsageError: the entry is larger than 1 GiB.
        """
        staged = [_describe(item) for item in self.staged]
        segments = [(*part[:2], *map(_encode, part[2:])) for part in self.segments]
        encoder = self.encoder and asdict(self.encoder)
        content = json.dumps([staged, segments, self.removed, encoder], ensure_ascii=False)
        return codec.pack(content.encode("utf-8", "surrogatepass"), "entry")

    @classmethod
    def unpack(cls, data: bytes) -> "Entry":
        """Return the entry that :meth:`pack` packed.

        Raises:
            IndexCorrupt: the bytes are damaged, or of a newer version.
        """
        content = codec.unpack(data, "entry").decode("utf-8", "surrogatepass")
        try:
            staged, segments, removed, encoder = json.loads(content)
            parts = [
                (first, rows, _decode(words), _decode(roles))
                for first, rows, words, roles in segments
            ]
            return cls(
                [_read_staged(*item) for item in staged],
                parts,
                removed,
                encoder and EncoderSpec(**encoder),
            )
        except (ValueError, TypeError) as error:
            raise IndexCorrupt(
                f"an entry of the log on Qdrant can't be read ({error}): upgrade lmkrag"
            ) from error


def _describe(item: Staged) -> list[Any]:
    """Return a staged document as JSON values."""
    sentences, windows = item.sentences, item.windows
    arrays = (
        array.tolist()
        for array in (sentences.ends, sentences.kinds, windows.hashes, windows.ordinals)
    )
    details = {name: value for name, value in asdict(item.document).items() if name != "text"}
    return [details, item.text[0 : len(item.text)], item.root, item.stamp, *arrays]


def _read_staged(
    details: Mapping[str, Any], text: str, root: str, stamp: Sequence[int], *arrays: Any
) -> Staged:
    """Return the staged document that :func:`_describe` described."""
    sentences, windows = SentenceTable(*arrays[:2]), WindowTable(*arrays[2:])
    return Staged(Document(text=text, **details), text, sentences, root, FileStamp(*stamp), windows)


def _encode(tables: Tables) -> dict[str, Any]:
    """Return arrays as JSON values: dtype and base64 by name."""
    return {
        name: (array.dtype.str, base64.b64encode(array.tobytes()).decode())
        for name, array in tables.items()
    }


def _decode(tables: Mapping[str, Any]) -> Tables:
    """Return the arrays that :func:`_encode` encoded."""
    return {
        name: np.frombuffer(base64.b64decode(data), dtype) for name, (dtype, data) in tables.items()
    }
