"""How many passages are worth re-ranking? Recall against the milliseconds it takes, by depth.

    python benchmarks/depth.py DATA --work DIR [--queries 60] [--depths 0,4,8,10,12,16] [--sets NAMES]
        [--reranker NAME] [--apart] [--plot FILE]

Searches the sets below DATA for spans, overlap 0, with some questions of each. At each depth, that many passages are
re-ranked: only their order changes. Prints recall at 500 to 4,000 characters and the paired bootstrap of the difference
from no re-ranking, each set with the same weight; then the sets that are significantly better or worse. Each passage
is read once for all depths; the time to re-rank is measured separately, on every tenth question.
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from sets import WITHIN

from lmkrag import Engine
from lmkrag.evaluation.dataset import choose_queries, load_dataset
from lmkrag.evaluation.metrics import BUDGETS, macro_interval, overlap_at, paired_interval
from lmkrag.index.store import IndexStore
from lmkrag.reranker.base import PassageScores, RerankPassage, ScoredSentences
from lmkrag.reranker.landmark import LandmarkReranker
from lmkrag.search.filters import quote
from lmkrag.search.weights import WEIGHTS

TIMED = 10  # every tenth question is timed


class CachingReranker:
    """Reads each passage once, and measures the time of readings separately."""

    def __init__(self, inner: LandmarkReranker) -> None:
        self.name, self.weight, self._inner = inner.name, inner.weight, inner
        self._known: dict[tuple[str, RerankPassage], PassageScores] = {}
        self.requests: list[tuple[str, list[RerankPassage]]] = []

    def score(self, question: str, passages: Sequence[RerankPassage]) -> list[np.ndarray]:
        return [reading.rank for reading in self.read(question, passages)]

    def read(self, question: str, passages: Sequence[RerankPassage]) -> list[PassageScores]:
        new = [passage for passage in passages if (question, passage) not in self._known]
        for passage, reading in zip(new, self._inner.read(question, new), strict=True):
            self._known[question, passage] = reading
        self.requests.append((question, list(passages)))
        return [self._known[question, passage] for passage in passages]

    def compare(self, read: ScoredSentences) -> np.ndarray:
        return self._inner.compare(read)

    def measure(self, questions: int) -> float:
        """Return the median milliseconds to read the passages of some of the questions since the last call."""
        times = []
        for question, passages in self.requests[:: max(1, len(self.requests) // questions)]:
            began = time.perf_counter()
            self._inner.read(question, passages)
            times.append(1_000 * (time.perf_counter() - began))
        self.requests.clear()
        return float(np.median(times)) if times else 0.0


class PointwiseReranker(CachingReranker):
    """The same without the listwise model: it scores one passage at a time."""

    def compare(self, read: ScoredSentences) -> np.ndarray:
        return read.rank


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--queries", type=int, default=60)
    parser.add_argument("--depths", default="0,4,8,10,12,16")
    parser.add_argument("--sets", default="", help="names, all without")
    parser.add_argument("--reranker")
    parser.add_argument("--weight", type=float)
    parser.add_argument(
        "--apart",
        action="store_true",
        help="score passages one at a time, without the listwise model",
    )
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    depths = [int(depth) for depth in options.depths.split(",")]
    reranker = (PointwiseReranker if options.apart else CachingReranker)(
        LandmarkReranker.load(options.reranker)
    )
    reranker.weight = options.weight or reranker.weight
    recall: dict[int, dict[str, np.ndarray]] = {depth: {} for depth in depths}
    times: dict[int, list[float]] = {depth: [] for depth in depths}
    for folder in sorted(path.parent for path in options.data.glob("*/docs.jsonl.gz")):
        if options.sets and folder.name not in options.sets.split(","):
            continue
        dataset = load_dataset(folder)
        queries = choose_queries(dataset, options.queries)
        if not queries:
            continue
        with Engine.open(options.work / folder.name, create=True, reranker=reranker) as engine:
            if not engine.status().documents:
                engine.add(dataset.documents)
        for depth in depths:
            weights = replace(WEIGHTS, reranked=max(1, depth))
            with Engine(
                IndexStore.open(options.work / folder.name), reranker=reranker, weights=weights
            ) as engine:
                rows = []
                for query in queries:
                    only = f"doc_id={quote(query.doc_id)}" if folder.name in WITHIN else None
                    spans = engine.search(
                        query.query, level="span", top_k=60, filter=only, rerank=depth > 0
                    )
                    gold = [(query.doc_id, start, end) for start, end in query.spans]
                    overlaps = overlap_at(
                        [(span.doc_id, span.start, span.end) for span in spans], gold
                    )
                    rows.append([100 * overlap.recall for overlap in overlaps])
                recall[depth][folder.name] = np.array(rows)
                times[depth].append(reranker.measure(max(1, len(queries) // TIMED)))
        print(
            f"{folder.name}: "
            + ", ".join(f"{depth}: {recall[depth][folder.name].mean(0)[0]:.1f}" for depth in depths)
        )
    report(depths, recall, times)
    if options.plot:
        plot(depths, recall, times, options.plot)


def report(
    depths: list[int], recall: dict[int, dict[str, np.ndarray]], times: dict[int, list[float]]
) -> None:
    """Print the table, and the sets that differ significantly at 500 characters."""
    print("\n| passages read | ms | recall | difference |\n|---|---|---|---|")
    base = recall[depths[0]]
    for depth in depths:
        means = " / ".join(f"{mean:.1f}" for mean in macro(recall[depth]))
        cells = []
        for number in range(len(BUDGETS)):
            mean, low, high = macro_interval(
                [recall[depth][name][:, number] - base[name][:, number] for name in base]
            )
            cells.append(f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]")
        print(
            f"| {depth} | {np.mean(times[depth]):.0f} | {means} | {' / '.join(cells) if depth != depths[0] else ''} |"
        )
    for depth in depths[1:]:
        findings = []
        for name in base:
            for passage, budget in enumerate(BUDGETS):
                mean, low, high = paired_interval(
                    recall[depth][name][:, passage] - base[name][:, passage]
                )
                if low > 0 or high < 0:
                    findings.append(f"{name} at {budget:,}: {mean:+.1f}")
        print(f"\n{depth} passages, significant: {'; '.join(findings) or 'none'}")


def macro(recall: dict[str, np.ndarray]) -> np.ndarray:
    """The mean of the sets' means, by budget."""
    mean: np.ndarray = np.mean([rows.mean(0) for rows in recall.values()], axis=0)
    return mean


def plot(
    depths: list[int],
    recall: dict[int, dict[str, np.ndarray]],
    times: dict[int, list[float]],
    path: Path,
) -> None:
    """Draw recall against time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.add_subplot()
    spent = [float(np.mean(times[depth])) for depth in depths]
    for passage, budget in enumerate(BUDGETS):
        gained = [
            macro(recall[depth])[passage] - macro(recall[depths[0]])[passage] for depth in depths
        ]
        axes.plot(spent, gained, marker="o", label=f"{budget:,} characters")
    for depth, milliseconds in zip(depths, spent, strict=True):
        axes.annotate(f"{depth}", (milliseconds, axes.get_ylim()[0]), ha="center", fontsize=8)
    axes.set(xlabel="ms to re-rank", ylabel="points of recall gained")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
