"""Which encoder, and read how? Recall of the whole engine against the time it takes to index.

    python benchmarks/encoders.py DATA VARIANT... [--characters 120000] [--queries 60] [--sets NAMES] [--plot FILE]

A variant is ENCODER[@OVERLAP][:PRECISION]: `landmark-mini@0.5`, `build/four/encoder:float32`,
`landmark-mini:int8`; overlap defaults to 0.
Indexes a sample of every set with each, searches for spans without and with re-ranking, and prints recall at 500 to
4,000 characters, the difference from the first variant (paired bootstrap, each set of the same weight), the sets that
differ significantly, and the speed of indexing beside the first's, in one run.
"""

import argparse
import re
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from depth import macro
from sets import WITHIN

from lmkrag import Engine, LandmarkEncoder
from lmkrag.evaluation.dataset import Dataset, load_dataset
from lmkrag.evaluation.metrics import BUDGETS, macro_interval, overlap_at, paired_interval
from lmkrag.search.filters import quote
from lmkrag.sentences.split import Sentence
from lmkrag.training.validation import sample_dataset

_VARIANT = re.compile(r"(?P<encoder>[^@:]+)(?:@(?P<overlap>[\d.]+))?(?::(?P<precision>\w+))?")


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("variants", nargs="+")
    parser.add_argument("--characters", type=int, default=120_000)
    parser.add_argument("--queries", type=int, default=60)
    parser.add_argument("--sets", default="", help="names, all without")
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    encoders = {variant: load(variant) for variant in options.variants}
    recall: dict[tuple[str, bool], dict[str, np.ndarray]] = {}
    seconds = dict.fromkeys(options.variants, 0.0)
    for folder in sorted(path.parent for path in options.data.glob("*/docs.jsonl.gz")):
        if options.sets and folder.name not in options.sets.split(","):
            continue
        dataset = load_dataset(folder)
        answered = replace(
            dataset, queries=tuple(query for query in dataset.queries if query.spans)
        )
        if not answered.queries:
            continue
        sample = sample_dataset(answered, options.characters, options.queries)
        for variant, encoder in encoders.items():
            with (
                tempfile.TemporaryDirectory() as work,
                Engine.open(Path(work) / "index", create=True, encoder=encoder) as engine,
            ):
                began = time.perf_counter()
                engine.add(sample.documents)
                seconds[variant] += time.perf_counter() - began
                for rerank in (False, True):
                    rows = search(engine, sample, folder.name in WITHIN, rerank=rerank)
                    recall.setdefault((variant, rerank), {})[folder.name] = rows
        print(
            folder.name,
            *(f"{recall[v, False][folder.name].mean(0)[0]:.1f}" for v in encoders),
            flush=True,
        )
    report(options.variants, recall, seconds)
    if options.plot:
        plot(options.variants, recall, seconds, options.plot)


def load(variant: str) -> LandmarkEncoder:
    """The encoder of a variant."""
    match = _VARIANT.fullmatch(variant)
    assert match, variant
    overlap = 0.0 if match["overlap"] is None else float(match["overlap"])
    encoder = LandmarkEncoder.load(match["encoder"], overlap=overlap, precision=match["precision"])
    encoder.encode("Warm up.", [Sentence(0, 8)])
    return encoder


def search(engine: Engine, sample: Dataset, within: bool, *, rerank: bool) -> np.ndarray:
    """Recall of each question at each budget."""
    rows = []
    for query in sample.queries:
        only = f"doc_id={quote(query.doc_id)}" if within else None
        spans = engine.search(query.query, level="span", top_k=60, filter=only, rerank=rerank)
        pieces = [(span.doc_id, span.start, span.end) for span in spans]
        overlaps = overlap_at(pieces, query.evidence)
        rows.append([100 * overlap.recall for overlap in overlaps])
    return np.array(rows)


def report(variants: list[str], recall: dict, seconds: dict[str, float]) -> None:
    """Print the table, and the sets that differ significantly."""
    first = variants[0]
    print(
        "\n| variant | indexing is faster by | re-ranked | recall | difference |\n|---|---|---|---|---|"
    )
    findings = []
    for rerank in (False, True):
        base = recall[first, rerank]
        for variant in variants:
            rows = recall[variant, rerank]
            means = " / ".join(f"{mean:.1f}" for mean in macro(rows))
            cells = []
            for place, budget in enumerate(BUDGETS):
                differences = {name: rows[name][:, place] - base[name][:, place] for name in base}
                mean, low, high = macro_interval(list(differences.values()))
                cells.append(f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]")
                for name, difference in differences.items():
                    mean, low, high = paired_interval(difference)
                    if low > 0 or high < 0:
                        findings.append(
                            f"{variant}{', re-ranked' * rerank}: {name} at {budget:,}: {mean:+.1f}"
                        )
            speed = f"{seconds[first] / seconds[variant]:.2f}"
            print(
                f"| {variant} | {speed} | {'yes' if rerank else 'no'} | {means} |"
                f" {' / '.join(cells) if variant != first else ''} |"
            )
    print("\nsignificant:", "; ".join(findings) or "none")


def plot(variants: list[str], recall: dict, seconds: dict[str, float], path: Path) -> None:
    """Draw recall against the speed of indexing."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    for rerank in (False, True):
        points = [
            (seconds[variants[0]] / seconds[v], macro(recall[v, rerank])[:3].mean())
            for v in variants
        ]
        axes.scatter(*zip(*points, strict=True), label="re-ranked" if rerank else "not re-ranked")
        for variant, point in zip(variants, points, strict=True):
            axes.annotate(variant, point, textcoords="offset points", xytext=(4, 4), fontsize=8)
    axes.set_xlabel(f"indexing is faster than with {variants[0]} by")
    axes.set_ylabel("recall, mean of 500, 1,000 and 2,000 characters")
    axes.legend()
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
