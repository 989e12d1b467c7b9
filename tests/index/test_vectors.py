import contextlib
import math
from dataclasses import replace

import numpy as np
import pytest
from xxhash import xxh3_128_hexdigest

from lmkrag import Engine
from lmkrag.errors import IndexCorrupt
from lmkrag.index.files import File, MappedFile
from lmkrag.index.vectors import vector_set as vectors_module
from lmkrag.index.vectors.recipes import list_recipes, load_recipe
from lmkrag.index.vectors.vector_set import VectorFile, write_vectors


def build(path, slices, rows, recipe):
    """Write a vector file and open it."""
    return VectorFile(MappedFile(path, write_vectors(path, slices, rows, 64, recipe)), rows, recipe)


def clustered(count: int, dimensions: int, seed: int = 0) -> np.ndarray:
    """Unit vectors in clusters, as sentences of documents are."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((count // 50 + 1, dimensions))
    vectors = centres[rng.integers(len(centres), size=count)] + 0.7 * rng.standard_normal(
        (count, dimensions)
    )
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


FACTORIES = [recipe for recipe in list_recipes() if recipe.factory]


@pytest.fixture(scope="module")
def vectors():
    return clustered(3_000, 64)


@pytest.mark.parametrize("recipe", FACTORIES, ids=lambda recipe: recipe.name)
def test_each_recipe_finds_what_brute_force_finds(recipe, vectors, tmp_path):
    segment = build(tmp_path / "s.faiss", lambda: np.split(vectors, 3), len(vectors), recipe)
    queries = clustered(40, 64, seed=1)
    scores, rows = segment.search(queries, 10)
    exact = queries @ vectors.T
    best = np.argsort(-exact, axis=1)[:, :10]
    recall = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(rows, best, strict=True)])
    assert recall >= {"flat": 0.99, "ivf-rabitq": 0.8}.get(recipe.name, 0.9)
    np.testing.assert_allclose(scores, np.take_along_axis(exact, rows, 1), atol=0.02)


@pytest.mark.parametrize("recipe", FACTORIES, ids=lambda recipe: recipe.name)
def test_rows_read_back_and_masked_rows_are_never_found(recipe, vectors, tmp_path, monkeypatch):
    segment = build(tmp_path / "s.faiss", lambda: [vectors], len(vectors), recipe)
    wanted = np.array([2_999, 0, 17, 1_500])
    assert ((segment.read(wanted) * vectors[wanted]).sum(1) > 0.99).all()
    for few in (0, 1_000):
        monkeypatch.setattr(vectors_module, "_FEW", few)
        alive = np.zeros(len(vectors), bool)
        alive[100:130] = True
        scores, rows = segment.search(vectors[:5], 50, alive)
        assert set(rows[rows >= 0].tolist()) <= set(range(100, 130))
        assert ((rows >= 0).sum(1) == 30).all(), (
            "a narrow filter loses nothing, whatever the recipe"
        )
        exact = np.take_along_axis(vectors[:5] @ vectors.T, np.maximum(rows, 0), 1)
        np.testing.assert_allclose(scores[rows >= 0], exact[rows >= 0], atol=0.02)


def test_exact_vectors_are_compared_alike_by_the_first_search_and_by_faiss(vectors, tmp_path):
    segment = build(tmp_path / "s.faiss", lambda: [vectors], len(vectors), load_recipe("flat"))
    queries, alive = clustered(3, 64, seed=2), np.arange(len(vectors)) % 2 == 0
    for allowed in (None, alive):
        without_faiss = VectorFile(segment._file, segment.rows, load_recipe("flat")).search(
            queries, 20, allowed
        )
        by_faiss = segment.search(queries, 20, allowed) and segment.search(queries, 20, allowed)
        for (scores, rows), (other_scores, other_rows) in zip(
            zip(*without_faiss, strict=True), zip(*by_faiss, strict=True), strict=True
        ):
            assert dict(zip(rows.tolist(), scores.tolist(), strict=True)) == dict(
                zip(other_rows.tolist(), other_scores.tolist(), strict=True)
            )


@pytest.mark.parametrize("name", ["flat", "ivf-sq8"])
def test_a_file_that_is_written_piece_by_piece_is_what_faiss_writes(name, vectors, tmp_path):
    import faiss

    recipe = load_recipe(name)
    file = write_vectors(
        tmp_path / "ours.faiss", lambda: np.array_split(vectors, 7), len(vectors), 64, recipe
    )
    whole = faiss.index_factory(
        64,
        recipe.factory.replace("{lists}", str(vectors_module._lists(len(vectors)))),
        faiss.METRIC_INNER_PRODUCT,
    )
    if name != "flat":
        whole.cp.niter = vectors_module._ITERATIONS
        whole.train(vectors)
    whole.add(vectors)
    if name != "flat":
        whole.set_direct_map_type(faiss.DirectMap.Array)
    faiss.write_index(whole, str(tmp_path / "theirs.faiss"))
    ours, theirs = ((tmp_path / f"{whose}.faiss").read_bytes() for whose in ("ours", "theirs"))
    assert ours[: len(theirs)] == theirs
    assert len(ours) == file.bytes == len(theirs) + 8 * math.ceil(len(theirs) / file.block), (
        "and checksums of blocks"
    )
    assert faiss.read_index(str(tmp_path / "ours.faiss")).ntotal == len(vectors)


def test_no_more_vectors_are_sampled_than_asked_for(vectors):
    sample = vectors_module._sample(iter(np.array_split(vectors[:300], 7)), 300, 200, 64)
    rows = [int(np.flatnonzero((vectors[:300] == vector).all(1))[0]) for vector in sample]
    assert len(rows) == 200
    assert set(np.diff(rows)) == {1, 2}
    assert rows[0] == 0 and rows[-1] >= 298


def test_clusters_are_learned_from_the_whole_file(vectors, tmp_path, monkeypatch):
    """A prefix would be one document's sentences; here the second half lies elsewhere."""
    monkeypatch.setattr(vectors_module, "_LEAST_SAMPLE", 100)
    monkeypatch.setattr(vectors_module, "_PER_LIST", 2)
    far = np.concatenate([vectors[:1_500], -vectors[:1_500]])
    segment = build(
        tmp_path / "s.faiss", lambda: np.split(far, 4), len(far), load_recipe("ivf-sq8")
    )
    _, rows = segment.search(far[::100], 1)
    assert (rows[:, 0] == np.arange(0, len(far), 100)).mean() > 0.9


def test_slices_are_all_rows_in_order(vectors, tmp_path):
    segment = build(tmp_path / "s.faiss", lambda: [vectors], len(vectors), load_recipe("flat"))
    rows = np.arange(0, len(vectors), 3)
    read = np.concatenate(list(segment.slices(rows)))
    np.testing.assert_allclose(read, vectors[rows], atol=1e-3)


@pytest.mark.parametrize("recipe", FACTORIES, ids=lambda recipe: recipe.name)
def test_a_flipped_byte_is_found_before_it_is_used(recipe, vectors, tmp_path):
    path = tmp_path / "s.faiss"
    file = write_vectors(path, lambda: [vectors], len(vectors), 64, recipe)
    data = path.read_bytes()
    for place in [*range(0, len(data), len(data) // 40), file.head, len(data) - 1]:
        changed = bytearray(data)
        changed[place] ^= 1
        path.write_bytes(changed)
        assert not file.is_at(path)
        mapped = MappedFile(path, file)
        with pytest.raises(
            IndexCorrupt, match=r"s\.faiss: this file is damaged \(checksum\); restore a backup"
        ):
            mapped.read()
        with pytest.raises(
            IndexCorrupt, match="damaged"
        ):  # every vector is read, and every cluster visited
            VectorFile(MappedFile(path, file), len(vectors), recipe).search(vectors, 5)
        if place >= file.block:
            with pytest.raises(IndexCorrupt, match="damaged"):
                opened = VectorFile(MappedFile(path, file), len(vectors), recipe)
                opened.read(np.arange(len(vectors)))
                opened.search(vectors, 5)
    path.unlink()
    with pytest.raises(IndexCorrupt, match="this file is gone"):
        VectorFile(MappedFile(path, file), len(vectors), recipe)


def test_of_clusters_only_what_is_used_is_compared(vectors, tmp_path):
    path, recipe = tmp_path / "s.faiss", replace(load_recipe("ivf-sq8"), search={"nprobe": 2})
    file = write_vectors(path, lambda: [vectors], len(vectors), 64, recipe)
    whole = VectorFile(MappedFile(path, file), len(vectors), recipe)
    right, nearest = whole.read(np.arange(len(vectors))), whole.search(vectors, 3)
    data = bytearray(path.read_bytes())
    data[(file.head + len(data)) // 2] ^= 1
    path.write_bytes(data)
    opened = VectorFile(MappedFile(path, file), len(vectors), recipe)
    rows = range(0, len(vectors), 5)
    sound = [0, 0]
    for row in rows:
        with contextlib.suppress(IndexCorrupt):
            assert (opened.read(np.array([row])) == right[row]).all()
            sound[0] += 1
        with contextlib.suppress(IndexCorrupt):
            assert opened.search(vectors[row : row + 1], 3)[1].tolist() == [
                nearest[1][row].tolist()
            ]
            sound[1] += 1
    assert 0 < sound[1] < sound[0] < len(rows)


@pytest.mark.parametrize("recipe", FACTORIES, ids=lambda recipe: recipe.name)
def test_a_file_with_one_checksum_for_all_is_compared_when_it_is_opened(recipe, vectors, tmp_path):
    path = tmp_path / "s.faiss"
    file = write_vectors(path, lambda: [vectors], len(vectors), 64, recipe)
    new = VectorFile(MappedFile(path, file), len(vectors), recipe)
    data = bytes(MappedFile(path, file).read())
    old = File(len(data), xxh3_128_hexdigest(data))
    (tmp_path / "old.faiss").write_bytes(data)
    opened = VectorFile(MappedFile(tmp_path / "old.faiss", old), len(vectors), recipe)
    for ours, theirs in zip(
        opened.search(vectors[:20], 5), new.search(vectors[:20], 5), strict=True
    ):
        assert np.array_equal(ours, theirs)
    assert np.array_equal(opened.read(np.arange(50)), new.read(np.arange(50)))
    (tmp_path / "old.faiss").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(IndexCorrupt, match="damaged"):
        VectorFile(MappedFile(tmp_path / "old.faiss", old), len(vectors), recipe)


def test_too_few_vectors_are_an_error(vectors, tmp_path):
    with pytest.raises(ValueError, match="3001 vectors were announced, 3000 came"):
        build(tmp_path / "s.faiss", lambda: [vectors], 3_001, load_recipe("flat"))


def test_files_of_others_can_still_be_read(built_index, tmp_path):
    """FAISS's limit on what it reads is the whole process's: ours must not stay."""
    import faiss

    large = faiss.IndexFlatIP(64)
    large.add(np.random.default_rng(0).standard_normal((20_000, 64)).astype(np.float32))
    faiss.write_index(large, str(tmp_path / "theirs.faiss"))
    before = faiss.get_deserialization_vector_byte_limit()
    with Engine.open(built_index) as engine:
        engine.search("the lamp")
    assert faiss.get_deserialization_vector_byte_limit() == before
    assert faiss.read_index(str(tmp_path / "theirs.faiss")).ntotal == 20_000
