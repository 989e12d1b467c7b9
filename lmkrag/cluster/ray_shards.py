"""Shards that replicas of Ray Serve deployments hold."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lmkrag.cluster.backups import Remote
from lmkrag.cluster.hosting import ShardHost
from lmkrag.cluster.shard_sources import PulledShard, ShardDirectory, ShardSource
from lmkrag.corpus.remote_files import is_url
from lmkrag.errors import LmkragError, ShardUnreachable
from lmkrag.index.shards import ShardedStore, shard_folders

_TRIES = 5  # of a call whose replica dies or does not answer
_PAUSE = 0.2  # seconds before the second try, then twice as long each time
_ANSWER = 30.0  # seconds


def count_shards(source: str) -> int:
    """Return how many shards there are in a directory, or in the newest snapshot that was pushed to a URL.

    Raises:
        IndexNotFound, UsageError: there is nothing. StorageError: it can't be read.
    """
    if is_url(source):
        return max(1, Remote(source).find().shards)
    return len(shard_folders(Path(source))) if ShardedStore.exists(Path(source)) else 1


class ShardReplica:
    """A replica: it holds one shard, and answers for it. It follows what is written or pushed."""

    def __init__(self, source: str, shard: int, cache: str) -> None:
        """Open the shard.

        Args:
            source: directory of the index, or URL of its snapshots.
            shard: number.
            cache: directory on this machine in which replicas keep what they pull.

        Raises:
            StorageError: the shard can't be read.
        """
        self._host = ShardHost(_find_source(source, shard, cache))
        self._host.follow()

    async def newest(self) -> str:
        """Return the name of the newest state."""
        return await asyncio.to_thread(self._host.newest)

    async def call(self, state: str, operation: str, arguments: Sequence[Any] = ()) -> Any:
        """Do what is asked in a state: see :meth:`lmkrag.cluster.hosting.ShardHost.call`."""
        return await asyncio.to_thread(self._host.call, state, operation, arguments)

    async def check_health(self) -> None:
        """Load what is new before anybody asks for it, and let go of what nobody asks for; Ray Serve calls this."""
        with contextlib.suppress(LmkragError):  # those who ask get the error
            await asyncio.to_thread(self._host.follow)


def _find_source(source: str, shard: int, cache: str) -> ShardSource:
    if is_url(source):
        return PulledShard(source, shard, Path(cache).expanduser())
    path = Path(source)
    return ShardDirectory(shard_folders(path)[shard] if ShardedStore.exists(path) else path)


class RayShards:
    """The deployments that hold the shards of one index, as :class:`lmkrag.cluster.scattering.Shards`."""

    def __init__(self, handles: Sequence[Any], *, joint: bool) -> None:
        """Take the handle of each shard's deployment, and whether they hold snapshots that were pushed together."""
        self.joint = joint
        self.count = len(handles)
        self._handles = handles

    def start(self, shard: int, method: str, *arguments: Any) -> Callable[[], Any]:
        """Call a method of one of the shard's replicas; if that one dies, of another."""
        ask = getattr(self._handles[shard], method)
        response = ask.remote(*arguments)

        def wait() -> Any:
            from ray.exceptions import RayError, RayTaskError
            from ray.serve.exceptions import RayServeException

            answer, pause, tries = response, _PAUSE, 0
            while True:
                tries += 1
                try:
                    return answer.result(timeout_s=_ANSWER)
                except RayTaskError as error:
                    if isinstance(error.cause, LmkragError):
                        raise error.cause from None
                    raise
                except (RayError, RayServeException, TimeoutError) as error:
                    if tries == _TRIES:
                        raise ShardUnreachable(f"shard {shard} does not answer ({type(error).__name__})") from error
                time.sleep(pause)
                answer, pause = ask.remote(*arguments), 2 * pause

        return wait
