"""Compare an index on Qdrant with the directory it was copied from: the same spans, in the same order?

    python benchmarks/qdrant.py /data/dev/covidqa /data/dev/policyqa --documents 20 --questions 20
    python benchmarks/qdrant.py /data/dev/covidqa --address qdrant://localhost:6333

Without an address the index is in qdrant-client's local mode, whose times say nothing about a server's. Counts the
calls of a search, but not those that read new entries of the log, and the bytes of arguments and replies as JSON.
"""

import argparse
import collections
import contextlib
import gzip
import json
import os
import tempfile
import uuid
from pathlib import Path
from statistics import mean, median

os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp()

from lmkrag import Document, Engine, LandmarkEncoder
from lmkrag.index.copying import copy_documents
from lmkrag.index.store import IndexStore
from lmkrag.qdrant.connection import Connection
from lmkrag.qdrant.store import QdrantStore

MODES = ("hybrid", "dense", "lexical")


def read(path: Path) -> list[dict]:
    """The records of a compressed file of JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def size(value: object) -> int:
    """The bytes of a value as JSON."""
    return len(
        json.dumps(
            value,
            default=lambda item: item.model_dump() if hasattr(item, "model_dump") else str(item),
        )
    )


def main() -> None:
    """Print a line for each set and way to search."""
    parser = argparse.ArgumentParser()
    parser.add_argument("sets", nargs="+", type=Path)
    parser.add_argument("--documents", type=int, default=20)
    parser.add_argument("--questions", type=int, default=20)
    parser.add_argument(
        "--rerank", type=int, default=4, help="questions that are searched with re-ranking, too"
    )
    parser.add_argument("--address", default="qdrant://:memory:")
    arguments = parser.parse_args()
    encoder = LandmarkEncoder.load()
    calls: list[tuple[int, int]] = []
    real = Connection.call

    def call(self: Connection, method: str, *values: object, **options: object) -> object:
        reply = real(self, method, *values, **options)
        if method == "query_batch_points":
            calls.append((size([*values, options]), size(reply)))
        return reply

    Connection.call = call
    for folder in arguments.sets:
        documents = read(folder / "docs.jsonl.gz")[: arguments.documents]
        names = {document["doc_id"] for document in documents}
        questions = [
            query["query"]
            for query in read(folder / "queries.jsonl.gz")
            if query["doc_id"] in names
        ]
        questions = questions[:: max(1, len(questions) // arguments.questions)][
            : arguments.questions
        ]
        path, address = (
            f"{tempfile.mkdtemp()}/index",
            f"{arguments.address}/bench-{uuid.uuid4().hex[:8]}",
        )
        with Engine.open(path, create=True, encoder=encoder) as here:
            here.add(
                [Document(d["doc_id"], text=d["text"], title=d.get("title", "")) for d in documents]
            )
            sentences = here.status().sentences
            with contextlib.closing(IndexStore.open(Path(path))) as old:
                store = QdrantStore.create(Path(address), encoder=old.encoder)
                copy_documents(old, store)
            with Engine(store, encoder) as there:
                first = min(names)
                runs = [({"mode": mode, "rerank": False}, questions) for mode in MODES]
                runs += [({"level": "sentence", "rerank": False}, questions)]
                runs += [({"filter": f'not doc_id="{first}"', "rerank": False}, questions)]
                runs += [({"rerank": True}, questions[: arguments.rerank])]
                for options, sample in runs:
                    same, counts, moved, difference = 0, [], [], 0.0
                    for question in sample:
                        calls.clear()
                        spans = there.search(question, **options)
                        counts.append(len(calls))
                        moved.append(sum(sent + got for sent, got in calls))
                        expected = here.search(question, **options)
                        same += [(s.doc_id, s.start, s.end) for s in spans] == [
                            (s.doc_id, s.start, s.end) for s in expected
                        ]
                        pairs = zip(spans, expected, strict=False)
                        difference = max(
                            [difference, *(abs(span.score - other.score) for span, other in pairs)]
                        )
                    print(
                        f"{folder.name}: {len(names)} documents, {sentences} sentences; {options}: "
                        f"{same} of {len(sample)} the same, scores differ by {difference:.0e} at most; calls "
                        f"{mean(counts):.1f} {dict(sorted(collections.Counter(counts).items()))}, "
                        f"{median(moved) / 1000:.0f} kB",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
