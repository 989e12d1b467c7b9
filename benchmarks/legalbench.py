"""lmkrag, SQLite's FTS5 and chunks on LegalBench-RAG (Pipitone and Houir Alami, 2024): is the clause found?

    python benchmarks/legalbench.py DATA [--sets contractnli,privacy_qa,maud] [--questions 200]
        [--against recursive:200] [--cross-encoder DIR] [--work DIR]

DATA is the benchmark's folder, with ``benchmarks/NAME.json`` and ``corpus/`` (github.com/zeroentropy-ai/legalbenchrag),
or one in the format of `lmkrag eval`, whose documents are then the corpus. All documents of the sets are one index.
Prints, in %, the benchmark's own precision and recall of the first 1 to 64 results, the recall within 500 to 4,000
characters, and how often the first result is of the right document. `cuad` is left out: lmkrag has learnt from it.
"""

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rivals import Find, search_chunks, search_fts5

from lmkrag import Document, Engine
from lmkrag.evaluation.dataset import draw_sample, load_dataset
from lmkrag.evaluation.metrics import BUDGETS, Piece, overlap_at

RESULTS = (1, 2, 4, 8, 16, 32, 64)


class Question(NamedTuple):
    """A question and the characters that answer it."""

    text: str
    snippets: list[Piece]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", default="contractnli,privacy_qa,maud")
    parser.add_argument("--questions", type=int, default=200, help="of each set, drawn at random")
    parser.add_argument("--against", default="recursive:200", help="chunks, divided by commas")
    parser.add_argument("--cross-encoder", default="", help="that re-ranks the best 30 chunks")
    parser.add_argument("--work", type=Path, help="where the index is kept")
    options = parser.parse_args()
    documents, questions = read_data(options.data, options.sets.split(","), options.questions)
    size = sum(len(document.text) for document in documents)
    print(f"{len(documents)} documents, {size:,} characters, {len(questions)} questions\n")
    print(
        "| system | "
        + " | ".join(f"@{count}" for count in RESULTS)
        + f" | {' / '.join(map(str, BUDGETS))} | document |"
    )
    print("|---" * (len(RESULTS) + 3) + "|")
    with (
        tempfile.TemporaryDirectory() as temporary,
        Engine.open(options.work or temporary, create=True) as engine,
    ):
        engine.add(documents)
        for level in ("passage", "span"):
            print(measure(f"lmkrag, {level}s", find_by(engine, level), questions), flush=True)
    for characters in (200, 500):
        print(
            measure(f"FTS5, porter, {characters}", search_fts5(documents, characters), questions),
            flush=True,
        )
    for name in filter(None, options.against.split(",")):
        print(measure(name, search_chunks(documents, name), questions), flush=True)
        find = search_chunks(documents, name, words=True, reranker=options.cross_encoder)
        print(
            measure(
                f"{name} and BM25" + ", re-ranked" * bool(options.cross_encoder), find, questions
            ),
            flush=True,
        )


def find_by(engine: Engine, level: str) -> Find:
    """Return the function that searches lmkrag."""

    def find(question: str) -> list[Piece]:
        spans = engine.search(question, top_k=max(RESULTS), level=level)  # type: ignore[arg-type]
        return [(span.doc_id, span.start, span.end) for span in spans]

    return find


def read_data(path: Path, names: Sequence[str], most: int) -> tuple[list[Document], list[Question]]:
    """Read the documents of some sets, and at most ``most`` questions of each."""
    if not (path / "benchmarks").is_dir():
        dataset = load_dataset(path)
        queries = draw_sample([query for query in dataset.queries if query.spans], most)
        return list(dataset.documents), [
            Question(q.query, [(q.doc_id, *span) for span in q.spans]) for q in queries
        ]
    questions: list[Question] = []
    files: set[str] = set()
    for name in names:
        tests = json.loads((path / "benchmarks" / f"{name}.json").read_text("utf-8"))["tests"]
        pool = [
            Question(
                test["query"], [(part["file_path"], *part["span"]) for part in test["snippets"]]
            )
            for test in tests
        ]
        files |= {file for question in pool for file, _, _ in question.snippets}
        questions += draw_sample(pool, most)
    texts = {file: (path / "corpus" / file).read_text("utf-8") for file in sorted(files)}
    return [
        Document(file, file, text, Path(file).stem, "text") for file, text in texts.items()
    ], questions


def score(pieces: Sequence[Piece], snippets: Sequence[Piece]) -> tuple[float, float]:
    """Return the precision and recall of the benchmark, which counts a character twice if two results have it.

    >>> score([("a", 0, 10), ("b", 0, 10)], [("a", 5, 25)])
    (0.25, 0.25)
    """
    common = sum(
        max(0, min(end, stop) - max(start, first))
        for name, start, end in pieces
        for other, first, stop in snippets
        if name == other
    )
    retrieved = sum(end - start for _, start, end in pieces)
    relevant = sum(end - start for _, start, end in snippets)
    return common / retrieved if retrieved else 0.0, common / relevant if relevant else 0.0


def measure(name: str, find: Find, questions: Sequence[Question]) -> str:
    """Return a row of the table."""
    rows = []
    for question in questions:
        pieces = find(question.text)
        scores = [score(pieces[:count], question.snippets) for count in RESULTS]
        within = [overlap.raw for overlap in overlap_at(pieces, question.snippets)]
        right = bool(pieces) and pieces[0][0] in {file for file, _, _ in question.snippets}
        rows.append([*(value for pair in scores for value in pair), *within, right])
    means = 100 * np.mean(rows, axis=0)
    cells = [f"{means[2 * i]:.1f} / {means[2 * i + 1]:.1f}" for i in range(len(RESULTS))]
    cells.append(" / ".join(f"{value:.1f}" for value in means[2 * len(RESULTS) : -1]))
    return f"| {name} | " + " | ".join([*cells, f"{means[-1]:.1f}"]) + " |"


if __name__ == "__main__":
    main()
