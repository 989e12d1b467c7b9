"""Files on this machine: names that can be stored, stamps that tell whether one has changed."""

import hashlib
import os
import re
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple


class FileStamp(NamedTuple):
    """The size of a file in bytes and the time of its last change in nanoseconds; a file with the
    same is unchanged.
    """

    size: int
    mtime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> "FileStamp":
        """Return the stamp of a file from its status."""
        # SQLite can store times of 64 bits.
        return cls(status.st_size, max(-(2**63), min(status.st_mtime_ns, 2**63 - 1)))


@lru_cache(maxsize=1_000)
def hash_file(path: Path, stamp: FileStamp) -> str:
    """Return the SHA-256 of a file, cached by its stamp."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def printable(name: str) -> str:
    """Return a file name as text that can be stored: bytes that are not UTF-8 are written out."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def find_path(name: str) -> Path:
    """Return the path that :func:`printable` wrote, where a file of that very name does not
    exist.
    """
    path = Path(name)
    if "\\x" in name and not os.path.lexists(path):
        data = re.sub(
            rb"\\x([0-9a-f]{2})", lambda match: bytes.fromhex(match[1].decode()), name.encode()
        )
        return Path(os.fsdecode(data))
    return path


def is_local_path(place: object) -> bool:
    """Return whether the place of a document names a folder of a machine, as no URL or relative
    path does.
    """
    return isinstance(place, str) and place.startswith(("/", "file:"))
