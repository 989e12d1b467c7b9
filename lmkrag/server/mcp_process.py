"""MCP for assistants on this machine: in a process of their own, or in one that they share
(``mcp_proxy``).
"""

import asyncio
import contextlib
import json
import socket
import sys
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from mcp.server import MCPServer
from mcp.server.stdio import stdio_server

from lmkrag.readers.choose import load_reader
from lmkrag.server.indexes import ServedIndexes
from lmkrag.server.mcp import create_mcp_server
from lmkrag.server.mcp_proxy import GREETING, LOCK
from lmkrag.server.settings import ServerLimits
from lmkrag.server.uploads import Uploads
from lmkrag.system.platform import hold_lock

_LONGEST = 64 << 20  # bytes of a message


def serve(settings: Mapping[str, Any], listening: socket.socket | None = None) -> None:
    """Serve standard input until it ends, or a session for each connection until none has sent a
    message for a while.

    ``settings`` are ``indexes`` (folders by name), ``writable``, ``reader``, the arguments of
    :func:`lmkrag.readers.choose.load_reader`, and ``idle`` seconds. Raises IndexNotFound,
    StorageError, UsageError.
    """
    options, limits = settings["reader"], ServerLimits()
    reader = load_reader(**{**options, "prompts": options["prompts"] and Path(options["prompts"])})
    indexes = ServedIndexes(settings["indexes"], limits, for_owner=True)
    uploads = Uploads(indexes, limits) if settings["writable"] else None
    try:
        server = create_mcp_server(indexes, reader, uploads)
        if listening is None:
            server.run("stdio")
        else:
            asyncio.run(_Sessions(server).serve(listening, settings["idle"]))
    finally:
        if uploads is not None:
            uploads.close()
        indexes.close()


@dataclass
class _Sessions:
    """The sessions of a process. State: the time of the last message, ``used``."""

    server: MCPServer[Any]
    used: float = field(default_factory=time.monotonic)

    async def serve(self, listening: socket.socket, idle: float) -> None:
        path = Path(listening.getsockname())
        await asyncio.start_unix_server(self._serve_one, sock=listening, limit=_LONGEST)
        while True:
            left = self.used + idle - time.monotonic()
            if left > 0:
                await asyncio.sleep(left)
                continue
            try:
                with hold_lock(path.with_suffix(LOCK), wait=False):
                    path.unlink(missing_ok=True)
                    return
            except BlockingIOError:  # somebody connects
                self.used = time.monotonic()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.used = time.monotonic()
        core, lines = self.server._lowlevel_server, cast(Any, _Lines(self, reader, writer))
        with contextlib.suppress(ConnectionError):
            writer.write(GREETING)
            async with stdio_server(lines, lines) as (incoming, outgoing):
                await core.run(incoming, outgoing, core.create_initialization_options())
        writer.close()


@dataclass
class _Lines:
    """A connection as the files that the SDK reads and writes lines of."""

    sessions: _Sessions
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def __aiter__(self) -> AsyncIterator[bytes]:
        # Disconnected, or a message beyond the limit.
        with contextlib.suppress(ConnectionError, ValueError):
            async for line in self.reader:
                self.sessions.used = time.monotonic()
                yield line

    async def write(self, text: str) -> None:
        self.sessions.used = time.monotonic()
        self.writer.write(text.encode("utf-8", "replace"))

    async def flush(self) -> None:
        await self.writer.drain()


if __name__ == "__main__":
    serve(json.load(sys.stdin), socket.socket(fileno=int(sys.argv[1])))
