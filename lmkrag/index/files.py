"""Immutable, checksummed files: damage is an error, never other data."""

import contextlib
import errno
import fcntl
import json
import mmap
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_128_hexdigest

from lmkrag.errors import REPAIR, IndexCorrupt, IndexLocked, StorageError
from lmkrag.system import computed_once

Tables = dict[str, NDArray[Any]]  # named arrays, the content of a safetensors file
_DTYPES = {"U64": np.uint64, "I64": np.int64, "U32": np.uint32, "U16": np.uint16, "U8": np.uint8}


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


class MappedFile:
    """An immutable file, mapped into memory: it stays readable when it is removed, and nothing is read before use."""

    def __init__(self, path: Path, file: File) -> None:
        """Map a file that the catalog records. Raises IndexCorrupt: it is missing, or of another size."""
        self.path, self.file = path, file
        try:
            self._data = _map(path)
        except FileNotFoundError as error:
            raise IndexCorrupt(f"{path}: this file is gone; {REPAIR}") from error
        except OSError as error:
            raise IndexCorrupt(f"{path}: this file can't be read ({error}); {REPAIR}") from error
        if len(self._data) != file.bytes:
            raise self._damaged()

    @computed_once
    def data(self) -> memoryview:
        """Its content, once it was compared with its checksum. Raises IndexCorrupt: it differs."""
        if xxh3_128_hexdigest(self._data) != self.file.checksum:
            raise self._damaged()
        return self._data

    def _damaged(self) -> IndexCorrupt:
        return IndexCorrupt(f"{self.path}: this file is damaged (checksum); {REPAIR}")


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


def write_tables(path: Path, tables: Tables) -> File:
    """Write named arrays as a safetensors file and make it durable; what lies in other files is never in memory."""
    header, stop = {}, 0
    ordered = dict(sorted(tables.items(), key=lambda item: -item[1].itemsize))  # each begins at a multiple of its size
    for name, array in ordered.items():
        dtype = next(dtype for dtype, known in _DTYPES.items() if known == array.dtype)
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [stop, stop + array.nbytes]}
        stop += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in ordered.values():
            file.write(np.ascontiguousarray(array).view(np.uint8).data)
    sync(path)
    return File.of(path)


class Scratch:
    """An array that grows in a file without a name, so that it takes no memory that can't be given back."""

    def __init__(self, folder: Path, dtype: type[np.generic]) -> None:
        self._file, self._dtype, self._bytes = tempfile.TemporaryFile(dir=folder), dtype, 0  # noqa: SIM115

    def append(self, values: NDArray[Any]) -> None:
        self._bytes += self._file.write(np.ascontiguousarray(values, self._dtype).reshape(-1).view(np.uint8).data)

    def read(self) -> NDArray[Any]:
        """Return all values, one after the other."""
        self._file.flush()
        return np.memmap(self._file, self._dtype, "r") if self._bytes else np.zeros(0, self._dtype)


def read_tables(file: MappedFile) -> Mapping[str, NDArray[Any]]:
    """Return the arrays that :func:`write_tables` wrote, as views of the mapped file, or raise IndexCorrupt."""
    data = file.data
    try:
        # eight bytes of length, a JSON header, the arrays
        size = int.from_bytes(data[:8], "little")
        header = json.loads(bytes(data[8 : 8 + size]))
        header.pop("__metadata__", None)
        body = data[8 + size :]
        return {
            name: np.frombuffer(body[slice(*entry["data_offsets"])], _DTYPES[entry["dtype"]])
            for name, entry in header.items()
        }
    except (ValueError, KeyError, TypeError) as error:
        raise IndexCorrupt(f"{file.path}: not a table file ({error})") from error


LOCK = "write.lock"  # the file whose lock the writer of a directory holds


def _has_locks(path: Path) -> bool:
    """Return whether the file system of an existing file knows flock, without which filelock's file is the lock."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno != errno.ENOSYS
    return True


@contextlib.contextmanager
def lock_index(path: Path) -> Iterator[None]:
    """Hold the lock of an index directory's one writer. Raises IndexLocked; StorageError: it can't be written to."""
    from filelock import FileLock, Timeout  # slow to import, and reading needs no lock

    lock = FileLock(str(path / LOCK), timeout=0, is_singleton=False)  # a forked child needs one of its own
    try:
        lock.acquire()
    except Timeout:
        if not _has_locks(path / LOCK):
            raise StorageError(
                f"{path}: this file system has no locks (flock), and write.lock is there, which an interrupted writer "
                "may have left; keep the index on a local disk, or remove that file if nobody is writing"
            ) from None
        raise IndexLocked(f"{path}: another process is writing to this index; try again when it is done") from None
    except OSError as error:
        raise StorageError(f"{path}: can't be written to ({error})") from error
    try:
        yield
    finally:
        lock.release()
