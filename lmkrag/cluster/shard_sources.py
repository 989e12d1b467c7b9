"""Where the states of a shard come from: a directory, or backups that are pulled."""

import contextlib
import shutil
import threading
from contextlib import AbstractContextManager
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from filelock import FileLock, Timeout

from lmkrag.cluster.backups import Remote
from lmkrag.errors import IndexNotFound, SnapshotExpired, UsageError
from lmkrag.index.pool import CATALOG
from lmkrag.index.snapshot import Snapshot
from lmkrag.index.store import IndexStore


class ShardSource(Protocol):
    """Where a shard's states come from."""

    def fetch(self) -> None:
        """Bring the newest state here, which may take minutes."""

    def newest(self) -> str:
        """Return the name of the newest state that is here."""

    def hold(self, state: str) -> AbstractContextManager[tuple[IndexStore, Snapshot]]:
        """Hold a state; the store is good for its encoder and recipe.

        Raises:
            SnapshotExpired: there is no such state any more.
        """


class ShardDirectory:
    """A shard in a directory of this machine, which somebody may be writing to. A state is a commit."""

    def __init__(self, path: Path) -> None:
        """Take the directory; raises as :meth:`lmkrag.index.store.IndexStore.open`."""
        self._path = path
        self._store = IndexStore.open(path)

    def fetch(self) -> None:
        """Do nothing: what is committed is here."""

    def newest(self) -> str:
        """Return the name of the newest state."""
        with self._store.reader.hold() as snapshot:
            return self._name(snapshot)

    @contextlib.contextmanager
    def hold(self, state: str) -> Any:
        """Hold a state; only the newest can be."""
        with self._store.reader.hold() as snapshot:
            if self._name(snapshot) != state:
                raise SnapshotExpired(f"{self._path}: changed while it was searched; search again")
            yield self._store, snapshot

    def _name(self, snapshot: Snapshot) -> str:
        try:
            return f"{(self._path / CATALOG).stat().st_ino}-{snapshot.generation}"
        except FileNotFoundError as error:
            raise IndexNotFound(f"{self._path}: the index is gone") from error


class PulledShard:
    """A shard of the snapshots that are pushed to a URL; each is pulled when it is first asked for.

    State: which snapshots lie in the part of the cache that is this one's, one directory each.
    """

    _KEPT = 3  # snapshots

    def __init__(self, url: str, shard: int, cache: Path) -> None:
        """Take the URL of the snapshots, the number of the shard, and the directory in which processes keep theirs.

        Each process has a part of it for itself; that of one that has ended is taken over by the next.
        """
        self._remote, self._shard = Remote(url), shard
        self._guard = threading.Lock()
        cache.mkdir(parents=True, exist_ok=True)
        for number in count():
            self._cache = cache / f"{shard:03}-{number}"
            self._lock = FileLock(f"{self._cache}.lock")
            with contextlib.suppress(Timeout):
                self._lock.acquire(timeout=0)
                break

    def fetch(self) -> None:
        """Pull the newest snapshot, if it is not here."""
        with self._guard:
            self._pull(self._remote.newest())

    def newest(self) -> str:
        """Return the number of the newest snapshot that was pulled; the first one is pulled for it."""
        if not self._pulled():
            self.fetch()
        return str(int(self._pulled()[-1].name))

    @contextlib.contextmanager
    def hold(self, state: str) -> Any:
        """Hold a snapshot by its number; it is pulled if it is not here."""
        with self._guard:
            path = self._pull(int(state))
        with contextlib.closing(IndexStore.open(path)) as store, store.reader.hold() as snapshot:
            yield store, snapshot

    def _pull(self, number: int) -> Path:
        path = self._cache / f"{number:08}"
        pulled = self._pulled()
        if path not in pulled:
            self._cache.mkdir(parents=True, exist_ok=True)
            try:
                self._remote.pull(path, number=number, shard=self._shard, beside=pulled[-1] if pulled else None)
            except UsageError as error:  # it was collected
                raise SnapshotExpired(str(error)) from error
            for old in pulled[: 1 - self._KEPT]:
                shutil.rmtree(old, ignore_errors=True)
        return path

    def _pulled(self) -> list[Path]:
        return sorted(folder for folder in self._cache.glob("[0-9]*") if IndexStore.exists(folder))
