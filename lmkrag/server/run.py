"""Listen, serve, and stop without losing a request."""

import asyncio
import logging
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

import uvicorn
from h11 import IDLE
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from lmkrag.errors import UsageError
from lmkrag.server.app import create_app
from lmkrag.server.settings import ServerSettings

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
        http=partial(_Protocol, seconds=settings.limits.head),  # type: ignore[arg-type]  # is called, as a class is
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


class _Protocol(H11Protocol):
    """uvicorn's HTTP/1.1, with a limit on how long the head of a request may take."""

    def __init__(self, *args: Any, seconds: float, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._seconds = seconds
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel()
        super().connection_lost(exc)

    def _watch(self) -> None:
        reading_head = self.conn.their_state is IDLE and not self.transport.is_closing()
        if not reading_head:
            self._cancel()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self._seconds, self._give_up)

    def _cancel(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        if self.conn.their_state is IDLE and (self.cycle is None or self.cycle.response_complete):
            self.transport.close()
