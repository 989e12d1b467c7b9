"""Gzipped text: what is inside, read by its inner name."""

import gzip
import io
import zlib
from dataclasses import replace

from lmkrag.errors import DocumentError
from lmkrag.formats import text
from lmkrag.formats.base import Loaded

_MOST = 256 << 20  # bytes that may come out
_ARCHIVES = (".tar", ".tgz", ".zip", ".gz", ".bz2", ".xz", ".7z")


def read(data: bytes, name: str) -> Loaded:
    """Read a .gz file of text; an archive inside is refused."""
    inner = name[: -len(".gz")]
    if inner.lower().endswith(_ARCHIVES):
        raise DocumentError("an archive inside an archive: unpack it first")
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            unpacked = file.read(_MOST + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DocumentError(f"broken gzip file ({error})") from error
    if len(unpacked) > _MOST:
        raise DocumentError(f"unpacks to more than {_MOST >> 20} MiB: unpack it first")
    loaded = text.read(unpacked, inner)
    # the text is not the file itself, so its lines are no lines of the file
    return replace(loaded, kind="gz")
