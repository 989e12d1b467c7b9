"""Where the vectors of segments live: in a file beside the segment's others, or in a database.

A segment's vectors are written once and never changed. The file that stands for them in ``segments/`` comes first: a
vector set that no file names does not exist, one whose file no segment names is collected by the next writer.
"""

import shutil
from pathlib import Path
from typing import Protocol

from lmkrag.errors import UsageError
from lmkrag.index.files import File
from lmkrag.index.postgres import PostgresStore
from lmkrag.index.vector_set import VectorSet
from lmkrag.index.vectors import FaissStore, Slices
from lmkrag.types import Recipe


class VectorStore(Protocol):
    """Keeps vector sets. ``suffix``: of the files that stand for them."""

    suffix: str

    def check(self, recipe: Recipe, dimensions: int) -> None:
        """Look whether a recipe can be followed, before anything is encoded.

        Raises:
            UsageError: it can't.
        """
        ...

    def add(self, path: Path, read: Slices, rows: int, dimensions: int, recipe: Recipe) -> File:
        """Write a vector set and make it durable; the caller's commit makes it exist.

        Args:
            path: of the file that stands for it, a fresh one.
            read: yields the vectors ``[n, dimensions]`` in order, ``rows`` in all; may be called twice.
            rows: how many vectors there are.
            dimensions: of each.
            recipe: how to store them; a factory, not tiers.
        """
        ...

    def open(self, path: Path, file: File, rows: int, recipe: Recipe) -> VectorSet:
        """Open a vector set.

        Raises:
            IndexCorrupt: it is gone, or not the one that was written. StorageError: it can't be reached.
        """
        ...

    def delete(self, path: Path) -> None:
        """Delete a vector set, and the file that stands for it last."""
        ...


_STORES: dict[str, VectorStore] = {"faiss": FaissStore(), "pgvector": PostgresStore()}


def find_store(name: str) -> VectorStore:
    """Return a store by the name that recipes give it.

    Raises:
        UsageError: there is none.
    """
    if name not in _STORES:
        raise UsageError(f"unknown store {name!r} of vectors: one of {', '.join(_STORES)}")
    return _STORES[name]


def remove_index(folder: Path) -> None:
    """Remove a folder of indexes, and the vectors that they keep elsewhere; nothing if it is not there."""
    for path in folder.rglob("*"):
        store = store_of(path)
        if store is not None:
            store.delete(path)
    shutil.rmtree(folder, ignore_errors=True)


def store_of(path: Path) -> VectorStore | None:
    """Return the store that wrote a file of ``segments/``; None if it stands for no vectors."""
    return next((store for store in _STORES.values() if path.suffix == store.suffix), None)
