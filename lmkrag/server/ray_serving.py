"""The server on a Ray cluster: its application as ingress of Ray Serve, and behind it replicas that hold shards."""

import contextlib
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from lmkrag.cluster.ray_cluster import connected
from lmkrag.cluster.ray_shards import RayShards, ShardReplica, count_shards
from lmkrag.cluster.scattering import ScatteredStore
from lmkrag.corpus.remote_files import is_url
from lmkrag.engine import Engine
from lmkrag.errors import MissingExtra, StorageError, UsageError
from lmkrag.readers.base import Reader
from lmkrag.readers.extractive import ExtractiveReader
from lmkrag.server.app import create_app
from lmkrag.server.settings import ServerSettings

APPLICATION = "lmkrag"
CACHE = "~/.cache/lmkrag/shards"
_CALLS = 64  # that a replica answers at once
_HEALTH = 5.0  # seconds between looks for something newer


@dataclass(frozen=True, slots=True)
class RaySettings:
    """How to serve on a cluster.

    Args:
        address: see :func:`lmkrag.cluster.ray_cluster.connected`.
        replicas: of each shard, and of the application.
        cpus: that Ray sets aside for each of them.
        cache: directory, on each machine, of the snapshots that replicas pull.
    """

    address: str
    replicas: int = 1
    cpus: float = 0.1
    cache: str = CACHE


@contextlib.contextmanager
def serving_on_ray(
    settings: ServerSettings, cluster: RaySettings, load_reader: Callable[[], Reader] = ExtractiveReader
) -> Iterator[str]:
    """Serve for as long as the context lasts; give the URL.

    Args:
        settings: how to serve. An index is a directory that every machine sees under its path, or a URL that snapshots
            are pushed to. Its reader does not count: one can't be sent to another machine.
        cluster: where.
        load_reader: makes what answers questions, on the machine that answers.

    Raises:
        MissingExtra: Ray is not installed. UsageError: no cluster answers, or what is asked for is not possible on one.
        IndexNotFound, StorageError: an index can't be read.
    """
    if settings.writable:
        raise UsageError("--writable: on Ray indexes are only read; write to the index itself, or push a snapshot")
    if not settings.port:
        raise UsageError("--port 0: Ray Serve has to be told a port")
    sources = {name: source if is_url(source) else Path(source).resolve() for name, source in settings.indexes.items()}
    settings = replace(settings, indexes=sources)
    with connected(cluster.address):
        try:
            from ray import serve
        except ImportError as error:
            raise MissingExtra("ray", error.name or "ray[serve]") from None
        logging.getLogger("ray.serve").setLevel(logging.WARNING)
        serve.start(http_options={"host": settings.host, "port": settings.port}, logging_config=_quiet())
        options = {"num_replicas": cluster.replicas, "ray_actor_options": {"num_cpus": cluster.cpus}}
        shard = serve.deployment(ShardReplica, max_ongoing_requests=_CALLS, health_check_period_s=_HEALTH, **options)
        counts = {name: count_shards(str(source)) for name, source in settings.indexes.items()}
        bound = [
            shard.options(name=_deployment(name, number)).bind(
                str(settings.indexes[name]), number, str(Path(cluster.cache) / name)
            )
            for name, count in counts.items()
            for number in range(count)
        ]
        sent = replace(settings, reader=None)

        def build() -> Any:  # Ray tells what makes an application by its being a function
            return _build_app(sent, cluster, load_reader)

        ingress = serve.deployment(serve.ingress(build)(_Ingress), max_ongoing_requests=_CALLS, **options)
        try:
            try:
                serve.run(ingress.bind(*bound), name=APPLICATION, route_prefix="/", logging_config=_quiet())
            except RuntimeError as error:
                raise StorageError(f"Ray Serve can't run it: {_why(serve) or error}") from error
            yield f"http://{settings.host}:{settings.port}"
        finally:
            serve.delete(APPLICATION)


def serve_on_ray(
    settings: ServerSettings,
    cluster: RaySettings,
    load_reader: Callable[[], Reader] = ExtractiveReader,
    *,
    announce: Callable[[str], None],
) -> None:
    """Serve until SIGINT or SIGTERM; ``announce`` is called with the URL. See :func:`serving_on_ray`."""
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    with serving_on_ray(settings, cluster, load_reader) as url:
        announce(url)
        stopped.wait()


def _why(serve: Any) -> str:
    """The last line of what Ray Serve says of a deployment that failed."""
    deployments = serve.status().applications[APPLICATION].deployments.values()
    failed = [one.message for one in deployments if "FAILED" in str(one.status) or "UNHEALTHY" in str(one.status)]
    lines = [line.strip() for message in failed for line in message.splitlines() if line.strip()]
    return lines[-1] if lines else ""


class _Ingress:
    """What the application is mounted on; it depends on the shards, so that Ray Serve starts them first."""

    def __init__(self, *shards: Any) -> None:
        self.shards = shards


def _build_app(settings: ServerSettings, cluster: RaySettings, load_reader: Callable[[], Reader]) -> Any:
    """The application, in a replica."""
    settings = replace(settings, reader=load_reader())
    with ThreadPoolExecutor(1) as thread:  # shards can't be waited for in a thread with an event loop
        return thread.submit(
            create_app, settings, open_engine=partial(open_scattered, settings, cache=cluster.cache)
        ).result()


def open_scattered(settings: ServerSettings, name: str, *, cache: str = CACHE) -> Engine:
    """Open an index that is being served, in a process that is connected to the cluster.

    Args:
        settings: that it is served with.
        name: of the index.
        cache: directory beside which feedback is kept, where the index is a URL.
    """
    from ray import serve

    source = str(settings.indexes[name])
    numbers = range(count_shards(source))
    handles = [serve.get_deployment_handle(_deployment(name, number), APPLICATION) for number in numbers]
    shards = RayShards(handles, joint=is_url(source))
    path = Path(cache).expanduser() / name if is_url(source) else Path(source)
    return Engine(ScatteredStore(path, shards), **settings.reranking)


def _deployment(index: str, shard: int) -> str:
    return f"{index}-{shard:03}"


def _quiet() -> dict[str, Any]:
    return {"log_level": "WARNING", "enable_access_log": False}  # questions stand in addresses
