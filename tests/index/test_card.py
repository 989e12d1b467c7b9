"""Vectors on a card. There is none here: only FAISS's own functions for cards are replaced, by an index on the CPU
that rounds questions to float16 as a card does; everything that is searched is searched by FAISS."""

import gc
import logging
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from lmkrag.errors import IndexCorrupt, UsageError
from lmkrag.index.files import MappedFile
from lmkrag.index.vectors import card as cards
from lmkrag.index.vectors import vector_set
from lmkrag.index.vectors.recipes import list_recipes, load_recipe
from lmkrag.index.vectors.vector_set import VectorFile, describe_search, write_vectors
from lmkrag.system import platform
from tests.index.test_vectors import clustered
from tests.test_forking import in_child

GIB = 1 << 30
ROWS = 3_000


class Rounding:
    """An index on a card."""

    def __init__(self, index, fake):
        self.index, self.fake = index, fake
        self.this = SimpleNamespace(disown=lambda: self.fake.disowned.append(self))

    @property
    def nprobe(self):
        return self.index.nprobe

    @nprobe.setter
    def nprobe(self, probes):
        self.index.nprobe = probes

    def search(self, queries, top_k):
        """Of rows with equal scores the last come first, since a card has its own order."""
        scores, rows = self._count(self.index.search, queries, self.index.ntotal)
        best = np.lexsort((-rows, -scores), axis=1)[:, :top_k]
        return np.take_along_axis(scores, best, 1), np.take_along_axis(rows, best, 1)

    def search_preassigned(self, queries, top_k, clusters, near):
        return self._count(self.index.search_preassigned, queries, top_k, clusters, near)

    def _count(self, search, queries, *arguments):
        self.fake.searches += 1
        if self.fake.fails:
            raise RuntimeError("Failed to cudaMalloc 1610612736 bytes on device 0")
        return search(queries.astype(np.float16).astype(np.float32), *arguments)


class FakeGpu:
    """What FAISS has for cards if it was built for CUDA."""

    def __init__(self, faiss):
        self.faiss, self.searches, self.disowned, self.fails = faiss, 0, [], False
        self.copied = []

    def StandardGpuResources(self):  # noqa: N802
        return SimpleNamespace(
            setTempMemory=lambda size: None,
            this=SimpleNamespace(disown=lambda: self.disowned.append("resources")),
        )

    def GpuClonerOptions(self):  # noqa: N802
        return SimpleNamespace(use_cuvs=True)

    def get_num_gpus(self):
        return 1

    def index_cpu_to_gpu(self, resources, number, index, options):
        assert not options.use_cuvs
        self.copied.append(index.ntotal)
        return Rounding(self.faiss.clone_index(index), self)


@pytest.fixture
def gpu(monkeypatch):
    """A card of 16 GiB, and files that are large enough for it."""
    import faiss

    fake = FakeGpu(faiss)
    names = ("StandardGpuResources", "GpuClonerOptions", "get_num_gpus", "index_cpu_to_gpu")
    for name in names:
        monkeypatch.setattr(faiss, name, getattr(fake, name), raising=False)
    monkeypatch.setattr(cards, "measure_card", lambda: (15 * GIB, 16 * GIB))
    monkeypatch.setattr(vector_set, "_FIRST", 100)
    monkeypatch.setattr(vector_set, "_FEW", 10)
    cards.open_card.cache_clear()
    yield fake
    cards.open_card.cache_clear()


@pytest.fixture(scope="module")
def vectors():
    return clustered(ROWS, 64)


QUERIES = clustered(30, 64, seed=1)


def write(path, vectors, recipe):
    """Write a vector file, and return what opens it."""
    file = write_vectors(path, lambda: [vectors], len(vectors), 64, recipe)
    return lambda: VectorFile(MappedFile(path, file), len(vectors), recipe)


def search_twice(segment, queries=QUERIES, top_k=10, allowed=None):
    """The first search of a file is the CPU's, the second one the card's."""
    return [segment.search(queries, top_k, allowed) for _ in range(2)]


def order(found):
    """Rows of each query as a snapshot orders them: by score, ties by row."""
    scores, rows = found
    return np.take_along_axis(rows, np.lexsort((rows, -scores), axis=1), 1)


@pytest.mark.parametrize("name", ["flat", "ivf-sq8"])
def test_a_card_finds_what_the_cpu_finds_to_the_rank(name, gpu, vectors, tmp_path, monkeypatch):
    open_file = write(tmp_path / "s.faiss", vectors, load_recipe(name))
    expected = [open_file().search(query[None], 10) for query in QUERIES]
    segment = open_file()
    segment.search(QUERIES, 10)
    among, search_lists = [], vars(VectorFile)["_search_lists"]

    def watch(self, *arguments):
        among.append(arguments[-1])
        return search_lists(self, *arguments)

    monkeypatch.setattr(VectorFile, "_search_lists", watch)
    for query, on_cpu in zip(QUERIES, expected, strict=True):
        on_card = segment.search(query[None], 10)
        assert np.array_equal(order(on_cpu), order(on_card))
        assert np.array_equal(np.sort(on_cpu[0]), np.sort(on_card[0]))
    assert gpu.copied == [ROWS] and gpu.searches == len(QUERIES)
    assert None not in among, "the CPU looks only at what the card proposed"


@pytest.mark.parametrize("name", ["flat", "ivf-sq8"])
def test_removed_rows_are_never_found_on_a_card(name, gpu, vectors, tmp_path):
    open_file = write(tmp_path / "s.faiss", vectors, load_recipe(name))
    alive = np.ones(ROWS, bool)
    alive[open_file().search(QUERIES[:1], 3)[1]] = False
    on_cpu, on_card = search_twice(open_file(), QUERIES[:1], allowed=alive)
    assert gpu.searches == 1
    assert alive[on_card[1]].all()
    assert np.array_equal(order(on_cpu), order(on_card))


def test_a_narrow_filter_and_equal_vectors_are_left_to_the_cpu(gpu, vectors, tmp_path):
    segment = write(tmp_path / "s.faiss", vectors, load_recipe("flat"))()
    search_twice(segment)
    narrow = np.arange(ROWS) % 2 == 0
    before = gpu.searches
    _, rows = segment.search(QUERIES, 10, narrow)
    assert gpu.searches == before and narrow[rows].all()
    # of 40 equal vectors the card proposes the last 20, and the CPU finds the first ten
    same = vectors.copy()
    same[1_000:1_040] = same[0]
    segment = write(tmp_path / "same.faiss", same, load_recipe("flat"))()
    on_cpu, again = search_twice(segment, same[:1])
    assert gpu.searches == before + 1
    assert np.array_equal(order(on_cpu), order(again))


@pytest.mark.parametrize(
    "recipe",
    [recipe for recipe in list_recipes() if recipe.name in ("hnsw", "ivf-rabitq")],
    ids=lambda recipe: recipe.name,
)
def test_graphs_and_1_bit_codes_stay_on_the_cpu(recipe, gpu, vectors, tmp_path):
    segment = write(tmp_path / "s.faiss", vectors, recipe)()
    for before, after in zip(*search_twice(segment), strict=True):
        assert np.array_equal(before, after)
    assert gpu.copied == []


def test_what_does_not_fit_stays_on_the_cpu_until_there_is_room(
    gpu, vectors, tmp_path, monkeypatch
):
    monkeypatch.setattr(cards, "_TEMPORARY", 0)
    size = 2 * 64 * ROWS + 81  # of a file without its checksums
    # the share is room for one file, and twice a file while the second is copied
    monkeypatch.setattr(cards, "measure_card", lambda: (GIB, int(2.5 * size / cards.SHARE)))
    first, second, third = (
        write(tmp_path / f"{name}.faiss", vectors, load_recipe("flat"))() for name in "abc"
    )
    expected = order(search_twice(first)[1])
    assert np.array_equal(order(search_twice(second)[1]), expected)
    assert gpu.copied == [ROWS], "the second file is searched on the CPU"
    del first
    gc.collect()
    before = gpu.searches
    assert np.array_equal(order(search_twice(third)[1]), expected)
    assert gpu.copied == [ROWS, ROWS] and gpu.searches > before, "a new segment follows"


def test_few_rows_and_the_first_search_stay_on_the_cpu(gpu, vectors, tmp_path, monkeypatch):
    segment = write(tmp_path / "s.faiss", vectors, load_recipe("ivf-sq8"))()
    segment.search(QUERIES, 10)
    assert gpu.copied == []
    monkeypatch.setattr(vector_set, "_FIRST", ROWS)
    search_twice(write(tmp_path / "few.faiss", vectors, load_recipe("ivf-sq8"))())
    assert gpu.copied == []


def test_more_rows_than_a_card_returns_are_left_to_the_cpu(gpu, vectors, tmp_path):
    segment = write(tmp_path / "s.faiss", vectors, load_recipe("flat"))()
    on_cpu, again = search_twice(segment, top_k=1_500)
    assert gpu.searches == 0
    assert np.array_equal(order(on_cpu), order(again))


def test_vectors_are_compared_with_their_checksums_before_they_are_copied(gpu, vectors, tmp_path):
    path, recipe = tmp_path / "s.faiss", replace(load_recipe("ivf-sq8"), search={"nprobe": 1})
    file = write_vectors(path, lambda: [vectors], ROWS, 64, recipe)
    data = bytearray(path.read_bytes())
    data[file.head + file.block] ^= 1
    path.write_bytes(data)
    segment = VectorFile(MappedFile(path, file), ROWS, recipe)
    segment.search(QUERIES[:1], 10)  # visits another cluster
    with pytest.raises(IndexCorrupt, match="damaged"):
        segment.search(QUERIES[:1], 10)
    assert gpu.copied == []


def test_a_card_that_fails_is_left(gpu, vectors, tmp_path, caplog):
    segment = write(tmp_path / "s.faiss", vectors, load_recipe("flat"))()
    expected = order(segment.search(QUERIES, 10))
    gpu.fails = True
    with caplog.at_level(logging.WARNING):
        assert np.array_equal(order(segment.search(QUERIES, 10)), expected)
    assert "the card failed, vectors are searched on the CPU: Failed to cudaMalloc" in caplog.text
    assert np.array_equal(order(segment.search(QUERIES, 10)), expected)
    assert gpu.searches == 1


def test_a_forked_process_searches_on_the_cpu_and_frees_nothing(gpu, vectors, tmp_path):
    segment = write(tmp_path / "s.faiss", vectors, load_recipe("flat"))()
    _, expected = search_twice(segment)
    before = gpu.searches

    def search():
        assert np.array_equal(order(segment.search(QUERIES, 10)), order(expected))
        assert gpu.searches == before
        assert len(gpu.disowned) == 2  # the resources and the index

    assert in_child(search) == 0
    segment.search(QUERIES, 10)
    assert gpu.searches == before + 1 and gpu.disowned == [], "the parent keeps its card"


@pytest.mark.parametrize("free", [3 * GIB, 0])
def test_a_card_that_others_have_filled_is_left_to_them(free, gpu, vectors, tmp_path, monkeypatch):
    monkeypatch.setattr(cards, "measure_card", lambda: (free, 16 * GIB if free else 0))
    search_twice(write(tmp_path / "s.faiss", vectors, load_recipe("flat"))())
    assert gpu.copied == []
    assert describe_search() == (True, "searched on the CPU")


def test_the_device_is_the_setting(gpu, vectors, tmp_path, monkeypatch):
    assert describe_search() == (
        True,
        "searched on the card, in up to 3,276 MiB, the rest on the CPU",
    )
    monkeypatch.setenv("LMKRAG_DEVICE", "cpu")
    cards.open_card.cache_clear()
    search_twice(write(tmp_path / "s.faiss", vectors, load_recipe("flat"))())
    assert gpu.copied == []
    assert describe_search() == (True, "searched on the CPU")
    monkeypatch.setenv("LMKRAG_DEVICE", "gpu")
    cards.open_card.cache_clear()
    with pytest.raises(UsageError, match="LMKRAG_DEVICE must be one of auto, cpu, cuda, not 'gpu'"):
        describe_search()


def test_two_packages_of_faiss_are_named(monkeypatch):
    installed = {"faiss": ["faiss-gpu", "faiss-cpu", "faiss-cpu"]}
    monkeypatch.setattr(vector_set, "packages_distributions", lambda: installed)
    ok, detail = describe_search()
    assert not ok
    assert detail == (
        "faiss-cpu and faiss-gpu overwrite each other: pip uninstall -y faiss-cpu faiss-gpu, "
        "then install the one you want"
    )


def test_without_cuda_there_is_no_card():
    assert platform.measure_card() == (0, 0)
    cards.open_card.cache_clear()
    assert describe_search() == (True, "searched on the CPU")
