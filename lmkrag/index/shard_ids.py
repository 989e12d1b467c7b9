"""The shard of a document, and the ids that a snapshot of all shards gives to what one of them holds."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np
from xxhash import xxh3_64_intdigest

from lmkrag.arrays import Ids
from lmkrag.index import catalog
from lmkrag.index.catalog import DocumentRow
from lmkrag.index.ranges import DocumentRanges

_BITS = 44  # of an id within its shard


def choose_shard(doc_id: str, shards: int) -> int:
    """Return the shard of a document: the jump consistent hash of its name.

    Where shards are added, only as many documents move as the new shards take (Lamping and Veach, "A fast, minimal
    memory, consistent hash algorithm", arXiv 1406.2294).
    """
    key = xxh3_64_intdigest(doc_id.encode("utf-8", "surrogatepass"))
    chosen, following = -1, 0
    while following < shards:
        chosen = following
        key = (key * 2862933555777941757 + 1) % 2**64
        following = int((chosen + 1) * (2**31 / ((key >> 33) + 1)))
    return chosen


def owner_or_self(doc_id: str, meta: Mapping[str, object]) -> str:
    """Return the document that decides the shard of one: of an attachment the one that it is attached to."""
    return catalog.named_owner(doc_id, meta) or doc_id


def combine_ranges(parts: Mapping[int, DocumentRanges]) -> tuple[DocumentRanges, dict[int, tuple[int, int]]]:
    """Return the documents of some shards together, under the ids of a snapshot of all shards.

    Returns:
        The documents, and the positions ``[first, stop)`` of each shard's among them.
    """
    fields = ("keys", "first", "stop")
    joined = ([getattr(one, field) + first_id(shard) for shard, one in parts.items()] for field in fields)
    borders = np.cumsum([0, *(len(one.keys) for one in parts.values())]).tolist()
    return DocumentRanges(*map(np.concatenate, joined)), dict(zip(parts, pairwise(borders), strict=True))


def first_id(shard: int) -> int:
    """Return where the ids of a shard begin in snapshots of all shards."""
    return shard << _BITS


def widen(row: DocumentRow, shard: int) -> DocumentRow:
    """Return a row of a shard with the ids that a snapshot of all shards gives it."""
    return replace(row, id=row.id + first_id(shard), first_sentence=row.first_sentence + first_id(shard))


def narrow(row: DocumentRow) -> tuple[int, DocumentRow]:
    """Return the shard of a row of a sharded snapshot, and the row with the ids that it has there."""
    shard = row.id >> _BITS
    return shard, replace(row, id=row.id - first_id(shard), first_sentence=row.first_sentence - first_id(shard))


def narrow_id(key: int) -> tuple[int, int]:
    """Return the shard of a row id of a sharded snapshot, and the id there."""
    return key >> _BITS, key & (first_id(1) - 1)


def narrow_ids(ids: Ids) -> tuple[Ids, Ids]:
    """Return the shard of each of some ids of a sharded snapshot, and the ids there."""
    return ids >> _BITS, ids & (first_id(1) - 1)
