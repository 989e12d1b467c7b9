"""Measure lmkrag against chunk-based retrieval on labelled questions of your own.

    pip install 'lmkrag[eval]'
    python pipelines/evaluate_against_chunks.py questions.jsonl docs/ --out report

``questions.jsonl`` has one {"query", "doc", "evidence": ["exact words of the document", ...]} a line; ``docs/`` holds
the documents, in any format that lmkrag reads. The job writes them in the data format and runs ``lmkrag eval``, which
prints tables and leaves ``report/report.md``. On our sample (tests/data/questions.jsonl, tests/data/corpus) it begins

    Average over 1 sets (18 questions), in %; budgets 500 / 1000 / 2000 / 4000 characters
"""  # noqa: E501

import argparse
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from lmkrag.errors import LmkragError, UsageError
from lmkrag.evaluation.dataset import Query, load_documents, read_records, write_dataset


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
    folder = options.out / "set"
    try:
        documents, skipped = load_documents([options.documents])
        for each in skipped:
            print(f"skipped {each.path!r}: {each.reason}", file=sys.stderr)
        texts = {document.doc_id: document.text for document in documents}
        write_dataset(folder, documents, list(read_questions(options.questions, texts)))
    except LmkragError as error:
        sys.exit(f"{Path(__file__).name}: {error}")
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


def read_questions(path: Path, texts: Mapping[str, str]) -> Iterator[Query]:
    """Yield questions with the spans of their evidence, by the texts of all documents."""
    for number, (where, record) in enumerate(read_records(path, {"query", "doc", "evidence"})):
        doc_id, quotes = record["doc"], record["evidence"]
        if doc_id not in texts:
            raise UsageError(f"{where}: there is no document {doc_id!r}")
        if not isinstance(quotes, list) or {*map(type, quotes)} - {str}:
            raise UsageError(f"{where}: 'evidence' must be a list of quotes")
        spans = []
        for quote in quotes:
            start = texts[doc_id].find(quote)
            if not quote or start == -1:
                raise UsageError(f"{where}: {doc_id} does not have the words {quote!r}")
            spans.append((start, start + len(quote)))
        yield Query(str(number), record["query"], doc_id, tuple(spans))


if __name__ == "__main__":
    main()
