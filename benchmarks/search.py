"""What one search costs, step by step, in an index of a million sentences.

    python benchmarks/search.py DATA --work DIR [--sentences 1000000]

Builds an index of real text (the first 20,000 characters of documents of DATA, repeated) with random unit vectors once,
as `auto` stores it, then asks questions of the sets one at a time, as a process that only asks does. "FAISS" is the
time to search for vectors and to read them, "rest" the time outside the columns before it.
"""

import argparse
import statistics
import time
from collections import defaultdict
from itertools import islice
from pathlib import Path

import numpy as np

from lmkrag import Engine
from lmkrag.encoder.landmark import LandmarkEncoder
from lmkrag.evaluation.dataset import iter_documents, load_dataset
from lmkrag.index.copying import build_tables
from lmkrag.index.snapshot import Snapshot
from lmkrag.index.staged import SentenceTable, Staged
from lmkrag.index.store import IndexStore
from lmkrag.index.vectors.vector_set import VectorFile
from lmkrag.sentences.split import split_sentences
from lmkrag.types import Document

BATCH = 65_536
QUESTIONS = 400
CHARACTERS = 20_000  # of a document
RARE = 100  # one document in a hundred passes the filter


def main() -> None:
    """Build if needed, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=1_000_000)
    options = parser.parse_args()
    path = options.work / f"search-{options.sentences}"
    if not IndexStore.exists(path):
        build(path, options.data, options.sentences)
    began = time.perf_counter()
    engine = Engine.open(path)
    opened = time.perf_counter() - began
    questions = read_questions(options.data)
    began = time.perf_counter()
    engine.search(questions[0])
    first = time.perf_counter() - began
    status = engine.status()
    print(
        f"{status.sentences:,} sentences, {status.documents:,} documents; open {1e3 * opened:.1f} ms, ",
        end="",
    )
    print(f"first search {1e3 * first:.0f} ms (loads the weights, checks every file), ", end="")
    print(f"{status.bytes / status.sentences:.0f} bytes per sentence\n")
    print(
        "| search | p50 ms | p99 ms | encoder | FAISS | lexical | rest |\n|---|---|---|---|---|---|---|"
    )
    clock = Clock()
    for name, how in {
        "dense": {"mode": "dense", "rerank": False},
        "lexical": {"mode": "lexical"},
        "hybrid": {"rerank": False},
        "hybrid, filter keeps 1 %": {"filter": "kind=rare", "rerank": False},
        "hybrid, re-ranked": {},
    }.items():
        print(
            f"| {name} | {clock.measure(lambda question, how=how: engine.search(question, **how), questions)} |"
        )
    engine.search_many(questions[:256], rerank=False)  # loads what encodes batches
    began = time.perf_counter()
    for start in range(0, 256 * 2, 256):
        engine.search_many(
            [questions[i % len(questions)] for i in range(start, start + 256)], rerank=False
        )
    print(
        f"\nbatches of 256, hybrid: {1e3 * (time.perf_counter() - began) / 512:.2f} ms per question"
    )


class Clock:
    """Times whole searches and the steps in them."""

    def __init__(self) -> None:
        """Put a stop-watch around each step."""
        self.spent: dict[str, float] = defaultdict(float)
        self._watch(LandmarkEncoder, "encode_queries", "encoder")
        self._watch(VectorFile, "search", "faiss")
        self._watch(VectorFile, "read", "faiss")
        self._watch(Snapshot, "find_terms", "lexical")
        self._watch(Snapshot, "search_lexical", "lexical")
        self._watch(Snapshot, "score_documents", "lexical")

    def _watch(self, owner: type, method: str, step: str) -> None:
        inner = getattr(owner, method)

        def timed(*arguments, **options):
            began = time.perf_counter()
            try:
                return inner(*arguments, **options)
            finally:
                self.spent[step] += time.perf_counter() - began

        setattr(owner, method, timed)

    def measure(self, search, questions: list[str]) -> str:
        """Return a row: p50 and p99 of the whole, p50 of each step."""
        rows = []
        for question in questions[:20] + questions:
            self.spent.clear()
            began = time.perf_counter()
            search(question)
            total = time.perf_counter() - began
            steps = [self.spent[step] for step in ("encoder", "faiss", "lexical")]
            rows.append([total, *steps, total - sum(steps)])
        table = 1e3 * np.array(rows[20:])
        cells = [
            statistics.median(table[:, 0]),
            np.percentile(table[:, 0], 99),
            *np.median(table[:, 1:], axis=0),
        ]
        return " | ".join(f"{cell:.2f}" for cell in cells)


def read_questions(data: Path) -> list[str]:
    """Some questions of every set in turn."""
    paths = sorted(data.glob("*/queries.jsonl.gz"))
    questions = [[query.query for query in load_dataset(path.parent).queries] for path in paths]
    return [question for row in zip(*questions, strict=False) for question in row][:QUESTIONS]


def build(path: Path, data: Path, total: int) -> None:
    """Write an index of ``total`` sentences, documents repeated under new names."""
    texts = []
    for file in sorted(data.glob("*/docs.jsonl.gz")):
        texts += [
            document.text[:CHARACTERS] for document in islice(iter_documents(file.parent), 40)
        ]
    documents = [(text, split_sentences(text)) for text in texts]
    rng = np.random.default_rng(0)
    store = IndexStore.create(path, encoder=LandmarkEncoder.load().spec)
    done = number = 0
    with store.writing():
        while done < total:
            staged, rows = [], 0
            while rows < BATCH and done + rows < total:
                text, sentences = documents[number % len(documents)]
                kind = "text" if number % RARE else "rare"
                name = f"document-{number}"
                document = Document(name, name, text, kind=kind, fingerprint=str(number))
                staged.append(
                    Staged(document, text, SentenceTable.of(sentences), "", (len(text), 0))
                )
                rows, number = rows + len(sentences), number + 1
            vectors = rng.standard_normal((rows, store.encoder.dimensions)).astype(np.float32)
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            store.commit(staged, [store.stage_segment([vectors], *build_tables(staged))])
            done += rows
        store.compact()
    store.close()


if __name__ == "__main__":
    main()
