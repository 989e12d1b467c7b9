"""What an assistant starts: it copies lines between standard input and output and the one process that serves an index.

That process is shared by all assistants of a user, and is started when the first of them needs it. Only the standard
library is imported here, so that a second assistant is served at once and takes no memory to speak of.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import select
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lmkrag.system import PYTHON
from lmkrag.version import __version__

GREETING = f"lmkrag {__version__}\n".encode()  # the process is ready for a session
IDLE = 900.0  # seconds without a message after which the process ends
_ENVIRONMENT = ("LMKRAG_", "OPENAI_", "HF_", "CUDA_")  # what begins so sets models and readers
_START = 60.0  # seconds in which a process opens its indexes
_CHUNK = 1 << 16


class SharedServer:
    """The process for some settings, of this user and this version of lmkrag. State: none; it is found by its socket.

    >>> SharedServer({"indexes": {"handbook": "/indexes/handbook"}}).path.suffix
    '.sock'
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """Take what :func:`lmkrag.server.mcp_process.serve_shared` needs; whoever names the same shares the process."""
        from platformdirs import user_cache_path

        self._settings = json.dumps(settings, sort_keys=True)
        variables = sorted(item for item in os.environ.items() if item[0].startswith(_ENVIRONMENT))
        identity = [self._settings, __version__, __file__, sys.executable, platform.node(), str(variables)]
        digest = hashlib.sha256("\0".join(identity).encode("utf-8", "surrogateescape")).hexdigest()[:16]
        self.path = user_cache_path("lmkrag", appauthor=False) / "mcp" / f"{digest}.sock"

    def connect(self) -> socket.socket:
        """Return a connection for a session; start the process where none runs. Raises OSError: it does not start."""
        folder = self.path.parent
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.is_symlink() or folder.stat().st_uid != os.getuid():
            raise PermissionError(f"{folder} is not a folder of this user")
        folder.chmod(0o700)
        try:
            return _await_greeting(self._dial())
        except OSError:  # none runs, or it is about to end
            with locked(self.path):
                try:
                    connection = self._dial()
                except OSError:
                    self._start()
                    connection = self._dial()
            return _await_greeting(connection)

    def _dial(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(str(self.path))
        except OSError:
            connection.close()
            raise
        return connection

    def _start(self) -> None:
        """Start the process with a socket that listens already, so that nobody has to wait for it to be there."""
        self.path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as listening, self.path.with_suffix(".log").open("wb") as log:
            listening.bind(str(self.path))
            listening.listen(64)
            number = listening.fileno()
            command = [*PYTHON, "-m", "lmkrag.server.mcp_process", str(number)]
            quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": log, "start_new_session": True}
            process = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[number], **quiet)
            with contextlib.suppress(BrokenPipeError), process.stdin:  # type: ignore[union-attr]
                process.stdin.write(self._settings.encode())  # type: ignore[union-attr]


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait until nobody else starts or ends the process of a socket."""
    with path.with_suffix(".lock").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _await_greeting(connection: socket.socket) -> socket.socket:
    connection.settimeout(_START)
    try:
        if connection.recv(len(GREETING), socket.MSG_WAITALL) != GREETING:
            raise ConnectionError("the process ended")
    except OSError:
        connection.close()
        raise
    connection.settimeout(None)
    return connection


class Proxy:
    """One session. State: the connection, and the requests that wait for a reply, which another process may get."""

    def __init__(self, server: SharedServer, source: int = 0, target: int = 1) -> None:
        """Connect, before anything is read from ``source``. Raises OSError: the process does not start."""
        self._server, self._source, self._target = server, source, target
        self._connection: socket.socket | None = server.connect()
        self._handshake: dict[str, bytes] = {}  # what began the session, by method
        self._pending: dict[Any, bytes] = {}
        self._repeated: set[Any] = set()
        self._partial = {source: b"", -1: b""}  # the beginnings of lines, -1 of the connection

    def run(self) -> None:
        """Copy until ``source`` ends and the process has said its last."""
        sources: list[Any] = [self._source]
        while sources or self._connection is not None:
            ready, _, _ = select.select([*sources, *filter(None, [self._connection])], [], [])
            if self._source in ready:
                if not (data := os.read(self._source, _CHUNK)):
                    sources = []
                    if self._connection is not None:
                        self._connection.shutdown(socket.SHUT_WR)
                for line in self._split(self._source, data):
                    self._ask(line)
            if self._connection is not None and self._connection in ready:
                self._read_replies(ended=not sources)

    def _split(self, source: int, data: bytes) -> list[bytes]:
        *lines, self._partial[source] = (self._partial[source] + data).split(b"\n")
        return [line + b"\n" for line in lines]

    def _ask(self, line: bytes) -> None:
        message = _parse(line)
        method, number = message.get("method"), message.get("id")
        if method in ("initialize", "notifications/initialized"):
            self._handshake[method] = line
        if method == "notifications/cancelled":
            self._pending.pop((message.get("params") or {}).get("requestId"), None)
        if method is not None and number is not None:
            self._pending[number] = line
        if self._connection is None:  # it ended while nobody waited
            self._restart()
        else:
            self._send(line)

    def _read_replies(self, *, ended: bool) -> None:
        assert self._connection is not None
        try:
            data = self._connection.recv(_CHUNK)
        except OSError:
            data = b""
        for line in self._split(-1, data):
            self._pass_on(line)
        if not data:
            self._connection.close()
            self._connection, self._partial[-1] = None, b""
            if self._pending and not ended:
                self._restart()

    def _pass_on(self, line: bytes) -> None:
        message = _parse(line)
        if "method" not in message:
            self._pending.pop(message.get("id"), None)
        rest = memoryview(line)
        while rest:
            rest = rest[os.write(self._target, rest) :]

    def _restart(self) -> None:
        """Ask another process what waits for a reply, each once; whatever no process answered gets an error."""
        try:
            for number in self._repeated & self._pending.keys():
                self._refuse(number, "the process that searches ended twice during this call")
            if not self._pending:
                return
            self._connection = self._server.connect()
            self._repeated |= self._pending.keys()
            began = self._handshake.get("initialize")
            if began is not None and _parse(began).get("id") not in self._pending:
                self._send(began)
                _skip_line(self._connection)  # the client has its reply already
                self._send(self._handshake.get("notifications/initialized", b""))
            for line in list(self._pending.values()):
                self._send(line)
        except OSError as error:
            self._connection = None
            for number in list(self._pending):
                self._refuse(number, f"the process that searches does not start ({error})")

    def _refuse(self, number: Any, why: str) -> None:
        error = {"code": -32603, "message": f"lmkrag: {why}; {self._server.path.with_suffix('.log')} may say more"}
        self._pass_on(json.dumps({"jsonrpc": "2.0", "id": number, "error": error}).encode() + b"\n")

    def _send(self, line: bytes) -> None:
        with contextlib.suppress(OSError):  # the end of the connection is read next
            if self._connection is not None:
                self._connection.sendall(line)


def _skip_line(connection: socket.socket) -> None:
    while (byte := connection.recv(1)) != b"\n":
        if not byte:
            raise ConnectionError("the process ended")


def _parse(line: bytes) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except ValueError:  # for the process to refuse
        return {}
    return message if isinstance(message, dict) else {}
