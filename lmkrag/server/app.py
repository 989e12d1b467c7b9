"""The web application: routes, MCP and the page over some indexes; it finishes running requests
before it stops.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import uvicorn
from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.security import HTTPBearer
from fastapi.staticfiles import StaticFiles
from mcp.server.transport_security import TransportSecuritySettings
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from lmkrag.errors import UsageError
from lmkrag.readers.extractive import ExtractiveReader
from lmkrag.server.guard import Guard
from lmkrag.server.indexes import ServedIndexes
from lmkrag.server.mcp import create_mcp_server
from lmkrag.server.metrics import Metrics
from lmkrag.server.problems import Problem, from_invalid
from lmkrag.server.routes import dify, documents, openai, rerank, search
from lmkrag.server.routes import indexes as index_routes
from lmkrag.server.service import Service
from lmkrag.server.settings import ServerSettings
from lmkrag.server.uploads import Uploads
from lmkrag.version import __version__

_logger = logging.getLogger(__name__)
_STOP = 30  # seconds that a stopping server waits for requests in flight
_TRY_AGAIN = 2.0  # seconds after a warm-up has failed
_DOCUMENTS = b"/api/documents/"


def create_app(settings: ServerSettings) -> ASGIApp:
    """Open the indexes and return the application. Raises IndexNotFound, StorageError: one can't be
    used.
    """
    indexes = ServedIndexes(
        settings.indexes,
        settings.limits,
        for_owner=settings.show_paths,
        reranker=settings.rerank_model,
        rerank=settings.rerank,
        rerank_timeout_ms=settings.rerank_timeout_ms,
    )
    service = Service(
        settings=settings,
        reader=settings.reader or ExtractiveReader(),
        indexes=indexes,
        metrics=Metrics(indexes),
        uploads=Uploads(indexes, settings.limits) if settings.writable else None,
    )
    mcp = create_mcp_server(indexes, service.reader, service.uploads)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with mcp.session_manager.run():  # a mount's own lifespan does not run
            warming = asyncio.create_task(_warm_up(service))
            try:
                yield
            finally:
                warming.cancel()
                if service.uploads is not None:
                    await asyncio.to_thread(service.uploads.close)
                await asyncio.to_thread(indexes.close)

    app = FastAPI(
        title="lmkrag",
        version=__version__,
        description="Exact passages of your documents, and answers with citations.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        exception_handlers=dict.fromkeys(
            (RequestValidationError, HTTPException, Exception), _answer_error
        ),
        # The guard checks the token; this declares it.
        dependencies=[
            Depends(HTTPBearer(auto_error=False, description="The server's token, if it has one."))
        ],
    )
    app.state.service = service
    for router in (
        search.router,
        documents.jobs,
        index_routes.router,
        documents.router,
        index_routes.health,
    ):
        app.include_router(router, responses=_describe_errors("application/problem+json"))
    for router in (openai.router, rerank.router, dify.router):
        app.include_router(router, responses=_describe_errors("application/json"))
    _serve_page(app)
    mounted = mcp.streamable_http_app(
        streamable_http_path="/",
        stateless_http=True,
        json_response=True,
        # the guard checks the host and the origin
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    app.mount("/mcp", mounted)
    service.guard = Guard(_Paths(app), settings, service.metrics)
    return service.guard


async def _answer_error(request: Request, error: Exception) -> Response:
    """Return an error as a problem."""
    path = request.url.path
    match error:
        case Problem():
            problem = error
        case RequestValidationError():
            media_type = request.headers.get("content-type", "none")
            problem = from_invalid(error.errors(), media_type)
        case HTTPException():
            kinds = {404: "not-found", 405: "method-not-allowed"}
            status, kind = error.status_code, kinds.get(error.status_code, "http")
            problem = Problem(status, kind, error.detail, headers=error.headers)
        case _:
            _logger.error("%s %s failed", request.method, path, exc_info=error)
            problem = Problem(500, "internal", "this is a bug; the server's log says more")
    return problem.to_response(path)


def _describe_errors(media_type: str) -> dict[int | str, dict[str, Any]]:
    content: dict[str, Any] = {media_type: {}}
    return {
        "4XX": {"description": "The request can't be answered.", "content": content},
        "5XX": {"description": "The server or the index failed.", "content": content},
    }


async def _warm_up(service: Service) -> None:
    """Search every index, until it works, so that the first question does not wait for weights and
    files.
    """
    cold = list(service.indexes.by_name.values())
    while cold:
        for index in cold.copy():
            try:
                await index.run(lambda engine: engine.search("warm up"))
                cold.remove(index)
            except Exception as error:
                _logger.error("%s: can't be searched: %s", index.name, error)
                await asyncio.sleep(_TRY_AGAIN)
    service.ready = True


def _serve_page(app: FastAPI) -> None:
    static = _Static(packages=[("lmkrag.server", "static")])
    names = {"/": "index.html", "/docs": "docs.html", "/favicon.ico": "icon.svg"}

    async def send_file(request: Request) -> Response:
        return await static.get_response(names[request.url.path], request.scope)

    for path in names:
        app.get(path, include_in_schema=False)(send_file)
    app.mount("/static", static)


class _Static(StaticFiles):
    """The files of the page; browsers keep them, and ask each time whether they have changed."""

    def file_response(self, *details: Any) -> Response:
        response = super().file_response(*details)
        response.headers["Cache-Control"] = "no-cache"
        return response


class _Paths:
    """Leaves paths of documents encoded, so that slashes in an id differ from those of the path."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            raw = scope.get("raw_path") or b""
            if raw.startswith(_DOCUMENTS):
                scope["path"] = raw.decode("ascii", "replace")
            elif scope["path"] == "/mcp":
                scope["path"] = "/mcp/"  # a mount would redirect
        await self._app(scope, receive, send)


class _Connection(H11Protocol):
    """Closes a connection that has not sent a complete request header within the keep-alive
    timeout.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

    def data_received(self, data: bytes) -> None:
        # The base class would end the timeout at the first byte of a header.
        self.conn.receive_data(data)
        self.handle_events()


def serve(settings: ServerSettings, *, announce: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; ``announce`` gets the URL. Raises UsageError, IndexNotFound,
    StorageError.
    """
    with _listen(settings.host, settings.port) as listening:
        app = create_app(settings)
        host, port = listening.getsockname()[:2]
        announce(f"http://{f'[{host}]' if ':' in host else host}:{port}")
        config = uvicorn.Config(
            app,
            http=_Connection,
            ws="none",
            loop="asyncio",
            lifespan="on",
            access_log=False,  # URLs contain questions
            log_config=None,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=settings.limits.connections,
            timeout_keep_alive=settings.limits.stall,  # type: ignore[arg-type]  # seconds as asyncio takes them
            timeout_graceful_shutdown=_STOP,
        )
        server = uvicorn.Server(config)
        server.run(sockets=[listening])
        if server.lifespan.should_exit and not server.started:
            raise UsageError("the server could not start; its log says why")


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        raise UsageError(
            f"can't listen on {host}, port {port}: {error.strerror or error}"
        ) from error
    # asyncio sets this only on its own sockets; without it, every response waits 40 ms for an
    # acknowledgement
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening
