"""What does each recipe cost and find, on real sentence vectors?

    lmkrag eval ../shared/data/dev/* --out /tmp/retrieval     # makes the indexes
    python benchmarks/recipes.py ../shared/data/dev --work /tmp/retrieval

Puts the sentences of all sets into one segment per recipe, and compares it with exact search in float32: recall of the
10 and 100 nearest, bytes per sentence, time to build, time of one query on one thread. Ratios are to ``flat``.
"""

import argparse
import tempfile
import time
from pathlib import Path

import faiss
import numpy as np

from lmkrag import LandmarkEncoder
from lmkrag.evaluation.dataset import draw_sample, load_dataset
from lmkrag.index.files import MappedFile
from lmkrag.index.store import IndexStore
from lmkrag.index.vectors.recipes import list_recipes
from lmkrag.index.vectors.vector_set import VectorFile, write_vectors

QUERIES = 1_000


def main() -> None:
    """Build and search one segment per recipe, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    options = parser.parse_args()
    folders = sorted((options.work / "index").glob("*/*"))
    vectors = np.concatenate([_stored(folder) for folder in folders])
    questions = [
        query.query
        for folder in folders
        for query in load_dataset(options.data / _set_name(folder)).queries
    ]
    queries = LandmarkEncoder.load().encode_queries(draw_sample(questions, QUERIES))
    exact = np.argsort(-(queries @ vectors.T), axis=1)[:, :100]
    print(f"{len(vectors):,} sentences, {len(queries)} queries, {vectors.shape[1]} dimensions\n")
    print(
        "| recipe | recall@10 | recall@100 | bytes a sentence | build s (ratio) | search ms (ratio) |"
    )
    print("|---|---|---|---|---|---|")
    base: tuple[float, float] | None = None
    recipes = [recipe for recipe in list_recipes() if recipe.factory]
    for recipe in sorted(recipes, key=lambda recipe: recipe.name != "flat"):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "segment.faiss"
            faiss.omp_set_num_threads(2)
            began = time.perf_counter()
            file = write_vectors(
                path, lambda: np.array_split(vectors, 8), len(vectors), vectors.shape[1], recipe
            )
            built = time.perf_counter() - began
            segment = VectorFile(MappedFile(path, file), len(vectors), recipe)
            faiss.omp_set_num_threads(1)
            segment.search(queries[:5], 100)
            began = time.perf_counter()
            rows = np.concatenate([segment.search(query[None], 100)[1] for query in queries])
            searched = (time.perf_counter() - began) / len(queries) * 1000
            base = base or (built, searched)
            recall = [
                np.mean(
                    [len(set(a[:k]) & set(b[:k])) / k for a, b in zip(rows, exact, strict=True)]
                )
                for k in (10, 100)
            ]
            print(
                f"| {recipe.name} | {recall[0]:.3f} | {recall[1]:.3f} | {file.bytes / len(vectors):.0f} "
                f"| {built:.1f} ({built / base[0]:.1f}) | {searched:.2f} ({searched / base[1]:.3f}) |",
                flush=True,
            )


def _set_name(folder: Path) -> str:
    """The set of an index: the folder's name ends in a hash of the set."""
    return folder.name.rpartition("-")[0]


def _stored(folder: Path) -> np.ndarray:
    store = IndexStore.open(folder)
    with store.reader.snapshot() as snapshot:
        parts = [
            part for live in snapshot.segments for part in live.segment.vectors.slices(live.rows)
        ]
    return np.concatenate(parts)


if __name__ == "__main__":
    main()
