"""All SQL. Functions over an open SQLite connection; transactions belong to the caller (the store)."""

import json
import os
import re
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_128

from lmkrag.errors import IndexCorrupt
from lmkrag.index.checks import File, mark, pack, unpack
from lmkrag.index.recipes import recipe_from_json, recipe_to_json
from lmkrag.index.segments import SegmentFile
from lmkrag.index.staged import Staged
from lmkrag.types import Text

FORMAT_VERSION = 4
_BLOCK = 4_096  # characters of text in one row: a span is read without its whole document
_SENTENCES = 512  # in one row
_SLICE = 1 << 20  # characters in memory at a time
_PAGE = 8_192  # bytes: a block of text fits one; in smaller pages the tree would be deep and half empty
_CACHE = 8_192  # KiB of pages each connection keeps

Ids = NDArray[np.int64]
Hashes = NDArray[np.uint64]

_SEGMENT = re.compile("[0-9a-f]{32}")  # nothing that could lead out of segments/
_FIXED = ("format", "encoder", "recipe")  # facts that never change, under one checksum
_MIX = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)  # odd: one changed value always shows in the sum


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """What the catalog knows of a document, its text aside. ``id`` is the row's, ``doc_id`` the user's."""

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
    checksum: str


_COLUMNS = (
    "id, doc_id, path, root, title, kind, meta, page_starts, fingerprint, size, mtime_ns, length, first_sentence, "
    "sentences, checksum"
)


def connect(path: Path, *, create: bool = False) -> sqlite3.Connection:
    """Open a catalog; every commit is durable when it returns.

    In a directory that can't be written to, where SQLite can't share what it needs to, the catalog is taken as it is.
    """
    connection = _open(path, "rwc" if create else "rw")
    try:
        connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone()
    except sqlite3.OperationalError:
        if os.access(path.parent, os.W_OK) or Path(f"{path}-wal").exists():
            raise
        connection.close()
        connection = _open(path, "ro&immutable=1")
    if create:
        connection.execute(f"PRAGMA page_size = {_PAGE}")
        connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA cache_size = -{_CACHE}")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def _open(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None, check_same_thread=False, timeout=30
    )


def create_schema(connection: sqlite3.Connection, meta: dict[str, str]) -> None:
    """Create the tables and record what the index is made with."""
    script = files("lmkrag.index").joinpath("schema.sql").read_text("utf-8")
    connection.executescript(f"BEGIN;\n{script}")
    values = {**meta, "format": str(FORMAT_VERSION)}
    values["mark"] = _mark_fixed(values)
    values.update(generation="0", next_sentence="1", living="0")
    connection.executemany("INSERT INTO meta VALUES (?, ?)", values.items())
    connection.execute("COMMIT")


def read_meta(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the index's own facts: format, generation, encoder, recipe.

    Raises:
        IndexCorrupt: one of those that never change is not what was written.
    """
    found = dict(connection.execute("SELECT key, value FROM meta"))
    if found["format"] == str(FORMAT_VERSION) and found["mark"] != _mark_fixed(found):
        raise IndexCorrupt("the catalog's facts about the index are damaged (checksum)")
    return found


def _mark_fixed(facts: dict[str, str]) -> str:
    return mark("meta", "\0".join(facts[key] for key in _FIXED).encode()).hex()


def generation(connection: sqlite3.Connection) -> int:
    """Return the number of commits so far."""
    return _number(connection, "generation")


def next_generation(connection: sqlite3.Connection) -> None:
    """Count a commit, so that readers see that something changed."""
    connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'generation'")


def _number(connection: sqlite3.Connection, key: str) -> int:
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    try:
        return int(row[0])
    except (TypeError, ValueError) as error:
        raise IndexCorrupt(f"the catalog's {key!r} is damaged") from error


# Documents


@dataclass(frozen=True, slots=True)
class Living:
    """The documents of a snapshot by their sentences: ``[n]`` row id, id of the first sentence, one after the last."""

    keys: Ids
    first: Ids
    stop: Ids

    @property
    def sentences(self) -> int:
        """How many sentences there are."""
        return int((self.stop - self.first).sum())

    @property
    def ranges(self) -> Ids:
        """``[n, 2]`` ids of sentences ``[first, stop)``."""
        return np.stack([self.first, self.stop], axis=1)

    def owners(self, sentences: Ids) -> Ids:
        """Return the position of the document that each sentence is of, -1 where it is of none."""
        return find_ranges(sentences, self.first, self.stop)


def find_ranges(ids: Ids, first: Ids, stop: Ids) -> Ids:
    """Return the position of the sorted range ``[first, stop)`` that holds each id, -1 where none does."""
    if not len(first):
        return np.full(len(ids), -1)
    place = np.searchsorted(first, ids, side="right") - 1
    return np.where((place >= 0) & (ids < stop[place]), place, -1)


def read_living(connection: sqlite3.Connection) -> Living:
    """Return the documents there are.

    Raises:
        IndexCorrupt: they are not those that were committed.
    """
    rows = connection.execute("SELECT id, first_sentence, sentences FROM document ORDER BY first_sentence").fetchall()
    table = np.array(rows, np.int64).reshape(len(rows), 3)
    if _sum(table) != _number(connection, "living"):
        raise IndexCorrupt("the catalog's list of documents is damaged (checksum); run lmkrag repair")
    return Living(table[:, 0], table[:, 1], table[:, 1] + table[:, 2])


def _sum(table: Ids) -> int:
    with np.errstate(over="ignore"):
        return int((table.astype(np.uint64) * np.array(_MIX, np.uint64)).sum())


def _count_in(connection: sqlite3.Connection, facts: tuple[int, int, int], sign: int) -> None:
    total = (_number(connection, "living") + sign * _sum(np.array([facts], np.int64))) % 2**64
    connection.execute("UPDATE meta SET value = ? WHERE key = 'living'", (str(total),))


def insert_document(connection: sqlite3.Connection, staged: Staged) -> int:
    """Record a document with its text and sentences, inside a transaction; return the id of its first sentence."""
    document, text, ends = staged.document, staged.text, staged.sentences.ends
    first = _number(connection, "next_sentence")
    last = connection.execute("SELECT first_sentence + sentences FROM document ORDER BY id DESC LIMIT 1").fetchone()
    if first < (last or (1,))[0]:
        raise IndexCorrupt("the catalog's next sentence id is damaged; run lmkrag repair")
    connection.execute("UPDATE meta SET value = ? WHERE key = 'next_sentence'", (str(first + len(ends)),))
    facts: tuple[Any, ...] = (
        document.doc_id,
        document.path,
        staged.root,
        _storable(document.title),
        document.kind,
        json.dumps(dict(document.meta), default=str, sort_keys=True),
        json.dumps(document.page_starts),
        document.fingerprint,
        *staged.stat,
        len(text),
        first,
        len(ends),
        checksum_document(document.doc_id, text, ends),
    )
    names = _COLUMNS.removeprefix("id, ")
    places = ", ".join("?" * (len(facts) + 1))
    cursor = connection.execute(f"INSERT INTO document ({names}, mark) VALUES ({places})", (*facts, b""))
    key = cursor.lastrowid
    assert key is not None
    _set_mark(connection, (key, *facts))
    _count_in(connection, (key, first, len(ends)), 1)
    connection.executemany(
        "INSERT INTO text_block VALUES (?, ?, ?)",
        (
            (key, start, pack(text[start : start + _BLOCK].encode("utf-8", "surrogatepass"), f"text {key} {start}"))
            for start in range(0, len(text), _BLOCK)
        ),
    )
    starts = np.concatenate([[0], ends[:-1]])
    kinds = staged.sentences.kinds
    blocks = (slice(low, low + _SENTENCES) for low in range(0, len(ends), _SENTENCES))
    connection.executemany(
        "INSERT INTO sentence_block VALUES (?, ?, ?)",
        ((key, part.start, _pack_sentences(key, part.start, starts[part], ends[part], kinds[part])) for part in blocks),
    )
    if len(staged.windows):
        marks, ordinals = staged.windows.marks.astype("<u8"), staged.windows.ordinals.astype("<i8")
        packed = pack(marks.tobytes() + ordinals.tobytes(), f"windows {key}")
        connection.execute("INSERT INTO window_list VALUES (?, ?)", (key, packed))
    return first


def _set_mark(connection: sqlite3.Connection, facts: tuple[Any, ...]) -> None:
    connection.execute("UPDATE document SET mark = ? WHERE id = ?", (_mark_row(facts), facts[0]))


def _mark_row(facts: tuple[Any, ...]) -> bytes:
    return mark("document", json.dumps(facts).encode())


def delete_document(connection: sqlite3.Connection, row: DocumentRow) -> None:
    """Remove a document; its text and sentences go with it, its vectors and words are dead."""
    connection.execute("DELETE FROM document WHERE id = ?", (row.id,))
    _count_in(connection, (row.id, row.first_sentence, row.sentences), -1)


def touch_document(connection: sqlite3.Connection, key: int, stat: tuple[int, int]) -> None:
    """Record a new size and modification time for unchanged content."""
    connection.execute("UPDATE document SET size = ?, mtime_ns = ? WHERE id = ?", (*stat, key))
    _set_mark(connection, connection.execute(f"SELECT {_COLUMNS} FROM document WHERE id = ?", (key,)).fetchone())


def find_document(connection: sqlite3.Connection, doc_id: str) -> DocumentRow | None:
    """Return the document called ``doc_id``."""
    return next(_documents(connection, "WHERE doc_id = ?", (doc_id,)), None)


def all_documents(connection: sqlite3.Connection) -> Iterator[DocumentRow]:
    """Yield every document, by ``doc_id``."""
    return _documents(connection, "ORDER BY doc_id", ())


def read_documents(connection: sqlite3.Connection, keys: Iterable[int]) -> dict[int, DocumentRow]:
    """Return documents by their row ids.

    Raises:
        IndexCorrupt: one is not there.
    """
    wanted = list(keys)
    clause = "WHERE id IN (SELECT value FROM json_each(?))"
    found = {row.id: row for row in _documents(connection, clause, (json.dumps(wanted),))}
    for key in wanted:
        if key not in found:
            raise IndexCorrupt(f"the catalog has lost document {key}; run lmkrag repair")
    return found


def _documents(connection: sqlite3.Connection, clause: str, values: tuple[Any, ...]) -> Iterator[DocumentRow]:
    for *facts, found in connection.execute(f"SELECT {_COLUMNS}, mark FROM document {clause}", values):
        if found != _mark_row(tuple(facts)):
            raise IndexCorrupt(f"the catalog's row of document {facts[1]!r} is damaged (checksum); run lmkrag repair")
        facts[6] = json.loads(facts[6])
        facts[7] = tuple(json.loads(facts[7]))
        yield DocumentRow(*facts)


def read_text(connection: sqlite3.Connection, row: DocumentRow, start: int, end: int) -> str:
    """Return characters ``[start, end)`` of a document.

    Raises:
        IndexCorrupt: a block is damaged or missing.
    """
    end = min(end, row.length)
    first = start - start % _BLOCK
    blocks = connection.execute(
        "SELECT start, data FROM text_block WHERE document = ? AND start >= ? AND start < ? ORDER BY start",
        (row.id, first, end),
    )
    text = "".join(
        unpack(data, f"text {row.id} {block}").decode("utf-8", "surrogatepass") for block, data in blocks.fetchall()
    )
    piece = text[start - first : end - first]
    if len(piece) != max(0, end - start):
        raise IndexCorrupt(f"the stored text of {row.doc_id!r} is not whole; run lmkrag repair")
    return piece


def checksum_document(doc_id: str, text: Text, ends: Ids) -> str:
    """Return what ``verify`` compares: a hash of a document's name, text and sentence borders."""
    digest = xxh3_128(doc_id.encode("utf-8", "surrogatepass"))
    digest.update(b"\0")
    for start in range(0, len(text), _SLICE):
        digest.update(text[start : start + _SLICE].encode("utf-8", "surrogatepass"))
    digest.update(b"\0")
    digest.update(ends.astype("<i8").tobytes())
    return digest.hexdigest()


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


# Sentences


def _pack_sentences(key: int, first: int, starts: Ids, ends: Ids, kinds: NDArray[np.uint8]) -> bytes:
    data = starts[:1].astype("<i8").tobytes() + (ends - starts).astype("<i4").tobytes() + kinds.tobytes()
    return pack(data, f"sentences {key} {first}")


def read_borders(connection: sqlite3.Connection, row: DocumentRow, first: int, stop: int) -> Ids:
    """Return where the sentences of ordinals ``[first, stop)`` begin, and where the last ends: ``[stop - first + 1]``.

    Raises:
        IndexCorrupt: a block is damaged or missing.
    """
    low = first - first % _SENTENCES
    blocks = connection.execute(
        "SELECT first, data FROM sentence_block WHERE document = ? AND first >= ? AND first < ? ORDER BY first",
        (row.id, low, stop),
    )
    borders = np.zeros(0, np.int64)
    for number, packed in blocks.fetchall():
        data = unpack(packed, f"sentences {row.id} {number}")
        count = (len(data) - 8) // 5
        start = np.frombuffer(data, "<i8", 1)
        ends = start + np.cumsum(np.frombuffer(data, "<i4", count, 8), dtype=np.int64)
        borders = np.concatenate([borders[:-1], start, ends])
    found = borders[first - low : stop - low + 1]
    if len(found) != stop - first + 1:
        raise IndexCorrupt(f"the sentences of {row.doc_id!r} are not whole; run lmkrag repair")
    return found


def read_kinds(connection: sqlite3.Connection, row: DocumentRow) -> NDArray[np.uint8]:
    """Return the kind of each sentence of a document, a position in ``SENTENCE_KINDS``."""
    query = "SELECT first, data FROM sentence_block WHERE document = ? ORDER BY first"
    blocks = [unpack(data, f"sentences {row.id} {first}") for first, data in connection.execute(query, (row.id,))]
    return np.concatenate([np.frombuffer(data, np.uint8)[-((len(data) - 8) // 5) :] for data in blocks])


def read_windows(connection: sqlite3.Connection, row: DocumentRow) -> tuple[Hashes, Ids]:
    """Return the hash of each window a document was read in, and the ordinal of its first own sentence."""
    found = connection.execute("SELECT data FROM window_list WHERE document = ?", (row.id,)).fetchone()
    if found is None:
        return np.zeros(0, np.uint64), np.zeros(0, np.int64)
    data = unpack(found[0], f"windows {row.id}")
    count = len(data) // 16
    return np.frombuffer(data, "<u8", count), np.frombuffer(data, "<i8", count, 8 * count)


# Segments


def insert_segment(connection: sqlite3.Connection, file: SegmentFile, runs: Ids) -> None:
    """Record a segment and which sentences its rows are: ``[n, 3]`` row, first sentence, count."""
    facts = json.dumps(
        {
            "rows": file.rows,
            "recipe": json.loads(recipe_to_json(file.recipe)),
            "vectors": asdict(file.vectors),
            "words": asdict(file.words),
        },
        sort_keys=True,
    )
    packed = pack(runs.astype("<i8").tobytes(), f"runs {file.name}")
    connection.execute(
        "INSERT INTO segment (name, facts, runs, mark) VALUES (?, ?, ?, ?)",
        (file.name, facts, packed, mark(file.name, facts.encode())),
    )


def delete_segment(connection: sqlite3.Connection, name: str) -> None:
    """Forget a segment and its runs."""
    connection.execute("DELETE FROM segment WHERE name = ?", (name,))


def read_segments(connection: sqlite3.Connection, key: int | None = None) -> list[tuple[SegmentFile, Ids]]:
    """Return every segment, or the one with a row id, with its runs ``[n, 3]``; oldest first.

    Raises:
        IndexCorrupt: a row is damaged.
    """
    found = []
    query = "SELECT name, facts, runs, mark FROM segment WHERE ? IN (id, 0) ORDER BY id"
    for name, text, packed, check in connection.execute(query, (key or 0,)):
        if check != mark(name, text.encode()) or not _SEGMENT.fullmatch(name):
            raise IndexCorrupt(f"the catalog's row of segment {name!r} is damaged (checksum); run lmkrag repair")
        facts = json.loads(text)
        recipe = recipe_from_json(json.dumps(facts["recipe"]))
        file = SegmentFile(name, facts["rows"], recipe, File(**facts["vectors"]), File(**facts["words"]))
        found.append((file, np.frombuffer(unpack(packed, f"runs {name}"), "<i8").reshape(-1, 3)))
    return found
