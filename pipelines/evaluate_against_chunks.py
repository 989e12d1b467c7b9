"""Measure lmkrag against chunk-based retrieval on labelled questions of your own.

    pip install 'lmkrag[eval]'
    python pipelines/evaluate_against_chunks.py questions.jsonl docs/ --out report

``questions.jsonl`` has one {"query", "doc", "evidence": ["exact words of the document", ...]} a line; ``docs/`` holds
the documents. The job writes them in the data format and runs ``lmkrag eval``, which prints tables and leaves
``report/report.md``. On our sample (tests/data/questions.jsonl, tests/data/corpus) it begins

    Average over 1 sets (18 questions), in %; budgets 500 / 1000 / 2000 / 4000 characters
"""  # noqa: E501

import argparse
import json
import subprocess
import sys
from pathlib import Path

from lmkrag.evaluation.dataset import write_records


def main() -> None:
    """Convert, then evaluate."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("questions", type=Path)
    parser.add_argument("documents", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--against", default="recursive:200,sentence:3")
    options = parser.parse_args()
    texts: dict[str, str] = {}
    queries = []
    for number, line in enumerate(options.questions.read_text("utf-8").splitlines()):
        record = json.loads(line)
        doc_id = record["doc"]
        text = texts.setdefault(doc_id, (options.documents / doc_id).read_text("utf-8"))
        spans = [
            [text.index(quote), text.index(quote) + len(quote)] for quote in record["evidence"]
        ]
        queries.append(
            {"query_id": str(number), "query": record["query"], "doc_id": doc_id, "spans": spans}
        )
    folder = options.out / "set"
    folder.mkdir(parents=True, exist_ok=True)
    documents = ({"doc_id": name, "title": name, "text": text} for name, text in texts.items())
    write_records(folder / "docs.jsonl.gz", documents)
    write_records(folder / "queries.jsonl.gz", queries)
    command = [
        sys.executable,
        "-P",
        "-m",
        "lmkrag",
        "eval",
        str(folder),
        "--against",
        options.against,
        "--out",
        options.out,
    ]
    sys.exit(subprocess.run(command, check=False).returncode)


if __name__ == "__main__":
    main()
