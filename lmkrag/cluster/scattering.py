"""An index whose shards are held by other processes, searched as one.

Each process is asked for what its shard's files decide, and what comes back is put together here: the same spans with
the same scores as :class:`lmkrag.index.shards.ShardedStore` finds in one process.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from lmkrag.errors import IndexClosed, IndexMismatch, SnapshotExpired, UsageError
from lmkrag.index.held_shard import Opened, WholeDocument
from lmkrag.index.memory import Memory
from lmkrag.index.ranges import DocumentRanges
from lmkrag.index.shard_ids import choose_shard, combine_ranges, first_id, narrow_id, owner_or_self
from lmkrag.index.sharded_snapshot import RememberedAnswers, ShardedSnapshot
from lmkrag.index.status import combine_status
from lmkrag.index.store import IndexStore
from lmkrag.index.view import DocumentView
from lmkrag.specs import EncoderSpec, Recipe
from lmkrag.types import IndexStatus

_FRESH = 1.0  # seconds that a state is taken for the newest
_VIEWS = 256  # documents that are remembered


class Shards(Protocol):
    """The processes that hold the shards of one index."""

    count: int

    joint: bool
    """Whether the shards' states have the same names: those of snapshots of all of them."""

    def start(self, shard: int, method: str, *arguments: Any) -> Callable[[], Any]:
        """Call a method of a shard's :class:`lmkrag.cluster.hosting.ShardHost`; return what waits for the result.

        The result is the method's, or what it raises; ShardUnreachable where the process does not answer.
        """


class _State(NamedTuple):
    """One state of each shard, by their ``names``, and what they are together.

    There are no names once a state has expired, so that all shards are asked again before the next search.
    """

    number: int
    names: dict[int, str]
    opened: dict[int, Opened]
    documents: DocumentRanges
    positions: dict[int, tuple[int, int]]


class ScatteredStore:
    """An index in other processes, for reading."""

    def __init__(self, path: Path, shards: Shards) -> None:
        """Ask every shard for its newest state.

        Args:
            path: of the index, or where files beside it are to be, such as those of feedback.
            shards: the processes.

        Raises:
            ShardUnreachable: one does not answer. IndexMismatch: one was made with another encoder.
        """
        self.path = path
        self.shards = shards.count
        self.reader = ScatteredReader(str(path), shards)
        first = self.reader.first
        self.encoder: EncoderSpec = first.encoder
        self.recipe: Recipe = first.recipe

    @property
    def parts(self) -> tuple[IndexStore, ...]:
        """Refuse: the shards are in other processes.

        Raises:
            UsageError: always.
        """
        raise self._refusal()

    def number_of(self, doc_id: str, meta: Mapping[str, object] | None = None) -> int:
        """Return the shard that a document belongs to."""
        return choose_shard(owner_or_self(doc_id, meta or {}), self.shards)

    def to_local(self, key: int) -> tuple[int, int]:
        """Return the shard of a row id of a snapshot, and the row id there."""
        return narrow_id(key)

    def to_global(self, part: int, key: int) -> int:
        """Return the row id in snapshots of the whole index of a row of a shard."""
        return key + first_id(part)

    def writing(self) -> AbstractContextManager[None]:
        """Refuse, as :attr:`parts` does."""
        raise self._refusal()

    def commit_removed(self, doc_ids: Iterable[str]) -> None:
        """Refuse, as :attr:`parts` does."""
        raise self._refusal()

    def compact(self) -> None:
        """Refuse, as :attr:`parts` does."""
        raise self._refusal()

    def _refusal(self) -> UsageError:
        return UsageError(f"{self.path}: is read from other processes; work on the index itself")

    def status(self) -> IndexStatus:
        """Return what the index holds."""
        with self.reader.snapshot() as snapshot:
            parts: dict[int, IndexStatus] = snapshot.ask("status")
        return combine_status(self.path, list(parts.values()))

    def close(self) -> None:
        """Refuse new snapshots."""
        self.reader.close()


class ScatteredReader:
    """Snapshots of the shards that other processes hold. State: the newest one."""

    def __init__(self, name: str, shards: Shards) -> None:
        """Take the processes."""
        self._name, self._shards = name, shards
        self._guard = threading.Lock()
        self._closed = False
        self._numbered = 0
        self._checked = 0.0
        self._state: _State | None = None
        self._known = RememberedAnswers()
        self._views = Memory[DocumentView](_VIEWS)
        self.first = self._newest().opened[0]

    @contextmanager
    def snapshot(self, *, segments: bool = True) -> Iterator[ShardedSnapshot]:
        """Give the newest state, or one that was the newest a second ago.

        Raises:
            IndexClosed: the reader is closed. ShardUnreachable: a shard does not answer. IndexMismatch: another
                encoder made what is there now.
        """
        del segments  # they are elsewhere
        if self._closed:
            raise IndexClosed(f"{self._name}: this index was closed; open it again")
        state = self._newest()
        yield ShardedSnapshot(
            generation=state.number,
            documents=state.documents,
            positions=state.positions,
            count=self._shards.count,
            known=self._known,
            scatter=partial(self._scatter, state),
            view=partial(self._view, state),
        )

    def close(self, *, wait: bool = False) -> None:
        """Refuse new snapshots."""
        del wait
        self._closed = True

    def _newest(self) -> _State:
        """The newest state, asked for once a second at most, by one thread; others take what there is meanwhile."""
        state = self._state
        if state is not None and state.names and time.monotonic() - self._checked < _FRESH:
            return state
        if not self._guard.acquire(blocking=state is None or not state.names):
            assert state is not None
            return state
        try:
            now = time.monotonic()
            if self._state is None or not self._state.names or now - self._checked >= _FRESH:
                names = self._find_names()
                self._checked = time.monotonic()
                if self._state is None or names != self._state.names:
                    self._state = self._open(names)
            return self._state
        finally:
            self._guard.release()

    def _find_names(self) -> dict[int, str]:
        names: dict[int, str] = self._gather({shard: ("newest",) for shard in range(self._shards.count)})
        if self._shards.joint:
            names = dict.fromkeys(names, min(names.values(), key=int))  # all of them have that
        return names

    def _open(self, names: dict[int, str]) -> _State:
        known = {} if self._state is None else self._state.opened
        same = {} if self._state is None else self._state.names
        fresh = {shard: name for shard, name in names.items() if same.get(shard) != name or shard not in known}
        opened = {shard: known[shard] for shard in names if shard not in fresh}
        opened |= self._gather({shard: ("call", name, "open", ()) for shard, name in fresh.items()})
        opened = dict(sorted(opened.items()))
        encoder = self.first.encoder if self._state is not None else opened[0].encoder
        for shard, one in opened.items():
            if one.encoder != encoder:
                raise IndexMismatch(f"{self._name}: shard {shard} was made with another encoder: {one.encoder.name!r}")
        self._numbered += 1
        ranges = {shard: one.documents for shard, one in opened.items()}
        return _State(self._numbered, names, opened, *combine_ranges(ranges))

    def _scatter(self, state: _State, calls: Mapping[int, tuple[str, tuple[Any, ...]]]) -> dict[int, Any]:
        """Ask some shards at once; raises SnapshotExpired where it is worth the while to search again."""
        try:
            return self._gather({shard: ("call", state.names[shard], *what) for shard, what in calls.items()})
        except SnapshotExpired:
            self._forget(state)
            raise

    def _view(self, state: _State, shard: int, key: int) -> DocumentView:
        """A document of a shard; the newest ones are remembered."""

        def ask(operation: str, *arguments: Any) -> Any:
            return self._scatter(state, {shard: (operation, arguments)})[shard]

        def view() -> DocumentView:
            found: WholeDocument = ask("view_document", key)
            row, sentences, text = found
            return DocumentView(
                row,
                lambda first: ask("read_sentences", row, first) if sentences is None else sentences[first],
                lambda start, end: ask("read_text", row, start, end) if text is None else text[start:end],
            )

        return self._views.remember((state.number, shard, key), view)

    def _forget(self, state: _State) -> None:
        """Ask for the newest state before the next search."""
        with self._guard:
            if self._state is state:
                self._state = state._replace(names={})

    def _gather(self, calls: Mapping[int, tuple[Any, ...]]) -> dict[int, Any]:
        """Ask some shards at once, and return what they answer."""
        waiting = {shard: self._shards.start(shard, *call) for shard, call in calls.items()}
        return {shard: wait() for shard, wait in waiting.items()}
