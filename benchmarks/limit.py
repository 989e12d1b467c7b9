"""Are both of two documents found by one thing that they list, in the three modes and re-ranked?

    python benchmarks/limit.py DATA [--questions 200]

DATA is LIMIT (Weller et al., "On the Theoretical Limitations of Embedding-Based Retrieval", 2025) in the format of
BEIR: `corpus.jsonl`, `queries.jsonl`, `qrels.jsonl`. Prints recall@2 of documents, in %.
"""

import argparse
import json
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lmkrag import Document, Engine

WAYS: dict[str, dict[str, Any]] = {
    "lexical": {"mode": "lexical"},
    "dense": {"mode": "dense", "rerank": False},
    "hybrid": {"rerank": False},
    "hybrid, re-ranked": {},
}


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--questions", type=int, default=200)
    options = parser.parse_args()
    relevant = defaultdict(set)
    for row in read_rows(options.data / "qrels.jsonl"):
        relevant[row["query-id"]].add(row["corpus-id"])
    questions = [row for row in read_rows(options.data / "queries.jsonl") if row["_id"] in relevant]
    questions = questions[:: max(1, len(questions) // options.questions)][: options.questions]
    with tempfile.TemporaryDirectory() as work, Engine.open(work, create=True) as engine:
        engine.add(
            Document(row["_id"], row["title"], row["text"])
            for row in read_rows(options.data / "corpus.jsonl")
        )
        for name, way in WAYS.items():
            found = total = 0
            for question in questions:
                spans = engine.search(question["text"], top_k=10, **way)
                first = list(dict.fromkeys(span.doc_id for span in spans))[:2]
                found += len(relevant[question["_id"]].intersection(first))
                total += len(relevant[question["_id"]])
            print(f"{name}: {100 * found / total:.1f} of {len(questions)} questions", flush=True)


def read_rows(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file."""
    return map(json.loads, file.read_text("utf-8").splitlines())


if __name__ == "__main__":
    main()
