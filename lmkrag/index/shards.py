"""A sharded index: documents divided among ordinary indexes by their names, searched as one.

    shards.json          how many shards there are, and in which folder: the commit point of making and resharding
    shards-8/000/ ...    each an ordinary index

A search reads one state of all of them: see :mod:`lmkrag.index.sharded_snapshot`.
"""

import contextlib
import itertools
import json
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self

from lmkrag.errors import IndexCorrupt, IndexMismatch, IndexNotFound, UsageError
from lmkrag.index.files import sync
from lmkrag.index.held_shard import HeldShard, ShardMemory
from lmkrag.index.ranges import DocumentRanges
from lmkrag.index.shard_ids import choose_shard, combine_ranges, first_id, narrow_id, owner_or_self
from lmkrag.index.sharded_snapshot import RememberedAnswers, ShardedSnapshot
from lmkrag.index.snapshot import Snapshot
from lmkrag.index.status import combine_status
from lmkrag.index.store import IndexStore
from lmkrag.specs import EncoderSpec, Recipe
from lmkrag.types import IndexStatus

MOST_SHARDS = 1_000
RECORD = "shards.json"
_FORMAT = 1


class ShardedStore:
    """The shards of one index. One process writes to all of them, inside :meth:`writing`."""

    def __init__(self, path: Path, parts: Sequence[IndexStore]) -> None:
        """Take what :meth:`open` or :meth:`create` found."""
        self.path = path
        self.parts = tuple(parts)
        self.encoder: EncoderSpec = self.parts[0].encoder
        self.recipe: Recipe = self.parts[0].recipe
        self.reader = ShardedReader(self.parts)

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


class _State(NamedTuple):
    """What the snapshots of all shards are together; ``held`` is what each of them has worked out."""

    number: int
    parts: tuple[object, ...]
    documents: DocumentRanges
    positions: dict[int, tuple[int, int]]
    held: list[ShardMemory]


class ShardedReader:
    """Snapshots of all shards together. State: what the newest one was made of, and what it has found out."""

    def __init__(self, parts: Sequence[IndexStore]) -> None:
        """Take the shards."""
        self._parts = tuple(parts)
        self._numbers = itertools.count()
        self._newest: _State | None = None
        self._known = RememberedAnswers()

    @contextlib.contextmanager
    def snapshot(self, *, segments: bool = True) -> Iterator[ShardedSnapshot]:
        """Hold one committed state of each shard; see :meth:`lmkrag.index.pool.IndexReader.snapshot`."""
        with contextlib.ExitStack() as stack:
            parts = [stack.enter_context(part.reader.snapshot(segments=segments)) for part in self._parts]
            state = self._combine(parts)
            held = list(map(HeldShard, self._parts, parts, state.held))
            yield ShardedSnapshot(
                generation=state.number,
                documents=state.documents,
                positions=state.positions,
                count=len(parts),
                known=self._known,
                scatter=lambda calls: {
                    shard: getattr(held[shard], method)(*arguments) for shard, (method, arguments) in calls.items()
                },
                view=lambda shard, key: parts[shard].view_document(key),
            )

    def _combine(self, parts: Sequence[Snapshot]) -> _State:
        sources = (*(part.documents for part in parts), *(part.segments for part in parts))
        newest = self._newest
        if newest is not None and all(map(operator.is_, newest.parts, sources)):
            return newest
        documents, positions = combine_ranges({shard: part.documents for shard, part in enumerate(parts)})
        state = _State(next(self._numbers), sources, documents, positions, [ShardMemory() for _ in parts])
        if any(part.segments for part in parts):
            self._newest = state
        return state

    def close(self, *, wait: bool = False) -> None:
        """Close the readers of all shards."""
        for part in self._parts:
            part.reader.close(wait=wait)


def check_shards(shards: int) -> None:
    """Raise UsageError unless a number of shards makes sense."""
    if isinstance(shards, bool) or not isinstance(shards, int) or not 1 <= shards <= MOST_SHARDS:
        raise UsageError(f"shards must be a whole number from 1 to {MOST_SHARDS:,}, not {shards!r}")


def folder_name(shards: int) -> str:
    """Return the name of the folder of an index's shards."""
    return f"shards-{shards}"


def create_shards(
    folder: Path, shards: int, *, encoder: EncoderSpec, recipe: str | Recipe | None = None
) -> list[IndexStore]:
    """Make empty shards in a folder; those that a killed process has made are taken as they are."""
    paths = _shard_paths(folder, shards)
    return [
        IndexStore.open(path) if IndexStore.exists(path) else IndexStore.create(path, encoder=encoder, recipe=recipe)
        for path in paths
    ]


def shard_folders(path: Path) -> list[Path]:
    """Return the directories of the shards of an index; raises as :func:`read_record` does."""
    name, shards = read_record(path)
    return _shard_paths(path / name, shards)


def _shard_paths(folder: Path, shards: int) -> list[Path]:
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
