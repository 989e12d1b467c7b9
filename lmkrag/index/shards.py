"""A sharded index: documents divided among ordinary indexes by their names, searched as one.

    shards.json          how many shards there are, and in which folder: the commit point of making and resharding
    shards-8/000/ ...    each an ordinary index

A snapshot of all shards has the documents and segments of all of them under ids that tell the shard, so that a search
computes what it computes over one index: numbers of documents, lengths and weights of words are those of the whole.
"""

import contextlib
import json
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
from xxhash import xxh3_64_intdigest

from lmkrag.arrays import Ids
from lmkrag.errors import IndexCorrupt, IndexMismatch, IndexNotFound, UsageError
from lmkrag.index import catalog
from lmkrag.index.catalog import DocumentRow
from lmkrag.index.files import sync
from lmkrag.index.live import LiveSegment
from lmkrag.index.pool import IndexReader
from lmkrag.index.ranges import DocumentRanges
from lmkrag.index.snapshot import Snapshot
from lmkrag.index.status import combine_status
from lmkrag.index.store import IndexStore
from lmkrag.index.view import DocumentView
from lmkrag.specs import EncoderSpec, Recipe
from lmkrag.types import IndexStatus

MOST_SHARDS = 1_000
RECORD = "shards.json"
_FORMAT = 1
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


class ShardedStore:
    """The shards of one index. One process writes to all of them, inside :meth:`writing`."""

    def __init__(self, path: Path, parts: Sequence[IndexStore]) -> None:
        """Take what :meth:`open` or :meth:`create` found."""
        self.path = path
        self.parts = tuple(parts)
        self.encoder: EncoderSpec = self.parts[0].encoder
        self.recipe: Recipe = self.parts[0].recipe
        self.reader = ShardedReader([part.reader for part in self.parts])

    @property
    def shards(self) -> int:
        """How many shards there are."""
        return len(self.parts)

    @classmethod
    def create(cls, path: Path, *, encoder: EncoderSpec, recipe: str | Recipe | None = None, shards: int) -> Self:
        """Make an empty sharded index in a new or empty directory.

        Raises:
            UsageError: the directory is not empty, or the number of shards makes no sense.
        """
        check_shards(shards)
        folder = path / folder_name(shards)
        begun = {folder.name} if not (path / RECORD).exists() else set()
        if path.exists() and (not path.is_dir() or not {entry.name for entry in path.iterdir()} <= begun):
            raise UsageError(f"{path}: not empty and not an index; choose another directory")
        made = create_shards(folder, shards, encoder=encoder, recipe=recipe)
        write_record(path, folder.name, shards)
        return cls(path, made)

    @classmethod
    def open(cls, path: Path, *, recipe: Recipe | None = None) -> Self:
        """Open an existing sharded index.

        Raises:
            IndexNotFound: there is none, or one of its shards is not there. IndexMismatch: a shard was made with
                another encoder. IndexCorrupt: the record of the shards or a shard is damaged.
        """
        folders = shard_folders(path)
        parts: list[IndexStore] = []
        for number, folder in enumerate(folders):
            if not IndexStore.exists(folder):
                raise IndexNotFound(f"{folder}: shard {number} of {len(folders)} is not there")
            parts.append(IndexStore.open(folder, recipe=recipe))
            if parts[-1].encoder != parts[0].encoder:
                raise IndexMismatch(f"{folder}: made with another encoder than shard 0: {parts[-1].encoder.name!r}")
        return cls(path, parts)

    @staticmethod
    def exists(path: Path) -> bool:
        """Return whether there is a sharded index at ``path``."""
        return (path / RECORD).is_file()

    def close(self) -> None:
        """Close the readers; snapshots that are held stay good."""
        self.reader.close()

    def number_of(self, doc_id: str, meta: Mapping[str, object] | None = None) -> int:
        """Return the shard that a document belongs to: an attachment to that of the document it is attached to."""
        return choose_shard(owner_or_self(doc_id, meta or {}), len(self.parts))

    def to_local(self, key: int) -> tuple[int, int]:
        """Return the shard of a row id of a snapshot, and the row id there."""
        return narrow_id(key)

    def to_global(self, part: int, key: int) -> int:
        """Return the row id in snapshots of the whole index of a row of a shard."""
        return key + first_id(part)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Be the one writer of every shard.

        Raises:
            IndexLocked: somebody is writing to one.
        """
        with contextlib.ExitStack() as held:
            for shard in self.parts:
                held.enter_context(shard.writing())
            yield

    def commit_removed(self, doc_ids: Iterable[str]) -> None:
        """Remove documents, with what is attached to them; each shard in a step of its own."""
        wanted = list(doc_ids)
        for shard in self.parts:
            with shard.reader.snapshot(segments=False) as snapshot:
                own = [doc_id for doc_id in wanted if snapshot.find_document(doc_id) is not None]
            if own:
                shard.commit([], removed=own)

    def compact(self) -> None:
        """Rewrite each shard without what was deleted."""
        for shard in self.parts:
            shard.compact()

    def status(self) -> IndexStatus:
        """Return what the index holds."""
        return combine_status(self.path, [shard.status() for shard in self.parts])


@dataclass(frozen=True)
class _Combined:
    """What the snapshots of all shards are together, as long as none of them changes."""

    parts: tuple[object, ...]
    documents: DocumentRanges
    segments: tuple[LiveSegment, ...]


class ShardedReader:
    """Snapshots of all shards together. State: what the newest one was made of."""

    def __init__(self, readers: Sequence[IndexReader]) -> None:
        """Take the readers of the shards."""
        self._readers = tuple(readers)
        self._newest: _Combined | None = None
        self._titles: dict[int, frozenset[int]] = {}

    @contextlib.contextmanager
    def snapshot(self, *, segments: bool = True) -> Iterator["ShardedSnapshot"]:
        """Hold one committed state of each shard; see :meth:`lmkrag.index.pool.IndexReader.snapshot`."""
        with contextlib.ExitStack() as held:
            parts = tuple(held.enter_context(reader.snapshot(segments=segments)) for reader in self._readers)
            combined = self._combine(parts)
            yield ShardedSnapshot(
                connection=parts[0].connection,
                generation=sum(part.generation for part in parts),
                documents=combined.documents,
                segments=combined.segments,
                titles=self._titles,
                parts=parts,
            )

    def _combine(self, parts: Sequence[Snapshot]) -> _Combined:
        sources = (*(part.documents for part in parts), *(part.segments for part in parts))
        newest = self._newest
        if newest is not None and len(newest.parts) == len(sources) and all(map(operator.is_, newest.parts, sources)):
            return newest
        documents = combine_ranges({shard: part.documents for shard, part in enumerate(parts)})
        segments = tuple(
            live.renumbered(first_id(shard), documents) for shard, part in enumerate(parts) for live in part.segments
        )
        combined = _Combined(sources, documents, segments)
        if segments:
            self._newest = combined
        return combined

    def close(self, *, wait: bool = False) -> None:
        """Close the readers of all shards."""
        for reader in self._readers:
            reader.close(wait=wait)


@dataclass(frozen=True)
class ShardedSnapshot(Snapshot):
    """One committed state of every shard."""

    parts: tuple[Snapshot, ...] = ()

    def find_document(self, doc_id: str) -> DocumentRow | None:
        """Return the row of a document, with ids that tell its shard."""
        first = choose_shard(doc_id, len(self.parts))
        for shard in sorted(
            range(len(self.parts)), key=lambda number: number != first
        ):  # an attachment may be elsewhere
            row = self.parts[shard].find_document(doc_id)
            if row is not None:
                return widen(row, shard)
        return None

    def nearby_ids(self, doc_id: str) -> list[str]:
        """Return the names of some documents that are like a name which is not there."""
        return [name for part in self.parts for name in part.nearby_ids(doc_id)]

    def all_documents(self, after: str = "", limit: int | None = None) -> Iterable[DocumentRow]:
        """Yield the rows of documents, by ``doc_id``: all, or at most ``limit`` after one."""
        rows = (widen(row, shard) for shard, part in enumerate(self.parts) for row in part.all_documents(after, limit))
        return sorted(rows, key=lambda row: row.doc_id)[:limit]

    def read_documents(self, keys: Iterable[int]) -> dict[int, DocumentRow]:
        """Return documents by their row ids."""
        found: dict[int, DocumentRow] = {}
        wanted = list(keys)
        for shard, part in enumerate(self.parts):
            own = [key - first_id(shard) for key in wanted if key >> _BITS == shard]
            if own:
                found.update(
                    {key + first_id(shard): widen(row, shard) for key, row in part.read_documents(own).items()}
                )
        return found

    def view_document(self, key: int) -> DocumentView:
        """Return a document by its row id, to be read piece by piece."""
        shard = key >> _BITS
        stored = self.parts[shard].view_document(key - first_id(shard))
        return stored.renumbered(widen(stored.row, shard))

    def read_text(self, row: DocumentRow, start: int = 0, end: int | None = None) -> str:
        """Return characters ``[start, end)`` of a document, as far as there are such; all of them by default."""
        shard = row.id >> _BITS
        return self.parts[shard].read_text(narrow(row)[1], start, end)


def combine_ranges(parts: Mapping[int, DocumentRanges]) -> DocumentRanges:
    """Return the documents of some shards together, with the ids that a snapshot of all shards gives them."""
    fields = ("keys", "first", "stop")
    joined = ([getattr(one, field) + first_id(shard) for shard, one in parts.items()] for field in fields)
    return DocumentRanges(*map(np.concatenate, joined))


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


def check_shards(shards: int) -> None:
    """Raise UsageError unless a number of shards makes sense."""
    if isinstance(shards, bool) or not isinstance(shards, int) or not 1 <= shards <= MOST_SHARDS:
        raise UsageError(f"shards must be a whole number from 1 to {MOST_SHARDS:,}, not {shards!r}")


def folder_name(shards: int) -> str:
    """Return the name of the folder of so many shards."""
    return f"shards-{shards}"


def create_shards(
    folder: Path, shards: int, *, encoder: EncoderSpec, recipe: str | Recipe | None = None
) -> list[IndexStore]:
    """Make empty shards in a folder; those that a killed process has made are taken as they are."""
    places = _places(folder, shards)
    return [
        IndexStore.open(place) if IndexStore.exists(place) else IndexStore.create(place, encoder=encoder, recipe=recipe)
        for place in places
    ]


def shard_folders(path: Path) -> list[Path]:
    """Return the directories of the shards of an index; raises as :func:`read_record` does."""
    name, shards = read_record(path)
    return _places(path / name, shards)


def _places(folder: Path, shards: int) -> list[Path]:
    return [folder / f"{number:03}" for number in range(shards)]


def write_record(path: Path, folder: str, shards: int) -> None:
    """Say how many shards an index has and where, whole or not at all: the commit point."""
    partial = path / f".{RECORD}"
    partial.write_text(json.dumps({"format": _FORMAT, "folder": folder, "shards": shards}) + "\n", "utf-8")
    sync(partial)
    partial.rename(path / RECORD)
    sync(path)


def read_record(path: Path) -> tuple[str, int]:
    """Return the name of the folder of an index's shards, and how many there are.

    Raises:
        IndexNotFound: it is none. IndexMismatch: a newer lmkrag made it. IndexCorrupt: the record can't be read.
    """
    try:
        record = json.loads((path / RECORD).read_bytes())
        version, folder, shards = int(record["format"]), str(record["folder"]), int(record["shards"])
        if version > _FORMAT:
            raise IndexMismatch(f"{path}: sharded by a newer lmkrag: upgrade")
        check_shards(shards)
        if Path(folder).name != folder:
            raise ValueError(f"{folder!r} is not the name of a folder in it")
    except FileNotFoundError as error:
        raise IndexNotFound(f"{path}: no sharded index here") from error
    except (OSError, ValueError, KeyError, TypeError, UsageError) as error:
        raise IndexCorrupt(f"{path / RECORD}: can't be read ({error})") from error
    return folder, shards
