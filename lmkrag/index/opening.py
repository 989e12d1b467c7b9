"""Open an index, whatever it is made of."""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from lmkrag.index.shards import ShardedStore
from lmkrag.index.store import IndexStore
from lmkrag.specs import EncoderSpec, Recipe
from lmkrag.types import IndexStatus

if TYPE_CHECKING:
    from lmkrag.index.searchable import SnapshotReader


class Store(Protocol):
    """An open index: one directory, the shards of one, or shards in other processes, which can only be read."""

    path: Path
    encoder: EncoderSpec
    recipe: Recipe

    @property
    def reader(self) -> "SnapshotReader":
        """Gives snapshots."""

    @property
    def shards(self) -> int:
        """How many shards there are; 0 where documents are not divided."""

    @property
    def parts(self) -> tuple[IndexStore, ...]:
        """The shards, or the index itself.

        Raises:
            UsageError: they are in other processes.
        """

    def number_of(self, doc_id: str, meta: Mapping[str, object] | None = None) -> int:
        """Return the number of the part that a document belongs to."""

    def to_local(self, key: int) -> tuple[int, int]:
        """Return the number of the part that a row id of a snapshot belongs to, and the row id there."""

    def to_global(self, part: int, key: int) -> int:
        """Return the row id in snapshots of the whole index of a row of a part."""

    def writing(self) -> AbstractContextManager[None]:
        """Be the one writer.

        Raises:
            IndexLocked: somebody is writing. UsageError: the index is in other processes.
        """

    def commit_removed(self, doc_ids: Iterable[str]) -> None:
        """Remove documents, with what is attached to them."""

    def compact(self) -> None:
        """Rewrite what is stored without what was deleted."""

    def status(self) -> IndexStatus:
        """Return what the index holds."""

    def close(self) -> None:
        """Refuse new snapshots; those that are held stay good."""


def open_store(path: Path, *, recipe: Recipe | None = None) -> Store:
    """Open an index, sharded or not.

    Args:
        path: of the index.
        recipe: takes the place of the one that the index has recorded.

    Raises:
        IndexNotFound: there is none. IndexMismatch: it can't be read by this lmkrag. IndexCorrupt: it is damaged.
    """
    if ShardedStore.exists(path):
        return ShardedStore.open(path, recipe=recipe)
    return IndexStore.open(path, recipe=recipe)


def create_store(
    path: Path, *, encoder: EncoderSpec, recipe: str | Recipe | None = None, shards: int | None = None
) -> Store:
    """Create an empty index in a new or empty directory, with ``shards`` if given."""
    if shards is None:
        return IndexStore.create(path, encoder=encoder, recipe=recipe)
    return ShardedStore.create(path, encoder=encoder, recipe=recipe, shards=shards)


def index_exists(path: Path) -> bool:
    """Return whether there is an index at ``path``, sharded or not."""
    return ShardedStore.exists(path) or IndexStore.exists(path)
