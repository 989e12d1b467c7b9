"""Authentication, limits and metrics of every request."""

import asyncio
import contextlib
import ipaddress
import re
import time
from dataclasses import dataclass
from typing import Any

from anyio import CapacityLimiter
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lmkrag.server.metrics import Metrics
from lmkrag.server.problems import Problem, busy
from lmkrag.server.sessions import Sessions, TokenCheck
from lmkrag.server.settings import ServerLimits, ServerSettings

COOKIE = "lmkrag_session"

_HEALTH = frozenset({"/healthz", "/readyz"})  # answered at any load
_PUBLIC = _HEALTH | {"/", "/api/login", "/favicon.ico"}  # need no token and reveal nothing
_LEAST_RATE = 10_000  # bytes per second of a body that takes longer than ``arrival`` seconds
_PORT = re.compile(r":\d+$")
_UPLOAD = re.compile("/api/documents/.")  # a document has a name
_CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_CLOSE = {"Connection": "close"}  # of a response to a body that was not read to its end
_HEADERS = {
    "content-security-policy": _CONTENT_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """Checks the host, the origin, the token and the limits of every request, and sets the headers
    of every response.

    A request may call the server by ``localhost``, by any address of numbers, by the name it
    listens on and by the names of its settings. Other names are refused: DNS rebinding needs one.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings, metrics: Metrics) -> None:
        self._app, self._settings, self._metrics = app, settings, metrics
        self._tokens = TokenCheck(settings.token)
        self.sessions = Sessions()
        self._hosts = {"localhost", *map(str.lower, (settings.host, *settings.allowed_hosts))}
        self._places = CapacityLimiter(settings.limits.requests)
        self._public_places = CapacityLimiter(settings.limits.public_requests)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["method"] == "HEAD" and not _is_mcp(scope):
            scope = {**scope, "method": "GET"}  # whose body uvicorn leaves out
        watched = _Watched(send, self._settings.limits.stall)
        began = time.monotonic()
        try:
            with self._metrics.in_flight.track_inprogress():
                await self._answer(scope, receive, watched)
        finally:
            # The route, never its parameters.
            route = "/mcp" if _is_mcp(scope) else getattr(scope.get("route"), "path", "unmatched")
            seconds = time.monotonic() - began
            self._metrics.observe(scope["method"], route, watched.status, seconds)

    async def _answer(self, scope: Scope, receive: Receive, send: "_Watched") -> None:
        headers = Headers(scope=scope)
        try:
            await self._check(scope, headers)
            limits = self._settings.limits
            is_upload = scope["method"] == "PUT" and _UPLOAD.match(scope["path"])
            limit = limits.upload if is_upload and self._settings.writable else limits.body
            if int(headers.get("content-length", 0)) > limit:  # a number, as h11 has checked
                raise _too_large(limit)
            body = _limit_body(receive, limit, limits)
            async with self._admit(scope["path"]):
                if _is_mcp(scope):
                    body = await _read_ahead(body)  # else it logs an aborted body as an error
                await self._app(scope, body, send)
        except Problem as problem:
            if not send.status:
                await problem.to_response(scope["path"])(scope, receive, send)

    def _admit(self, path: str) -> contextlib.AbstractAsyncContextManager[Any]:
        """Return what counts a request while it is answered, unless it asks for the server's
        health.

        Public paths count separately: they can't crowd out the others. Raises Problem: too many are
        in flight.
        """
        if path in _HEALTH:
            return contextlib.nullcontext()
        places = self._public_places if _is_public(path) else self._places
        if not places.available_tokens:
            raise busy("too many requests are in flight; try again in a few seconds")
        return places

    async def _check(self, scope: Scope, headers: Headers) -> None:
        place = headers.get("host", "").lower()
        host = _PORT.sub("", place)
        if not self._is_allowed(host) and (host or scope["path"] not in _HEALTH):
            raise Problem(421, "host", f"host {host!r} is not allowed: see --allow-host")
        origin = headers.get("origin")
        # "https://example.org:8700" is of the host "example.org:8700"
        if origin is not None and origin.partition("://")[2].lower() != place:
            raise Problem(403, "origin", f"pages of {origin!r} may not use this server")
        if headers.get("sec-fetch-site") == "cross-site" and scope["path"] != "/":
            raise Problem(403, "origin", "pages of other sites may not use this server")
        if not _is_public(scope["path"]) and not await self._is_known(scope, headers):
            detail = "send the server's token as Authorization: Bearer TOKEN"
            challenge = {"WWW-Authenticate": 'Bearer realm="lmkrag"'}
            raise Problem(401, "unauthorized", detail, headers=challenge)

    def _is_allowed(self, host: str) -> bool:
        try:
            return host in self._hosts or bool(ipaddress.ip_address(host.strip("[]")))
        except ValueError:
            return False

    # Authentication

    async def _is_known(self, scope: Scope, headers: Headers) -> bool:
        """Whether a request carries the token, or the cookie of a session that began with it."""
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return await self.is_token(token.strip(), scope)
        session = HTTPConnection(scope).cookies.get(COOKIE, "")
        return self._settings.token is None or self.sessions.is_open(session)

    async def is_token(self, value: str, scope: Scope) -> bool:
        """Return whether this is the token, or none is needed; whoever guesses waits. Raises
        Problem: too many do.
        """
        host, _ = scope.get("client") or ("", 0)
        return await self._tokens.is_right(value, host)


def _is_mcp(scope: Scope) -> bool:
    path: str = scope["path"]
    return path == "/mcp" or path.startswith("/mcp/")


def _is_public(path: str) -> bool:
    return path in _PUBLIC or path.startswith("/static/")


def _too_large(limit: int) -> Problem:
    return Problem(413, "too-large", f"the body is larger than {limit:,} bytes", headers=_CLOSE)


def _limit_body(receive: Receive, limit: int, limits: ServerLimits) -> Receive:
    """Return what receives a body within limits on its size, on pauses and on the total time."""
    read, is_whole = 0, False
    began = time.monotonic()

    async def receive_within() -> Message:
        nonlocal read, is_whole
        if is_whole:  # only a disconnect can follow
            return await receive()
        left = began + limits.arrival + read / _LEAST_RATE - time.monotonic()
        try:
            async with asyncio.timeout(min(limits.stall, left)):
                message = await receive()
        except TimeoutError:
            stalled = f"nothing came for {limits.stall:g} seconds"
            detail = stalled if left > limits.stall else "the body comes too slowly"
            raise Problem(408, "slow", detail, headers=_CLOSE) from None
        if message["type"] == "http.disconnect":
            raise Problem(400, "disconnected", "the client left before its body ended")
        read += len(message.get("body", b""))
        is_whole = not message.get("more_body", False)
        if read > limit:
            raise _too_large(limit)
        return message

    return receive_within


async def _read_ahead(body: Receive) -> Receive:
    """Read a body to its end, and return what receives it without waiting."""
    messages = [await body()]
    while messages[-1].get("more_body"):
        messages.append(await body())

    async def receive() -> Message:
        return messages.pop(0) if messages else await body()

    return receive


@dataclass
class _Watched:
    """Sends a response with our headers; aborts if the client does not read for some seconds."""

    send: Send
    seconds: float
    status: int = 0  # before the response

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        try:
            async with asyncio.timeout(self.seconds):
                await self.send(message)
        except TimeoutError:
            raise Problem(408, "slow", "the client does not read the response") from None
