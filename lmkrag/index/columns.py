"""Columns of the catalog: documents by blocks of 512 row ids, field by field, so that nobody has to read all rows.

The column ``""`` of a block has its documents and what they are in all; the others have the values of their fields. The
rows of documents are what counts: a transaction that changes some writes the columns of their blocks anew.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import UTC, datetime
from itertools import chain
from sqlite3 import Connection
from typing import Any

import numpy as np
from xxhash import xxh3_64_intdigest

from lmkrag.arrays import Ids, Mask
from lmkrag.errors import REPAIR, IndexCorrupt
from lmkrag.index import catalog, codec
from lmkrag.index.catalog import DocumentRow
from lmkrag.index.ranges import NO_DOCUMENTS, DocumentRanges

_BLOCK = 512  # documents; as many rows are read where one of them changes
_SHARED = 32  # columns that the keys of front matter share: documents may have any number of keys
_OWN = ("doc_id", "title", "kind", "root", "path", "modified")


def fields_of(row: DocumentRow) -> dict[str, Any]:
    """Return what a filter can ask of a document."""
    columns = {name: getattr(row, name) for name in ("doc_id", "title", "kind", "root")}
    front_matter = {str(key).lower(): value for key, value in row.meta.items()}
    paths = [row.doc_id, row.path]
    parts = [path.replace("\\", "/").split("/") for path in paths]
    folders = [folder for names in parts for stop in range(1, len(names)) if (folder := "/".join(names[:stop]))]
    changed = row.mtime_ns and datetime.fromtimestamp(row.mtime_ns / 1e9, UTC).date().isoformat()
    return {**front_matter, **columns, "path": paths + folders, "modified": changed or None}


def refresh_columns(connection: Connection) -> None:
    """Write the columns of the blocks whose documents have changed, inside the transaction that changes them."""
    for (block,) in connection.execute("SELECT block FROM stale_block").fetchall():
        built = _build(catalog.read_block(connection, block * _BLOCK, (block + 1) * _BLOCK))
        names = ((name, block) for name in ("", *_OWN, *map(str, range(_SHARED))))
        connection.executemany("DELETE FROM document_column WHERE name = ? AND block = ?", names)
        generation = catalog.generation(connection)
        for name, data in built.items():
            values = (name, block, generation, codec.pack(data, f"column {name} {block}"))
            connection.execute("INSERT INTO document_column VALUES (?, ?, ?, ?)", values)
    connection.execute("DELETE FROM stale_block")


def find_wrong_columns(connection: Connection) -> Iterator[str]:
    """Yield a line for each block whose columns are not what the rows of its documents say."""
    blocks = "SELECT id / ? FROM document UNION SELECT block FROM document_column UNION SELECT block FROM stale_block"
    for (block,) in connection.execute(blocks, (_BLOCK,)).fetchall():
        rows = connection.execute("SELECT name, data FROM document_column WHERE block = ?", (block,))
        try:
            stored = {name: _unpack(data, name, block) for name, data in rows}
            if stored != _build(catalog.read_block(connection, block * _BLOCK, (block + 1) * _BLOCK)):
                yield f"catalog: the columns of documents {block * _BLOCK} and following are wrong; {REPAIR}"
        except IndexCorrupt as error:
            yield str(error)


def _column(key: str) -> str:
    """The name of the column that a field is in."""
    return key if key in _OWN else str(xxh3_64_intdigest(key.encode("utf-8", "surrogatepass")) % _SHARED)


def _build(documents: Iterable[DocumentRow]) -> dict[str, bytes]:
    """The columns of a block, by their names."""
    rows = list(documents)
    if not rows:
        return {}
    fields: dict[str, dict[str, dict[Any, tuple[Any, list[int]]]]] = {}
    for position, row in enumerate(rows):
        for key, value in fields_of(row).items():
            entries = fields.setdefault(_column(key), {}).setdefault(key, {})
            for item in () if value is None else _items(value):
                _, positions = entries.setdefault(item if type(item) is str else (json.dumps(item),), (item, []))
                if positions[-1:] != [position]:
                    positions.append(position)
    columns = {name: _write({key: _lay_out(of.values()) for key, of in keys.items()}) for name, keys in fields.items()}
    table = np.array([(row.id, row.first_sentence, row.sentences) for row in rows], "<i8")
    facts = {
        "columns": sorted(columns),
        "characters": sum(row.length for row in rows),
        "kinds": Counter(row.kind for row in rows),
        "roots": Counter(row.root for row in rows),
        "unread": sum(map(_count_unread, rows)),
    }
    documents_column = len(rows).to_bytes(8, "little") + table.tobytes() + json.dumps(facts).encode()
    return {"": documents_column, **columns}


def _items(value: Any) -> Iterator[Any]:
    """The values that a field has: those of a list, and of the lists in it."""
    if not isinstance(value, list) or not value:
        yield value
        return
    for item in value:
        yield from _items(item)


def _lay_out(entries: Collection[tuple[Any, list[int]]]) -> tuple[list[Any], list[int], list[int]]:
    """Values, how many documents have each, and their positions in the block, end to end."""
    places = [places for _, places in entries]
    return [value for value, _ in entries], list(map(len, places)), list(chain(*places))


def _write(fields: dict[str, tuple[list[Any], list[int], list[int]]]) -> bytes:
    """A column: JSON of each field's values, a line end, then the numbers of all fields, each as what it adds (u16)."""
    values = json.dumps({key: values for key, (values, _, _) in fields.items()})
    numbers = [0, *(number for _, counts, places in fields.values() for number in counts + places)]
    return values.encode() + b"\n" + np.diff(np.array(numbers, "<u2")).tobytes()


def _read(column: bytes, key: str) -> tuple[list[Any], Ids, Ids]:
    """What :func:`_lay_out` gave of one field of a column."""
    text, _, packed = column.partition(b"\n")
    numbers = np.cumsum(np.frombuffer(packed, "<u2"), dtype=np.uint16).astype(np.int64)
    for name, values in json.loads(text).items():
        counts, numbers = numbers[: len(values)], numbers[len(values) :]
        places, numbers = numbers[: counts.sum()], numbers[counts.sum() :]
        if name == key:
            return values, counts, places
    return [], numbers[:0], numbers[:0]


def _count_unread(row: DocumentRow) -> int:
    """How many scanned pages of a document were not read by OCR."""
    pages = row.meta.get("scanned_pages")
    return len(pages) if isinstance(pages, list) and "ocr_confidence" not in row.meta else 0


def _unpack(packed: bytes, name: str, block: int) -> bytes:
    """A column of a block; the first ones of format 6 are JSON with the numbers in it."""
    column = codec.unpack(packed, f"column {name} {block}")
    return column if not name or b"\n" in column else _write(json.loads(column))


def _read_documents(block: int, packed: bytes) -> tuple[Ids, dict[str, Any]]:
    """Id, first sentence and sentences of the documents of a block ``[n, 3]``, and what they are in all."""
    data = _unpack(packed, "", block)
    stop = 8 + 24 * int.from_bytes(data[:8], "little")
    return np.frombuffer(data[8:stop], "<i8").reshape(-1, 3), json.loads(data[stop:])


def count_documents(connection: Connection) -> dict[str, Any]:
    """Return how many documents, sentences, characters and unread pages there are, and documents by kind and root."""
    named: dict[str, Counter[str]] = {"kinds": Counter(), "roots": Counter()}
    counts = np.zeros(4, np.int64)
    for block, packed in connection.execute("SELECT block, data FROM document_column WHERE name = ''"):
        table, facts = _read_documents(block, packed)
        counts += np.array([len(table), table[:, 2].sum(), facts["characters"], facts["unread"]])
        for key, of in named.items():
            of.update(facts[key])
    return {
        **dict(zip(("documents", "sentences", "characters", "unread_pages"), counts.tolist(), strict=True)),
        **{key: {name: of[name] for name in sorted(of) if name} for key, of in named.items()},
    }


def read_ranges(connection: Connection, known: DocumentRanges = NO_DOCUMENTS, since: int = -1) -> DocumentRanges:
    """Return the documents there are, or raise IndexCorrupt; of blocks unchanged ``since`` then, the ``known``."""
    changed = "SELECT block, data FROM document_column WHERE name = '' AND generation > ? ORDER BY block"
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


def match_field(connection: Connection, documents: DocumentRanges, key: str, test: Callable[[Any], bool]) -> Mask:
    """Return which documents have a value of a field that passes a test, None where there is none; or IndexCorrupt."""
    name, without = _column(key), test(None)
    passed, present = np.zeros(len(documents.keys), bool), np.zeros(len(documents.keys), bool)
    missing = {block for block, names in documents.columns.items() if name in names}
    for block, packed in connection.execute("SELECT block, data FROM document_column WHERE name = ?", (name,)):
        missing.discard(block)
        values, counts, places = _read(_unpack(packed, name, block), key)
        hits = np.fromiter(test.each(values) if hasattr(test, "each") else map(test, values), bool, len(values))
        if hits.any() or without:
            positions = places + np.searchsorted(documents.keys, block * _BLOCK)
            present[positions] = True
            passed[positions[np.repeat(hits, counts)]] = True
    if missing:
        raise IndexCorrupt(f"the catalog has lost columns of documents; {REPAIR}")
    return passed | ~present if without else passed
