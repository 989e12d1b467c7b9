"""lmkrag and chunks on the public "chunking_evaluation" benchmark (Smith and Troynikov, Chroma, 2024).

    git clone https://github.com/brandonstarxel/chunking_evaluation
    python benchmarks/chunking_evaluation.py chunking_evaluation [--against recursive:100,recursive:200] [--work DIR]

PATH is a clone, or any folder below which lie ``general_evaluation_data/corpora/*.md`` and ``questions_df.csv``
(question, references as JSON with ``start_index`` and ``end_index``, corpus_id). All corpora are one index. Prints
recall within 500 to 4,000 characters, the benchmark's own recall, precision and IoU of the first five results, and its
published table. Never choose anything by these figures: they are for measuring only.
"""

import argparse
import csv
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lmkrag import Document, Engine
from lmkrag.evaluation.baselines import Baseline
from lmkrag.evaluation.metrics import BUDGETS, Piece, overlap_at

RETRIEVED = 5  # results that the benchmark scores

PUBLISHED = """
| published, text-embedding-3-large | recall | precision | IoU |
|---|---|---|---|
| recursive, 800 tokens, overlap 400 | 85.4 | 1.5 | 1.5 |
| tokens, 800, overlap 400 | 87.9 | 1.4 | 1.4 |
| recursive, 400 tokens | 89.5 | 3.6 | 3.6 |
| recursive, 200 tokens | 88.1 | 7.0 | 6.9 |
| tokens, 200 | 87.0 | 5.2 | 5.1 |
| Kamradt's semantic chunker | 83.6 | 1.5 | 1.5 |
| cluster, 400 tokens | 91.3 | 4.5 | 4.5 |
| cluster, 200 tokens | 87.3 | 8.0 | 8.0 |
| chunks by GPT-4o | 91.9 | 3.9 | 3.9 |
"""


class Question(NamedTuple):
    """A question and the characters that answer it."""

    text: str
    references: list[Piece]


class Scores(NamedTuple):
    """The benchmark's measures of one question."""

    recall: float
    precision: float
    iou: float


def read_benchmark(path: Path) -> tuple[list[Document], list[Question]]:
    """Read the corpora and questions below a folder."""
    csv.field_size_limit(sys.maxsize)
    (table,) = path.rglob("questions_df.csv")
    texts = {
        file.stem: file.read_text("utf-8")
        for file in sorted((table.parent / "corpora").glob("*.md"))
    }
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    questions = [
        Question(
            row["question"],
            [
                (row["corpus_id"], int(reference["start_index"]), int(reference["end_index"]))
                for reference in json.loads(row["references"])
            ],
        )
        for row in rows
    ]
    return [
        Document(name, f"{name}.md", text, name, "markdown") for name, text in texts.items()
    ], questions


def score(retrieved: Sequence[Piece], references: Sequence[Piece]) -> Scores:
    """Score the first results as the benchmark does: a character that is retrieved twice costs twice.

    >>> score([("a", 0, 100), ("a", 50, 150), ("b", 0, 100)], [("a", 90, 110), ("a", 200, 220)])
    Scores(recall=0.5, precision=0.06666666666666667, iou=0.0625)
    """
    gold = {(name, position) for name, start, end in references for position in range(start, end)}
    common = {
        (name, position) for name, start, end in retrieved for position in range(start, end)
    } & gold
    size = sum(end - start for _, start, end in retrieved)
    length = sum(end - start for _, start, end in references)
    return Scores(
        len(common) / length if length else 0.0,
        len(common) / size if size else 0.0,
        len(common) / (size + len(gold) - len(common)) if gold else 0.0,
    )


def measure(name: str, find: Callable[[str], list[Piece]], questions: Sequence[Question]) -> str:
    """Return a row of the table; ``find`` returns enough results for 4,000 characters, best first."""
    rows = []
    for question in questions:
        pieces = find(question.text)
        within = [overlap.recall for overlap in overlap_at(pieces, question.references)]
        rows.append([*within, *score(pieces[:RETRIEVED], question.references)])
    means = 100 * np.mean(rows, axis=0)
    return f"| {name} | " + " | ".join(f"{value:.1f}" for value in means) + " |"


def search_spans(
    documents: list[Document], folder: Path
) -> dict[str, Callable[[str], list[Piece]]]:
    """Return functions that search lmkrag: for spans, for passages, and for spans without re-ranking."""
    engine = Engine.open(folder, create=True)
    engine.add(documents)

    def finder(**options: object) -> Callable[[str], list[Piece]]:
        def find(question: str) -> list[Piece]:
            spans = engine.search(question, top_k=60, **options)  # type: ignore[arg-type]
            return [(span.doc_id, span.start, span.end) for span in spans]

        return find

    return {
        "lmkrag, spans": finder(level="span"),
        "lmkrag, passages": finder(),
        "lmkrag, spans, not re-ranked": finder(level="span", rerank=False),
    }


def search_chunks(name: str, documents: list[Document]) -> Callable[[str], list[Piece]]:
    """Return the function that searches a baseline's chunks."""
    baseline = Baseline(name)
    units = list(baseline.encode_documents(documents))
    pieces = [
        (d.doc_id, *bounds)
        for d, unit in zip(documents, units, strict=True)
        for bounds in unit.bounds
    ]
    vectors = np.concatenate([unit.vectors for unit in units])

    def find(question: str) -> list[Piece]:
        scores = vectors @ baseline.encode_queries([question])[0]
        return [pieces[number] for number in np.argsort(-scores)[:100]]

    return find


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", type=Path)
    parser.add_argument("--against", default="recursive:100,recursive:200")
    parser.add_argument("--work", type=Path)
    options = parser.parse_args()
    documents, questions = read_benchmark(options.path)
    print(f"{len(documents)} corpora, {len(questions)} questions\n")
    budgets = " | ".join(f"recall @ {budget:,}" for budget in BUDGETS)
    print(f"| system | {budgets} | recall of {RETRIEVED} | precision | IoU |")
    print("|---" * (len(BUDGETS) + 4) + "|")
    with tempfile.TemporaryDirectory() as temporary:
        for name, find in search_spans(
            documents, (options.work or Path(temporary)) / "index"
        ).items():
            print(measure(name, find, questions), flush=True)
        for name in filter(None, options.against.split(",")):
            print(measure(name, search_chunks(name, documents), questions), flush=True)
    print(PUBLISHED)


if __name__ == "__main__":
    main()
