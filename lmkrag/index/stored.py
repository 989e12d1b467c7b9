"""A document as it is stored, to be stored again elsewhere."""

import sqlite3

from lmkrag.errors import REPAIR, IndexCorrupt, UsageError
from lmkrag.index import catalog_texts
from lmkrag.index.catalog import DocumentRow
from lmkrag.index.codec import checksum_content
from lmkrag.index.staged import SentenceTable, Staged, WindowTable
from lmkrag.system import FileStamp
from lmkrag.types import Document


def read_stored(connection: sqlite3.Connection, row: DocumentRow) -> Staged:
    """Read a document with its text, sentences and windows out of a catalog.

    Raises:
        IndexCorrupt: a part of it is damaged or missing.
    """
    text = catalog_texts.read_text(connection, row, 0, row.length)
    borders = catalog_texts.read_borders(connection, row, 0, row.sentences)
    kinds = catalog_texts.read_kinds(connection, row)
    hashes, ordinals = catalog_texts.read_windows(connection, row)
    if checksum_content(row.doc_id, text, borders[1:]) != row.content_checksum:
        raise IndexCorrupt(f"the stored text of {row.doc_id!r} is damaged (checksum); {REPAIR}")
    try:
        document = Document(
            row.doc_id, row.path, text, row.title, row.kind, row.page_starts, row.meta, fingerprint=row.fingerprint
        )
    except UsageError as error:  # stored by an earlier version, which checked less
        raise IndexCorrupt(f"{error}; {REPAIR}") from error
    text = document.text
    sentences = SentenceTable(borders[1:].tolist(), kinds.tolist())
    windows = WindowTable(hashes.tolist(), ordinals.tolist())
    return Staged(document, text, sentences, row.root, FileStamp(row.size, row.mtime_ns), windows)
