"""MCP for assistants on this machine: in a process of their own, or in one that they share (``mcp_proxy``)."""

import asyncio
import contextlib
import json
import os
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mcp.server import MCPServer
from mcp.server.stdio import stdio_server

from lmkrag.readers.base import Reader
from lmkrag.readers.choose import load_reader
from lmkrag.server.indexes import ServedIndexes, Workers
from lmkrag.server.mcp import create_mcp_server
from lmkrag.server.mcp_proxy import GREETING, locked
from lmkrag.server.settings import ServerLimits
from lmkrag.server.uploads import Uploads

_LONGEST = 64 << 20  # bytes of a message


@contextlib.contextmanager
def _open_server(paths: Mapping[str, Path], reader: Reader, writable: bool) -> Iterator[MCPServer[Any]]:
    """Open the indexes and what serves them. Raises IndexNotFound, StorageError."""
    limits = ServerLimits()
    workers = Workers(limits)
    with contextlib.ExitStack() as stack:
        stack.callback(workers.close)
        indexes = ServedIndexes(paths, workers)
        stack.callback(indexes.close)
        stack.callback(workers.close)  # before the indexes
        uploads = Uploads(indexes, limits) if writable else None
        if uploads is not None:
            stack.callback(uploads.close)
        yield create_mcp_server(indexes, reader, uploads)


def serve_stdio(paths: Mapping[str, Path], *, reader: Reader, writable: bool) -> None:
    """Serve until standard input ends. Raises IndexNotFound, StorageError, before the first word is read."""
    with _open_server(paths, reader, writable) as server:
        server.run("stdio")


def serve_shared(listening: socket.socket, settings: Mapping[str, Any]) -> None:
    """Serve a session for each connection, until nobody has said a word for a while; then remove the socket.

    ``settings`` are ``indexes`` (folders by name), ``writable``, ``reader`` (the arguments of
    :func:`lmkrag.readers.choose.load_reader`), ``folder``, where to work, and ``idle`` seconds.
    """
    os.chdir(settings["folder"])
    reader = load_reader(
        **{**settings["reader"], "prompts": settings["reader"]["prompts"] and Path(settings["reader"]["prompts"])}
    )
    with _open_server(
        {name: Path(path) for name, path in settings["indexes"].items()}, reader, settings["writable"]
    ) as server:
        asyncio.run(_Sessions(server, listening).serve(settings["idle"]))


class _Sessions:
    """The sessions of a process. State: when a message came or went last."""

    def __init__(self, server: MCPServer[Any], listening: socket.socket) -> None:
        self._server, self._listening = server, listening
        self._path = Path(listening.getsockname())
        self._number = self._path.stat().st_ino
        self.used = time.monotonic()

    async def serve(self, idle: float) -> None:
        async with await asyncio.start_unix_server(self._serve_one, sock=self._listening, limit=_LONGEST):
            while (left := self.used + idle - time.monotonic()) > 0:
                await asyncio.sleep(left)
            with locked(self._path), contextlib.suppress(OSError):
                if self._path.stat().st_ino == self._number:  # else it is another process's
                    self._path.unlink()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.used = time.monotonic()
        core = self._server._lowlevel_server
        with contextlib.suppress(ConnectionError):
            writer.write(GREETING)
            lines: Any = _Lines(self, reader, writer)
            async with stdio_server(lines, lines) as (incoming, outgoing):
                await core.run(incoming, outgoing, core.create_initialization_options())
        writer.close()


class _Lines:
    """A connection as the files that the SDK reads and writes lines of."""

    def __init__(self, sessions: _Sessions, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._sessions, self._reader, self._writer = sessions, reader, writer

    def __aiter__(self) -> "_Lines":
        return self

    async def __anext__(self) -> str:
        try:
            line = await self._reader.readline()
        except (ConnectionError, ValueError):  # cut off, or longer than any message
            line = b""
        self._sessions.used = time.monotonic()
        if not line:
            raise StopAsyncIteration
        return line.decode("utf-8", "replace")

    async def write(self, text: str) -> None:
        self._sessions.used = time.monotonic()
        self._writer.write(text.encode("utf-8", "replace"))

    async def flush(self) -> None:
        await self._writer.drain()


if __name__ == "__main__":
    serve_shared(socket.socket(fileno=int(sys.argv[1])), json.load(sys.stdin))
