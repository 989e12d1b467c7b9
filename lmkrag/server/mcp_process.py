"""MCP for assistants on this machine: in a process of their own, or in one that they share (``mcp_proxy``)."""

import asyncio
import contextlib
import fcntl
import json
import socket
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from mcp.server import MCPServer
from mcp.server.stdio import stdio_server

from lmkrag.readers.base import Reader
from lmkrag.readers.choose import load_reader
from lmkrag.server.indexes import ServedIndexes, Workers
from lmkrag.server.mcp import create_mcp_server
from lmkrag.server.mcp_proxy import GREETING, locked
from lmkrag.server.settings import ServerLimits
from lmkrag.server.uploads import Uploads
from lmkrag.system import locate_index

_LONGEST = 64 << 20  # bytes of a message


@contextlib.contextmanager
def _open_server(paths: Mapping[str, Path | str], reader: Reader, writable: bool) -> Iterator[MCPServer[Any]]:
    """Open the indexes and what serves them. Raises IndexNotFound, StorageError."""
    limits = ServerLimits()
    workers = Workers(limits)
    with contextlib.ExitStack() as stack:
        indexes = ServedIndexes(paths, workers)
        stack.callback(indexes.close)
        stack.callback(workers.close)  # before the indexes
        uploads = Uploads(indexes, limits) if writable else None
        if uploads is not None:
            stack.callback(uploads.close)
        yield create_mcp_server(indexes, reader, uploads)


def serve_stdio(paths: Mapping[str, Path | str], *, reader: Reader, writable: bool) -> None:
    """Serve until standard input ends. Raises IndexNotFound, StorageError, before the first word is read."""
    with _open_server(paths, reader, writable) as server:
        server.run("stdio")


def serve_shared(listening: socket.socket, settings: Mapping[str, Any]) -> None:
    """Serve a session for each connection, until nobody has said a word for a while; then remove the socket.

    ``settings`` are ``indexes`` (folders by name), ``writable``, ``reader``, the arguments of
    :func:`lmkrag.readers.choose.load_reader`, and ``idle`` seconds.
    """
    options = settings["reader"]
    reader = load_reader(**{**options, "prompts": options["prompts"] and Path(options["prompts"])})
    paths = {name: locate_index(path) for name, path in settings["indexes"].items()}
    with _open_server(paths, reader, settings["writable"]) as server:
        asyncio.run(_Sessions(server, Path(listening.getsockname())).serve(listening, settings["idle"]))


class _Sessions:
    """The sessions of a process. State: when a message came or went last."""

    def __init__(self, server: MCPServer[Any], path: Path) -> None:
        self._server, self._path, self._number = server, path, path.stat().st_ino
        self.used = time.monotonic()

    async def serve(self, listening: socket.socket, idle: float) -> None:
        async with await asyncio.start_unix_server(self._serve_one, sock=listening, limit=_LONGEST):
            while True:
                await asyncio.sleep(self.used + idle - time.monotonic())
                with contextlib.suppress(OSError), locked(self._path, fcntl.LOCK_NB):  # else somebody connects
                    if self.used + idle <= time.monotonic():
                        if self._path.stat().st_ino == self._number:  # else it is another process's
                            self._path.unlink()
                        return
                self.used = time.monotonic()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.used = time.monotonic()
        core, lines = self._server._lowlevel_server, cast(Any, _Lines(self, reader, writer))
        with contextlib.suppress(ConnectionError):
            writer.write(GREETING)
            async with stdio_server(lines, lines) as (incoming, outgoing):
                await core.run(incoming, outgoing, core.create_initialization_options())
        writer.close()


class _Lines:
    """A connection as the files that the SDK reads and writes lines of."""

    def __init__(self, sessions: _Sessions, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._sessions, self._reader, self._writer = sessions, reader, writer
        self.flush = writer.drain

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with contextlib.suppress(ConnectionError, ValueError):  # cut off, or longer than any message
            async for line in self._reader:
                self._sessions.used = time.monotonic()
                yield line

    async def write(self, text: str) -> None:
        self._sessions.used = time.monotonic()
        self._writer.write(text.encode("utf-8", "replace"))


if __name__ == "__main__":
    serve_shared(socket.socket(fileno=int(sys.argv[1])), json.load(sys.stdin))
