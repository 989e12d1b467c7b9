"""Do headings lead to what they head?

    python benchmarks/headings.py ../shared/data/dev [--plain] [--sets peps,rfcs,eips,rustbook] [--characters 350000]

The questions of these sets are headings that were taken out of their documents; here they are put back where they were,
as Markdown or (``--plain``) as lines like any other, so that the heading itself is found first and what it heads is the
evidence. Prints the recall of the evidence at 500, 1,000, 2,000 and 4,000 characters through the engine, and how many
first spans are only a heading.

    python benchmarks/headings.py FOLDER --marked

FOLDER has a folder a kind of text, with files and beside each a ``NAME.marks`` that has its true headings, a line each,
equal ones as often as they occur. Prints the precision and the recall of the headings that are found, by kind.
"""

import argparse
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np

from lmkrag import Document, Engine
from lmkrag.evaluation.dataset import Dataset, load_dataset
from lmkrag.evaluation.metrics import macro_interval, overlap_at
from lmkrag.formats.load import load_document
from lmkrag.index.searchable import Description
from lmkrag.index.snapshot import Snapshot
from lmkrag.sentences.split import split_sentences
from lmkrag.training.validation import sample_dataset


def without_roles(*asked, describe: Callable[..., Description] = Snapshot.describe) -> Description:
    """As if each sentence had content of its own and none led to the next."""
    described = describe(*asked)
    return described._replace(roles=np.zeros_like(described.roles))


RULES = {
    "headings and colons lead (shipped)": Snapshot.describe,
    "any sentence alone": without_roles,
}


def put_back(dataset: Dataset, markup: str) -> tuple[Dataset, set[str]]:
    """Return the set with each question's heading before its evidence, and the headings."""
    documents, moved, every = [], {}, set()
    for document in dataset.documents:
        asked = [query for query in dataset.queries if query.doc_id == document.doc_id]
        headings = {
            query.spans[0][0]: f"{markup}{query.query.removeprefix(f'{document.title}: ')}\n\n"
            for query in asked
        }
        every.update(heading.strip() for heading in headings.values())
        text = document.text
        for place in sorted(headings, reverse=True):
            text = text[:place] + headings[place] + text[place:]
        documents.append(Document(document.doc_id, document.path, text, document.title))
        for query in asked:
            ((start, end),) = query.spans
            before = sum(len(heading) for place, heading in headings.items() if place <= start)
            inside = sum(len(heading) for place, heading in headings.items() if start < place < end)
            moved[query.query_id] = replace(query, spans=((start + before, end + before + inside),))
    queries = tuple(moved[query.query_id] for query in dataset.queries)
    return replace(dataset, documents=tuple(documents), queries=queries), every


def measure(engine: Engine, dataset: Dataset, headings: set[str]) -> tuple[np.ndarray, float]:
    """Return the recall ``[questions, budgets]``, and the share of first spans that are headings and nothing else."""
    rows, bare = [], 0
    for query in dataset.queries:
        spans = engine.search(query.query, top_k=60)
        bare += all(line.strip() in headings for line in spans[0].text.splitlines() if line.strip())
        found = [(span.doc_id, span.start, span.end) for span in spans]
        rows.append(
            [overlap.recall for overlap in overlap_at(found, [(query.doc_id, *query.spans[0])])]
        )
    return np.array(rows), bare / len(rows)


def find_headings(path: Path) -> Counter[str]:
    """The headings of a file, without markup and lines below them."""
    document = load_document(path, path.name)
    sentences = split_sentences(document.text, kind=document.kind)
    headings = (
        document.text[one.start : one.end].strip() for one in sentences if one.kind == "heading"
    )
    return Counter(
        " ".join(heading.splitlines()[0].split()).strip("#*_=¶ \ufeff") for heading in headings
    )


def print_marked(folder: Path) -> None:
    """Print precision and recall by kind of text."""
    print("| texts | files | found | precision | true | recall |\n|---|---|---|---|---|---|")
    counts = {}
    for kind in sorted(path for path in folder.iterdir() if path.is_dir()):
        marks = sorted(kind.glob("*.marks"))
        pairs = [
            (find_headings(mark.with_suffix("")), Counter(mark.read_text().splitlines()))
            for mark in marks
        ]
        right = sum((found & true).total() for found, true in pairs)
        counts[kind.name] = np.array(
            [
                len(marks),
                right,
                *(sum(c.total() for c in side) for side in zip(*pairs, strict=True)),
            ]
        )
    for name, (files, right, found, true) in {**counts, "all": sum(counts.values())}.items():
        print(f"| {name} | {files} | {found} | {right / found:.1%} | {true} | {right / true:.1%} |")


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", default="peps,rfcs,eips,rustbook")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--characters", type=int, default=350_000)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--marked", action="store_true")
    options = parser.parse_args()
    if options.marked:
        print_marked(options.data)
        return
    table: list[list[np.ndarray]] = [[] for _ in RULES]
    print("| set | rule | recall | first spans that are a heading alone |\n|---|---|---|---|")
    for name in options.sets.split(","):
        sample = sample_dataset(
            load_dataset(options.data / name), options.characters, options.questions
        )
        dataset, headings = put_back(sample, "" if options.plain else "## ")
        with (
            tempfile.TemporaryDirectory() as folder,
            Engine.open(f"{folder}/index", create=True) as engine,
        ):
            engine.add(dataset.documents)
            for (rule, describe), rows in zip(RULES.items(), table, strict=True):
                with patch.object(Snapshot, "describe", describe):
                    recall, bare = measure(engine, dataset, headings)
                rows.append(recall)
                print(f"| {name} | {rule} | {_cells(recall.mean(0))} | {bare:.0%} |", flush=True)
    for rule, rows in zip(RULES, table, strict=True):
        print(f"| all | {rule} | {_cells(np.mean([row.mean(0) for row in rows], axis=0))} | |")
    gains = [100 * (one - other)[:, :3].mean(1) for one, other in zip(*table, strict=True)]
    mean, low, high = macro_interval(gains)
    print(
        f"\nMean of the first three budgets: {mean:+.1f} [{low:+.1f}, {high:+.1f}] (paired bootstrap, 95 %)"
    )


def _cells(recall: np.ndarray) -> str:
    return " / ".join(f"{100 * value:.1f}" for value in recall)


if __name__ == "__main__":
    main()
