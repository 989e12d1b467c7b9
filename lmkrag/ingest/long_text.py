"""Plain text too long for memory: decoded once to a temporary file, and read from there in
pieces.
"""

import codecs
import hashlib
import tempfile
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from lmkrag.errors import DocumentError, EmptyDocument
from lmkrag.formats.code_pages import guess_encoding
from lmkrag.formats.encoded import drop_encoded
from lmkrag.formats.text import SAMPLE, describe, read_mark
from lmkrag.specs import BYTE_ORDER_MARK
from lmkrag.system.files import printable
from lmkrag.types import Document

_PIECE = 1 << 20
_HEAD = 1 << 17  # characters that are searched for a title and front matter
# Bytes of each character; the narrowest that fits is taken.
_WIDTHS = {"latin-1": 1, "utf-16-le": 2, "utf-32-le": 4}


class TextOnDisk:
    """A text in an unnamed temporary file, deleted with the object; it can be sliced like a string.

    Every character has the same number of bytes, so that offsets are found without reading.

    Attributes:
        blank: whether the text is only white space.
    """

    def __init__(self, read: Callable[[], Iterator[str]]) -> None:
        """Write a text to a file.

        Args:
            read: yields the pieces of the text; it is called again if a character is wider than
                those before it.
        """
        self._file = tempfile.TemporaryFile()  # noqa: SIM115, it lives as long as the text
        weakref.finalize(self, self._file.close)
        for self._encoding, self._width in _WIDTHS.items():
            if self._write(read()):
                break

    def _write(self, pieces: Iterator[str]) -> bool:
        """Write the pieces with the width of a character that is tried; return False if one is
        wider.
        """
        self._length, self.blank = 0, True
        self._file.seek(0)
        self._file.truncate()
        for piece in pieces:
            try:
                data = piece.encode(
                    self._encoding, "strict" if self._width < 4 else "surrogatepass"
                )
            except UnicodeEncodeError:
                return False
            if len(data) != self._width * len(piece):
                return False
            self._file.write(data)
            self._length += len(piece)
            self.blank = self.blank and not piece.removeprefix(BYTE_ORDER_MARK).strip()
        return True

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, key: slice, /) -> str:
        start, stop, _ = key.indices(self._length)
        self._file.seek(self._width * start)
        return self._file.read(self._width * max(0, stop - start)).decode(
            self._encoding, "surrogatepass"
        )


def load_long_text(path: Path, doc_id: str) -> tuple[Document, TextOnDisk]:
    """Read a plain file whose text is too long for memory.

    Args:
        path: the file.
        doc_id: name of its document.

    Returns:
        The document, whose own ``text`` stays empty, and its text on disk.

    Raises:
        DocumentError: the file can't be read.
        EmptyDocument: it has no text.
    """
    try:
        encoding = _choose(path)
        digest = hashlib.sha256()

        def read() -> Iterator[str]:
            nonlocal digest
            digest = hashlib.sha256()  # of the bytes decoded here, even if the file changes
            return map(
                drop_encoded, _whole_lines(_decoded(path, encoding, "replace", digest.update))
            )

        text = TextOnDisk(read)
    except OSError as error:
        raise DocumentError(f"can't be read ({error.strerror or error})", lasting=False) from error
    if text.blank:
        raise EmptyDocument("no text in it")
    details = describe(text[:_HEAD], path.name)
    title = details.title or printable(path.stem)
    document = Document(
        doc_id,
        printable(str(path)),
        "",
        title,
        details.kind,
        meta=details.meta,
        fingerprint=digest.hexdigest(),
    )
    return document, text


def _whole_lines(pieces: Iterable[str]) -> Iterator[str]:
    """Yield the pieces of a text, cut at the ends of lines; a line longer than a piece is cut."""
    held = ""
    for piece in pieces:
        lines, end, rest = (held + piece).rpartition("\n")
        if end:
            yield lines + end
        held = rest
        if len(held) > _PIECE:
            yield held
            held = ""
    yield held


def _choose(path: Path) -> str:
    """Return the encoding of a file: by its mark, UTF-8 if that fits, else a guess."""
    with path.open("rb") as file:
        sample = file.read(SAMPLE)
    if (encoding := read_mark(sample)) is not None:
        return encoding
    try:
        deque(_decoded(path, "utf-8", "strict"), maxlen=0)
    except UnicodeDecodeError:
        return guess_encoding(sample, _decoded(path, "utf-8", "replace"))
    return "utf-8"


def _decoded(
    path: Path, encoding: str, errors: str, see: Callable[[bytes], None] = lambda data: None
) -> Iterator[str]:
    """Yield the text of a file in pieces; ``see`` gets their bytes."""
    decoder = codecs.getincrementaldecoder(encoding)(errors)
    with path.open("rb") as file:
        while data := file.read(_PIECE):
            see(data)
            yield decoder.decode(data)
    yield decoder.decode(b"", final=True)
