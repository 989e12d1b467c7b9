"""Listen, serve, and stop without losing a request."""

import json
import logging
import socket
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import uvicorn
from starlette.types import ASGIApp

from lmkrag.errors import UsageError
from lmkrag.readers.base import Reader
from lmkrag.server.app import create_app
from lmkrag.server.indexes import ServedIndexes, Workers
from lmkrag.server.mcp import create_mcp_server
from lmkrag.server.settings import IndexingProgress, ServerLimits, ServerSettings
from lmkrag.server.uploads import Uploads
from lmkrag.system import PYTHON

_BACKLOG = 1_024
_IDLE = 20  # seconds that a connection is kept for the next request
_STOP = 30  # seconds that requests in flight have when the server stops

_logger = logging.getLogger(__name__)


def serve(settings: ServerSettings, *, announce: Callable[[str], None] = lambda url: None) -> None:
    """Serve until SIGINT or SIGTERM; requests in flight are answered first.

    Args:
        settings: how to serve.
        announce: called with the server's URL once it listens.

    Raises:
        UsageError: the address can't be listened on. IndexNotFound, StorageError: an index can't be used.
    """
    listening = _listen(settings.host, settings.port)
    with listening:
        app = create_app(settings)
        host, port = listening.getsockname()[:2]
        announce(f"http://{f'[{host}]' if ':' in host else host}:{port}")
        _Server(_configure(app, settings)).run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise UsageError(f"can't listen on {host}, port {port}: {error.strerror or error}") from error
    # asyncio sets it on sockets that it made itself; without it every response waits 40 ms for an acknowledgement
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _configure(app: ASGIApp, settings: ServerSettings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http="h11",
        ws="none",
        loop="asyncio",
        lifespan="on",
        access_log=False,  # questions stand in addresses
        log_config=None,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=settings.limits.connections,
        timeout_keep_alive=_IDLE,
        timeout_graceful_shutdown=_STOP,
    )


class _Server(uvicorn.Server):
    """uvicorn's server; a failed start is an error, not an exit."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.lifespan.should_exit:
            raise UsageError("the server could not start; its log says why")


def serve_stdio(paths: Mapping[str, Path], *, reader: Reader, writable: bool, limits: ServerLimits) -> None:
    """Serve until standard input ends. The indexes are open before the first word is read.

    Raises:
        IndexNotFound: one is not there. StorageError: one can't be used.
    """
    workers = Workers(limits)
    indexes = ServedIndexes(paths, workers)
    uploads = Uploads(indexes, limits) if writable else None
    try:
        create_mcp_server(indexes, reader, uploads).run("stdio")
    finally:
        if uploads is not None:
            uploads.close()
        workers.close()
        indexes.close()


# uvicorn ends the process by the signal that stopped it, so nothing after it is sure to run.
_WATCH = "from lmkrag.system import end_with_parent; end_with_parent(); from lmkrag.cli import main; main()"


class FolderFollower:
    """Keeps the index of folders up to date. State: the process, and how far it is."""

    def __init__(self, folders: Sequence[Path], index: Path, environment: Mapping[str, str]) -> None:
        """Start the process with an environment of its own: it may use more threads than a server's searches."""
        arguments = ["index", *map(str, folders), "--index", str(index), "--watch", "--json"]
        self._progress: IndexingProgress | None = IndexingProgress(0, 0)
        command = [*PYTHON, "-c", _WATCH, *arguments]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        threading.Thread(target=self._listen, name="lmkrag-following", daemon=True).start()

    def progress(self) -> IndexingProgress | None:
        """Return how far the process is; None while the index is up to date, or if the process has ended."""
        return self._progress

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            record = json.loads(line)
            self._progress = IndexingProgress(record["done"], record["total"]) if "done" in record else None
        self._progress = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait()
