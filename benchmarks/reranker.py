"""How long does reading passages together with the question take, and what does it change?

    python benchmarks/reranker.py [--data ../shared/data/dev/squad] [--characters 300000] [--queries 60]

Indexes a part of a set, searches with and without `rerank`, and reads 1 to 24 passages of each question. Prints medians
and 95th percentiles in milliseconds, of a process that has loaded the re-ranker, and what the first reading costs.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from lmkrag import Engine
from lmkrag.evaluation.dataset import load_dataset
from lmkrag.reranker.base import PlacedText
from lmkrag.reranker.inputs import prepare_passage
from lmkrag.reranker.passages import PassageReranker

DEPTHS = (1, 4, 8, 16, 24)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data/dev/squad"))
    parser.add_argument("--characters", type=int, default=300_000)
    parser.add_argument("--queries", type=int, default=60)
    options = parser.parse_args()
    dataset = load_dataset(options.data)
    documents, characters = [], 0
    for document in dataset.documents:
        if characters < options.characters:
            documents.append(document)
            characters += len(document.text)
    known = {document.doc_id for document in documents}
    questions = [query.query for query in dataset.queries if query.doc_id in known][
        : options.queries
    ]
    began = time.perf_counter()
    reranker = PassageReranker.load()
    loaded = time.perf_counter()
    reranker.score("What is it?", [PlacedText("", "It is a lamp.")])
    print(
        f"loading {1_000 * (loaded - began):.0f} ms, first reading {1_000 * (time.perf_counter() - loaded):.0f} ms"
    )
    with tempfile.TemporaryDirectory() as work, Engine.open(work, create=True) as engine:
        engine.add(documents)
        passages = [
            [
                prepare_passage(span).passage
                for span in engine.search(question, top_k=24, rerank=False)
            ]
            for question in questions
        ]
        engine.search(questions[0], rerank=True)
        row(
            "search without",
            [measure(lambda q=q: engine.search(q, rerank=False)) for q in questions],
        )
        for limit in (50, 100, 150, None):
            name = "search" if limit is None else f"search, rerank_timeout_ms={limit}"
            row(
                name,
                [
                    measure(lambda q=q, limit=limit: engine.search(q, rerank_timeout_ms=limit))
                    for q in questions
                ],
            )
    for depth in DEPTHS:
        row(
            f"reading {depth} passages",
            [
                measure(lambda q=q, p=p, depth=depth: reranker.score(q, p[:depth]))
                for q, p in zip(questions, passages, strict=True)
            ],
        )


def measure(call: Callable[[], object]) -> float:
    """Milliseconds that a call takes."""
    began = time.perf_counter()
    call()
    return 1_000 * (time.perf_counter() - began)


def row(name: str, times: Sequence[float]) -> None:
    """Print a median and a 95th percentile."""
    print(
        f"{name:24s} p50 {np.median(times):7.1f} ms   p95 {np.percentile(times, 95):7.1f} ms",
        flush=True,
    )


if __name__ == "__main__":
    main()
