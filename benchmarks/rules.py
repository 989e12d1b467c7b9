"""Which rules of fusion and growth find most?

    lmkrag eval ../shared/data/dev/* --within SETS --out DIR
    python benchmarks/rules.py ../shared/data/dev --work DIR --within SETS [--questions 60] [--encoder DIR]

Runs the questions through the engine once for each rule, on the indexes that `lmkrag eval` left in DIR, and prints the
macro-average recall at 500, 1,000, 2,000 and 4,000 characters and its sum's difference to the shipped rules.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from lmkrag.evaluation.compare import OURS, Options, compare
from lmkrag.search.weights import WEIGHTS

RULES = {
    "shipped": WEIGHTS,
    "no neighbourhoods": replace(WEIGHTS, neighbourhoods=()),
    "neighbourhoods 2 and 6": replace(WEIGHTS, neighbourhoods=((2, 0.5), (6, 0.5))),
    "neighbourhoods 3, 8 and 20": replace(WEIGHTS, neighbourhoods=((3, 0.5), (8, 0.5), (20, 0.5))),
    "no paragraphs": replace(WEIGHTS, paragraph=0.0),
    "paragraph share 2": replace(WEIGHTS, paragraph=2.0),
    "no titles": replace(WEIGHTS, title=0.0),
    "no words of documents": replace(WEIGHTS, document_words=0.0),
    "words of documents 0.4": replace(WEIGHTS, document_words=0.4),
    "no exact words": replace(WEIGHTS, exact=1.0),
    "exact words 1.15": replace(WEIGHTS, exact=1.15),
    "exact words 1.6": replace(WEIGHTS, exact=1.6),
    "no document share": replace(WEIGHTS, document=0.0),
    "document share 2": replace(WEIGHTS, document=2.0),
    "lexical share 0.05": replace(WEIGHTS, lexical=0.05),
    "lexical share 0.25": replace(WEIGHTS, lexical=0.25),
    "keep and join 0.99": replace(WEIGHTS, keep=0.99, join=0.99),
    "keep and join 0.96": replace(WEIGHTS, keep=0.96, join=0.96),
    "the 2 sentences before (the paper's rule)": replace(WEIGHTS, sentences_before=2),
}


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--within", default="")
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--encoder")
    options = parser.parse_args()
    how = Options(
        within=options.within.split(","), queries=options.questions, encoder=options.encoder
    )
    folders = sorted(path for path in options.data.iterdir() if path.is_dir())
    first = None
    print("| rule | recall | sum | minus shipped |\n|---|---|---|---|")
    for name, weights in RULES.items():
        recall = _measure(folders, options.work, replace(how, weights=weights))
        first = recall.sum() if first is None else first
        cells = " / ".join(f"{value:.1f}" for value in recall)
        print(
            f"| {name} | {cells} | {recall.sum():.1f} | {recall.sum() - first:+.1f} |", flush=True
        )


def _measure(folders: list[Path], work: Path, how: Options) -> np.ndarray:
    """Recall at each budget, every set weighing the same."""
    comparison = compare(folders, work, how)
    column = comparison.measures.index("recall")
    return 100 * np.mean(
        [scores.overlaps[:, :, column].mean(0) for scores in comparison.scores[OURS].values()],
        axis=0,
    )


if __name__ == "__main__":
    main()
