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


def read_content(connection: sqlite3.Connection, row: DocumentRow) -> tuple[str, Ids, Bytes]:
    """Read the text of a document and of its sentences the ends and kinds ``[n]``, or raise IndexCorrupt."""
    text = read_text(connection, row, 0, row.length)
    blocks = [read_sentences(connection, row, first) for first in range(0, row.sentences, SENTENCES_PER_BLOCK)]
    ends = np.concatenate([np.zeros(0, np.int64), *(borders[1:] for borders, _ in blocks)])
    if checksum_content(row.doc_id, text, ends) != row.content_checksum:
        raise IndexCorrupt(f"the stored text of {row.doc_id!r} is damaged (checksum); {REPAIR}")
    return text, ends, np.concatenate([np.zeros(0, np.uint8), *(kinds for _, kinds in blocks)])


def read_stored(connection: sqlite3.Connection, row: DocumentRow) -> Staged:
    """Read a document with its text, sentences and windows, or raise IndexCorrupt."""
    text, ends, kinds = read_content(connection, row)
    details = (row.title, row.kind, row.page_starts, row.meta)
    document = Document(row.doc_id, row.path, text, *details, fingerprint=row.fingerprint)
    sentences = SentenceTable(ends.tolist(), kinds.tolist())
    windows = WindowTable(*(column.tolist() for column in read_windows(connection, row)))
    return Staged(document, text, sentences, row.root, FileStamp(row.size, row.mtime_ns), windows)
