"""Immutable FAISS files of sentence vectors. The only module that imports faiss.

The types of index are FAISS's (Douze et al., "The Faiss library", arXiv 2401.08281): exact float16,
clusters (IVF) of 8-bit vectors, a navigable small-world graph (Malkov and Yashunin, "HNSW", arXiv
1603.09320), and 1-bit codes (Gao and Long, "RaBitQ", arXiv 2405.12497).

Traps that this file avoids (all seen with FAISS 1.15): IDMap2 over IVF returns wrong ids after a
removal, so rows are never removed, only masked. A memory-mapped index dies when it is changed, so a
mapped segment can only be read. ``read_index`` trusts its input, so the input is compared with
checksums first. A file of 8-bit vectors in clusters is an exception: the vectors of a cluster are
compared when a search visits it or reads them.
"""

import math
import os
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmkrag.errors import REPAIR, IndexCorrupt, UsageError
from lmkrag.index.files import File, MappedFile, Scratch, seal_file
from lmkrag.index.vectors.card import Card, open_card
from lmkrag.specs import Recipe
from lmkrag.system.processes import computed_once
from lmkrag.types.arrays import Ids, Mask, Scores, Vectors

Slices = Callable[[], Iterable[Vectors]]

SUFFIX = ".faiss"  # of vector files
_SLICE = 4_096  # vectors in memory at a time
_PER_LIST = 40  # vectors that clusters are learned from, for each; FAISS wants 39
_LEAST_SAMPLE = 32_768
_CODED = 40_960  # vectors, about, that 8-bit codes are learned from: FAISS copies them twice
_ITERATIONS = 8  # of k-means: with FAISS's 25, half a point of recall in three times the time
_FEW = 1_000  # rows that are compared one by one rather than searched
# of a file of exact vectors: bytes before them, and the kind that FAISS notes in byte 37
_FLAT_HEAD, _FLOAT16 = (81, 4)
_FIRST = (
    20_000  # exact vectors that the first search reads, in less time than it takes to import FAISS
)
# share of the rows below which a graph is left aside: it would lose its way among those not allowed
_NARROW = 0.1
_WIDE = 2  # rows that a card proposes for each row asked for
_ERROR = 2.0**-10  # that its scores are off, at most: twice what rounding to float16 makes
_MOST = 2_048  # rows that FAISS returns from a card, and clusters that it visits there
_BROAD = 0.75  # share of the rows that must be allowed for a card to propose enough

_first_process: int | None = None


def _load_faiss() -> Any:
    """Import FAISS. In a forked process it gets one thread, or it would wait for the parent's
    threads forever.
    """
    global _first_process
    import faiss

    if _first_process is None:
        _first_process = os.getpid()
    elif _first_process != os.getpid():
        faiss.omp_set_num_threads(1)
    return faiss


def describe_search() -> tuple[bool, str]:
    """Return whether only one package of FAISS is installed, and where segments are searched, or
    what to uninstall.
    """
    packages = sorted({*packages_distributions().get("faiss", ())})
    if len(packages) > 1:
        remedy = f"pip uninstall -y {' '.join(packages)}, then install the one you want"
        return False, f"{' and '.join(packages)} overwrite each other: {remedy}"
    card = open_card(_load_faiss())
    room = f"card, in up to {card.room >> 20:,} MiB, the rest on the " if card else ""
    return True, f"searched on the {room}CPU"


def check_factory(recipe: Recipe, dimensions: int) -> None:
    """Have FAISS parse a recipe's factory string; a recipe of tiers has none.

    Args:
        recipe: the recipe.
        dimensions: length of a vector.

    Raises:
        UsageError: FAISS can't build it.
    """
    if not recipe.factory:
        return
    faiss = _load_faiss()
    try:
        faiss.index_factory(dimensions, _factory(recipe, 1, dimensions), faiss.METRIC_INNER_PRODUCT)
    except (RuntimeError, ValueError) as error:
        why = str(error).strip().splitlines()[-1].rpartition("Error: ")[2]
        raise UsageError(
            f"recipe {recipe.name!r}: FAISS can't build {recipe.factory!r} ({why})"
        ) from error


def write_vectors(path: Path, read: Slices, rows: int, dimensions: int, recipe: Recipe) -> File:
    """Write a vector file and make it durable; the caller's commit makes it part of the index.

    Args:
        path: the new file, under a fresh name.
        read: yields the vectors ``[n, dimensions]`` in order; called twice if the index learns from
            them.
        rows: number of all vectors.
        dimensions: length of a vector.
        recipe: how they are stored; a factory, not tiers.

    Returns:
        The record of the file for the catalog.

    Raises:
        OSError: the file can't be written.
        ValueError: ``read`` yields another number of vectors than ``rows``.
    """
    faiss = _load_faiss()
    index = faiss.index_factory(
        dimensions, _factory(recipe, rows, dimensions), faiss.METRIC_INNER_PRODUCT
    )
    if isinstance(index, faiss.IndexIVF):
        index.cp.niter = _ITERATIONS
    # Learn clusters and codes from a sample of the vectors.
    if not index.is_trained:
        sample = min(recipe.train or rows, rows, max(_LEAST_SAMPLE, _PER_LIST * _lists(rows)))
        vectors = _sample(read(), rows, sample, dimensions)
        # learn the clusters first, the codes from fewer vectors
        if type(index) is faiss.IndexIVFScalarQuantizer:
            index.train_q1(sample, faiss.swig_ptr(vectors), False, index.metric_type)
            vectors = vectors[:: max(1, sample // _CODED)].copy()
        index.train(vectors)
        del vectors  # up to 250 MB
    # Write the vectors, a block in memory at a time where FAISS's format allows that.
    blocks, head = (np.ascontiguousarray(vectors, np.float32) for vectors in read()), 0
    try:
        if type(index) is faiss.IndexScalarQuantizer:
            _stream_flat(path, index, blocks, rows)
        elif type(index) is faiss.IndexIVFScalarQuantizer:
            head = _stream_lists(path, index, blocks, rows)
        else:
            for block in blocks:
                index.add(block)
            _check_rows(index.ntotal, rows)
            if isinstance(index, faiss.IndexIVF):
                index.set_direct_map_type(faiss.DirectMap.Array)  # rows can be read back one by one
            faiss.write_index(index, str(path))
        whole = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC).ntotal == rows
    except RuntimeError as error:
        why = str(error).strip().rpartition("(")[2].rstrip(")")  # such as: No space left on device
        raise OSError(f"{path}: FAISS can't write this file: {why}") from error
    if not whole:  # FAISS says nothing when closing a file fails
        raise OSError(f"{path}: FAISS wrote only a part of this file")
    return seal_file(path, head)


def _stream_flat(path: Path, index: Any, blocks: Iterable[Vectors], rows: int) -> None:
    """Write the file that FAISS would write of a flat index with these vectors, a block in memory
    at a time.
    """
    index.ntotal = rows
    with path.open("wb") as file:
        file.write(
            _cut(index, (0).to_bytes(8, "little")) + (rows * index.code_size).to_bytes(8, "little")
        )
        written = sum(file.write(index.sa_encode(block).data) for block in blocks)
    _check_rows(written // index.code_size, rows)


def _stream_lists(path: Path, index: Any, blocks: Iterable[Vectors], rows: int) -> int:
    """Write the file that FAISS would write of a trained index of clusters with these vectors.

    Args:
        path: the new file.
        index: a trained index without vectors.
        blocks: the vectors ``[n, dimensions]`` in order.
        rows: number of all vectors.

    Returns:
        The number of bytes before the vectors.
    """
    faiss = _load_faiss()
    scratch, assigned = Scratch(path.parent, np.uint8), [np.zeros(0, np.int32)]
    for block in blocks:
        _, lists = index.quantizer.search(block, 1)
        codes = np.empty((len(block), index.code_size), np.uint8)
        index.encode_vectors(len(block), *map(faiss.swig_ptr, (block, lists, codes)))
        scratch.append(codes)
        assigned.append(lists[:, 0].astype(np.int32))
    # Lay the rows cluster by cluster: ``order`` are the rows, ``places`` where each row lies, as
    # its cluster times 2^32 plus its position there.
    clusters = np.concatenate(assigned)
    _check_rows(len(clusters), rows)
    order, sizes = (
        np.argsort(clusters, kind="stable"),
        np.bincount(clusters, minlength=index.nlist).astype("<i8"),
    )
    starts = np.cumsum(sizes) - sizes
    places = np.empty(rows, np.int64)
    places[order] = (
        (clusters[order].astype(np.int64) << 32) + np.arange(rows) - starts[clusters[order]]
    )
    index.set_direct_map_type(faiss.DirectMap.Array)  # rows can be read back one by one
    faiss.copy_array_to_vector(places, index.direct_map.array)
    index.ntotal = rows
    shape = b"".join(size.to_bytes(8, "little") for size in (index.nlist, index.code_size))
    head = (
        _cut(index, b"ilar" + shape + b"sprs" + bytes(8))
        + b"ilar"
        + shape
        + b"full"
        + shape[:8]
        + sizes.tobytes()
    )
    codes = scratch.read().reshape(rows, index.code_size)
    with path.open("wb") as file:
        file.write(head)
        for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
            inside = order[start : start + size]
            file.write(codes[inside].data)
            file.write(inside.astype("<i8").data)
    return len(head)


def _cut(index: Any, end: bytes) -> bytes:
    """Return a serialized index without its end, which says that it has no vectors."""
    data: bytes = _load_faiss().serialize_index(index).tobytes()
    if not data.endswith(end):
        raise OSError("this version of FAISS writes files of another form")
    return data.removesuffix(end)


def _check_rows(written: int, rows: int) -> None:
    """Raise ValueError unless as many vectors were written as were announced."""
    if written != rows:
        raise ValueError(f"{rows} vectors were announced, {written} came")


def _sample(slices: Iterable[Vectors], rows: int, size: int, dimensions: int) -> Vectors:
    """Return ``size`` of the vectors at even distances."""
    sample, chosen, row = (
        np.zeros((size, dimensions), np.float32),
        np.arange(size) * rows // size,
        0,
    )
    for vectors in slices:
        first, stop = np.searchsorted(chosen, (row, row + len(vectors)))
        sample[first:stop] = vectors[chosen[first:stop] - row]
        row += len(vectors)
    return sample


def _factory(recipe: Recipe, rows: int, dimensions: int) -> str:
    """Return the factory string of a recipe, with numbers for the size of the index."""
    return recipe.factory.replace("{lists}", str(_lists(rows))).replace(
        "{dimensions}", str(dimensions)
    )


def _lists(rows: int) -> int:
    """Return the number of clusters for some rows: about twice the square root, a power of two."""
    return 1 << round(math.log2(max(16.0, 2 * math.sqrt(rows))))


class VectorFile:
    """The vectors of a segment, memory-mapped for reading. Any number of threads may share one.

    Attributes:
        rows: number of vectors.
    """

    def __init__(self, file: MappedFile, rows: int, recipe: Recipe) -> None:
        """Open a vector file.

        Args:
            file: the mapped file.
            rows: number of vectors.
            recipe: how they are stored, with the parameters of a search.

        Raises:
            IndexCorrupt: the file is damaged, or FAISS can't read it.
        """
        file.read(0, file.file.head or None)
        # the index has views of it
        self._file, self._content = (file, np.frombuffer(file.content, np.uint8))
        self.rows = rows
        self._recipe = recipe
        self._codes = _find_codes(self._content, rows)
        self._is_first = self._codes is not None and rows <= _FIRST
        self._is_new = True  # never searched by FAISS
        if self._codes is None:
            _ = self._index
        # where the vectors of each cluster begin; the cluster of a row x 2^32 + its place there
        if file.file.head:
            sizes = np.fromiter(
                map(self._index.invlists.list_size, range(self._index.nlist)), np.int64
            )
            self._lists = file.file.head + np.append(
                0, np.cumsum(sizes * (self._index.code_size + 8))
            )
            self._places: Ids = _load_faiss().rev_swig_ptr(
                self._index.direct_map.array.data(), rows
            )

    @computed_once
    def _index(self) -> Any:
        """FAISS's view of the file, opened on first use."""
        faiss = _load_faiss()
        try:
            return faiss.read_index(
                faiss.ZeroCopyIOReader(faiss.swig_ptr(self._content), self._content.size)
            )
        except RuntimeError as error:
            raise IndexCorrupt(
                f"{self._file.path}: FAISS can't read this file ({error}); {REPAIR}"
            ) from error

    def search(
        self, queries: Vectors, top_k: int, allowed: Mask | None = None
    ) -> tuple[Scores, Ids]:
        """Find the rows nearest to queries, by inner product.

        Few rows are compared one by one, others are searched by FAISS.

        Args:
            queries: ``[n, dimensions]`` float32 of length one.
            top_k: maximum number of rows of each query.
            allowed: ``[rows]`` bool, which rows may be found; None for all.

        Returns:
            Scores ``[n, k]`` float32 and rows ``[n, k]`` int64 with ``k <= top_k``, best first; the
                row is -1 where there are no more.
        """
        top_k = min(top_k, self.rows)
        if self._is_first or (allowed is not None and np.count_nonzero(allowed) <= _FEW):
            self._is_first = False
            rows = np.arange(self.rows) if allowed is None else np.flatnonzero(allowed)
            parts = (np.einsum("ij,kj->ik", queries, part) for part in self.slices(rows))
            similar = np.concatenate([np.zeros((len(queries), 0), np.float32), *parts], 1)
            best = np.argsort(-similar, axis=1, kind="stable")[:, :top_k]
            return np.take_along_axis(similar, best, 1), rows[best]
        faiss, index, selector, share = _load_faiss(), self._index, None, 1.0
        if allowed is not None:
            selector = faiss.IDSelectorBitmap(np.packbits(allowed, bitorder="little"))
            share = max(1, int(np.count_nonzero(allowed))) / self.rows
            if share < _NARROW and isinstance(index, faiss.IndexHNSW):
                index = faiss.downcast_index(index.storage)
        parameters, clusters = _parameters(index, self._recipe, selector, share), None
        if self._file.file.head:
            queries = np.ascontiguousarray(queries, np.float32)
            clusters = self._index.quantizer.search(queries, parameters.nprobe)
        if share >= _BROAD and (found := self._search_card(queries, top_k, allowed, clusters)):
            return found
        if clusters:
            return self._search_lists(queries, top_k, clusters, selector)
        scores, rows = index.search(queries, top_k, params=parameters)
        if self._codes is not None:  # as the first search compares them
            scores = np.where(rows < 0, scores, self._compare(queries, rows))
        return scores, rows

    @computed_once
    def _copy(self) -> tuple[Card, Any] | None:
        """The card that the vectors are on and FAISS's index there; None if they stay on the CPU:
        few rows, another type of file, no card or no room on it.
        """
        if self.rows <= _FIRST or not (self._file.file.head or self._codes is not None):
            return None
        card = open_card(_load_faiss())
        if card is None:
            return None
        self._file.read()  # compared with its checksums
        index = card.use(lambda: card.copy(self, self._index, self._content.size))
        return None if index is None else (card, index)

    def _search_card(
        self, queries: Vectors, top_k: int, allowed: Mask | None, clusters: Any
    ) -> tuple[Scores, Ids] | None:
        """Find what the CPU finds, among the rows that a card proposes: it rounds what it compares.

        Args:
            queries: as those of :meth:`search`, and so are ``top_k`` and ``allowed``.
            top_k: maximum number of rows of each query.
            allowed: which rows may be found.
            clusters: scores and numbers ``[n, k]`` of the clusters to visit; None for other files.

        Returns:
            The same as :meth:`search`; None the first time, since copying takes longer than one
                search on the CPU, if the vectors are not on a card, or if a row that it did not
                propose may be as near as one of these.
        """
        is_new, self._is_new = self._is_new, False
        wide, probes = min(_WIDE * top_k, self.rows), clusters[1].shape[1] if clusters else 0
        if is_new or max(wide, probes) > _MOST or self._copy is None:
            return None
        card, index = self._copy

        def propose() -> Any:
            if not clusters:
                return index.search(queries, wide)
            index.nprobe = probes
            return index.search_preassigned(queries, wide, clusters[1], clusters[0])

        found = card.use(propose)
        if found is None:
            return None
        proposed, rows = found
        # No other row is nearer than the last one that was proposed.
        farthest = np.where(rows[:, -1] < 0, -np.inf, proposed[:, -1] + _ERROR)
        is_allowed = rows >= 0 if allowed is None else (rows >= 0) & allowed[rows]
        if clusters:
            among = _load_faiss().IDSelectorBatch(rows[is_allowed])
            scores, rows = self._search_lists(queries, top_k, clusters, among)
        else:
            scores = np.where(is_allowed, self._compare(queries, rows), -np.inf)
            best = np.argsort(-scores, axis=1, kind="stable")[:, :top_k]
            scores, rows = (np.take_along_axis(part, best, 1) for part in (scores, rows))
        return (scores, rows) if (scores[:, -1] > farthest).all() else None

    def _compare(self, queries: Vectors, rows: Ids) -> Scores:
        """Return the inner products ``[n, k]`` of queries with the vectors of rows ``[n, k]``."""
        vectors = self.read(np.maximum(rows, 0).ravel()).reshape(*rows.shape, -1)
        similar: Scores = np.einsum("ij,ikj->ik", queries, vectors)
        return similar

    def _search_lists(
        self, queries: Vectors, top_k: int, clusters: Any, selector: Any
    ) -> tuple[Scores, Ids]:
        """Search the clusters nearest to queries, whose vectors are compared with their checksums
        first.
        """
        faiss, (nearest, lists) = _load_faiss(), clusters
        visited = np.unique(lists[lists >= 0])
        self._file.check(self._lists[visited], self._lists[visited + 1])
        scores, rows = (
            np.empty((len(queries), top_k), np.float32),
            np.empty((len(queries), top_k), np.int64),
        )
        x, keys, distances, best, labels = map(
            faiss.swig_ptr, (queries, lists, nearest, scores, rows)
        )
        parameters = faiss.SearchParametersIVF(sel=selector, nprobe=lists.shape[1])
        self._index.search_preassigned_c(
            len(queries), x, top_k, keys, distances, best, labels, False, parameters
        )
        return scores, rows

    def read(self, rows: Ids) -> Vectors:
        """Return the vectors ``[len(rows), dimensions]`` float32 of some rows, as precise as they
        are stored.
        """
        if self._codes is not None:
            return self._codes[rows].astype(np.float32)
        if self._file.file.head:
            place = self._places[rows]
            start = self._lists[place >> 32] + (place & 0xFFFFFFFF) * self._index.code_size
            self._file.check(start, start + self._index.code_size)
        vectors: Vectors = self._index.reconstruct_batch(rows)
        return vectors

    def slices(self, rows: Ids) -> Iterator[Vectors]:
        """Yield the vectors of some rows in order, at most 4,096 at a time."""
        for first in range(0, len(rows), _SLICE):
            yield self.read(rows[first : first + _SLICE])


def _find_codes(content: NDArray[np.uint8], rows: int) -> NDArray[np.float16] | None:
    """Return the float16 matrix of FAISS's file of exact vectors; None for other types of file."""
    head = content[:_FLAT_HEAD].tobytes()
    dimensions = int.from_bytes(head[4:8], "little")
    if (
        head[:4] != b"IxSQ"
        or head[37] != _FLOAT16
        or len(content) != _FLAT_HEAD + 2 * rows * dimensions
    ):
        return None
    return content[_FLAT_HEAD:].view(np.float16).reshape(rows, dimensions)


def _parameters(index: Any, recipe: Recipe, selector: Any, share: float) -> Any:
    """Return FAISS's search parameters for an index and the indexes inside it.

    Args:
        index: the index.
        recipe: its recipe, whose ``search`` has the parameters.
        selector: FAISS's selector of rows that may be found; None for all.
        share: the share of rows that may be found; the smaller it is, the wider the search.
    """
    faiss = _load_faiss()
    index = faiss.downcast_index(index)
    settings = recipe.search
    if isinstance(index, faiss.IndexRefine):
        inner = _parameters(index.base_index, recipe, selector, share)
        return faiss.IndexRefineSearchParameters(
            k_factor=float(settings.get("k_factor", 4)), base_index_params=inner
        )
    if isinstance(index, faiss.IndexPreTransform):
        return faiss.SearchParametersPreTransform(
            index_params=_parameters(index.index, recipe, selector, share)
        )
    if isinstance(index, faiss.IndexIVF):
        probes = min(index.nlist, math.ceil(settings.get("nprobe", 32) / share))
        return faiss.SearchParametersIVF(sel=selector, nprobe=probes)
    if isinstance(index, faiss.IndexHNSW):
        return faiss.SearchParametersHNSW(
            sel=selector, efSearch=math.ceil(settings.get("efSearch", 128) / share)
        )
    return faiss.SearchParameters(sel=selector)
