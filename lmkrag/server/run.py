"""Listen, serve, and stop without losing a request."""

import socket
from collections.abc import Callable

import uvicorn

from lmkrag.errors import UsageError
from lmkrag.server.app import create_app
from lmkrag.server.settings import ServerSettings

_BACKLOG = 1_024
_IDLE = 20  # seconds that a connection is kept for the next request
_STOP = 30  # seconds that requests in flight have when the server stops


def serve(settings: ServerSettings, *, announce: Callable[[str], None] = lambda url: None) -> None:
    """Serve until SIGINT or SIGTERM; ``announce`` gets the URL. Raises UsageError, IndexNotFound, StorageError."""
    listening = _listen(settings.host, settings.port)
    with listening:
        app = create_app(settings)
        host, port = listening.getsockname()[:2]
        announce(f"http://{f'[{host}]' if ':' in host else host}:{port}")
        config = uvicorn.Config(
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
        _Server(config).run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise UsageError(f"can't listen on {host}, port {port}: {error.strerror or error}") from error
    # asyncio sets it on sockets that it made itself; without it every response waits 40 ms for an acknowledgement
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


class _Server(uvicorn.Server):
    """uvicorn's server; a failed start is an error, not an exit."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.lifespan.should_exit:
            raise UsageError("the server could not start; its log says why")
