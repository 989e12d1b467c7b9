"""Immutable, checksummed files: damage is an error, never other data."""

import contextlib
import json
import mmap
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest, xxh3_128_hexdigest

from lmkrag.errors import REPAIR, IndexCorrupt, IndexLocked, StorageError
from lmkrag.index.ranges import expand_ranges
from lmkrag.system.platform import is_locked, sync
from lmkrag.system.processes import computed_once
from lmkrag.types.arrays import Hashes, Ids, Mask

Tables = dict[str, NDArray[Any]]  # named arrays, the content of a safetensors file
_DTYPES = {"U64": np.uint64, "I64": np.int64, "U32": np.uint32, "U16": np.uint16, "U8": np.uint8}
# bytes under one checksum: a vector that is read alone brings the others of its block with it
_BLOCK = 1 << 14
_HEADER = 1_024  # bytes of a file of arrays before the first


@dataclass(frozen=True, slots=True)
class File:
    """An immutable file as the catalog records it.

    Attributes:
        bytes: size of the file.
        checksum: XXH3 (128 bits, hexadecimal) of the checksums of its blocks (XXH3, 64 bits), which
            stand at its end.
        block: number of bytes under one checksum; 0 if the file has no blocks, as the first ones of
            format 6, and ``checksum`` is that of all bytes.
        head: number of bytes that FAISS reads when it opens the file; 0 if it reads any.
    """

    bytes: int
    checksum: str
    block: int = 0
    head: int = 0  # bytes that FAISS reads when it opens the file; 0: any

    def is_at(self, path: Path) -> bool:
        """Return whether a file is this one, byte for byte."""
        try:
            return bool(MappedFile(path, self).read())
        except IndexCorrupt:
            return False


class MappedFile:
    """An immutable file, mapped into memory.

    It stays readable when it is removed, and nothing is read before use. A block of it is compared
    with its checksum before its first use.

    Attributes:
        path: the file.
        file: the catalog's record of it.
        content: its bytes without checksums, compared with nothing so far.
    """

    def __init__(self, path: Path, file: File) -> None:
        """Map a file that the catalog records.

        Raises:
            IndexCorrupt: the file is missing, can't be read, or is of another size.
        """
        self.path, self.file = path, file
        try:
            self._data = _map(path)
        except OSError as error:
            why = "is gone" if isinstance(error, FileNotFoundError) else f"can't be read ({error})"
            raise IndexCorrupt(f"{path}: this file {why}; {REPAIR}") from error
        if len(self._data) != file.bytes:
            raise self._damaged()
        self._block = file.block or max(1, file.bytes)
        blocks = -(-file.bytes // (file.block + 8)) if file.block else 0
        self.content = self._data[: file.bytes - 8 * blocks]  # not compared with anything yet
        self._checksums: Hashes = np.frombuffer(self._data[len(self.content) :], np.uint64)

    @computed_once
    def _sound(self) -> Mask:
        """Which blocks were compared with their checksums, after these were compared with the
        catalog's.
        """
        if xxh3_128_hexdigest(self._data[len(self.content) :] or self._data) != self.file.checksum:
            raise self._damaged()
        return np.full(max(1, len(self._checksums)), not self.file.block)

    def check(self, start: Ids, stop: Ids) -> None:
        """Compare the blocks of ranges of bytes with their checksums.

        Args:
            start: ``[n]`` int64, the first byte of each range.
            stop: ``[n]`` int64, the byte after each range.

        Raises:
            IndexCorrupt: a checksum differs.
        """
        first = start // self._block
        blocks = expand_ranges(first, -(-stop // self._block) - first)
        blocks = np.unique(blocks[~self._sound[blocks]])
        if not np.array_equal(
            _digest(self.content, blocks * self._block, self._block), self._checksums[blocks]
        ):
            raise self._damaged()
        self._sound[blocks] = True

    def read(self, start: int = 0, stop: int | None = None) -> memoryview:
        """Return a range of bytes after its blocks were compared with their checksums.

        Args:
            start: the first byte.
            stop: the byte after the last one; None for the end of the content.

        Raises:
            IndexCorrupt: a checksum differs.
        """
        stop = len(self.content) if stop is None else stop
        if not self._sound[start // self._block : -(-stop // self._block)].all():
            self.check(np.array([start]), np.array([stop]))
        return self.content[start:stop]

    def _damaged(self) -> IndexCorrupt:
        return IndexCorrupt(f"{self.path}: this file is damaged (checksum); {REPAIR}")


def _digest(content: memoryview, starts: Ids, block: int) -> Hashes:
    """Return the checksums of the blocks that begin at some bytes."""
    digests = (xxh3_64_intdigest(content[start : start + block]) for start in starts.tolist())
    return np.fromiter(digests, np.uint64, len(starts))


def _map(path: Path) -> memoryview:
    """Map a file into memory for reading."""
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def seal_file(path: Path, head: int = 0) -> File:
    """Add the checksums of its blocks to the end of a file, and make it durable.

    Args:
        path: the file.
        head: number of bytes that FAISS reads when it opens the file; 0 if it reads any.

    Returns:
        The record of the file for the catalog.
    """
    content = _map(path)
    checksums = _digest(content, np.arange(0, len(content), _BLOCK), _BLOCK).tobytes()
    with path.open("ab") as file:
        file.write(checksums)
    sync(path)
    return File(len(content) + len(checksums), xxh3_128_hexdigest(checksums), _BLOCK, head)


def write_tables(path: Path, tables: Tables) -> File:
    """Write named arrays as a safetensors file, and make it durable.

    Args:
        path: the new file.
        tables: arrays by name; one that lies in another file is never in memory as a whole.

    Returns:
        The record of the file for the catalog.
    """
    header, stop = {}, 0
    # each begins at a multiple of its size
    ordered = dict(sorted(tables.items(), key=lambda item: -item[1].itemsize))
    for name, array in ordered.items():
        dtype = next(dtype for dtype, known in _DTYPES.items() if known == array.dtype)
        header[name] = {
            "dtype": dtype,
            "shape": list(array.shape),
            "data_offsets": [stop, stop + array.nbytes],
        }
        stop += array.nbytes
    blocks = -(-(_HEADER + stop) // _BLOCK)
    header["checksums"] = {
        "dtype": "U64",
        "shape": [blocks],
        "data_offsets": [stop, stop + 8 * blocks],
    }
    text = json.dumps(header).encode().ljust(_HEADER - 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in ordered.values():
            file.write(np.ascontiguousarray(array).view(np.uint8).data)
    return seal_file(path)


class Scratch:
    """An array that grows in a file without a name, so that it takes no memory that can't be given
    back.

    The file is in ``folder`` and goes when the object goes.
    """

    def __init__(self, folder: Path, dtype: type[np.generic]) -> None:
        self._file, self._dtype, self._bytes = tempfile.TemporaryFile(dir=folder), dtype, 0  # noqa: SIM115

    def append(self, values: NDArray[Any]) -> None:
        """Add values to the end of the array."""
        self._bytes += self._file.write(
            np.ascontiguousarray(values, self._dtype).reshape(-1).view(np.uint8).data
        )

    def read(self) -> NDArray[Any]:
        """Return all values, one after the other."""
        self._file.flush()
        return np.memmap(self._file, self._dtype, "r") if self._bytes else np.zeros(0, self._dtype)


@dataclass(frozen=True, slots=True)
class TableFile:
    """The arrays of a file by their names.

    They are views of the mapped file, which are compared with checksums when they are used.

    Attributes:
        file: the mapped file.
        arrays: by name, the offset of an array in the file and its view.
    """

    file: MappedFile
    arrays: dict[str, tuple[int, NDArray[Any]]]

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return a whole array, compared with its checksums."""
        return self.read(name)

    def read(self, name: str, first: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Return an array, or the part ``[first, stop)`` of it, compared with its checksums.

        Args:
            name: name of the array.
            first: the first element.
            stop: the element after the last one; None for the end.

        Raises:
            IndexCorrupt: a checksum differs.
        """
        place, array = self.arrays[name]
        part, place = array[first:stop], place + first * array.itemsize
        if len(part):
            self.file.read(place, place + part.nbytes)
        return part


def read_tables(file: MappedFile) -> TableFile:
    """Return the arrays that :func:`write_tables` wrote, as views of the mapped file."""
    start = 8 + int.from_bytes(file.read(0, 8), "little")
    arrays = {}
    for name, entry in json.loads(bytes(file.read(8, start))).items():
        if name not in ("checksums", "__metadata__"):
            place = start + entry["data_offsets"][0]
            arrays[name] = (
                place,
                np.frombuffer(file.content, _DTYPES[entry["dtype"]], entry["shape"][0], place),
            )
    return TableFile(file, arrays)


LOCK = "write.lock"  # the file whose lock the writer of a directory holds


@contextlib.contextmanager
def lock_index(path: Path) -> Iterator[None]:
    """Hold the lock of an index directory's one writer.

    Raises:
        IndexLocked: another process holds it.
        StorageError: the directory can't be written to, or its file system has no locks.
    """
    from filelock import FileLock, Timeout  # slow to import, and reading needs no lock

    # a forked child needs one of its own
    lock = FileLock(str(path / LOCK), timeout=0, is_singleton=False)
    try:
        lock.acquire()
    except Timeout:
        if is_locked(path / LOCK) is None:  # filelock's file is the lock
            raise StorageError(
                f"{path}: this file system has no locks (flock), and write.lock is there, which an "
                "interrupted writer "
                "may have left; keep the index on a local disk, or remove that file if nobody is "
                "writing"
            ) from None
        raise IndexLocked(
            f"{path}: another process is writing to this index; try again when it is done"
        ) from None
    except OSError as error:
        raise StorageError(f"{path}: can't be written to ({error})") from error
    try:
        yield
    finally:
        lock.release()
