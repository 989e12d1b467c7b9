"""Columns of the catalog: documents by blocks of 512 row ids, field by field, so that a filter
reads few bytes.

The column ``""`` of a block has its documents and their totals; the others have the values of their
fields. The rows of documents are what counts: a transaction that changes some writes the columns of
their blocks anew.

A column of fields is JSON of the values of each (:class:`FieldValues`), a line end, and the counts
and places of all of them, end to end, as packed numbers.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from sqlite3 import Connection
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from xxhash import xxh3_64_intdigest

from lmkrag.errors import REPAIR, IndexCorrupt
from lmkrag.index import catalog, codec
from lmkrag.index.catalog import DocumentRow
from lmkrag.index.ranges import NO_DOCUMENTS, DocumentRanges
from lmkrag.types.arrays import Ids, Mask

_BLOCK = 512  # documents; as many rows are read where one of them changes
_SHARED = 32  # columns that the keys of front matter share: documents may have any number of keys
_OWN = ("doc_id", "title", "kind", "root", "path", "modified")


class FieldValues(NamedTuple):
    """The values that documents of a block have in one field, each value once.

    Attributes:
        values: the distinct values.
        counts: number of documents with each value.
        places: the places of these documents in the block, from 0; those of one value after those
            of the value before it.
    """

    values: list[Any]
    counts: Sequence[int] | Ids
    places: Sequence[int] | Ids


@dataclass(slots=True)
class _PlacedValue:
    """A value of a field, and the places of the documents of a block that have it."""

    value: Any
    places: list[int]


_PlacedValues = dict[str, _PlacedValue]
"""The values of a field by their JSON: 1, 1.0 and True differ."""


@runtime_checkable
class BatchTest(Protocol):
    """A test of a value that is faster with many values at once."""

    def __call__(self, value: Any, /) -> bool:
        """Return whether a value passes."""

    def each(self, values: list[Any], /) -> list[bool]:
        """Return which of many values pass."""


def fields_of(row: DocumentRow) -> dict[str, Any]:
    """Return the fields of a document that a filter can name, with their values.

    A path has all folders above it as values, too; ``modified`` is a date (ISO 8601) or None.
    """
    columns = {name: getattr(row, name) for name in ("doc_id", "title", "kind", "root")}
    front_matter = {str(key).lower(): value for key, value in row.meta.items()}
    paths = [row.doc_id, row.path]
    parts = [path.replace("\\", "/").split("/") for path in paths]
    folders = [
        folder
        for names in parts
        for stop in range(1, len(names))
        if (folder := "/".join(names[:stop]))
    ]
    changed = row.mtime_ns and datetime.fromtimestamp(row.mtime_ns / 1e9, UTC).date().isoformat()
    return {**front_matter, **columns, "path": paths + folders, "modified": changed or None}


def refresh_columns(connection: Connection) -> None:
    """Write the columns of the blocks whose documents have changed, inside the transaction that
    changes them.
    """
    for (block,) in connection.execute("SELECT block FROM stale_block").fetchall():
        built = _build(connection, block)
        names = ((name, block) for name in ("", *_OWN, *map(str, range(_SHARED))))
        connection.executemany("DELETE FROM document_column WHERE name = ? AND block = ?", names)
        generation = catalog.generation(connection)
        for name, data in built.items():
            values = (name, block, generation, codec.pack(data, f"column {name} {block}"))
            connection.execute("INSERT INTO document_column VALUES (?, ?, ?, ?)", values)
    connection.execute("DELETE FROM stale_block")


def find_wrong_columns(connection: Connection) -> Iterator[str]:
    """Yield a line for each block whose columns are not what the rows of its documents say."""
    blocks = (
        "SELECT id / ? FROM document UNION SELECT block FROM document_column UNION SELECT "
        "block FROM stale_block"
    )
    for (block,) in connection.execute(blocks, (_BLOCK,)).fetchall():
        rows = connection.execute(
            "SELECT name, data FROM document_column WHERE block = ?", (block,)
        )
        try:
            stored = {name: _unpack(data, name, block) for name, data in rows}
            if stored != _build(connection, block):
                yield (
                    f"catalog: the columns of documents {block * _BLOCK} and following are "
                    f"wrong; {REPAIR}"
                )
        except IndexCorrupt as error:
            yield str(error)


def _column(key: str) -> str:
    """Return the name of the column that a field is in: its own, or one of 32 that front matter
    shares.
    """
    return (
        key
        if key in _OWN
        else str(xxh3_64_intdigest(key.encode("utf-8", "surrogatepass")) % _SHARED)
    )


def _build(connection: Connection, block: int) -> dict[str, bytes]:
    """Return the columns that a block must have by the rows of its documents, by their names."""
    rows = list(catalog.read_block(connection, block * _BLOCK, (block + 1) * _BLOCK))
    if not rows:
        return {}
    fields: dict[str, _PlacedValues] = {}
    for place, row in enumerate(rows):
        for key, value in fields_of(row).items():
            placed_values = fields.setdefault(key, {})
            if value is None:
                continue
            for item in _items(value):
                placed = placed_values.setdefault(json.dumps(item), _PlacedValue(item, []))
                if not placed.places or placed.places[-1] != place:
                    placed.places.append(place)
    columns: dict[str, dict[str, FieldValues]] = {}
    for key, placed_values in fields.items():
        columns.setdefault(_column(key), {})[key] = _lay_out(placed_values)
    table = np.array([(row.id, row.first_sentence, row.sentences) for row in rows], "<i8")
    facts = {
        "columns": sorted(columns),
        "characters": sum(row.length for row in rows),
        "kinds": Counter(row.kind for row in rows),
        "roots": Counter(row.root for row in rows),
        "unread": sum(map(_count_unread, rows)),
    }
    written = {"": len(rows).to_bytes(8, "little") + table.tobytes() + json.dumps(facts).encode()}
    return written | {name: _write(column) for name, column in columns.items()}


def _items(value: Any) -> Iterator[Any]:
    """The values that a field has: those of a list, and of the lists in it."""
    if isinstance(value, list) and value:
        for item in value:
            yield from _items(item)
    else:
        yield value


def _lay_out(placed_values: _PlacedValues) -> FieldValues:
    """Return the values of a field with their counts and places end to end."""
    values = [placed.value for placed in placed_values.values()]
    places = [placed.places for placed in placed_values.values()]
    return FieldValues(values, list(map(len, places)), list(chain(*places)))


def _write(fields: Mapping[str, FieldValues]) -> bytes:
    """A column of some fields, by their names."""
    values = {key: field.values for key, field in fields.items()}
    numbers = chain(*((*field.counts, *field.places) for field in fields.values()))
    return json.dumps(values).encode() + b"\n" + _pack_numbers(numbers)


def _read(column: bytes, key: str) -> FieldValues:
    """Return the values of one field of a column; empty if the column has no such field."""
    text, _, packed = column.partition(b"\n")
    numbers = _unpack_numbers(packed)
    for name, values in json.loads(text).items():
        counts, numbers = np.split(numbers, [len(values)])
        places, numbers = np.split(numbers, [counts.sum()])
        if name == key:
            return FieldValues(values, counts, places)
    return FieldValues([], numbers[:0], numbers[:0])


def _pack_numbers(numbers: Iterable[int]) -> bytes:
    """Numbers below 2^16, each as its difference from the one before it, from 0 at first.

    Places mostly grow by one, which compresses well. A difference below 0 wraps round: 16 bits hold
    it modulo 2^16, and the sums of :func:`_unpack_numbers` wrap back.
    """
    return np.diff(np.array([0, *numbers], "<u2")).tobytes()


def _unpack_numbers(packed: bytes) -> Ids:
    """Return the numbers that :func:`_pack_numbers` packed."""
    return np.cumsum(np.frombuffer(packed, "<u2"), dtype=np.uint16).astype(np.int64)


def _count_unread(row: DocumentRow) -> int:
    """Return how many scanned pages of a document were not read by OCR."""
    pages = row.meta.get("scanned_pages")
    return len(pages) if isinstance(pages, list) and "ocr_confidence" not in row.meta else 0


def _unpack(packed: bytes, name: str, block: int) -> bytes:
    """Return a column of a block. The first indexes of format 6 have columns of JSON with numbers
    in it.
    """
    column = codec.unpack(packed, f"column {name} {block}")
    if not name or b"\n" in column:
        return column
    return _write({key: FieldValues(*field) for key, field in json.loads(column).items()})


def _read_documents(block: int, packed: bytes) -> tuple[Ids, dict[str, Any]]:
    """Return the documents of a block ``[n, 3]`` (id, first sentence, number of sentences), and
    their totals.
    """
    data = _unpack(packed, "", block)
    stop = 8 + 24 * int.from_bytes(data[:8], "little")
    return np.frombuffer(data[8:stop], "<i8").reshape(-1, 3), json.loads(data[stop:])


def count_documents(connection: Connection) -> dict[str, Any]:
    """Return the totals of an index.

    Returns:
        ``documents``, ``sentences``, ``characters`` and ``unread_pages`` as numbers, and ``kinds``
            and ``roots`` as numbers of documents by name.
    """
    totals = Counter(documents=0, sentences=0, characters=0, unread_pages=0)
    named: dict[str, Counter[str]] = {"kinds": Counter(), "roots": Counter()}
    for block, packed in connection.execute(
        "SELECT block, data FROM document_column WHERE name = ''"
    ):
        table, facts = _read_documents(block, packed)
        totals.update(documents=len(table), sentences=int(table[:, 2].sum()))
        totals.update(characters=facts["characters"], unread_pages=facts["unread"])
        for key, of in named.items():
            of.update(facts[key])
    return {
        **totals,
        **{key: {name: of[name] for name in sorted(of) if name} for key, of in named.items()},
    }


def read_ranges(
    connection: Connection, known: DocumentRanges = NO_DOCUMENTS, since: int = -1
) -> DocumentRanges:
    """Return the documents of the index as ranges of sentences.

    Args:
        connection: a connection that holds a snapshot.
        known: the documents of an earlier state; blocks that are unchanged are taken from it.
        since: the generation of that state; -1 if there is none.

    Raises:
        IndexCorrupt: the list of documents does not have its checksum.
    """
    changed = (
        "SELECT block, data FROM document_column WHERE name = '' AND generation > ? ORDER BY block"
    )
    columns, tables = dict(known.columns), []
    for block, packed in connection.execute(changed, (since,)):
        table, facts = _read_documents(block, packed)
        columns[block] = tuple(facts["columns"])
        tables.append(table)
    blocks = np.array([table[0, 0] // _BLOCK for table in tables], np.int64)
    before = np.column_stack([known.keys, known.first, known.stop - known.first])
    table = np.concatenate([before[np.isin(known.keys // _BLOCK, blocks, invert=True)], *tables])
    table = table[np.argsort(table[:, 0], kind="stable")]
    if catalog.sum_documents(table) != catalog.read_number(connection, "live_documents"):
        if since >= 0:
            return read_ranges(connection)  # a block without documents is gone
        raise IndexCorrupt(f"the catalog's list of documents is damaged (checksum); {REPAIR}")
    return DocumentRanges(table[:, 0], table[:, 1], table[:, 1] + table[:, 2], columns)


def match_field(
    connection: Connection, documents: DocumentRanges, key: str, test: Callable[[Any], bool]
) -> Mask:
    """Return which documents have a value of a field that passes a test.

    Args:
        connection: a connection that holds a snapshot.
        documents: all documents of the snapshot.
        key: name of the field.
        test: a function of a value; it gets None for a document without the field.

    Returns:
        ``[n]`` bool, true for each document that passes.

    Raises:
        IndexCorrupt: a column is damaged or lost.
    """
    name, without = _column(key), test(None)
    passed, present = np.zeros((2, len(documents.keys)), bool)
    # Each block that has the column must be read; values are tested once for all their documents.
    missing = {block for block, names in documents.columns.items() if name in names}
    for block, packed in connection.execute(
        "SELECT block, data FROM document_column WHERE name = ?", (name,)
    ):
        missing.discard(block)
        values, counts, places = _read(_unpack(packed, name, block), key)
        passing = test.each(values) if isinstance(test, BatchTest) else map(test, values)
        hits = np.fromiter(passing, bool, len(values))
        if hits.any() or without:
            positions = places + np.searchsorted(documents.keys, block * _BLOCK)
            present[positions] = True
            passed[positions[np.repeat(hits, counts)]] = True
    if missing:
        raise IndexCorrupt(f"the catalog has lost columns of documents; {REPAIR}")
    return passed | ~present if without else passed
