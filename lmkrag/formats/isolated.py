"""Read files of complex formats in a sandboxed process: a bad file can't crash or hang a run, or
fill the memory.

Parsers of PDF, Word, HTML and the like are large libraries fed with files of unknown origin. Their
process has limits on memory and time and no secrets in its environment, and ends with its parent.
It is killed if a file takes too long; the next file gets a new one.
"""

import base64
import json
import logging
import math
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

from lmkrag.errors import DocumentError, EmptyDocument, TookTooLong
from lmkrag.formats.columns import Box
from lmkrag.formats.load import fingerprint as hash_bytes
from lmkrag.formats.load import (
    is_plain,
    load_document,
    load_with_attachments,
    name_format,
    name_parts,
    to_document_error,
)
from lmkrag.formats.memory import (
    MEMORY,
    OCR_MEMORY,
    allow_all,
    limit_file,
    limit_process,
)
from lmkrag.formats.ocr import is_installed
from lmkrag.formats.scans import SCANNED, fill_scans, find_boxes, read_cached
from lmkrag.system.platform import (
    DATA,
    allowed_memory,
    end_with_parent,
    leave_no_core,
    limit_processor,
    measure_memory,
)
from lmkrag.types import Document, Skipped

SECONDS = 120.0  # that one file may take; each megabyte adds to them
SECONDS_PER_MEGABYTE = 5.0  # a workbook of a million rows (18 MB) takes 110 s
OCR_SECONDS_PER_MEGABYTE = (
    1_000.0  # the same for OCR: a scanned page has 10 kB at least, and takes some 6 s
)
# bytes of data with which a process that has read a file may wait for the next, at most
_IDLE = 160 << 20
_CHUNK = 1 << 20
_GRACE = 5  # seconds after which a process that its parent has not killed ends itself
_HINT = "note: run with `RUST_BACKTRACE"  # how a panic in Rust ends, below what says why
_logger = logging.getLogger(__name__)

# Isolated mode: neither the working directory nor PYTHON* variables say where modules come from.
_START = """
import json, sys
sys.path[:] = json.loads(sys.argv[2])
from lmkrag.formats.isolated import serve
serve(int(sys.argv[1]))
"""
# each thread would take 40 MiB of address space when NumPy is imported
_SETTINGS = {"OPENBLAS_NUM_THREADS": "1"}
_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR")


class _Limit(NamedTuple):
    """When reading a file began, by ``time.monotonic``, and how many seconds it may take."""

    began: float
    seconds: float


class IsolatedLoader:
    """Reads files as :func:`lmkrag.formats.load.load_document` does, complex formats in a limited
    process.

    >>> with IsolatedLoader(seconds=30) as loader:
    ...     loader.load(Path("tests/data/corpus/beekeeping.html"), "bees").kind
    'html'
    """

    def __init__(self, *, seconds: float | None = None, memory: int = MEMORY) -> None:
        """Set the limits of one file.

        Models of OCR run in a process of their own, since they take more memory than files may.

        Args:
            seconds: time that one file may take; None for 120 s and 5 s more for each megabyte.
            memory: the most bytes of address space.
        """
        self._seconds, self._memory = seconds, memory
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None  # what parsers print
        self._ocr: IsolatedLoader | None = None

    def load(self, path: Path, doc_id: str) -> Document:
        """Read one file, without its attachments.

        Args:
            path: the file.
            doc_id: name of its document.

        Raises:
            DocumentError: it can't be read within the limits.
        """
        return self.load_with_attachments(path, doc_id)[0]

    def load_with_attachments(
        self, path: Path, doc_id: str
    ) -> tuple[Document, list[Document], list[Skipped]]:
        """Read one file and the files attached to it; scanned pages are read by OCR if that is
        installed.

        Args:
            path: the file.
            doc_id: name of its document.

        Returns:
            The document, the documents of its attachments, and what can't be read with reasons.

        Raises:
            DocumentError: the file can't be read within the limits.
        """
        if is_plain(path):
            return load_document(path, doc_id), [], []
        limit = _Limit(time.monotonic(), self._allowed_seconds(path, OCR_SECONDS_PER_MEGABYTE))
        reply = self._call(path, "load", doc_id=doc_id)
        document, *attached = (
            Document(**{**record, "page_starts": tuple(record["page_starts"])})
            for record in reply["documents"]
        )
        skipped = [Skipped(**record) for record in reply["skipped"]]
        if SCANNED in document.meta and is_installed():
            document, left_out = fill_scans(
                document, partial(self._read_scan, path, document.fingerprint, limit)
            )
            skipped += name_parts(doc_id, left_out)
        filled = []
        for attachment in attached:
            scan = reply["scans"].get(attachment.doc_id)
            try:
                left_out = {}
                if scan is not None:
                    attachment, left_out = self._fill_attached(attachment, scan, limit)
                filled.append(attachment)
                skipped += name_parts(attachment.doc_id, left_out)
            except DocumentError as error:
                skipped.append(Skipped(attachment.doc_id, str(error)))
        return document, filled, skipped

    def _fill_attached(
        self, document: Document, scan: str, limit: _Limit
    ) -> tuple[Document, dict[str, str]]:
        with tempfile.NamedTemporaryFile(suffix=Path(document.doc_id).suffix) as file:
            file.write(base64.b64decode(scan))
            file.flush()
            return fill_scans(
                document, partial(self._read_scan, Path(file.name), document.fingerprint, limit)
            )

    def render_page(self, path: Path, fingerprint: str, number: int, **how: Any) -> bytes:
        """Draw a page of a file: see :func:`lmkrag.formats.pdf.render_page`.

        Args:
            path: the file.
            fingerprint: its SHA-256 when it was indexed.
            number: the page, from 1.
            how: further options of ``render_page``.

        Returns:
            An image file.

        Raises:
            DocumentError: the page can't be drawn, or the file has changed.
        """
        return base64.b64decode(
            self._call(path, "render_page", fingerprint=fingerprint, number=number, **how)
        )

    def find_rectangles(
        self, path: Path, fingerprint: str, number: int, start: int, end: int
    ) -> list[Box]:
        """Find where characters of a page stand, or the shapes of a slide that have them.

        Args:
            path: the file.
            fingerprint: its SHA-256 when it was indexed.
            number: the page or slide, from 1.
            start: the first character of the page's text, from 0.
            end: the character after the last one.

        Returns:
            Boxes (left, top, right, bottom) as shares of the page, 0 to 1.

        Raises:
            DocumentError: the page can't be read, or the file has changed.
        """
        boxes = self._call(
            path, "find_rectangles", fingerprint=fingerprint, number=number, start=start, end=end
        )
        return [tuple(box) for box in boxes]

    def find_scanned(
        self, path: Path, fingerprint: str, number: int, start: int, end: int
    ) -> list[Box]:
        """Find where characters of a scanned page stand: see
        :func:`lmkrag.formats.scans.find_boxes`.

        Args:
            path: the file.
            fingerprint: its SHA-256 when it was indexed.
            number: the page, from 1.
            start: the first character of the page's text, from 0.
            end: the character after the last one.

        Raises:
            DocumentError: the page can't be read, or the file has changed.
        """
        return find_boxes(self._read_scan(path, fingerprint, None, number), start, end)

    def _read_scan(
        self, path: Path, fingerprint: str, limit: _Limit | None, number: int
    ) -> dict[str, Any]:
        self._ocr = self._ocr or IsolatedLoader(seconds=self._seconds, memory=OCR_MEMORY)
        read = partial(
            self._ocr._call, path, "read_scan", limit, fingerprint=fingerprint, number=number
        )
        return read_cached(fingerprint, number, read)

    def _call(self, path: Path, task: str, limit: _Limit | None = None, **arguments: Any) -> Any:
        limit = limit or _Limit(time.monotonic(), self._allowed_seconds(path, SECONDS_PER_MEGABYTE))
        request = {"task": task, "path": str(path.absolute()), **arguments}
        reply: dict[str, Any] = json.loads(self._ask(request, limit))
        self._log(path)
        if (
            self._memory <= MEMORY
            and self._process is not None
            and measure_memory(DATA, self._process.pid) > _IDLE
        ):
            self._end()  # what parsers leave behind would count against the next file
        if "error" in reply:
            _logger.debug("%s: %s\n%s", path, reply["error"], reply["traceback"])
            kind = EmptyDocument if reply["empty"] else DocumentError
            raise kind(reply["error"], lasting=reply["lasting"])
        return reply["value"]

    def close(self) -> None:
        """End the processes; the next call starts new ones."""
        self._end()
        if self._ocr is not None:
            self._ocr.close()

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
        if self._errors is not None:
            self._errors.close()
            self._errors = None

    def __enter__(self) -> "IsolatedLoader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, request: dict[str, Any], limit: _Limit) -> bytes:
        process = self._process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        deadline = limit.began + limit.seconds
        left = max(1, math.ceil(deadline - time.monotonic()))
        try:
            process.stdin.write(json.dumps({**request, "seconds": left}).encode() + b"\n")
            process.stdin.flush()
            line = _read_line(process.stdout, deadline)
        except TimeoutError:
            self._log(Path(request["path"]))
            self._end()
            raise TookTooLong(f"takes longer than {limit.seconds:.0f} s to read: skipped") from None
        except BrokenPipeError:
            line = b""
        if not line:
            output = self._log(Path(request["path"]))
            self._end()
            memory = allowed_memory(self._memory)
            what = name_format(Path(request["path"]).suffix.lower()) or "file"
            why = "its reader ended" + (f": {output}" if output else "")
            raise DocumentError(f"broken {what} ({why})", lasting=memory == self._memory)
        return line

    def _allowed_seconds(self, path: Path, per_megabyte: float) -> float:
        if self._seconds is not None:
            return self._seconds
        try:
            return SECONDS + per_megabyte * path.stat().st_size / 1e6
        except OSError:  # its reader reports it
            return SECONDS

    def _log(self, path: Path) -> str:
        """Log what a parser printed; return its last line."""
        if self._errors is None:
            return ""
        self._errors.seek(0)
        output = self._errors.read().decode("utf-8", "replace").strip()
        self._errors.seek(0)
        self._errors.truncate()
        if output:
            _logger.debug("%s: its reader printed\n%s", path, output)
        lines = [line for line in output.splitlines() if not line.startswith(_HINT)]
        return lines[-1][:200] if lines else ""

    def _start(self) -> subprocess.Popen[bytes]:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115, it lives as long as the process
        return subprocess.Popen(
            [
                sys.executable,
                "-I",
                "-c",
                _START,
                str(allowed_memory(self._memory)),
                json.dumps(module_folders()),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=os.sep,
            env=_SETTINGS | {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
        )


def module_folders() -> list[str]:
    """Return the folders of ``sys.path``, without the working directory unless lmkrag is in it."""
    ours, here = Path(__file__).resolve().parents[2], Path().resolve()
    folders = [path for path in sys.path if Path(path).is_absolute()]
    return [path for path in folders if Path(path).resolve() != here or here == ours]


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


def _limit_time(seconds: int) -> None:
    """Have the system end this process if a request takes longer; the parent, which would kill it,
    may be gone.
    """
    signal.alarm(seconds + _GRACE)
    limit_processor(seconds + _GRACE)


def _load(path: Path, doc_id: str) -> dict[str, Any]:
    loaded = load_with_attachments(path, doc_id)
    return {
        "documents": [asdict(document) for document in (loaded.document, *loaded.attached)],
        "skipped": [asdict(skipped) for skipped in loaded.skipped],
        "scans": {name: base64.b64encode(data).decode() for name, data in loaded.scans.items()},
    }


def _render_page(path: Path, fingerprint: str, **how: Any) -> str:
    from lmkrag.formats.pdf import render_page

    return base64.b64encode(render_page(_read_unchanged(path, fingerprint), **how)).decode()


def _find_rectangles(path: Path, fingerprint: str, **place: int) -> Any:
    from lmkrag.formats import pdf, slides

    data = _read_unchanged(path, fingerprint)
    return (slides if data.startswith(b"PK") else pdf).find_rectangles(data, **place)


def _read_scan(path: Path, fingerprint: str, number: int) -> dict[str, Any]:
    from lmkrag.formats.ocr import RESOLUTION, arrange, find_lines
    from lmkrag.formats.pdf import draw_page

    image = draw_page(_read_unchanged(path, fingerprint), number, RESOLUTION / 72)
    allow_all()
    try:
        return asdict(arrange(find_lines(image)))
    except Exception as error:  # of the models, or of what runs them
        raise DocumentError(
            f"page {number} can't be read by OCR ({type(error).__name__})", lasting=False
        ) from error


def _read_unchanged(path: Path, fingerprint: str) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DocumentError(
            f"its file can't be read ({error.strerror or error})", lasting=False
        ) from error
    if hash_bytes(data) != fingerprint:
        raise DocumentError("its file has changed since it was indexed", lasting=False)
    return data


_TASKS: dict[str, Callable[..., Any]] = {
    "load": _load,
    "render_page": _render_page,
    "find_rectangles": _find_rectangles,
    "read_scan": _read_scan,
}


def serve(memory: int) -> None:
    """Answer requests from standard input, one in each line, until it ends.

    Args:
        memory: the most bytes of address space.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    limit_process(memory)
    leave_no_core()
    end_with_parent()
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # prints of libraries must not mix with replies
    for line in sys.stdin.buffer:
        request = json.loads(line)
        _limit_time(request.pop("seconds"))
        path = Path(request.pop("path"))
        limit_file(path)
        try:
            value = _TASKS[request.pop("task")](path, **request)
            packed = json.dumps({"value": value}, default=str).encode()
        except (DocumentError, MemoryError) as failed:
            error = (
                failed
                if isinstance(failed, DocumentError)
                else to_document_error(failed, path.suffix.lower())
            )
            failure = {
                "error": str(error),
                "lasting": error.lasting,
                "empty": isinstance(error, EmptyDocument),
            }
            packed = json.dumps({**failure, "traceback": traceback.format_exc()}).encode()
        signal.alarm(0)
        replies.write(packed + b"\n")
        replies.flush()
