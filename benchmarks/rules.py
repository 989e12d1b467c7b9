"""Which rules of fusion and growth find most?

    lmkrag eval ../shared/data/dev/* --within SETS --out DIR
    python benchmarks/rules.py ../shared/data/dev --work DIR --within SETS [--questions 60] [--encoder DIR]

Runs the questions through the engine once for each rule, on the indexes that `lmkrag eval` left in DIR, and prints the
macro-average recall at 500, 1,000, 2,000 and 4,000 characters and its sum's difference to the shipped rules.
"""

import argparse
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

import numpy as np

from lmkrag.evaluation.compare import OURS, Options, compare
from lmkrag.retrieval import fusion, gather, growth, search

RULES = {
    "shipped": {},
    "no neighbourhoods": {"NEIGHBOURHOODS": ()},
    "neighbourhoods 2 and 6": {"NEIGHBOURHOODS": ((2, 0.5), (6, 0.5))},
    "neighbourhoods 3, 8 and 20": {"NEIGHBOURHOODS": ((3, 0.5), (8, 0.5), (20, 0.5))},
    "no paragraphs": {"PARAGRAPH_SHARE": 0.0},
    "paragraph share 2": {"PARAGRAPH_SHARE": 2.0},
    "no titles": {"TITLE_SHARE": 0.0},
    "no words of documents": {"DOCUMENT_WORDS_SHARE": 0.0},
    "words of documents 0.4": {"DOCUMENT_WORDS_SHARE": 0.4},
    "no document share": {"DOCUMENT_SHARE": 0.0},
    "document share 2": {"DOCUMENT_SHARE": 2.0},
    "lexical share 0.05": {"LEXICAL_SHARE": 0.05},
    "lexical share 0.25": {"LEXICAL_SHARE": 0.25},
    "keep and join 0.99": {"KEEP": 0.99, "JOIN": 0.99},
    "keep and join 0.96": {"KEEP": 0.96, "JOIN": 0.96},
}


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--within", default="")
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--encoder")
    options = parser.parse_args()
    how = Options(within=options.within.split(","), queries=options.questions, encoder=options.encoder)
    folders = sorted(path for path in options.data.iterdir() if path.is_dir())
    first = None
    print("| rule | recall | sum | minus shipped |\n|---|---|---|---|")
    for name, changes in RULES.items():
        recall = _measure(folders, options.work, how, changes)
        first = recall.sum() if first is None else first
        cells = " / ".join(f"{value:.1f}" for value in recall)
        print(f"| {name} | {cells} | {recall.sum():.1f} | {recall.sum() - first:+.1f} |", flush=True)


def _measure(folders: list[Path], work: Path, how: Options, changes: dict[str, object]) -> np.ndarray:
    """Recall at each budget, every set weighing the same, with some constants changed."""
    keep = changes.get("KEEP", growth.KEEP)
    fused = {name: value for name, value in changes.items() if name not in ("KEEP", "JOIN")}
    with ExitStack() as changed:
        for name, value in fused.items():
            for module in (fusion, gather):
                if hasattr(module, name):
                    changed.enter_context(patch.object(module, name, value))
        changed.enter_context(patch.object(search, "JOIN", changes.get("JOIN", search.JOIN)))
        changed.enter_context(patch.dict(growth.grow_spans.__kwdefaults__, {"keep": keep}))
        found = compare(folders, work, how)
    column = found.measures.index("recall")
    return 100 * np.mean([scores.overlaps[:, :, column].mean(0) for scores in found.scores[OURS].values()], axis=0)


if __name__ == "__main__":
    main()
