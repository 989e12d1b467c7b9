"""The indexes of a server: opened at start, and reopened when they are replaced."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from lmkrag.engine import Engine
from lmkrag.errors import IndexMismatch, LmkragError
from lmkrag.index.location import absolute_index
from lmkrag.index.searchable import retry_expired
from lmkrag.server.folders import hide_folders
from lmkrag.server.problems import Problem, busy, from_error
from lmkrag.server.settings import ServerLimits
from lmkrag.system.deadline import DEADLINE, Deadline, RequestEnded

Result = TypeVar("Result")
_LAST = 5.0  # seconds that a closing server waits for calls whose requests have ended


class Workers:
    """Runs blocking calls, a few at once and a bounded number waiting. State: the threads and their
    calls.
    """

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits
        self._threads = ThreadPoolExecutor(limits.threads, thread_name_prefix="lmkrag-search")
        self.pending: set[Future[Any]] = set()  # calls that run or wait

    def find_deadline(self) -> float:
        """Return until when a request that begins now may take, by ``time.monotonic``."""
        return time.monotonic() + self._limits.seconds

    async def run(self, call: Callable[[], Result], *, until: float | None = None) -> Result:
        """Run a call on a thread, by default as the only one of its request.

        Raises Problem: too many wait already (429), or it took too long (504).
        """
        until = until or self.find_deadline()
        if len(self.pending) >= self._limits.threads + self._limits.waiting:
            raise busy("too many searches are waiting; try again in a few seconds")
        loop, context, abandoned = asyncio.get_running_loop(), copy_context(), threading.Event()
        context.run(DEADLINE.set, Deadline(until, abandoned))
        future = self._threads.submit(context.run, call)
        self.pending.add(future)
        # a running call is pending until it ends or notices that it is abandoned, even after a
        # timeout
        future.add_done_callback(lambda _: loop.call_soon_threadsafe(self.pending.discard, future))
        try:
            async with asyncio.timeout(until - time.monotonic()):
                return await asyncio.shield(asyncio.wrap_future(future))
        except (TimeoutError, RequestEnded):
            raise Problem(
                504, "timeout", f"this took longer than {self._limits.seconds:g} seconds"
            ) from None
        finally:
            future.cancel()  # a call that has not started never will
            abandoned.set()

    def close(self) -> None:
        """End the threads; running calls get a few seconds."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        wait(self.pending, _LAST)


_logger = logging.getLogger(__name__)


class ServedIndex:
    """One index and the name it is served under. State: ``engine``, which is open."""

    def __init__(
        self,
        name: str,
        path: str | Path,
        workers: Workers,
        *,
        for_owner: bool = False,
        **options: Any,
    ) -> None:
        self.name, self.path, self.for_owner = name, absolute_index(path), for_owner
        self._workers = workers
        self._guard = threading.Lock()
        self._open_engine = partial(Engine.open, path, **options)
        self.engine = self._open()

    async def run(self, call: Callable[[Engine], Result]) -> Result:
        """Run a call on a thread and return its result: see :meth:`call`. Raises Problem: or the
        server is busy.
        """
        return await self._workers.run(lambda: self.call(call))

    def call(self, call: Callable[[Engine], Result]) -> Result:
        """Call with the engine, again if the index was replaced meanwhile; clients learn no folder
        from the result.

        Raises Problem: it failed.
        """
        engine = self.engine
        try:
            try:
                result = retry_expired(lambda: call(engine))
            except IndexMismatch:
                result = call(self._reopen(engine))
        except LmkragError as error:
            raise self.to_problem(error) from error
        return result if self.for_owner else cast(Result, hide_folders(result, self.name))

    def to_problem(self, error: LmkragError) -> Problem:
        """Return an error as the problem of a request, which names the index but never its
        directory.
        """
        return from_error(error, self.name, str(self.engine.encoders.path))

    def _open(self) -> Engine:
        engine = self._open_engine()
        engine.finder.names_folders = self.for_owner
        return engine

    def _reopen(self, old: Engine) -> Engine:
        with self._guard:
            if self.engine is old:  # else another thread has reopened it
                _logger.warning("%s: the index was replaced; reopening it", self.name)
                self.engine = self._open()
                old.close()
            return self.engine

    def close(self) -> None:
        self.engine.close()


class ServedIndexes:
    """All indexes of a server, by name, and the threads that search them."""

    def __init__(
        self, paths: Mapping[str, str | Path], limits: ServerLimits, **options: Any
    ) -> None:
        """Open directories by their names. ``options`` are those of :meth:`lmkrag.Engine.open`, and
        ``for_owner``: whether clients learn where documents lie, as the owner alone should.

        Raises IndexNotFound: one is not there. StorageError: it can't be used.
        """
        self.by_name: dict[str, ServedIndex] = {}
        self.workers = Workers(limits)
        try:
            for name, path in paths.items():
                self.by_name[name] = ServedIndex(name, path, self.workers, **options)
        except BaseException:
            self.close()
            raise

    def find(self, name: str | None) -> ServedIndex:
        """Return an index by name, without one the only one. Raises Problem: there is none, or
        several and no name.
        """
        if name in self.by_name:
            return self.by_name[name]
        names = ", ".join(self.by_name)
        if name:
            raise Problem(404, "unknown-index", f"no index {name!r}: there is {names}")
        if len(self.by_name) > 1:
            raise Problem(400, "usage", f'name an index with "index": one of {names}')
        return next(iter(self.by_name.values()))

    async def run(self, name: str | None, call: Callable[[Engine], Result]) -> Result:
        """Run a call on the index of a name. Raises Problem: there is none, or the call failed."""
        return await self.find(name).run(call)

    def close(self) -> None:
        """Wait for running calls and close the indexes."""
        self.workers.close()
        for index in self.by_name.values():
            index.close()
