"""All SQL. Functions over an open SQLite connection; transactions belong to the caller (reader and
store).
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, fields
from importlib.resources import files
from pathlib import Path
from sqlite3 import Connection
from typing import Any

import numpy as np

from lmkrag.errors import REPAIR, IndexCorrupt
from lmkrag.index import codec
from lmkrag.index.staged import SentenceTable, Staged, WindowTable
from lmkrag.specs import ATTACHED_TO
from lmkrag.system.files import FileStamp
from lmkrag.types import Document
from lmkrag.types.arrays import NO_IDS, Bytes, Hashes, Ids

FORMAT_VERSION = 6
# bytes of a database page: a block of text fits one; smaller ones make a deep, half empty tree
PAGE_SIZE = 8_192
TEXT_PER_BLOCK = 4_096  # characters of text in one row: a span is read without its whole document
SENTENCES_PER_BLOCK = 512

_NEARBY = 250  # names on each side of one that is not there, among which one like it is looked for
_CACHE = 8_192  # KiB of pages each connection keeps

_FIXED = ("format", "encoder", "recipe")  # never change; under one checksum
# odd: one changed value changes the sum
_FACTORS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """The catalog's record of a document, without its text.

    Attributes:
        id: the row id, which a new version of the document does not keep.
        doc_id: the name that users give.
        path: where the document was read from.
        root: the directory that was indexed; empty for a document that was given by itself.
        title: title of the document.
        kind: format of the document.
        meta: its metadata.
        page_starts: the offset of the first character of each page.
        fingerprint: hash of its file; empty if there is none.
        size: size of its file in bytes.
        mtime_ns: time of the file's last change, in nanoseconds.
        length: number of characters of its text.
        first_sentence: id of its first sentence; the others follow it.
        sentences: number of sentences.
        content_checksum: checksum of its name, text and sentence borders: see
            :func:`lmkrag.index.codec.checksum_content`.
    """

    id: int
    doc_id: str
    path: str
    root: str
    title: str
    kind: str
    meta: dict[str, Any]
    page_starts: tuple[int, ...]
    fingerprint: str
    size: int
    mtime_ns: int
    length: int
    first_sentence: int
    sentences: int
    content_checksum: str


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file that can't be indexed as it is, and is not read again until it changes.

    Attributes:
        path: the file.
        size: its size in bytes when it was read.
        mtime_ns: the time of its last change when it was read, in nanoseconds.
        reason: why it was skipped, in one line.
        version: the version of lmkrag that skipped it; another version reads it again.
    """

    path: str
    size: int
    mtime_ns: int
    reason: str
    version: str


_COLUMNS = ", ".join(column.name for column in fields(DocumentRow))


def connect(path: Path, *, create: bool = False, immutable: bool = False) -> Connection:
    """Open a catalog whose commits are durable.

    Args:
        path: the SQLite file.
        create: whether to create the file.
        immutable: whether nobody changes the file, so that no locks are needed.

    Returns:
        A connection that may be used by any thread, one at a time; transactions begin explicitly.

    Raises:
        sqlite3.OperationalError: the file can't be opened.
    """
    mode = "rwc" if create else "rw"
    if immutable:
        mode = "ro&immutable=1"
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=30,
    )
    try:
        connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone()
        if create:
            connection.execute(f"PRAGMA page_size = {PAGE_SIZE}")
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA cache_size = -{_CACHE}")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA cell_size_check = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")  # of macOS: see lmkrag.system.platform.sync
        connection.execute("PRAGMA checkpoint_fullfsync = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def create_schema(connection: Connection, meta: dict[str, str]) -> None:
    """Create the tables, and record what the index is made with.

    Args:
        connection: a connection to an empty file.
        meta: values by key, such as ``encoder`` and ``recipe`` as JSON.
    """
    script = files("lmkrag.index").joinpath("schema.sql").read_text("utf-8")
    connection.executescript(f"BEGIN;\n{script}")
    values = {**meta, "format": str(FORMAT_VERSION)}
    values["checksum"] = _checksum_fixed(values)
    values.update(generation="0", next_sentence="1", live_documents="0")
    connection.executemany("INSERT INTO meta VALUES (?, ?)", values.items())
    connection.execute("COMMIT")


def read_meta(connection: Connection) -> dict[str, str]:
    """Return the record of the index itself by key: format, generation, encoder and recipe.

    Raises:
        IndexCorrupt: the table is missing, or the record is damaged.
    """
    if connection.execute("SELECT type FROM sqlite_schema WHERE name = 'meta'").fetchone() != (
        "table",
    ):
        raise IndexCorrupt("the catalog has no table of what the index is made with")
    meta = dict(connection.execute("SELECT key, value FROM meta"))
    if meta["format"] == str(FORMAT_VERSION) and meta["checksum"] != _checksum_fixed(meta):
        raise IndexCorrupt("the catalog's record of the encoder and recipe is damaged (checksum)")
    return meta


def write_encoder(connection: Connection, encoder: str) -> None:
    """Record another encoder, given as JSON, with a new checksum."""
    meta = {**read_meta(connection), "encoder": encoder}
    values = [(encoder, "encoder"), (_checksum_fixed(meta), "checksum")]
    connection.executemany("UPDATE meta SET value = ? WHERE key = ?", values)


def _checksum_fixed(meta: dict[str, str]) -> str:
    """Return the checksum of format, encoder and recipe, in hexadecimal digits."""
    return codec.checksum("meta", "\0".join(meta[key] for key in _FIXED).encode()).hex()


def generation(connection: Connection) -> int:
    """Return the number of commits so far that changed what can be found."""
    return read_number(connection, "generation")


def next_generation(connection: Connection) -> None:
    """Count a commit, so that readers see that something changed."""
    connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'generation'")


def read_number(connection: Connection, key: str) -> int:
    """Return a number of the record of the index itself.

    Args:
        connection: a connection to the catalog.
        key: such as ``generation`` or ``live_documents``: see :func:`sum_documents`.

    Raises:
        IndexCorrupt: the value is damaged.
    """
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    try:
        return int(row[0])
    except (TypeError, ValueError) as error:
        raise IndexCorrupt(f"the catalog's {key!r} is damaged; {REPAIR}") from error


def sum_documents(table: Ids) -> int:
    """Return a checksum over documents, which a lost or changed document changes.

    Args:
        table: ``[n, 3]`` int64: row id, first sentence, number of sentences.

    Returns:
        A sum modulo 2^64, so that one document can be added or subtracted.
    """
    with np.errstate(over="ignore"):
        return int((table.astype(np.uint64) * np.array(_FACTORS, np.uint64)).sum())


def _add_to_sum(connection: Connection, document: tuple[int, int, int], sign: int) -> None:
    """Add a document to the checksum over documents, or subtract it if ``sign`` is -1."""
    total = (
        read_number(connection, "live_documents")
        + sign * sum_documents(np.array([document], np.int64))
    ) % 2**64
    connection.execute("UPDATE meta SET value = ? WHERE key = 'live_documents'", (str(total),))


def insert_document(connection: Connection, staged: Staged) -> int:
    """Record a document with its text, sentences and windows, inside a transaction.

    Args:
        connection: a connection inside a transaction.
        staged: the document; an earlier version is deleted before.

    Returns:
        The id of its first sentence.

    Raises:
        IndexCorrupt: the catalog's counter of sentences is damaged.
    """
    document, text, ends = staged.document, staged.text, staged.sentences.ends
    first = read_number(connection, "next_sentence")
    last = connection.execute(
        "SELECT first_sentence + sentences FROM document ORDER BY id DESC LIMIT 1"
    ).fetchone()
    if first < (last or (1,))[0]:
        raise IndexCorrupt(f"the catalog's next sentence id is damaged; {REPAIR}")
    connection.execute(
        "UPDATE meta SET value = ? WHERE key = 'next_sentence'", (str(first + len(ends)),)
    )
    # The row of the document; its checksum covers the row id, so it is set afterwards.
    values: tuple[Any, ...] = (
        document.doc_id,
        document.path,
        staged.root,
        document.title,
        document.kind,
        json.dumps(dict(document.meta), sort_keys=True, allow_nan=False),
        json.dumps(document.page_starts),
        document.fingerprint,
        *staged.stamp,
        len(text),
        first,
        len(ends),
        codec.checksum_content(document.doc_id, text, ends),
    )
    names = _COLUMNS.removeprefix("id, ")
    places = ", ".join("?" * (len(values) + 1))
    cursor = connection.execute(
        f"INSERT INTO document ({names}, row_checksum) VALUES ({places})", (*values, b"")
    )
    key = cursor.lastrowid
    assert key is not None
    _set_checksum(connection, (key, *values))
    _add_to_sum(connection, (key, first, len(ends)), 1)
    # The text and the sentences, in blocks that are read one by one.
    for start in range(0, len(text), TEXT_PER_BLOCK):
        packed = codec.pack_text(text[start : start + TEXT_PER_BLOCK], key, start)
        connection.execute("INSERT INTO text_block VALUES (?, ?, ?)", (key, start, packed))
    starts = np.concatenate([[0], ends[:-1]])
    kinds = staged.sentences.kinds
    for start in range(0, len(ends), SENTENCES_PER_BLOCK):
        part = slice(start, start + SENTENCES_PER_BLOCK)
        packed = codec.pack_sentences(starts[part], ends[part], kinds[part], key, start)
        connection.execute("INSERT INTO sentence_block VALUES (?, ?, ?)", (key, start, packed))
    if len(staged.windows):
        packed = codec.pack_windows(staged.windows.hashes, staged.windows.ordinals, key)
        connection.execute("INSERT INTO window_list VALUES (?, ?)", (key, packed))
    return first


def _set_checksum(connection: Connection, values: tuple[Any, ...]) -> None:
    """Record the checksum of a row of a document, whose first value is its id."""
    connection.execute(
        "UPDATE document SET row_checksum = ? WHERE id = ?", (_checksum_row(values), values[0])
    )


def _checksum_row(values: tuple[Any, ...]) -> bytes:
    # Damage may leave bytes where text or a number was.
    return codec.checksum("document", json.dumps(values, default=repr).encode())


def delete_document(connection: Connection, row: DocumentRow) -> None:
    """Remove a document with its text and sentences; the rows of its vectors and words are dead."""
    connection.execute("DELETE FROM document WHERE id = ?", (row.id,))
    _add_to_sum(connection, (row.id, row.first_sentence, row.sentences), -1)


def touch_document(connection: Connection, key: int, stamp: FileStamp) -> None:
    """Record a new size and modification time for unchanged content.

    Args:
        connection: a connection inside a transaction.
        key: row id of the document.
        stamp: size and time of its file.
    """
    connection.execute("UPDATE document SET size = ?, mtime_ns = ? WHERE id = ?", (*stamp, key))
    _set_checksum(
        connection,
        connection.execute(f"SELECT {_COLUMNS} FROM document WHERE id = ?", (key,)).fetchone(),
    )


def find_row(connection: Connection, doc_id: str) -> DocumentRow | None:
    """Return the row of a document for a writer, None if there is none.

    Readers ask :meth:`lmkrag.index.snapshot.Snapshot.find_document`, which notices a lost row.
    """
    return next(_documents(connection, "WHERE doc_id = ?", (doc_id,)), None)


def find_attachments(connection: Connection, row: DocumentRow) -> list[DocumentRow]:
    """Return the documents that are attached to a document, by ``doc_id``."""
    low, high = row.doc_id + "/", row.doc_id + "0"  # 0 is the character after /
    below = _documents(connection, "WHERE doc_id > ? AND doc_id < ? ORDER BY doc_id", (low, high))
    return [document for document in below if owner_of(document) == row.doc_id]


def owner_of(row: DocumentRow) -> str | None:
    """Return the ``doc_id`` of the document that this one is attached to; None if it is no
    attachment.
    """
    owner = row.meta.get(ATTACHED_TO)
    if not isinstance(owner, str) or not row.doc_id.startswith(owner + "/"):
        return None
    return owner if Path(row.path).name == Path(owner).name else None  # else it is front matter


def nearby_ids(connection: Connection, doc_id: str) -> list[str]:
    """Return names of documents before and after a name in their order, at most 250 of each."""
    sides = ("doc_id >= ? ORDER BY doc_id", "doc_id < ? ORDER BY doc_id DESC")
    return [
        name
        for side in sides
        for (name,) in connection.execute(
            f"SELECT doc_id FROM document WHERE {side} LIMIT ?", (doc_id, _NEARBY)
        )
    ]


def scan_documents(connection: Connection) -> Iterator[DocumentRow]:
    """Yield every row by ``doc_id``, for :mod:`lmkrag.index.verify`; lost rows are not noticed."""
    return _documents(connection, "ORDER BY doc_id", ())


def list_documents(
    connection: Connection, known: Ids, after: str, limit: int | None
) -> Iterator[DocumentRow]:
    """Yield documents by ``doc_id``.

    Args:
        connection: a connection that holds a snapshot.
        known: ``[n]`` int64, the row ids of all documents.
        after: only documents whose ``doc_id`` comes after this one; empty for all.
        limit: maximum number of documents; None for no limit.

    Raises:
        IndexCorrupt: a row is lost, or SQLite's index of names is damaged.
    """
    before, following = (
        connection.execute(
            f"SELECT COUNT(*) FROM document WHERE doc_id {side} ?", (after,)
        ).fetchone()[0]
        for side in ("<=", ">")
    )
    check_count(before + following if after else following, len(known))
    (greatest,) = connection.execute("SELECT MAX(doc_id) FROM document").fetchone()
    wanted = following if limit is None else min(limit, following)
    last, count = after, 0
    for row in _documents(connection, "WHERE doc_id > ? ORDER BY doc_id LIMIT ?", (after, wanted)):
        if row.doc_id <= last:
            raise _damaged_names()
        last, count = row.doc_id, count + 1
        yield row
    check_count(count, wanted)
    ends_here = greatest is None or (isinstance(greatest, str) and greatest <= last)
    if wanted == following and not ends_here:
        raise _damaged_names()


def _damaged_names() -> IndexCorrupt:
    """Return the error of a damaged index of names."""
    return IndexCorrupt(f"the catalog's index of names is damaged; {REPAIR}")


def list_some_documents(
    connection: Connection, keys: Ids, after: str, limit: int | None
) -> Iterator[DocumentRow]:
    """Yield some documents by ``doc_id``.

    Args:
        connection: a connection that holds a snapshot.
        keys: ``[n]`` int64, the row ids of the documents.
        after: only documents whose ``doc_id`` comes after this one; empty for all.
        limit: maximum number of documents; None for no limit.

    Raises:
        IndexCorrupt: a row is lost.
    """
    clause = "WHERE id IN (SELECT value FROM json_each(?)) ORDER BY +doc_id"
    values = (after, json.dumps(keys.tolist()))
    found = connection.execute(f"SELECT id, doc_id > ? FROM document {clause}", values).fetchall()
    check_count(len(found), len(keys))
    chosen = [key for key, follows in found if follows][:limit]
    rows = read_documents(connection, chosen)
    return (rows[key] for key in chosen)


def check_count(found: int, known: int) -> None:
    """Check that as many rows of documents were found as are known; whoever reads some calls this.

    Raises:
        IndexCorrupt: rows are lost.
    """
    if found != known:
        raise IndexCorrupt(f"the catalog has {found} of {known} documents: rows are lost; {REPAIR}")


def read_block(connection: Connection, first: int, stop: int) -> Iterator[DocumentRow]:
    """Yield the documents with row ids in a range, in order.

    Args:
        connection: a connection that holds a snapshot.
        first: the first row id.
        stop: the row id after the last one.

    Raises:
        IndexCorrupt: a row is damaged.
    """
    return _documents(connection, "WHERE id >= ? AND id < ? ORDER BY id", (first, stop))


def read_documents(connection: Connection, keys: Iterable[int]) -> dict[int, DocumentRow]:
    """Return documents by their row ids.

    Raises:
        IndexCorrupt: one of them does not exist, or is damaged.
    """
    row_ids = sorted(set(keys))
    clause = "WHERE id IN (SELECT value FROM json_each(?))"
    rows = {row.id: row for row in _documents(connection, clause, (json.dumps(row_ids),))}
    check_count(len(rows), len(row_ids))
    return rows


def _documents(
    connection: Connection, clause: str, values: tuple[Any, ...]
) -> Iterator[DocumentRow]:
    """Yield the rows of documents that a clause selects, each compared with its checksum."""
    for *columns, recorded in connection.execute(
        f"SELECT {_COLUMNS}, row_checksum FROM document {clause}", values
    ):
        if recorded != _checksum_row(tuple(columns)):
            raise IndexCorrupt(
                f"the catalog's row of document {columns[1]!r} is damaged (checksum); {REPAIR}"
            )
        try:
            meta, starts = map(json.loads, columns[6:8])
            if (
                not isinstance(meta, dict)
                or not isinstance(starts, list)
                or {int}.union(map(type, starts)) != {int}
            ):
                raise ValueError("its metadata or its page_starts are of another type")
        except (ValueError, TypeError, RecursionError) as error:
            raise IndexCorrupt(
                f"the catalog's row of document {columns[1]!r} can't be read ({error}); {REPAIR}"
            ) from error
        columns[6:8] = meta, tuple(starts)
        yield DocumentRow(*columns)


def read_skipped(connection: Connection) -> dict[str, SkippedFile]:
    """Return the files that were skipped when they were last read, by path."""
    rows = connection.execute("SELECT path, size, mtime_ns, reason, version FROM skipped_file")
    return {row[0]: SkippedFile(*row) for row in rows}


def write_skipped(
    connection: Connection, skipped: Iterable[SkippedFile], forgotten: Iterable[str]
) -> None:
    """Remember files that can't be indexed as they are, and forget others.

    Args:
        connection: a connection inside a transaction.
        skipped: the files to remember.
        forgotten: paths of files to forget.
    """
    connection.executemany(
        "DELETE FROM skipped_file WHERE path = ?", ((path,) for path in forgotten)
    )
    connection.executemany(
        "INSERT OR REPLACE INTO skipped_file VALUES (?, ?, ?, ?, ?)", map(astuple, skipped)
    )


def read_text(connection: Connection, row: DocumentRow, start: int, end: int) -> str:
    """Return a range of the characters of a document; only its blocks are read.

    Args:
        connection: a connection that holds a snapshot.
        row: the document.
        start: the first character, from 0.
        end: the character after the last one; clipped to the length of the text.

    Raises:
        IndexCorrupt: a block is damaged or missing.
    """
    end = min(end, row.length)
    first = start - start % TEXT_PER_BLOCK
    blocks = connection.execute(
        (
            "SELECT start, data FROM text_block WHERE document = ? AND start >= ? AND start "
            "< ? ORDER BY start"
        ),
        (row.id, first, end),
    )
    text = "".join(codec.unpack_text(data, row.id, block) for block, data in blocks.fetchall())
    piece = text[start - first : end - first]
    if len(piece) != max(0, end - start):
        raise IndexCorrupt(f"the stored text of {row.doc_id!r} is not whole; {REPAIR}")
    return piece


def read_sentences(connection: Connection, row: DocumentRow, first: int) -> tuple[Ids, Bytes]:
    """Return a block of at most 512 sentences.

    Args:
        connection: a connection that holds a snapshot.
        row: the document.
        first: ordinal of the first sentence of the block.

    Returns:
        Borders ``[n + 1]`` int64, the offsets where sentences begin and the last one ends, and
            kinds ``[n]`` uint8, positions in ``SENTENCE_KINDS``.

    Raises:
        IndexCorrupt: the block is damaged or missing.
    """
    query = "SELECT data FROM sentence_block WHERE document = ? AND first = ?"
    block = connection.execute(query, (row.id, first)).fetchone()
    if block is None:
        raise IndexCorrupt(f"the sentences of {row.doc_id!r} are not whole; {REPAIR}")
    return codec.unpack_sentences(block[0], row.id, first)


def read_windows(connection: Connection, row: DocumentRow) -> tuple[Hashes, Ids]:
    """Return the windows that a document was read in.

    Returns:
        The hash of each window ``[n]`` uint64, and the ordinal of the first sentence it owns
            ``[n]`` int64; empty if none were recorded.
    """
    packed = connection.execute(
        "SELECT data FROM window_list WHERE document = ?", (row.id,)
    ).fetchone()
    if packed is None:
        return np.zeros(0, np.uint64), NO_IDS
    return codec.unpack_windows(packed[0], row.id)


def read_content(connection: Connection, row: DocumentRow) -> tuple[str, Ids, Bytes]:
    """Read the text and the sentences of a document, and compare them with their checksum.

    Returns:
        The text, and the ends ``[n]`` int64 and kinds ``[n]`` uint8 of its sentences.

    Raises:
        IndexCorrupt: something is damaged or missing.
    """
    text = read_text(connection, row, 0, row.length)
    blocks = [
        read_sentences(connection, row, first)
        for first in range(0, row.sentences, SENTENCES_PER_BLOCK)
    ]
    ends = np.concatenate([NO_IDS, *(borders[1:] for borders, _ in blocks)])
    if codec.checksum_content(row.doc_id, text, ends) != row.content_checksum:
        raise IndexCorrupt(f"the stored text of {row.doc_id!r} is damaged (checksum); {REPAIR}")
    return text, ends, np.concatenate([np.zeros(0, np.uint8), *(kinds for _, kinds in blocks)])


def read_stored(connection: Connection, row: DocumentRow) -> Staged:
    """Read a document with its text, sentences and windows, as it was staged.

    Raises:
        IndexCorrupt: something is damaged or missing.
    """
    text, ends, kinds = read_content(connection, row)
    details = (row.title, row.kind, row.page_starts, row.meta)
    document = Document(row.doc_id, row.path, text, *details, fingerprint=row.fingerprint)
    sentences = SentenceTable(ends.tolist(), kinds.tolist())
    windows = WindowTable(*(column.tolist() for column in read_windows(connection, row)))
    return Staged(document, text, sentences, row.root, FileStamp(row.size, row.mtime_ns), windows)
