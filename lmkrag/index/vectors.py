"""Segments: immutable FAISS files of sentence vectors. The only module that imports faiss.

Traps that this file avoids (all seen with FAISS 1.15): IDMap2 over IVF returns wrong ids after a removal, so rows are
never removed, only masked; a memory-mapped index dies when it is changed, so a mapped segment can only be read;
``read_index`` trusts its input, so the checksum is compared first and allocations are bounded.
"""

import hashlib
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmkrag.errors import IndexCorrupt
from lmkrag.types import Recipe

Vectors = NDArray[np.float32]
Rows = NDArray[np.int64]

_SLICE = 65_536  # vectors in memory at a time while building


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A segment as the catalog records it. ``name`` is a file under ``segments/``."""

    name: str
    rows: int
    bytes: int
    sha256: str
    recipe: Recipe


def build_segment(path: Path, slices: Iterator[Vectors], rows: int, dimensions: int, recipe: Recipe) -> SegmentFile:
    """Write a segment and make it durable; the caller's commit makes it exist.

    Args:
        path: a fresh name.
        slices: the vectors ``[n, dimensions]`` in order, ``rows`` in all; read once.
        rows: how many vectors there are.
        dimensions: of each.
        recipe: how to store them; a factory, not tiers.
    """
    import faiss

    index = faiss.index_factory(dimensions, _factory(recipe, rows, dimensions), faiss.METRIC_INNER_PRODUCT)
    waiting: list[Vectors] = []
    if not index.is_trained:
        wanted = recipe.train or rows
        while sum(map(len, waiting)) < min(wanted, rows):
            waiting.append(next(slices))
        index.train(np.concatenate(waiting)[:wanted])
    for vectors in waiting:
        index.add(vectors)
    waiting.clear()
    for vectors in slices:
        index.add(np.ascontiguousarray(vectors, dtype=np.float32))
    if index.ntotal != rows:
        raise ValueError(f"{rows} vectors were announced, {index.ntotal} came")
    if isinstance(index, faiss.IndexIVF):
        index.set_direct_map_type(faiss.DirectMap.Array)  # rows can be read back one by one
    faiss.write_index(index, str(path))
    sync(path)
    sync(path.parent)
    return SegmentFile(path.name, rows, path.stat().st_size, hash_file(path), recipe)


def _factory(recipe: Recipe, rows: int, dimensions: int) -> str:
    lists = 2 ** round(math.log2(max(16.0, 4 * math.sqrt(rows))))
    return recipe.factory.replace("{lists}", str(lists)).replace("{dimensions}", str(dimensions))


def sync(path: Path) -> None:
    """Force a file, or a directory's entries, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Segment:
    """A segment file opened for reading, memory-mapped; it has no state that changes."""

    def __init__(self, path: Path, file: SegmentFile) -> None:
        """Check the file against its checksum and map it.

        Raises:
            IndexCorrupt: the file is gone or not the one that was written.
        """
        import faiss

        if not path.is_file():
            raise IndexCorrupt(f"{path}: this segment is gone; index the sources again")
        if path.stat().st_size != file.bytes or hash_file(path) != file.sha256:
            raise IndexCorrupt(f"{path}: this segment is damaged (checksum); index the sources again")
        faiss.set_deserialization_vector_byte_limit(max(1 << 20, 2 * file.bytes))
        try:
            self._index: Any = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
        except RuntimeError as error:
            raise IndexCorrupt(f"{path}: FAISS can't read this segment ({error})") from error
        self.file = file

    def search(self, queries: Vectors, top: int, alive: NDArray[np.bool_] | None = None) -> tuple[Vectors, Rows]:
        """Find the nearest rows by inner product.

        Args:
            queries: ``[n, dimensions]`` float32.
            top: how many rows a query, at most.
            alive: ``[rows]``, false where a row must not be found; None when all may.

        Returns:
            Scores ``[n, top]`` and rows ``[n, top]``, best first; row -1 where there are no more.
        """
        import faiss

        top = min(top, self.file.rows)
        selector = None if alive is None else faiss.IDSelectorBitmap(np.packbits(alive, bitorder="little"))
        parameters = _parameters(self._index, self.file.recipe, selector)
        scores, rows = self._index.search(queries, top, params=parameters)
        return scores, rows

    def read(self, rows: Rows) -> Vectors:
        """Return the vectors ``[len(rows), dimensions]`` of some rows, as precise as they are stored."""
        if self._codes is not None:
            return self._codes[rows].astype(np.float32)
        vectors: Vectors = self._index.reconstruct_batch(rows)
        return vectors

    def slices(self, rows: Rows) -> Iterator[Vectors]:
        """Yield the vectors of some rows in order, a bounded number at a time."""
        for first in range(0, len(rows), _SLICE):
            yield self.read(rows[first : first + _SLICE])

    @cached_property
    def _codes(self) -> NDArray[np.float16] | None:
        """The float16 matrix inside the mapped file, where the segment is stored exactly."""
        import faiss

        if (
            not isinstance(self._index, faiss.IndexScalarQuantizer)
            or self._index.sq.qtype != faiss.ScalarQuantizer.QT_fp16
        ):
            return None
        codes = faiss.rev_swig_ptr(self._index.codes.data(), self._index.codes.size())
        matrix: NDArray[np.float16] = codes.view(np.float16).reshape(self.file.rows, self._index.d)
        return matrix


def _parameters(index: Any, recipe: Recipe, selector: Any) -> Any:
    """FAISS search parameters for an index and everything it wraps."""
    import faiss

    index = faiss.downcast_index(index)
    settings = recipe.search
    if isinstance(index, faiss.IndexRefine):
        inner = _parameters(index.base_index, recipe, selector)
        return faiss.IndexRefineSearchParameters(k_factor=float(settings.get("k_factor", 4)), base_index_params=inner)
    if isinstance(index, faiss.IndexPreTransform):
        return faiss.SearchParametersPreTransform(index_params=_parameters(index.index, recipe, selector))
    if isinstance(index, faiss.IndexIVF):
        return faiss.SearchParametersIVF(sel=selector, nprobe=int(settings.get("nprobe", 32)))
    if isinstance(index, faiss.IndexHNSW):
        return faiss.SearchParametersHNSW(sel=selector, efSearch=int(settings.get("efSearch", 128)))
    return faiss.SearchParameters(sel=selector)
