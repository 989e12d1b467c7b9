"""What the points of an index on Qdrant hold: sentences, documents, blocks of their texts."""

import base64
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from qdrant_client import models

from lmkrag.arrays import Hashes, Ids, Scores, Vectors
from lmkrag.errors import IndexCorrupt
from lmkrag.index import codec
from lmkrag.index.catalog import SENTENCES_PER_BLOCK, TEXT_PER_BLOCK, DocumentRow
from lmkrag.index.columns import column_of, count_unread, fields_of
from lmkrag.index.files import Tables
from lmkrag.index.staged import Staged
from lmkrag.index.words.lexical import K1, B, clip_opening
from lmkrag.index.words.postings import TITLE
from lmkrag.index.words.terms import query_words
from lmkrag.qdrant.log import Sparse, fold, to_model
from lmkrag.specs import CODE

OPENING = (0.25, 30, 250)  # share of a document's words that is its opening, at least and at most: as searches have it
AVERAGE = 24  # words of a sentence, by which the words of sentences are weighed until a search weighs them exactly
TEXT, SENTENCES, WINDOWS = 1, 2, 3  # kinds of blocks
_ROW = [field.name for field in fields(DocumentRow) if field.name != "id"]


class Rows(NamedTuple):
    """Rows of sentences, in order: their vectors, words and structure."""

    vectors: Vectors
    words: Hashes  # ``[entries]``, of each row those of its sentence, and of a document's first also of its title
    counts: Ids  # ``[entries]``, how often each stands there
    starts: Ids  # ``[rows + 1]``, of each row's entries
    lengths: Ids  # ``[rows]``
    positions: Ids  # ``[rows]``, in their paragraphs
    roles: Ids
    languages: frozenset[str]

    @classmethod
    def of(cls, vectors: Vectors, words: Tables, structure: Tables) -> "Rows":
        """Return the rows of a segment's tables."""
        rows, entries = words["rows"].astype(np.int64), np.repeat(words["words"], np.diff(words["starts"]))
        order = np.argsort(rows, kind="stable")
        return cls(
            vectors,
            entries[order],
            words["counts"].astype(np.int64)[order],
            np.searchsorted(rows[order], np.arange(len(words["lengths"]) + 1)),
            words["lengths"].astype(np.int64),
            structure["positions"].astype(np.int64),
            structure["roles"].astype(np.int64),
            frozenset(words["languages"].tobytes().decode("ascii").split()),
        )


class DocumentWords(NamedTuple):
    """The words of a document: how often each stands there, in how many sentences, and which its opening has."""

    counts: Sparse
    sentences: Sparse
    openings: Sparse
    length: int
    title: Hashes


def count_words(staged: Staged, parts: list[Rows]) -> DocumentWords:
    """Count the words of a document, given its rows."""
    title = query_words(staged.document.title) if staged.document.kind != CODE else np.zeros(0, np.uint64)
    lengths = np.concatenate([part.lengths for part in parts])
    rows = np.repeat(np.arange(len(lengths)), np.concatenate([np.diff(part.starts) for part in parts]))
    words = np.concatenate([part.words[part.starts[0] : part.starts[-1]] for part in parts])
    counts = np.concatenate([part.counts[part.starts[0] : part.starts[-1]] for part in parts])
    kept = (rows > 0) | np.isin(words, title ^ TITLE, invert=True)
    rows, folded, counts = rows[kept], fold(words[kept]), counts[kept]
    distinct, place = np.unique(folded, return_inverse=True)
    _, of_sentences = np.unique(np.unique(np.column_stack([folded, rows]), axis=0)[:, 0], return_counts=True)
    before = np.cumsum(lengths) - lengths
    opening = folded[before[rows] < clip_opening(lengths.sum(), OPENING)]
    opening = np.union1d(opening, fold(title))
    return DocumentWords(
        Sparse(distinct, np.bincount(place, counts, len(distinct))),
        Sparse(distinct, of_sentences),
        Sparse(opening, np.ones(len(opening))),
        int(lengths.sum()),
        title,
    )


def make_sentences(rows: Rows, key: int, first: int, title: Hashes) -> Iterator[models.PointStruct]:
    """Yield the points of rows, whose ids begin with ``first``, of a document."""
    norm = K1 * (1 - B) + K1 * B / AVERAGE * rows.lengths
    for row in range(len(rows.lengths)):
        inside = slice(rows.starts[row], rows.starts[row + 1])
        words, counts = rows.words[inside], rows.counts[inside]
        if first + row == key:
            kept = np.isin(words, title ^ TITLE, invert=True)
            words, counts = words[kept], counts[kept]
        distinct, place = np.unique(fold(words), return_inverse=True)
        counts = np.bincount(place, counts, len(distinct))
        weights = (K1 + 1) * counts / (counts + norm[row])
        numbers = (rows.positions[row], rows.roles[row], rows.lengths[row])
        yield models.PointStruct(
            id=first + row,
            vector={"dense": rows.vectors[row].tolist(), "words": to_model(Sparse(distinct, weights))},
            payload={"document": key, **dict(zip(("position", "role", "length"), map(int, numbers), strict=True))},
        )


def restore_counts(weights: Scores, lengths: NDArray[Any]) -> Scores:
    """Return how often words stand in sentences, by the weights they have there."""
    norm = K1 * (1 - B) + K1 * B / AVERAGE * lengths
    counts: Scores = np.rint(weights * norm / (K1 + 1 - weights))
    return counts


def make_row(staged: Staged, key: int) -> DocumentRow:
    """Return the row of a document that gets an id."""
    document, ends = staged.document, staged.sentences.ends
    return DocumentRow(
        key,
        document.doc_id,
        document.path,
        staged.root,
        document.title,
        document.kind,
        dict(document.meta),
        document.page_starts,
        document.fingerprint,
        *staged.stamp,
        len(staged.text),
        key,
        len(ends),
        codec.checksum_content(document.doc_id, staged.text, ends),
    )


def row_payload(row: DocumentRow) -> dict[str, Any]:
    """Return what a document's point has of its row: the row itself, and columns of fields for filters."""
    packed = json.dumps([getattr(row, name) for name in _ROW])
    columns: dict[str, dict[str, Any]] = {}
    for key, value in fields_of(row).items():
        columns.setdefault(f"column_{column_of(key)}", {})[key] = value
    return {
        "row": packed,
        "checksum": codec.checksum(f"document {row.id}", packed.encode()).hex(),
        "doc_id": row.doc_id,
        **{name: json.dumps(values) for name, values in columns.items()},
    }


def read_row(key: int, payload: dict[str, Any]) -> DocumentRow:
    """Return the row of a document. Raises IndexCorrupt: it is damaged."""
    packed = payload["row"]
    if payload["checksum"] != codec.checksum(f"document {key}", packed.encode()).hex():
        raise IndexCorrupt(f"the row of document {payload['doc_id']!r} is damaged (checksum): index its file again")
    values = dict(zip(_ROW, json.loads(packed), strict=True))
    return DocumentRow(key, **values | {"page_starts": tuple(values["page_starts"])})


def count_document(row: DocumentRow, words: int, languages: frozenset[str]) -> dict[str, int]:
    """Return by how much a document changes the totals of an index."""
    counts = Counter({"characters": row.length, "unread_pages": count_unread(row), "words": words})
    counts |= {f"kinds {row.kind}": 1, f"roots {row.root}": 1, **{f"languages {name}": 1 for name in languages}}
    return dict(counts)


def make_document(
    staged: Staged, row: DocumentRow, words: DocumentWords, counts: dict[str, int]
) -> Iterator[models.PointStruct]:
    """Yield the point of a document, and those of the blocks of its text, sentences and windows."""
    text, ends, kinds, key = staged.text, staged.sentences.ends, staged.sentences.kinds, row.id
    lines = [0]
    for start in range(0, len(text), TEXT_PER_BLOCK):
        piece = text[start : start + TEXT_PER_BLOCK]
        lines.append(lines[-1] + piece.count("\n"))
        yield _make_block(key, TEXT, start, codec.pack_text(piece, key, start))
    starts = np.concatenate([[0], ends[:-1]])
    for low in range(0, len(ends), SENTENCES_PER_BLOCK):
        part = slice(low, low + SENTENCES_PER_BLOCK)
        packed = codec.pack_sentences(starts[part], ends[part], kinds[part], key, low)
        yield _make_block(key, SENTENCES, low, packed)
    packed = codec.pack_windows(staged.windows.hashes, staged.windows.ordinals, key)
    yield _make_block(key, WINDOWS, 0, packed)
    ones = Sparse(words.counts.words, np.ones(len(words.counts.words)))
    vectors = {"words": ones, "counts": words.counts, "openings": words.openings}
    yield models.PointStruct(
        id=key,
        vector={name: to_model(vector) for name, vector in vectors.items() if len(vector.words)},
        payload={
            **row_payload(row),
            "document": key,
            "length": words.length,
            "title": words.title.view(np.int64).tolist(),
            "lines": lines,
            "counts": counts,
        },
    )


def block_id(key: int, kind: int, start: int) -> str:
    """Return the id of a block's point."""
    return str(UUID(int=key << 64 | kind << 56 | start))


def _make_block(key: int, kind: int, start: int, packed: bytes) -> models.PointStruct:
    data = base64.b64encode(packed).decode("ascii")
    return models.PointStruct(id=block_id(key, kind, start), vector={}, payload={"document": key, "data": data})
