"""What every store of vectors has to do; the next one only has to be added to ``STORES``."""

from dataclasses import replace

import numpy as np
import pytest

from lmkrag.errors import IndexCorrupt, UsageError
from lmkrag.index.recipes import load_recipe
from lmkrag.index.segments import SegmentFile, open_vectors, write_vectors
from lmkrag.index.vector_stores import find_store, store_of

ROWS, DIMENSIONS = 3_000, 64
NAME = "0123456789abcdef0123456789abcdef"
GRAPH = load_recipe("pgvector")
STORES = {
    "flat": load_recipe("flat"),
    "pgvector-exact": load_recipe("pgvector-exact"),
    "pgvector": replace(GRAPH, search={**GRAPH.search, "least_rows": 1_000}),
}
EXACT = ("flat", "pgvector-exact")


def clustered(count, seed):
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(0).standard_normal((60, DIMENSIONS))
    vectors = centres[rng.integers(60, size=count)] + 0.7 * rng.standard_normal((count, DIMENSIONS))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16).astype(np.float32)


VECTORS, QUERIES = clustered(ROWS, 1), clustered(20, 2)


def write(folder, recipe, vectors=VECTORS, name=NAME):
    """Write a set of vectors in three parts, and return what a segment says of it."""
    parts = np.array_split(vectors, 3)
    file = write_vectors(folder, name, lambda: parts, rows=len(vectors), dimensions=DIMENSIONS, recipe=recipe)
    return SegmentFile(name, len(vectors), recipe, file, file, file)


@pytest.fixture(scope="module", params=STORES)
def stored(request, postgres, tmp_path_factory):
    """The name of a recipe, and its vectors, open."""
    folder = tmp_path_factory.mktemp(request.param)
    name = f"{list(STORES).index(request.param):032x}"
    return request.param, open_vectors(folder, write(folder, STORES[request.param], name=name))


def best(scores, count):
    return np.argsort(-scores, axis=1, kind="stable")[:, :count]


def test_the_nearest_are_found(stored):
    name, vectors = stored
    scores, rows = vectors.search(QUERIES, 10)
    exact = QUERIES @ VECTORS.T
    np.testing.assert_allclose(scores, np.take_along_axis(exact, rows, 1), atol=1e-5)
    assert (np.diff(scores, axis=1) <= 1e-6).all()
    if name in EXACT:
        np.testing.assert_allclose(scores, np.take_along_axis(exact, best(exact, 10), 1), atol=1e-5)
    recall = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(rows, best(exact, 10), strict=True)])
    assert recall > 0.97


@pytest.mark.parametrize("share", [0.002, 0.05, 0.5, 0.99])
def test_only_what_is_allowed_is_found(stored, share):
    name, vectors = stored
    allowed = np.zeros(ROWS, bool)
    allowed[: int(share * ROWS)] = True  # of few documents: neighbours of each other
    allowed = np.random.default_rng(3).permutation(allowed) if share == 0.5 else allowed
    scores, rows = vectors.search(QUERIES, 20, allowed)
    exact = np.where(allowed, QUERIES @ VECTORS.T, -np.inf)
    found = min(20, int(allowed.sum()))
    assert ((rows >= 0).sum(1) == found).all()
    assert allowed[rows[:, :found]].all()
    assert (rows[:, found:] == -1).all()
    if name in EXACT or share < 0.15:
        np.testing.assert_allclose(scores[:, :found], np.take_along_axis(exact, best(exact, found), 1), atol=1e-5)


def test_nothing_allowed_nothing_found(stored):
    _, vectors = stored
    _, rows = vectors.search(QUERIES[:2], 5, np.zeros(ROWS, bool))
    assert (rows == -1).all()


def test_vectors_are_read_as_they_were_written(stored):
    _, vectors = stored
    wanted = np.array([2_999, 0, 17, 17, 1_500])
    np.testing.assert_array_equal(vectors.read(wanted), VECTORS[wanted])
    assert vectors.rows == ROWS
    np.testing.assert_array_equal(np.concatenate(list(vectors.slices(np.arange(ROWS)))), VECTORS)
    assert vectors.read(np.array([], np.int64)).shape[0] == 0


def test_more_results_than_rows(stored):
    _, vectors = stored
    _, rows = vectors.search(QUERIES[:1], 2 * ROWS)
    assert rows.shape[1] <= ROWS
    assert len(set(rows[0].tolist()) - {-1}) >= 0.9 * ROWS or stored[0] == "pgvector"


@pytest.mark.parametrize("name", STORES)
def test_what_was_deleted_is_gone(name, postgres, tmp_path, monkeypatch):
    monkeypatch.setattr("lmkrag.index.postgres._GRACE", "0 seconds")
    file = write(tmp_path, STORES[name], VECTORS[:50], f"{7:032x}")
    path = tmp_path / next(iter(file.files))
    assert store_of(path) is find_store(STORES[name].store)
    find_store(STORES[name].store).delete(path)
    assert not path.exists()
    with pytest.raises(IndexCorrupt):
        open_vectors(tmp_path, file)


@pytest.mark.parametrize("name", STORES)
def test_a_damaged_file_is_told(name, postgres, tmp_path):
    file = write(tmp_path, STORES[name], VECTORS[:50], f"{8 + list(STORES).index(name):032x}")
    path = tmp_path / next(iter(file.files))
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(IndexCorrupt, match="damaged"):
        open_vectors(tmp_path, file)


@pytest.mark.parametrize("name", STORES)
def test_fewer_vectors_than_announced(name, postgres, tmp_path):
    with pytest.raises(ValueError, match="60 vectors were announced, 50 came"):
        write_vectors(
            tmp_path, f"{16:032x}", lambda: [VECTORS[:50]], rows=60, dimensions=DIMENSIONS, recipe=STORES[name]
        )


def test_a_recipe_that_no_store_can_follow(postgres):
    with pytest.raises(UsageError, match="the factory of pgvector must be exact or hnsw"):
        find_store("pgvector").check(replace(GRAPH, factory="IVF16,Flat"), DIMENSIONS)
    with pytest.raises(UsageError, match="unknown setting 'nprobe'"):
        find_store("pgvector").check(replace(GRAPH, search={"nprobe": 3}), DIMENSIONS)
    with pytest.raises(UsageError, match="unknown store 'qdrant'"):
        find_store("qdrant")
