"""The process that holds a shard, and answers what others ask of it."""

import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

from lmkrag.cluster.shard_sources import ShardSource
from lmkrag.index.held_shard import OPERATIONS, HeldShard

KEPT = 60.0
"""Seconds that a state is kept after its last use, once there is a newer one."""


class _Held(NamedTuple):
    shard: HeldShard
    release: ExitStack


class ShardHost:
    """Answers what is asked of a shard, in the state that the question names. Any thread may call.

    State: the states that are held. One that is not the newest any more is kept until nobody has asked for it for
    a minute, so that searches that began before end as they began.
    """

    def __init__(self, source: ShardSource) -> None:
        """Take where the states come from."""
        self._source = source
        self._guard = threading.Lock()
        self._held: dict[str, _Held] = {}
        self._used: dict[str, float] = {}
        self._inside: dict[str, int] = {}
        self._loading: dict[str, threading.Lock] = {}

    def follow(self) -> None:
        """Bring the newest state here and load it, before anybody asks for it."""
        self._source.fetch()
        self.call(self.newest(), "open")

    def newest(self) -> str:
        """Return the name of the newest state that is here."""
        state = self._source.newest()
        self.release(keep=[state])
        return state

    def call(self, state: str, operation: str, arguments: Sequence[Any] = ()) -> Any:
        """Do one of :data:`OPERATIONS` in a state.

        Raises:
            SnapshotExpired: the state is not there any more. StorageError: it can't be read.
        """
        if operation not in OPERATIONS:
            raise ValueError(f"no such operation: {operation!r}")
        shard = self._take(state)
        try:
            return getattr(shard, operation)(*arguments)
        finally:
            with self._guard:
                self._inside[state] -= 1
                self._used[state] = time.monotonic()

    def _take(self, state: str) -> HeldShard:
        while True:
            with self._guard:
                if state in self._held:
                    self._inside[state] = self._inside.get(state, 0) + 1
                    return self._held[state].shard
                loading = self._loading.setdefault(state, threading.Lock())
            with loading:  # that may take minutes; other states are asked meanwhile
                if state not in self._held:
                    self._load(state)

    def _load(self, state: str) -> None:
        with ExitStack() as stack:
            held = HeldShard(*stack.enter_context(self._source.hold(state)))
            with self._guard:
                self._held[state] = _Held(held, stack.pop_all())
                self._used[state] = time.monotonic()

    def release(self, *, keep: Iterable[str] = (), after: float = KEPT) -> None:
        """Release the states that were not used for ``after`` seconds, except those to keep."""
        now, wanted = time.monotonic(), set(keep)
        with self._guard:
            old = [
                state
                for state in self._held
                if state not in wanted and not self._inside.get(state) and now - self._used.get(state, now) > after
            ]
            for state in old:
                self._held.pop(state).release.close()
                self._used.pop(state, None)
                self._inside.pop(state, None)
                self._loading.pop(state, None)
