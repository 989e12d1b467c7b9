"""What every format gives back, and what formats that are zip archives share."""

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lmkrag.errors import DocumentError

MAX_UNPACKED = 1 << 30
"""Bytes an archive may unpack to; one that says more is refused unopened."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A file's text and what the file says about itself. ``page_starts`` are character offsets."""

    text: str
    kind: str
    title: str = ""
    page_starts: tuple[int, ...] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)


def open_archive(data: bytes, what: str) -> zipfile.ZipFile:
    """Open a zip archive that lives in memory.

    Raises:
        DocumentError: it is not one, or would unpack to more than ``MAX_UNPACKED``.
    """
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, ValueError, OSError) as error:
        raise DocumentError(f"broken {what} file ({error})") from error
    unpacked = sum(entry.file_size for entry in archive.infolist())
    if unpacked > MAX_UNPACKED:
        raise DocumentError(f"{what} file would unpack to {unpacked >> 20} MiB: refused")
    return archive
