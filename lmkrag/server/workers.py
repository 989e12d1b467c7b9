"""Threads that search, and a bound on how many requests wait for them."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from lmkrag.server.problems import Problem, busy
from lmkrag.server.settings import ServerLimits

Result = TypeVar("Result")


class Workers:
    """Runs blocking calls, a few at once and a bounded number waiting. State: the threads, and how much they have."""

    def __init__(self, limits: ServerLimits) -> None:
        """Take how many run and how many wait."""
        self._limits = limits
        self._threads = ThreadPoolExecutor(limits.threads, thread_name_prefix="lmkrag-search")
        self._pending = 0

    @property
    def pending(self) -> int:
        """How many calls run or wait."""
        return self._pending

    async def run(self, call: Callable[[], Result]) -> Result:
        """Run a call on a thread and return its result.

        Raises:
            Problem: too many wait already (429), or it took too long (504).
        """
        if self._pending >= self._limits.threads + self._limits.waiting:
            raise busy("too many searches are waiting; try again in a few seconds")
        self._pending += 1
        loop = asyncio.get_running_loop()
        future = self._threads.submit(call)
        # a call that has begun can't be stopped: it counts until it ends, whoever waits for it
        future.add_done_callback(lambda _: loop.call_soon_threadsafe(self._finished))
        try:
            async with asyncio.timeout(self._limits.seconds):
                return await asyncio.shield(asyncio.wrap_future(future))
        except TimeoutError:
            seconds = self._limits.seconds
            raise Problem(504, "timeout", "Timed out", f"this took longer than {seconds:g} seconds") from None
        finally:
            future.cancel()  # nobody waits any more: if it has not begun, it never will

    def _finished(self) -> None:
        self._pending -= 1

    def close(self) -> None:
        """Wait for the calls that run, and end the threads."""
        self._threads.shutdown(wait=True, cancel_futures=True)
