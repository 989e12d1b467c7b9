"""Durable files and checksums: what is read from an index is what was written, or an error."""

import mmap
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from xxhash import xxh3_64_digest, xxh3_128_hexdigest

from lmkrag.errors import IndexCorrupt

_MARK = 8  # bytes of a packed value's checksum


@dataclass(frozen=True, slots=True)
class File:
    """An immutable file as the catalog records it: its size and its XXH3 (128 bits)."""

    bytes: int
    checksum: str

    @classmethod
    def of(cls, path: Path) -> Self:
        """Measure a file."""
        data = _map(path)
        return cls(len(data), xxh3_128_hexdigest(data))


def read_file(path: Path, file: File) -> memoryview:
    """Map a file, once it is known to be the one that was written.

    Raises:
        IndexCorrupt: it is gone, or its size or checksum is another.
    """
    try:
        data = _map(path)
    except FileNotFoundError as error:
        raise IndexCorrupt(f"{path}: this file is gone; run lmkrag repair") from error
    except OSError as error:
        raise IndexCorrupt(f"{path}: this file can't be read ({error}); run lmkrag repair") from error
    if len(data) != file.bytes or xxh3_128_hexdigest(data) != file.checksum:
        raise IndexCorrupt(f"{path}: this file is damaged (checksum); run lmkrag repair")
    return data


def _map(path: Path) -> memoryview:
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def sync(path: Path) -> None:
    """Force a file, or a directory's entries, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def pack(data: bytes, place: str) -> bytes:
    """Return ``data`` compressed, behind a checksum that also covers ``place``, where it belongs."""
    body = zlib.compress(data, 6)
    return mark(place, body) + body


def unpack(packed: bytes, place: str) -> bytes:
    """Return what :func:`pack` was given.

    Raises:
        IndexCorrupt: it is damaged, or was packed for another place.
    """
    body = packed[_MARK:]
    if packed[:_MARK] != mark(place, body):
        raise IndexCorrupt(f"the catalog is damaged at {place} (checksum); run lmkrag repair")
    return zlib.decompress(body)


def mark(place: str, data: bytes) -> bytes:
    """Return a checksum (XXH3, 64 bits) of ``data`` at ``place``."""
    return xxh3_64_digest(place.encode("utf-8", "surrogatepass") + b"\0" + data)
