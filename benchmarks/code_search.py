"""How well does a search find a function by what it does, and by its name in words?

    python benchmarks/code_search.py [--packages 40] [--files 3] [--functions 2] [--against recursive:200] [--seeds 7]

Takes functions with docstrings from the packages that are installed beside lmkrag. Files are indexed without their
docstrings; the questions are first lines of docstrings without markup and without the function's name, and names of
three words and more, written as words. Prints NDCG@10, how often the first result is right and how often one of the
first ten is, in %: for lmkrag as it is, with all places of a file instead of the best, and with the re-ranker (which
does not re-rank code by default), for BM25 over blocks of lines, files by their number of matching lines (`grep -c`),
and chunks. Then the paired bootstrap of NDCG@10 against each.
"""

import argparse
import ast
import random
import re
import sysconfig
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lmkrag import Document, Engine
from lmkrag.evaluation.baselines import Baseline
from lmkrag.evaluation.metrics import paired_interval
from lmkrag.index.words.lexical import inverse_document_frequency

TOP = 10
LINES = 30  # of a block of BM25
MOST = 60_000  # bytes of a file
SKIPPED = ("lmkrag", "test", "tests", "_", "pip", "setuptools")
MARKUP = re.compile(r":\w+:`~?([^`]*)`|``?([^`]*)``?|\*\*?([^*]*)\*\*?")
PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

Piece = tuple[str, int, int]  # document, first character, after the last


class Question(NamedTuple):
    """A question, its kind, and the function that answers it."""

    text: str
    kind: str
    answer: Piece


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--packages", type=int, default=40)
    parser.add_argument("--files", type=int, default=3, help="of each package")
    parser.add_argument("--functions", type=int, default=2, help="of each file")
    parser.add_argument("--against", default="recursive:200", help="chunks, divided by commas")
    parser.add_argument(
        "--seeds",
        default="7",
        help="of what is drawn, divided by commas; all questions count together",
    )
    parser.add_argument("--encoder", help="in place of the default")
    options = parser.parse_args()
    questions: list[Question] = []
    systems: dict[str, list[int]] = {}
    for seed in map(int, options.seeds.split(",")):
        documents, sample = collect(options.packages, options.files, options.functions, seed)
        size = sum(len(document.text) for document in documents)
        print(
            f"seed {seed}: {len(documents)} files, {size:,} characters, {len(sample)} questions",
            flush=True,
        )
        questions += sample
        for name, ranks in search_all(documents, sample, options):
            systems.setdefault(name, []).extend(ranks)
    print_tables(questions, systems)


def search_all(
    documents: Sequence[Document], questions: Sequence[Question], options: argparse.Namespace
) -> Iterator[tuple[str, list[int]]]:
    """Yield each system, and the rank of the right result for each question."""
    with (
        tempfile.TemporaryDirectory() as work,
        Engine.open(work, create=True, encoder=options.encoder) as engine,
    ):
        engine.add(documents)
        every: dict[str, Any] = {
            "per_document": TOP
        }  # the function may not be its file's best place
        for name, choice in (
            ("lmkrag", {}),
            ("lmkrag, all of a file", every),
            ("lmkrag, all of a file, re-ranked", {**every, "rerank": True}),
        ):
            spans = (engine.search(question.text, top_k=TOP, **choice) for question in questions)
            results = [[(span.doc_id, span.start, span.end) for span in result] for result in spans]
            yield name, rank_all(questions, results)
    blocks = BlockSearch(documents)
    yield (
        "BM25 over 30 lines",
        rank_all(questions, [blocks.search(question.text) for question in questions]),
    )
    yield (
        "grep -c",
        rank_all(questions, [count_lines(documents, question.text) for question in questions]),
    )
    for name in filter(None, options.against.split(",")):
        baseline = Baseline(name)
        units = list(baseline.encode_documents(documents))
        pieces = [
            (d.doc_id, *bounds)
            for d, unit in zip(documents, units, strict=True)
            for bounds in unit.bounds
        ]
        scores = (
            baseline.encode_queries([question.text for question in questions])
            @ np.concatenate([unit.vectors for unit in units]).T
        )
        best = np.argsort(-scores, axis=1, kind="stable")[:, :TOP]
        yield name, rank_all(questions, [[pieces[i] for i in row] for row in best.tolist()])


def collect(
    packages: int, files: int, functions: int, seed: int
) -> tuple[list[Document], list[Question]]:
    """Return files without docstrings, and questions about their functions."""
    rng = random.Random(seed)
    root = Path(sysconfig.get_path("purelib"))
    folders = sorted(
        path.parent
        for path in root.glob("*/__init__.py")
        if not path.parent.name.startswith(SKIPPED)
    )
    rng.shuffle(folders)
    documents: list[Document] = []
    questions: list[Question] = []
    chosen = 0
    for folder in folders:
        paths = sorted(
            path for path in folder.rglob("*.py") if "test" not in str(path.relative_to(root))
        )
        rng.shuffle(paths)
        taken = 0
        for path in paths:
            if taken == files:
                break
            doc_id = path.relative_to(root).as_posix()
            if path.stat().st_size <= MOST and (
                file := read_functions(path, doc_id, functions, rng)
            ):
                documents.append(Document(doc_id, doc_id, file[0], path.stem, "code"))
                questions += file[1]
                taken += 1
        chosen += taken > 0
        if chosen == packages:
            break
    texts = Counter(question.text for question in questions)
    return documents, [question for question in questions if texts[question.text] == 1]


def read_functions(
    path: Path, doc_id: str, most: int, rng: random.Random
) -> tuple[str, list[Question]] | None:
    """Return a file without its docstrings, and questions about some of its functions; None if it has none."""
    try:
        source = path.read_text("utf-8")
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    lines = source.splitlines(keepends=True)
    dropped: set[int] = set()
    described = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        text = ast.get_docstring(node)
        if text is None:
            continue
        first = node.body[0]
        dropped.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and len(node.body) > 2:
            described.append((node, text))
    starts, code = [0], []
    for number, line in enumerate(lines, 1):
        code.append("" if number in dropped else line)
        starts.append(starts[-1] + len(code[-1]))
    questions: list[Question] = []
    rng.shuffle(described)
    for node, text in described[:most]:
        first_line = MARKUP.sub(
            lambda m: next(filter(None, m.groups()), ""), text.split("\n\n")[0].replace("\n", " ")
        )
        words = [
            word for word in first_line.split() if word.strip("().,`").lower() != node.name.lower()
        ]
        answer = (doc_id, starts[node.lineno - 1], starts[node.end_lineno or node.lineno])
        if 5 <= len(words) <= 20:
            questions.append(Question(" ".join(words).rstrip("."), "what it does", answer))
        name = PARTS.findall(node.name)
        if len(name) >= 3:
            questions.append(Question(" ".join(name).lower(), "its name", answer))
    return ("".join(code), questions) if questions else None


class BlockSearch:
    """BM25 over blocks of lines, identifiers divided into words."""

    def __init__(self, documents: Sequence[Document]) -> None:
        """Divide and count."""
        self.pieces: list[Piece] = []
        self.counts: list[Counter[str]] = []
        for document in documents:
            start = 0
            lines = document.text.splitlines(keepends=True)
            for first in range(0, len(lines), LINES):
                block = "".join(lines[first : first + LINES])
                self.pieces.append((document.doc_id, start, start + len(block)))
                self.counts.append(Counter(split(block)))
                start += len(block)
        self.lengths = np.array([counts.total() for counts in self.counts])

    def search(self, question: str) -> list[Piece]:
        """Return the best blocks, best first."""
        scores = np.zeros(len(self.counts))
        for word in set(split(question)):
            counts = np.array([block[word] for block in self.counts])
            weight = inverse_document_frequency(int((counts > 0).sum()), len(counts))
            scores += (
                weight
                * 2.2
                * counts
                / (counts + 1.2 * (0.25 + 0.75 * self.lengths / self.lengths.mean()))
            )
        return [self.pieces[i] for i in np.argsort(-scores, kind="stable")[:TOP].tolist()]


def split(text: str) -> list[str]:
    """Return the words of a text, identifiers divided."""
    return [part.lower() for part in PARTS.findall(text)]


def count_lines(documents: Sequence[Document], question: str) -> list[Piece]:
    """Rank files by their lines with a word of the question; return the block of each that has most such lines."""
    words = {word for word in split(question) if len(word) > 3}
    results = []
    for document in documents:
        lines = document.text.splitlines(keepends=True)
        matches = np.array([bool(words & set(split(line))) for line in lines], int)
        if not matches.sum():
            continue
        best = int(np.convolve(matches, np.ones(min(LINES, len(lines)), int), "valid").argmax())
        start = sum(map(len, lines[:best]))
        end = start + sum(map(len, lines[best : best + LINES]))
        results.append((int(matches.sum()), (document.doc_id, start, end)))
    return [piece for _, piece in sorted(results, key=lambda result: -result[0])[:TOP]]


def rank_all(questions: Sequence[Question], results: Sequence[Sequence[Piece]]) -> list[int]:
    """Return the rank of the first right result of each question, from 1; 0 where there is none."""
    ranks = []
    for question, pieces in zip(questions, results, strict=True):
        doc_id, low, high = question.answer
        hits = (
            number
            for number, (d, start, end) in enumerate(pieces, 1)
            if d == doc_id and start < high and low < end
        )
        ranks.append(next(hits, 0))
    return ranks


def print_tables(questions: Sequence[Question], systems: dict[str, list[int]]) -> None:
    """Print how each system does, by kind of question, and the differences from the first."""
    kinds = list(dict.fromkeys(question.kind for question in questions))
    gains = {
        name: np.array([1 / np.log2(rank + 1) if rank else 0.0 for rank in systems[name]])
        for name in systems
    }
    print("\n| NDCG@10 / first / in ten | " + " | ".join(kinds) + " |\n|---|" + "---|" * len(kinds))
    for name, ranks in systems.items():
        cells = []
        for kind in kinds:
            mask = np.array([question.kind == kind for question in questions])
            first, ten = np.mean(np.array(ranks)[mask] == 1), np.mean(np.array(ranks)[mask] > 0)
            cells.append(
                f"{100 * np.mean(gains[name][mask]):.1f} / {100 * first:.1f} / {100 * ten:.1f}"
            )
        print(f"| {name} | " + " | ".join(cells) + " |")
    ours, *others = systems
    for name in others:
        mean, low, high = paired_interval(100 * (gains[ours] - gains[name]))
        print(f"{ours} - {name}, NDCG@10: {mean:+.1f} [{low:+.1f}, {high:+.1f}]")


if __name__ == "__main__":
    main()
