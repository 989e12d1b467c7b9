"""The process that an assistant starts: it copies lines between its standard streams and the
process with the index.

All assistants of a user with the same settings share the latter, which the first of them starts.
Only the standard library is imported here, so that further assistants start fast and take little
memory.
"""

import contextlib
import hashlib
import json
import os
import socket
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lmkrag.system.cache import cache_path, make_private
from lmkrag.system.platform import hold_lock
from lmkrag.version import __version__

GREETING = f"lmkrag {__version__}\n".encode()  # the process is ready for a session
LOCK = ".lock"  # of the file beside a socket: its process is started and ended inside the lock
IDLE = 900.0  # seconds without a message after which the process ends
# Prefixes of variables that set models and readers.
_ENVIRONMENT = ("LMKRAG_", "OPENAI_", "HF_", "CUDA_")
_START = 60.0  # seconds in which a process opens its indexes


class SharedServer:
    """The shared process of a user, for some settings and a version of lmkrag, addressed by its
    socket ``path``.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """Name the process: sessions share one only if all of their settings are equal.

        Args:
            settings: what :func:`lmkrag.server.mcp_process.serve` takes, and ``folder``, in which
                to start the process.
        """
        self._folder = settings["folder"]
        self._settings = json.dumps(settings, sort_keys=True, default=str)
        self.path = _name_socket(self._settings)

    def connect(self) -> socket.socket:
        """Return a connection for a session; start the process if none runs. Raises OSError: it
        does not start.
        """
        make_private(self.path.parent)
        with hold_lock(self.path.with_suffix(LOCK)):
            try:
                return self._dial()
            except OSError:
                self._start()
                return self._dial()

    def _dial(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.settimeout(_START)
            connection.connect(str(self.path))
            if connection.recv(len(GREETING), socket.MSG_WAITALL) != GREETING:
                raise ConnectionError("the process ended")
            connection.settimeout(None)
        except OSError:
            connection.close()
            raise
        return connection

    def _start(self) -> None:
        """Start the process with a listening socket."""
        import subprocess

        from lmkrag.system.processes import PYTHON

        self.path.unlink(missing_ok=True)
        with (
            socket.socket(socket.AF_UNIX) as listening,
            self.path.with_suffix(".log").open("wb") as log,
        ):
            listening.bind(str(self.path))
            listening.listen()
            process = subprocess.Popen(
                [*PYTHON, "-m", "lmkrag.server.mcp_process", str(listening.fileno())],
                cwd=self._folder,
                pass_fds=[listening.fileno()],
                start_new_session=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError), process.stdin:
                process.stdin.write(self._settings.encode())


def _name_socket(settings: str) -> Path:
    """The socket of this user, machine and version of lmkrag, for settings and the variables that
    set models and readers.
    """
    variables = sorted(item for item in os.environ.items() if item[0].startswith(_ENVIRONMENT))
    parts = [settings, __version__, __file__, sys.executable, os.uname().nodename, str(variables)]
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return cache_path("mcp", f"{digest}.sock")


class Proxy:
    """One session. State: the connection, and requests without a reply, which are resent if the
    process ends.
    """

    def __init__(self, server: SharedServer) -> None:
        """Connect. Raises OSError: the process does not start."""
        self._server, self._connection = server, server.connect()
        self._changed = threading.Condition()
        self._handshake: list[bytes] = []
        self._pending: dict[Any, bytes] = {}
        self._ended = False

    def run(self) -> None:
        """Copy until standard input ends and the last reply has arrived."""
        replies = threading.Thread(target=self._copy_replies, daemon=True)
        replies.start()
        for line in sys.stdin.buffer:
            message = _parse(line)
            method = message.get("method")
            with self._changed:
                # What is malformed is for the process to refuse.
                with contextlib.suppress(LookupError, TypeError):
                    if method in ("server/discover", "initialize", "notifications/initialized"):
                        self._handshake.append(line)
                    elif method == "notifications/cancelled":
                        self._pending.pop(message["params"]["requestId"], None)
                    if method is not None and "id" in message:
                        self._pending[message["id"]] = line
                self._send(line)
                self._changed.notify()
        with self._changed, contextlib.suppress(OSError):
            self._ended = True
            self._changed.notify()
            self._connection.shutdown(socket.SHUT_WR)
        replies.join()

    def _copy_replies(self) -> None:
        """Copy replies; if the process ends before it has replied, send the request to a new one,
        once.
        """
        replied = True
        while True:
            with contextlib.suppress(ConnectionError):
                for line in self._connection.makefile("rb"):
                    replied = True
                    message = _parse(line)
                    if "method" not in message:
                        self._pending.pop(message.get("id"), None)
                    sys.stdout.buffer.write(line)
                    sys.stdout.buffer.flush()
            with self._changed:
                self._changed.wait_for(lambda: self._pending or self._ended)
                if self._ended:
                    return
                try:
                    if not replied:
                        raise ConnectionError("it ended again during the same call")
                    self._restart()
                except OSError as error:
                    sys.stderr.write(
                        f"lmkrag: the process that serves assistants can't be reached ({error})\n"
                    )
                    os._exit(1)  # as the shared process did
                replied = False

    def _restart(self) -> None:
        self._connection.close()
        self._connection = self._server.connect()
        for line in self._handshake:
            if _parse(line).get("id") not in self._pending:  # the client has its reply already
                self._send(line)
                if b'"id"' in line:
                    while self._connection.recv(1) not in (b"\n", b""):
                        pass
        for line in list(self._pending.values()):
            self._send(line)

    def _send(self, line: bytes) -> None:
        with contextlib.suppress(OSError):  # the thread that copies replies notices it
            self._connection.sendall(line)


def _parse(line: bytes) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):  # for the process to refuse
        return {}
    return message if isinstance(message, dict) else {}
