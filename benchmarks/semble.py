"""lmkrag on the public code benchmark of MinishLab/semble: are the files that a question is about among ten results?

    git clone https://github.com/MinishLab/semble
    python benchmarks/semble.py semble/benchmarks REPOS [--only gin,serde] [--whole] [--work DIR] [--misses]

ANNOTATIONS is a folder below which lie ``repos.json`` and one ``NAME.json`` a repository; REPOS has a checkout ``NAME``
of each, at the revision that ``repos.json`` pins or a near one. Repositories without a checkout are left out. Indexes
the folder that the benchmark searches, or with ``--whole`` the whole checkout, as a user would. Prints NDCG@10 by the
benchmark's own rule for lmkrag as it is, for source code alone with one result a file (``kind=code``), for BM25 over
blocks of lines, and what the benchmark publishes for the same repositories: its figures are of the pinned revisions.
Never choose anything by express, cobra, rack, chi and axum: they are for measuring.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from code_search import BlockSearch

from lmkrag import Engine

TOP = 10
CATEGORIES = ("architecture", "semantic", "symbol")
PUBLISHED = {  # results/: semble-hybrid-0332378809c5, colgrep-0332378809c5, ck-2e3d2dd2cf8e
    "aiohttp": (0.852, 0.763, 0.669),
    "axum": (0.801, 0.695, 0.469),
    "chi": (0.867, 0.743, 0.300),
    "cobra": (0.959, 0.847, 0.592),
    "express": (0.964, 0.910, 0.913),
    "fastapi": (0.787, 0.717, 0.648),
    "fmtlib": (0.935, 0.733, 0.784),
    "gin": (0.860, 0.766, 0.481),
    "gson": (0.917, 0.588, 0.540),
    "libuv": (0.615, 0.614, 0.490),
    "model2vec": (0.693, 0.807, 0.538),
    "nlohmann-json": (0.862, 0.805, 0.632),
    "pydantic": (0.792, 0.549, 0.514),
    "rack": (0.893, 0.737, 0.814),
    "serde": (0.815, 0.547, 0.345),
    "sinatra": (0.953, 0.830, 0.982),
    "tokio": (0.953, 0.743, 0.442),
}


class Place(NamedTuple):
    """Lines ``first`` to ``last`` of a file, from 1; all of it without them."""

    path: str
    first: int | None = None
    last: int | None = None


class Question(NamedTuple):
    """A question, its category, and the places that it is about."""

    text: str
    category: str
    targets: list[Place]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("annotations", type=Path)
    parser.add_argument("repos", type=Path)
    parser.add_argument("--only", default="", help="names of repositories, divided by commas")
    parser.add_argument("--whole", action="store_true", help="index the whole checkout")
    parser.add_argument("--work", type=Path, help="where indexes are kept, and brought up to date")
    parser.add_argument(
        "--misses", action="store_true", help="print the questions whose first result is wrong"
    )
    options = parser.parse_args()
    specs = json.loads(next(options.annotations.rglob("repos.json")).read_text("utf-8"))
    only = set(filter(None, options.only.split(",")))
    specs = [
        spec
        for spec in specs
        if (options.repos / spec["name"]).is_dir() and (not only or spec["name"] in only)
    ]
    rows: dict[str, list[list[float]]] = {}
    questions: list[list[Question]] = []
    with tempfile.TemporaryDirectory() as temporary:
        for spec in specs:
            name = spec["name"]
            questions.append(read_questions(next(options.annotations.rglob(f"{name}.json"))))
            folder = (
                options.repos / name / ("" if options.whole else spec.get("benchmark_root") or "")
            )
            for system, found in search(
                folder, questions[-1], (options.work or Path(temporary)) / name
            ):
                root = folder.relative_to(options.repos / name)
                found = [
                    [place._replace(path=(root / place.path).as_posix()) for place in places]
                    for places in found
                ]
                scores = [
                    score(places, one.targets)
                    for places, one in zip(found, questions[-1], strict=True)
                ]
                rows.setdefault(system, []).append(scores)
                if options.misses and system == "lmkrag":
                    print_misses(questions[-1], found, scores)
            print(
                f"{name}: "
                + ", ".join(
                    f"{np.mean(scores[-1]):.3f} {system}" for system, scores in rows.items()
                ),
                flush=True,
            )
    print_table([spec["name"] for spec in specs], questions, rows)


def read_questions(path: Path) -> list[Question]:
    """Read the questions about a repository."""

    def read(target: str | dict[str, str]) -> Place:
        if isinstance(target, str):
            return Place(target)
        lines = [int(target[name]) for name in ("start_line", "end_line") if name in target]
        return Place(target["path"], *lines)

    return [
        Question(
            one["query"],
            one["category"],
            [*map(read, one["relevant"]), *map(read, one.get("secondary", []))],
        )
        for one in json.loads(path.read_text("utf-8"))
    ]


def search(
    folder: Path, questions: Sequence[Question], index: Path
) -> Iterator[tuple[str, list[list[Place]]]]:
    """Yield each system, and its results for each question."""
    with Engine.open(index, create=True) as engine:
        engine.add(folder)
        for name, choice in (
            ("lmkrag", {}),
            ("lmkrag, kind=code", {"filter": "kind=code", "per_document": 1}),
        ):
            spans = [engine.search(one.text, top_k=TOP, **choice) for one in questions]  # type: ignore[arg-type]
            yield name, [[Place(s.doc_id, s.line, s.last_line) for s in result] for result in spans]
        documents = [engine.document(info.doc_id) for info in engine.documents(filter="kind=code")]
    blocks, texts = (
        BlockSearch(documents),
        {document.doc_id: document.text for document in documents},
    )
    yield (
        "BM25, 30 lines",
        [
            [
                Place(name, *(1 + texts[name].count("\n", 0, at) for at in (start, end - 1)))
                for name, start, end in result
            ]
            for result in (blocks.search(one.text) for one in questions)
        ],
    )


def score(found: Sequence[Place], targets: Sequence[Place]) -> float:
    """NDCG@10 as the benchmark has it: of each target, the first result that meets it.

    >>> round(score([Place("a.py", 5, 9), Place("src/b.py", 1, 4)], [Place("lib/src/b.py", 4, 8), Place("a.py")]), 3)
    1.0
    """
    ranks = {
        next((rank for rank, one in enumerate(found, 1) if meets(one, target)), 0)
        for target in targets
    }
    ideal = sum(1 / np.log2(rank + 1) for rank in range(1, min(TOP, len(targets)) + 1))
    return float(sum(1 / np.log2(rank + 1) for rank in ranks if 0 < rank <= TOP) / ideal)


def meets(result: Place, target: Place) -> bool:
    """Whether a result is of a target's file (one path may end with the other) and has one of its lines."""
    same = (
        result.path == target.path
        or result.path.endswith(f"/{target.path}")
        or target.path.endswith(f"/{result.path}")
    )
    if (
        not same
        or target.first is None
        or target.last is None
        or result.first is None
        or result.last is None
    ):
        return same
    return result.first <= target.last and target.first <= result.last


def print_misses(
    questions: Sequence[Question], found: Sequence[Sequence[Place]], scores: Sequence[float]
) -> None:
    """Print the questions that have not all their places first."""
    for question, places, gain in zip(questions, found, scores, strict=True):
        if gain < 1:
            print(
                f"{gain:.2f} {question.text}: {', '.join(target.path for target in question.targets)}"
            )
            print("     " + " ".join(f"{place.path}:{place.first}" for place in places[:6]))


def print_table(
    names: Sequence[str],
    questions: Sequence[Sequence[Question]],
    rows: dict[str, list[list[float]]],
) -> None:
    """Print the mean of each system by repository, by category and over all questions."""
    categories = np.array([one.category for asked in questions for one in asked])
    print(f"\n{len(categories)} questions\n")
    print("| NDCG@10 | " + " | ".join((*names, *CATEGORIES, "all questions")) + " |")
    print("|---" * (len(names) + len(CATEGORIES) + 2) + "|")
    for system, scores in rows.items():
        every = np.concatenate(scores)
        cells = [
            *map(np.mean, scores),
            *(every[categories == one].mean() for one in CATEGORIES),
            every.mean(),
        ]
        print(f"| {system} | " + " | ".join(f"{cell:.3f}" for cell in cells) + " |")
    counts = [len(asked) for asked in questions]
    for number, system in enumerate(("semble", "ColGREP", "ck")):
        published = [
            PUBLISHED[name][number] if name in PUBLISHED else float("nan") for name in names
        ]
        cells = [f"{value:.3f}" for value in published] + ["-"] * len(CATEGORIES)
        print(
            f"| {system}, published | "
            + " | ".join([*cells, f"{np.average(published, weights=counts):.3f}"])
            + " |"
        )


if __name__ == "__main__":
    main()
