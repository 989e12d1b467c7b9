"""Compare an index on Qdrant with the directory it was copied from: the same spans, in the same order?

    python benchmarks/qdrant.py /data/dev/covidqa /data/dev/policyqa --documents 20 --questions 20
    python benchmarks/qdrant.py /data/dev/covidqa --address qdrant://localhost:6333

Without an address it is qdrant-client's local mode, whose times say nothing of a server's. Counted are the calls of a
search and the bytes of their arguments and replies as JSON.
"""

import argparse
import gzip
import json
import tempfile
import time
import uuid
from pathlib import Path
from statistics import median

from lmkrag import Document, Engine, LandmarkEncoder
from lmkrag.ingest.copying import copy_index
from lmkrag.qdrant.connection import Connection

MODES = ("hybrid", "dense", "lexical")


def read(path: Path) -> list[dict]:
    """The records of a compressed file of JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def size(value: object) -> int:
    """The bytes of a value as JSON."""
    return len(json.dumps(value, default=lambda one: one.model_dump() if hasattr(one, "model_dump") else str(one)))


def main() -> None:
    """Print a line for each set and way to search."""
    parser = argparse.ArgumentParser()
    parser.add_argument("sets", nargs="+", type=Path)
    parser.add_argument("--documents", type=int, default=20)
    parser.add_argument("--questions", type=int, default=20)
    parser.add_argument("--address", default="qdrant://:memory:")
    arguments = parser.parse_args()
    encoder = LandmarkEncoder.load()
    calls: list[tuple[int, int]] = []
    real = Connection.call

    def call(self: Connection, method: str, *values: object, **options: object) -> object:
        reply = real(self, method, *values, **options)
        calls.append((size([*values, options]), size(reply)))
        return reply

    Connection.call = call
    for folder in arguments.sets:
        documents = read(folder / "docs.jsonl.gz")[: arguments.documents]
        names = {document["doc_id"] for document in documents}
        questions = [query for query in read(folder / "queries.jsonl.gz") if query["doc_id"] in names]
        questions = questions[:: max(1, len(questions) // arguments.questions)][: arguments.questions]
        path, address = f"{tempfile.mkdtemp()}/index", f"{arguments.address}/bench-{uuid.uuid4().hex[:8]}"
        with Engine.open(path, create=True, encoder=encoder) as here:
            here.add([Document(d["doc_id"], text=d["text"], title=d.get("title", "")) for d in documents])
            copy_index(path, address)
            sentences = here.status().sentences
            with Engine.open(address, encoder=encoder) as there:
                one = sorted(names)[0]
                runs = [{"mode": mode, "rerank": False} for mode in MODES]
                runs += [{"filter": f'not doc_id="{one}"', "rerank": False}, {"rerank": True}]
                for options in runs:
                    same, count, moved, seconds = 0, [], [], []
                    for query in questions:
                        calls.clear()
                        began = time.perf_counter()
                        found = there.search(query["query"], **options)
                        seconds.append(time.perf_counter() - began)
                        count.append(len(calls))
                        moved.append(sum(sent + got for sent, got in calls))
                        expected = here.search(query["query"], **options)
                        same += [(s.doc_id, s.start, s.end) for s in found] == [
                            (s.doc_id, s.start, s.end) for s in expected
                        ] and all(abs(a.score - b.score) < 2e-3 for a, b in zip(found, expected, strict=True))
                    print(
                        f"{folder.name}: {len(names)} documents, {sentences} sentences; {options}: "
                        f"{same} of {len(questions)} the same; calls {median(count):g} (most {max(count)}), "
                        f"{median(moved) / 1000:.0f} kB; {1000 * median(seconds):.0f} ms",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
