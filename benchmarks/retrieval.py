"""How exactly do we find the evidence? lmkrag, end to end, against chunk-based retrievers with the same weights.

    python benchmarks/retrieval.py ../shared/data/dev --work /tmp/retrieval

Prints recall (found evidence / what the budget allows), raw recall, precision and IoU at 500 to 4,000 characters,
every set weighing the same, then the difference to each baseline with a paired bootstrap interval. Indexes and
baseline vectors are kept under ``--work`` and used again.
"""

import argparse
from pathlib import Path

import numpy as np

from lmkrag import Engine
from lmkrag.evaluation.baselines import Baseline
from lmkrag.evaluation.dataset import Dataset, Query, load_dataset
from lmkrag.evaluation.metrics import BUDGETS, overlap_at
from lmkrag.evaluation.significance import paired_interval
from lmkrag.retrieval.filters import quote

# Questions that only make sense within their own document (see the data's README).
WITHIN_DOCUMENT = {"qmsum", "cuad", "policyqa", "evidence_inference", "hotpot_small", "musique_small"}
TOP = 60
COLUMNS = ("recall", "raw", "precision", "iou")


def main() -> None:
    """Run the comparison and print its tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--sets", nargs="*")
    parser.add_argument("--queries", type=int, default=0, help="of each set, at most; 0 for all")
    parser.add_argument("--against", default="recursive:100,recursive:200,recursive:400,sentence:3,late:256")
    parser.add_argument("--front", type=int, help="the paper's fixed growth instead of the adaptive one")
    parser.add_argument("--mode", default="hybrid")
    parser.add_argument("--level", default="span")
    options = parser.parse_args()
    names = options.sets or sorted(path.name for path in options.data.iterdir() if path.is_dir())
    scores: dict[str, dict[str, np.ndarray]] = {}
    for name in names:
        dataset = load_dataset(options.data / name)
        queries = _choose(dataset, options.queries)
        if not queries:
            continue  # a set of questions without answers
        scores.setdefault("lmkrag", {})[name] = _ours(dataset, queries, options)
        for baseline in filter(None, options.against.split(",")):
            scores.setdefault(baseline, {})[name] = _baseline(baseline, dataset, queries, options.work)
        best = {system: scores[system][name][:, :, 0].mean(0) * 100 for system in scores}
        print(
            f"{name:20}",
            *(f"{system} {' '.join(f'{x:.1f}' for x in row)} |" for system, row in best.items()),
            flush=True,
        )
    _report(scores)


def _choose(dataset: Dataset, count: int) -> list[Query]:
    answered = [query for query in dataset.queries if query.spans]
    if not count or len(answered) <= count:
        return answered
    order = np.random.default_rng(0).permutation(len(answered))[:count]
    return [answered[i] for i in sorted(order)]


def _ours(dataset: Dataset, queries: list[Query], options: argparse.Namespace) -> np.ndarray:
    how = {"mode": options.mode, "level": options.level, "front": options.front, "top": TOP}
    with Engine.open(options.work / "lmkrag" / dataset.name, create=True) as engine:
        engine.add(dataset.documents)
        if dataset.name in WITHIN_DOCUMENT:
            found = [engine.search(q.query, filter=f"doc_id={quote(q.doc_id)}", **how) for q in queries]
        else:
            found = engine.search_batch([query.query for query in queries], **how)
    pieces = [[(span.doc_id, span.start, span.end) for span in spans] for spans in found]
    return _score(pieces, queries)


def _baseline(name: str, dataset: Dataset, queries: list[Query], work: Path) -> np.ndarray:
    path = work / name / f"{dataset.name}.npz"
    if not path.is_file():
        baseline = Baseline(name)
        units = list(baseline.encode_documents([document.text for document in dataset.documents]))
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(
            path,
            owner=np.repeat(np.arange(len(units)), [len(unit.bounds) for unit in units]),
            bounds=np.array([bounds for unit in units for bounds in unit.bounds]),
            v=np.concatenate([unit.vectors for unit in units]).astype(np.float16),
            q=baseline.encode_queries([query.query for query in dataset.queries]),
        )
    stored = np.load(path)
    owner, bounds, vectors = stored["owner"], stored["bounds"], stored["v"].astype(np.float32)
    encoded = dict(zip((query.query_id for query in dataset.queries), stored["q"], strict=True))
    ids = [document.doc_id for document in dataset.documents]
    pieces = []
    for query in queries:
        scope = np.arange(len(owner))
        if dataset.name in WITHIN_DOCUMENT:
            scope = scope[owner == ids.index(query.doc_id)]
        best = scope[np.argsort(-(vectors[scope] @ encoded[query.query_id]), kind="stable")[:TOP]]
        pieces.append([(ids[owner[i]], int(bounds[i, 0]), int(bounds[i, 1])) for i in best])
    return _score(pieces, queries)


def _score(found: list[list[tuple[str, int, int]]], queries: list[Query]) -> np.ndarray:
    """Return ``[queries, budgets, measures]``."""
    return np.array(
        [
            overlap_at(pieces, [(query.doc_id, start, end) for start, end in query.spans])
            for pieces, query in zip(found, queries, strict=True)
        ]
    )


def _report(scores: dict[str, dict[str, np.ndarray]]) -> None:
    sets = list(scores["lmkrag"])
    print(f"\nMacro average over {len(sets)} sets, {sum(len(scores['lmkrag'][name]) for name in sets)} queries, in %\n")
    print(
        f"| {'system':15} | " + " | ".join(f"{measure} @ {', '.join(map(str, BUDGETS))}" for measure in COLUMNS) + " |"
    )
    print("|---" * (len(COLUMNS) + 1) + "|")
    for system, by_set in scores.items():
        macro = np.mean([by_set[name].mean(0) for name in sets], axis=0) * 100
        cells = (" / ".join(f"{value:.1f}" for value in macro[:, column]) for column in range(len(COLUMNS)))
        print(f"| {system:15} | " + " | ".join(cells) + " |")
    print(
        "\nRecall of lmkrag minus the baseline's: points [95 % paired bootstrap]; sets significantly better / worse\n"
    )
    for system in scores:
        if system != "lmkrag":
            print(f"{system:15}", *(_difference(scores, system, budget) for budget in range(len(BUDGETS))))


def _difference(scores: dict[str, dict[str, np.ndarray]], system: str, budget: int) -> str:
    pairs = [(scores["lmkrag"][name], scores[system][name]) for name in scores["lmkrag"]]
    differences = [ours[:, budget, 0] - theirs[:, budget, 0] for ours, theirs in pairs]
    intervals = [paired_interval(values) for values in differences]
    better = sum(low > 0 for _, low, _ in intervals)
    worse = sum(high < 0 for _, _, high in intervals)
    # Sets weigh the same: resample queries inside each set, average the sets' means.
    rng = np.random.default_rng(0)
    means = [np.mean([rng.choice(values, len(values)).mean() for values in differences]) for _ in range(1000)]
    low, high = np.percentile(means, [2.5, 97.5]) * 100
    mean = np.mean([values.mean() for values in differences]) * 100
    return f"| @{BUDGETS[budget]}: {mean:+.1f} [{low:+.1f}, {high:+.1f}]; {better} / {worse}"


if __name__ == "__main__":
    main()
