"""The SQL of a document's text, sentences and windows, which are stored in checksummed blocks."""

import sqlite3

import numpy as np

from lmkrag.arrays import Bytes, Hashes, Ids
from lmkrag.errors import REPAIR, IndexCorrupt
from lmkrag.index import codec
from lmkrag.index.catalog import SENTENCES_PER_BLOCK, TEXT_PER_BLOCK, DocumentRow
from lmkrag.index.codec import checksum_content
from lmkrag.index.staged import SentenceTable, Staged, WindowTable
from lmkrag.system import FileStamp
from lmkrag.types import Document


def read_text(connection: sqlite3.Connection, row: DocumentRow, start: int, end: int) -> str:
    """Return characters ``[start, end)`` of a document. Raises IndexCorrupt: a block is damaged or missing."""
    end = min(end, row.length)
    first = start - start % TEXT_PER_BLOCK
    blocks = connection.execute(
        "SELECT start, data FROM text_block WHERE document = ? AND start >= ? AND start < ? ORDER BY start",
        (row.id, first, end),
    )
    text = "".join(codec.unpack_text(data, row.id, block) for block, data in blocks.fetchall())
    piece = text[start - first : end - first]
    if len(piece) != max(0, end - start):
        raise IndexCorrupt(f"the stored text of {row.doc_id!r} is not whole; {REPAIR}")
    return piece


def read_borders(connection: sqlite3.Connection, row: DocumentRow, first: int, stop: int) -> Ids:
    """Return the borders ``[stop - first + 1]`` of sentences of ordinals ``[first, stop)``, or raise IndexCorrupt."""
    low = first - first % SENTENCES_PER_BLOCK
    blocks = connection.execute(
        "SELECT first, data FROM sentence_block WHERE document = ? AND first >= ? AND first < ? ORDER BY first",
        (row.id, low, stop),
    )
    borders = np.zeros(0, np.int64)
    for number, packed in blocks.fetchall():
        borders = np.concatenate([borders[:-1], codec.unpack_sentences(packed, row.id, number)[0]])
    borders = borders[first - low : stop - low + 1]
    if len(borders) != stop - first + 1:
        raise IndexCorrupt(f"the sentences of {row.doc_id!r} are not whole; {REPAIR}")
    return borders


def read_sentences(connection: sqlite3.Connection, row: DocumentRow, first: int) -> tuple[Ids, Bytes]:
    """Return borders ``[n + 1]`` and kinds ``[n]`` of the block that begins with an ordinal, or raise IndexCorrupt."""
    query = "SELECT data FROM sentence_block WHERE document = ? AND first = ?"
    block = connection.execute(query, (row.id, first)).fetchone()
    if block is None:
        raise IndexCorrupt(f"the sentences of {row.doc_id!r} are not whole; {REPAIR}")
    return codec.unpack_sentences(block[0], row.id, first)


def read_windows(connection: sqlite3.Connection, row: DocumentRow) -> tuple[Hashes, Ids]:
    """Return the hash of each window a document was read in, and the ordinal of its first own sentence."""
    packed = connection.execute("SELECT data FROM window_list WHERE document = ?", (row.id,)).fetchone()
    if packed is None:
        return np.zeros(0, np.uint64), np.zeros(0, np.int64)
    return codec.unpack_windows(packed[0], row.id)


def read_stored(connection: sqlite3.Connection, row: DocumentRow) -> Staged:
    """Read a document with its text, sentences and windows, or raise IndexCorrupt."""
    text = read_text(connection, row, 0, row.length)
    borders = read_borders(connection, row, 0, row.sentences)
    kinds = [read_sentences(connection, row, first)[1] for first in range(0, row.sentences, SENTENCES_PER_BLOCK)]
    hashes, ordinals = read_windows(connection, row)
    if checksum_content(row.doc_id, text, borders[1:]) != row.content_checksum:
        raise IndexCorrupt(f"the stored text of {row.doc_id!r} is damaged (checksum); {REPAIR}")
    document = Document(
        row.doc_id, row.path, text, row.title, row.kind, row.page_starts, row.meta, fingerprint=row.fingerprint
    )
    sentences = SentenceTable(borders[1:].tolist(), np.concatenate([np.zeros(0, np.uint8), *kinds]).tolist())
    windows = WindowTable(hashes.tolist(), ordinals.tolist())
    return Staged(document, text, sentences, row.root, FileStamp(row.size, row.mtime_ns), windows)
