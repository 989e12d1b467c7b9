"""Read files of complex formats in a process of their own: one bad file can't take a run down, hang it or fill memory.

Parsers of PDF, Word, HTML and the like are large libraries fed with files of unknown origin. The process they run in
has a limit on its memory, no environment to leak, and is killed when a file takes too long; the next gets a new one.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from lmkrag.corpus.load import is_plain, load_document
from lmkrag.errors import DocumentError
from lmkrag.types import Document

SECONDS = 120.0
"""Time one file may take."""

MEMORY = 4 << 30
"""Bytes of address space a file's reader may use."""

_CHUNK = 1 << 20
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "SYSTEMROOT")  # of the environment


class IsolatedLoader:
    """Reads files as :func:`lmkrag.corpus.load.load_document` does, complex formats in a limited process.

    >>> with IsolatedLoader(seconds=30) as loader:
    ...     loader.load(Path("tests/data/corpus/beekeeping.html"), "bees").kind
    'html'
    """

    def __init__(self, *, seconds: float = SECONDS, memory: int = MEMORY) -> None:
        """Set the limits of one file.

        Args:
            seconds: it may take.
            memory: bytes of address space its reader may use, where the system can limit that.
        """
        self._seconds, self._memory = seconds, memory
        self._process: subprocess.Popen[bytes] | None = None

    def load(self, path: Path, doc_id: str) -> Document:
        """Read one file.

        Raises:
            DocumentError: it can't be read, or reading it went past a limit.
        """
        if is_plain(path):
            return load_document(path, doc_id)
        reply = json.loads(self._ask({"path": str(path), "doc_id": doc_id}))
        if "error" in reply:
            raise DocumentError(reply["error"])
        return Document(**{**reply, "page_starts": tuple(reply["page_starts"])})

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def __enter__(self) -> "IsolatedLoader":
        """Return the loader; its process ends with the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        self.close()

    def _ask(self, request: dict[str, str]) -> bytes:
        process = self._process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            line = _read_line(process.stdout, time.monotonic() + self._seconds)
        except TimeoutError:
            self.close()
            raise DocumentError(f"takes longer than {self._seconds:g} s to read: skipped") from None
        except BrokenPipeError:
            line = b""
        if not line:
            self.close()
            raise DocumentError(f"its reader crashed or needed more than {self._memory >> 20} MiB: skipped")
        return line

    def _start(self) -> subprocess.Popen[bytes]:
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        return subprocess.Popen(
            [sys.executable, "-m", "lmkrag.corpus.isolated", str(self._memory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**kept, "PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path)},
        )


def _read_line(stream: IO[bytes], deadline: float) -> bytes:
    """Read to the end of a line or of the stream."""
    parts: list[bytes] = []
    while not parts or not parts[-1].endswith(b"\n"):
        ready, _, _ = select.select([stream], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise TimeoutError
        part = os.read(stream.fileno(), _CHUNK)
        if not part:
            return b""
        parts.append(part)
    return b"".join(parts)


def _limit(memory: int) -> None:
    try:
        import resource
    except ImportError:  # not on Windows
        return
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _serve() -> None:
    """Answer requests from standard input, a line each, until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    _limit(int(sys.argv[1]))
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is not a reply
    for line in sys.stdin.buffer:
        request = json.loads(line)
        reply: dict[str, Any]
        try:
            reply = asdict(load_document(Path(request["path"]), request["doc_id"]))
            packed = json.dumps(reply, default=str).encode()
        except DocumentError as error:
            packed = json.dumps({"error": str(error)}).encode()
        replies.write(packed + b"\n")
        replies.flush()


if __name__ == "__main__":
    _serve()
