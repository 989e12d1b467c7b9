"""How well do questions in one language find evidence in documents of another?

    python benchmarks/cross_lingual.py DATA --work DIR [--queries 300] [--characters 400000]
        [--encoder landmark-multilingual]

Takes questions of the sets `ml_x_*` below DATA, in up to 25 languages, about documents in English or in another
language, each set in one index. Prints, by the language of the question, how often the first passage holds the answer
and recall within 1,000 characters, in %, first for English documents, then for those of other languages; then the same
by the language of the document. Not re-ranked.
"""

import argparse
import gzip
import json
from collections import defaultdict
from pathlib import Path

import numpy as np
from languages import measure, search

from lmkrag.evaluation.dataset import load_dataset
from lmkrag.training.validation import sample_dataset


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--work", type=Path, required=True, help="where the indexes are kept")
    parser.add_argument("--queries", type=int, default=300, help="of each set")
    parser.add_argument("--characters", type=int, default=400_000, help="of each set, at least")
    parser.add_argument("--encoder", default="landmark-multilingual")
    options = parser.parse_args()
    by_question: dict[str, dict[bool, list]] = defaultdict(lambda: {True: [], False: []})
    by_document = defaultdict(list)
    for folder in sorted(options.data.glob("ml_x_*")):
        dataset = sample_dataset(load_dataset(folder), options.characters, options.queries)
        with gzip.open(folder / "queries.jsonl.gz", "rt", encoding="utf-8") as file:
            records = {record["query_id"]: record for record in map(json.loads, file)}
        rows = measure(
            dataset, search(dataset, options.work, options.encoder, within=False, rerank=False)
        )
        for query, row in zip(dataset.queries, rows, strict=True):
            language, document = (
                records[query.query_id]["lang"],
                records[query.query_id].get("doc_lang", "en"),
            )
            by_question[language][document == "en"].append(row)
            by_document[document].append(row)
    print("| question | in English documents | in others |\n|---|---|---|")
    for language, groups in sorted(by_question.items()):
        print(f"| {language} | {show(groups[True])} | {show(groups[False])} |")
    for english in (True, False):
        every = [row for groups in by_question.values() for row in groups[english]]
        print(f"all, {'English' if english else 'other'} documents: {show(every)}")
    print("\n| documents | questions in other languages |\n|---|---|")
    for language, values in sorted(by_document.items()):
        print(f"| {language} | {show(values)} |")


def show(rows: list) -> str:
    """Return the first passage and recall at 1,000 characters, in %, and the number of questions."""
    if not rows:
        return "–"
    first, _, recall = 100 * np.mean(rows, axis=0)
    return f"{first:.0f} / {recall:.0f} ({len(rows)})"


if __name__ == "__main__":
    main()
