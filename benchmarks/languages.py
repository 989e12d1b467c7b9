"""How well does a search find evidence in other languages than English?

    python benchmarks/languages.py DATA --work DIR [--queries 60] [--sets NAMES] [--characters 200000]
        [--encoders landmark-multilingual,landmark-mini] [--rerank] [--chunks recursive:100 --base BASE]

Takes documents of some hundred thousand characters of each set below DATA (`ml_LANGUAGE_NAME` and English ones) and
some questions about them. Prints, by language, the first passage that holds the answer and recall at 500 and 1,000
characters, in %, for each encoder, with `--rerank` also re-ranked, and for chunks embedded by multilingual-e5-small
(BASE, made by `pipelines/train/multilingual_base.py` of commit 4f1c2b7a and saved by transformers). Then the paired
bootstrap against the first system: sets that are significantly better or worse. Where an index is made, also how fast.
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path

import numpy as np
from sets import WITHIN

from lmkrag import Engine
from lmkrag.evaluation.baselines import Baseline
from lmkrag.evaluation.dataset import Dataset, load_dataset
from lmkrag.evaluation.metrics import Piece, macro_interval, overlap_at, paired_interval
from lmkrag.search.filters import quote
from lmkrag.sentences.split import split_sentences
from lmkrag.training.validation import sample_dataset
from lmkrag.types.arrays import Floats

BUDGETS = (500, 1_000)
TOP = 40
ENGLISH = ("qmsum", "covidqa", "cuad", "squad", "fairytaleqa_sent", "medquad", "policyqa", "obliqa")
PREFIXES = ("query: ", "passage: ")
WARM_UP = "Weights are unpacked. This takes a moment."


def measure(dataset: Dataset, results: list[list[Piece]]) -> Floats:
    """Return ``[queries, 3]``: the first piece holds evidence, and recall at the budgets."""
    rows = []
    for query, pieces in zip(dataset.queries, results, strict=True):
        gold = query.evidence
        first = any(
            doc == d and start < e and s < end for d, start, end in pieces[:1] for doc, s, e in gold
        )
        rows.append(
            [float(first), *(overlap.recall for overlap in overlap_at(pieces, gold, BUDGETS))]
        )
    return np.array(rows)


def search(
    dataset: Dataset, work: Path, encoder: str, *, within: bool, rerank: bool
) -> list[list[Piece]]:
    """Return what a search finds for each question, best first."""
    with Engine.open(work / encoder / dataset.name, create=True, encoder=encoder) as engine:
        if not engine.status().documents:
            engine.encoders.encoder.encode(WARM_UP, list(split_sentences(WARM_UP)))
            report = engine.add(list(dataset.documents))
            print(
                f"{encoder}, {dataset.name}: {report.characters / report.seconds:,.0f} characters per second indexed"
            )
        results = []
        for query in dataset.queries:
            scope = f"doc_id={quote(query.doc_id)}" if within else None
            spans = engine.search(query.query, top_k=TOP, rerank=rerank, filter=scope)
            results.append([(span.doc_id, span.start, span.end) for span in spans])
    return results


def search_chunks(dataset: Dataset, baseline: Baseline, *, within: bool) -> list[list[Piece]]:
    """Return the chunks that are most similar to each question, best first."""
    units = list(baseline.encode_documents(dataset.documents))
    pieces = [
        (document.doc_id, start, end)
        for document, unit in zip(dataset.documents, units, strict=True)
        for start, end in unit.bounds
    ]
    scores = (
        baseline.encode_queries([query.query for query in dataset.queries])
        @ np.concatenate([unit.vectors for unit in units]).T
    )
    ranked = [
        [pieces[i] for i in row] for row in np.argsort(-scores, axis=1, kind="stable").tolist()
    ]
    if within:
        ranked = [
            [hit for hit in row if hit[0] == query.doc_id]
            for row, query in zip(ranked, dataset.queries, strict=True)
        ]
    return [row[:TOP] for row in ranked]


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--work", type=Path, required=True, help="where the indexes are kept")
    parser.add_argument("--queries", type=int, default=60, help="of each set")
    parser.add_argument("--characters", type=int, default=200_000, help="of each set, at least")
    parser.add_argument(
        "--sets",
        help="names, divided by commas; defaults to all of other languages and some English ones",
    )
    parser.add_argument("--encoders", default="landmark-multilingual,landmark-mini")
    parser.add_argument("--rerank", action="store_true", help="also search with the re-ranker")
    parser.add_argument("--chunks", default="", help="chunk-based baselines, divided by commas")
    parser.add_argument("--base", help="the folder of the model that embeds the chunks")
    options = parser.parse_args()
    names = (
        options.sets.split(",")
        if options.sets
        else [*ENGLISH, *sorted(p.name for p in options.data.glob("ml_*"))]
    )
    baselines = {
        name: Baseline(name, model=options.base, prefixes=PREFIXES)
        for name in filter(None, options.chunks.split(","))
    }
    rows: dict[str, dict[str, Floats]] = defaultdict(dict)
    for name in names:
        dataset = sample_dataset(
            load_dataset(options.data / name), options.characters, options.queries
        )
        within = name in WITHIN
        for encoder in options.encoders.split(","):
            for rerank in (False, True) if options.rerank else (False,):
                results = search(dataset, options.work, encoder, within=within, rerank=rerank)
                rows[encoder + ", re-ranked" * rerank][name] = measure(dataset, results)
        for chunks, baseline in baselines.items():
            rows[chunks][name] = measure(dataset, search_chunks(dataset, baseline, within=within))
        print(
            json.dumps(
                {
                    name: {
                        who: (100 * row[name].mean(0)).round(1).tolist()
                        for who, row in rows.items()
                    }
                }
            ),
            flush=True,
        )
    print_table(rows)


def print_table(rows: dict[str, dict[str, Floats]]) -> None:
    """Print means by language and over all, and the differences."""
    by_language = defaultdict(list)
    for name in next(iter(rows.values())):
        by_language[name.split("_")[1] if name.startswith("ml_") else "en"].append(name)
    print("\n| language | sets | " + " | ".join(rows) + " |\n|---|---|" + "---|" * len(rows))
    for language, names in by_language.items():
        cells = (
            " / ".join(f"{100 * x:.1f}" for x in np.mean([row[n].mean(0) for n in names], 0))
            for row in rows.values()
        )
        print(f"| {language} | {len(names)} | " + " | ".join(cells) + " |")
    first, *others = rows
    for other in others:
        pairs = {name: (rows[first][name], rows[other][name]) for name in rows[first]}
        for group, sets in (
            ("English", ENGLISH),
            ("other languages", [n for n in pairs if n.startswith("ml_")]),
        ):
            chosen = [pairs[name] for name in sets if name in pairs]
            if not chosen:
                continue
            for column, what in enumerate(("first", *map(str, BUDGETS))):
                mean, low, high = macro_interval([100 * (a - b)[:, column] for a, b in chosen])
                print(f"{first} - {other}, {group}, {what}: {mean:+.1f} [{low:+.1f}, {high:+.1f}]")
        for name, (a, b) in pairs.items():
            mean, low, high = paired_interval(100 * (a - b)[:, 1])
            if low > 0 or high < 0:
                print(f"  {name} at {BUDGETS[0]}: {mean:+.1f} [{low:+.1f}, {high:+.1f}]")


if __name__ == "__main__":
    main()
