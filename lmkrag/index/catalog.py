"""All SQL. Functions over an open SQLite connection; transactions belong to the caller (the store)."""

import hashlib
import json
import re
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmkrag.errors import IndexCorrupt
from lmkrag.index.recipes import recipe_from_json, recipe_to_json
from lmkrag.index.vectors import SegmentFile
from lmkrag.types import SENTENCE_KINDS, Document, Sentence

FORMAT_VERSION = 1
_BLOCK = 16_384  # characters of text in one row: a span is read without its whole document

_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]")
_WORD = re.compile(r"\w+")
_STOP_WORDS = frozenset(
    """a about after all also an and any are as at be because been before being between both but by can could did do
    does doing for from had has have having he her his how i if in into is it its me more most my no not of on or
    other our s she should so some such t than that the their them then there these they this those to under was we
    were what when where which while who whom why will with would you your""".split()
)

Run = tuple[int, int, int]
"""Segment row, id of the first sentence, count."""


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
    """Open a catalog; every commit is durable when it returns."""
    mode = "rwc" if create else "rw"
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None, check_same_thread=False, timeout=30
    )
    connection.execute("PRAGMA foreign_keys = ON")
    if create:
        connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def create_schema(connection: sqlite3.Connection, meta: dict[str, str]) -> None:
    """Create the tables and record what the index is made with."""
    script = files("lmkrag.index").joinpath("schema.sql").read_text("utf-8")
    connection.executescript(f"BEGIN;\n{script}")
    values = {**meta, "format": str(FORMAT_VERSION), "generation": "0", "next_sentence": "1"}
    connection.executemany("INSERT INTO meta VALUES (?, ?)", values.items())
    connection.execute("COMMIT")


def read_meta(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the index's own facts: format, generation, encoder, recipe."""
    return dict(connection.execute("SELECT key, value FROM meta"))


def generation(connection: sqlite3.Connection) -> int:
    """Return the number of commits so far."""
    return int(connection.execute("SELECT value FROM meta WHERE key = 'generation'").fetchone()[0])


def next_generation(connection: sqlite3.Connection) -> None:
    """Count a commit, so that readers see that something changed."""
    connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'generation'")


# Documents


def insert_document(
    connection: sqlite3.Connection, document: Document, sentences: Sequence[Sentence], root: str, stat: tuple[int, int]
) -> int:
    """Record a document with its text, sentences and lexical entries; return the id of its first sentence.

    Args:
        connection: inside a transaction.
        document: what was loaded.
        sentences: they tile its text.
        root: the directory that was added, or ``""``.
        stat: size and modification time (ns) of its source.
    """
    first = int(connection.execute("SELECT value FROM meta WHERE key = 'next_sentence'").fetchone()[0])
    connection.execute("UPDATE meta SET value = ? WHERE key = 'next_sentence'", (str(first + len(sentences)),))
    meta = json.dumps(dict(document.meta), default=str, sort_keys=True)
    pages = json.dumps(document.page_starts)
    row = (document.doc_id, document.path, root, _storable(document.title), document.kind, meta, pages)
    tail = (document.fingerprint, *stat, len(document.text), first, len(sentences))
    ends = [sentence.end for sentence in sentences]
    cursor = connection.execute(
        "INSERT INTO document (doc_id, path, root, title, kind, meta, page_starts, fingerprint, size, mtime_ns, "
        "length, first_sentence, sentences, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*row, *tail, checksum_document(document.doc_id, document.text, ends)),
    )
    key = cursor.lastrowid
    text = document.text
    connection.executemany(
        "INSERT INTO text_block VALUES (?, ?, ?)",
        ((key, start, _pack(text[start : start + _BLOCK])) for start in range(0, len(text), _BLOCK)),
    )
    connection.executemany(
        "INSERT INTO sentence VALUES (?, ?, ?, ?, ?)",
        ((first + i, key, s.start, s.end, SENTENCE_KINDS.index(s.kind)) for i, s in enumerate(sentences)),
    )
    connection.executemany(
        "INSERT INTO lexical (rowid, text) VALUES (?, ?)",
        ((first + i, _searchable(text[s.start : s.end])) for i, s in enumerate(sentences)),
    )
    return first


def delete_document(connection: sqlite3.Connection, row: DocumentRow) -> None:
    """Remove a document: its row, text, sentences, lexical entries and runs."""
    text = read_text(connection, row, 0, row.length)
    first, stop = row.first_sentence, row.first_sentence + row.sentences
    connection.executemany(
        "INSERT INTO lexical (lexical, rowid, text) VALUES ('delete', ?, ?)",
        ((key, _searchable(text[start:end])) for key, start, end in read_sentences(connection, first, stop)),
    )
    connection.execute("DELETE FROM run WHERE sentence >= ? AND sentence < ?", (first, stop))
    connection.execute("DELETE FROM sentence WHERE id >= ? AND id < ?", (first, stop))
    connection.execute("DELETE FROM document WHERE id = ?", (row.id,))


def touch_document(connection: sqlite3.Connection, key: int, stat: tuple[int, int]) -> None:
    """Record a new size and modification time for unchanged content."""
    connection.execute("UPDATE document SET size = ?, mtime_ns = ? WHERE id = ?", (*stat, key))


def find_document(connection: sqlite3.Connection, doc_id: str) -> DocumentRow | None:
    """Return the document called ``doc_id``."""
    return next(_documents(connection, "WHERE doc_id = ?", (doc_id,)), None)


def all_documents(connection: sqlite3.Connection) -> Iterator[DocumentRow]:
    """Yield every document, by ``doc_id``."""
    return _documents(connection, "ORDER BY doc_id", ())


def documents_of(connection: sqlite3.Connection, keys: Iterable[int]) -> dict[int, DocumentRow]:
    """Return documents by their row ids."""
    wanted = json.dumps(sorted(keys))
    rows = _documents(connection, "WHERE id IN (SELECT value FROM json_each(?))", (wanted,))
    return {row.id: row for row in rows}


def _documents(connection: sqlite3.Connection, clause: str, values: tuple[Any, ...]) -> Iterator[DocumentRow]:
    for row in connection.execute(f"SELECT {_COLUMNS} FROM document {clause}", values):
        fields = list(row)
        fields[6] = json.loads(fields[6])
        fields[7] = tuple(json.loads(fields[7]))
        yield DocumentRow(*fields)


def read_text(connection: sqlite3.Connection, row: DocumentRow, start: int, end: int) -> str:
    """Return characters ``[start, end)`` of a document.

    Raises:
        IndexCorrupt: a block is damaged or missing.
    """
    end = min(end, row.length)
    first = start - start % _BLOCK
    blocks = connection.execute(
        "SELECT data FROM text_block WHERE document = ? AND start >= ? AND start < ? ORDER BY start",
        (row.id, first, end),
    )
    try:
        text = "".join(zlib.decompress(data).decode("utf-8", "surrogatepass") for (data,) in blocks)
    except (zlib.error, UnicodeDecodeError) as error:
        raise IndexCorrupt(f"the stored text of {row.doc_id!r} is damaged ({error})") from error
    piece = text[start - first : end - first]
    if len(piece) != max(0, end - start):
        raise IndexCorrupt(f"the stored text of {row.doc_id!r} is not whole")
    return piece


def checksum_document(doc_id: str, text: str, ends: Iterable[int]) -> str:
    """Return what ``verify`` compares: a hash of a document's name, text and sentence borders."""
    digest = hashlib.sha256(doc_id.encode("utf-8", "surrogatepass"))
    digest.update(text.encode("utf-8", "surrogatepass"))
    digest.update(np.fromiter(ends, dtype="<i8").tobytes())
    return digest.hexdigest()


def _pack(text: str) -> bytes:
    return zlib.compress(text.encode("utf-8", "surrogatepass"), 6)


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


# Sentences


def read_sentences(connection: sqlite3.Connection, first: int, stop: int) -> list[tuple[int, int, int]]:
    """Return (id, start, end) of the sentences with ids in ``[first, stop)``."""
    query = 'SELECT id, start, "end" FROM sentence WHERE id >= ? AND id < ? ORDER BY id'
    return connection.execute(query, (first, stop)).fetchall()


def owners_of(connection: sqlite3.Connection, sentences: Iterable[int]) -> dict[int, int]:
    """Return the document (row id) of each sentence id."""
    query = "SELECT id, document FROM sentence WHERE id IN (SELECT value FROM json_each(?))"
    return dict(connection.execute(query, (json.dumps(list(sentences)),)))


def count_sentences(connection: sqlite3.Connection) -> int:
    """Return how many sentences are alive."""
    return int(connection.execute("SELECT coalesce(sum(sentences), 0) FROM document").fetchone()[0])


# Segments


def insert_segment(connection: sqlite3.Connection, file: SegmentFile, runs: Iterable[Run]) -> None:
    """Record a segment and which sentences its rows are."""
    cursor = connection.execute(
        "INSERT INTO segment (name, rows, bytes, sha256, recipe) VALUES (?, ?, ?, ?, ?)",
        (file.name, file.rows, file.bytes, file.sha256, recipe_to_json(file.recipe)),
    )
    connection.executemany("INSERT INTO run VALUES (?, ?, ?, ?)", ((cursor.lastrowid, *run) for run in runs))


def delete_segment(connection: sqlite3.Connection, name: str) -> None:
    """Forget a segment and its runs."""
    connection.execute("DELETE FROM segment WHERE name = ?", (name,))


def read_segments(connection: sqlite3.Connection) -> list[tuple[SegmentFile, list[Run]]]:
    """Return every segment with its runs, oldest first."""
    rows = connection.execute("SELECT id, name, rows, bytes, sha256, recipe FROM segment ORDER BY id").fetchall()
    found = []
    for key, name, count, size, sha256, recipe in rows:
        runs = connection.execute("SELECT row, sentence, count FROM run WHERE segment = ? ORDER BY row", (key,))
        found.append((SegmentFile(name, count, size, sha256, recipe_from_json(recipe)), runs.fetchall()))
    return found


# Lexical search


def query_terms(query: str) -> list[str]:
    """Return the words of a question, once each, as FTS5 strings: nothing in them is syntax.

    English function words are left out, unless there are no others: BM25 gives them next to no weight, and each
    matches most of an index.
    """
    words = dict.fromkeys(_WORD.findall(_searchable(query).lower()))
    telling = [word for word in words if word not in _STOP_WORDS]
    return [f'"{word}"' for word in telling or words]


def search_lexical(
    connection: sqlite3.Connection, terms: Sequence[str], top: int, documents: Iterable[int] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Find sentences by BM25 over any of ``terms``.

    Args:
        connection: of the index.
        terms: from :func:`query_terms`.
        top: how many sentences, at most.
        documents: row ids to search in; None for all.

    Returns:
        Sentence ids and scores (higher is better), best first.
    """
    if not terms:
        return np.zeros(0, np.int64), np.zeros(0, np.float32)
    clause, values = "", [" OR ".join(terms)]
    if documents is not None:
        clause = "AND (SELECT document FROM sentence WHERE id = lexical.rowid) IN (SELECT value FROM json_each(?))"
        values.append(json.dumps(list(documents)))
    rows = connection.execute(
        f"SELECT rowid, -rank FROM lexical WHERE lexical MATCH ? {clause} ORDER BY rank, rowid LIMIT ?",
        (*values, top),
    ).fetchall()
    ids, scores = zip(*rows, strict=True) if rows else ((), ())
    return np.array(ids, np.int64), np.array(scores, np.float32)


def _searchable(text: str) -> str:
    """Text as FTS5 indexes it: storable, and each Chinese, Japanese or Korean character a word."""
    text = _storable(text).replace("\0", " ")
    return _CJK.sub(r" \g<0> ", text)
