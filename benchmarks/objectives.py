"""What do pooling, position weights and each stage contribute? The papers' claims in miniature.

    python benchmarks/objectives.py ../shared/data --work DIR [--steps 100]
    python benchmarks/objectives.py ../shared/data --work DIR --settings
    python benchmarks/objectives.py ../shared/data --work DIR --stages OUT   (OUT: of `lmkrag train`)

Trains each variant for the same few steps on the same windows and questions (same seed), then ranks the sentences of
samples of the development sets by their landmarks alone. Prints recall (mean over 500, 1,000 and 2,000 characters) and
how often the best sentence is the last of its evidence, with paired bootstrap intervals of the difference to
``lmk+mean``, and draws DIR/objectives.png. With ``--settings``: the same for the settings of training. With
``--stages``: what each stage of a finished run adds to the one before.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import matplotlib
import numpy as np
from positions import stretch_positions
from sets import WITHIN

from lmkrag import LandmarkEncoder
from lmkrag.evaluation.dataset import load_dataset
from lmkrag.evaluation.metrics import macro_interval, rank_queries
from lmkrag.training.settings import ModelSettings, SetSettings, StageSettings, TrainSettings
from lmkrag.training.trainer import train
from lmkrag.training.validation import rank_sentences, recall_rows, sample_dataset

matplotlib.use("Agg")
import matplotlib.pyplot as plt

DEV = (
    "qmsum",
    "covidqa",
    "cuad",
    "squad",
    "fairytaleqa_sent",
    "medquad",
    "peps",
    "obliqa",
    "evidence_inference",
)
TRAINING = [
    SetSettings("squad", "documents"),
    SetSettings("covidqa", "documents"),
    SetSettings("fairytaleqa_sent", "documents"),
    SetSettings("qmsum", "documents", within=True, documents=2),
    SetSettings("cuad", "documents", within=True, documents=2),
    SetSettings("medquad", "documents"),
    SetSettings("qed", "shuffled"),
    SetSettings("squad", "shuffled"),
]
VARIANTS: dict[str, tuple[dict, dict]] = {
    "lmk+mean": ({}, {}),
    "lmk": ({"pooling": "lmk"}, {}),
    "mean": ({"pooling": "mean"}, {}),
    "uniform weights (alpha 0)": ({}, {"alpha": 0.0}),
    "steep weights (alpha 1)": ({}, {"alpha": 1.0}),
}
SETTINGS: dict[str, tuple[dict, dict]] = {
    "as shipped": ({}, {}),
    "temperature 0.02": ({}, {"temperature": 0.02}),
    "temperature 0.1": ({}, {"temperature": 0.1}),
    "learning rate 1e-5": ({}, {"learning_rate": 1e-5}),
    "learning rate 1e-4": ({}, {"learning_rate": 1e-4}),
    "[SEP] as the landmark": ({"landmark": "[SEP]"}, {}),
    "softmax of the document alone": ({}, {"mixing": 1.0}),
    "softmax of other documents alone": ({}, {"mixing": 0.0}),
    "sets by the root of their size": ({}, {"sets": "root of size"}),
    "windows of 510": ({"window": 510}, {"windows": [510]}),
    "windows of 1022, positions stretched": (
        {"window": 1022, "base": "stretched"},
        {"windows": [1_022]},
    ),
}


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--settings", action="store_true")
    parser.add_argument("--stages", type=Path)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    if options.stages:
        folders = {"start": options.stages / "start"}
        finished = sorted(options.stages.glob("*/encoder"), key=lambda path: path.stat().st_mtime)
        folders |= {path.parent.name: path for path in finished}
        folders["averaged with the start"] = options.stages / "encoder"
    else:
        variants = SETTINGS if options.settings else VARIANTS
        folders = {name: _train(name, *changes, options) for name, changes in variants.items()}
        first = next(iter(folders))
        folders[f"{first}, untrained"] = folders[first].parent / "start"
    measured = {name: _measure(folder, options.data / "dev") for name, folder in folders.items()}
    names = list(measured)
    against = {
        name: names[max(0, i - 1)] if options.stages else names[0] for i, name in enumerate(names)
    }
    print(
        "| encoder | recall | difference | ultimate sentence first | difference |\n|---|---|---|---|---|"
    )
    for name, measures in measured.items():
        cells = [name]
        for values, others in zip(measures, measured[against[name]], strict=True):
            mean, low, high = (
                100 * x
                for x in macro_interval([a - b for a, b in zip(values, others, strict=True)])
            )
            cells.append(f"{100 * np.mean([rows.mean() for rows in values]):.1f}")
            cells.append("" if against[name] == name else f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]")
        print(f"| {' | '.join(cells)} |", flush=True)
    plot = "stages" if options.stages else "settings" if options.settings else "objectives"
    _draw(measured, options.work / f"{plot}.png")


def _train(name: str, model: dict, stage: dict, options: argparse.Namespace) -> Path:
    folder = "".join(letter if letter.isalnum() else "-" for letter in name)
    values = {"sets": TRAINING, "steps": options.steps, "tokens": 2_048, "titles": 0.0, **stage}
    if values["sets"] == "root of size":
        values["sets"] = [_by_size(chosen, options.data / "train") for chosen in TRAINING]
    if model.get("base"):
        stretch_positions(options.work / "base", 1_024)
        model = {**model, "base": str(options.work.resolve() / "base")}
    settings = TrainSettings(
        out=str(options.work.resolve() / folder),
        data=str((options.data / "train").resolve()),
        model=ModelSettings(title_tokens=0, **model),
        stages=[StageSettings("documents", **values)],
    )
    return train(settings)


def _by_size(chosen: SetSettings, data: Path) -> SetSettings:
    return replace(chosen, weight=len(load_dataset(data / chosen.path).queries) ** 0.5)


def _measure(folder: Path, data: Path) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return, by set and question, the recall, and whether the best sentence is the last of the evidence."""
    encoder = LandmarkEncoder.load(str(folder))
    recall, ultimate = [], []
    for name in DEV:
        dataset = sample_dataset(load_dataset(data / name), 60_000, 60)
        ranked = rank_sentences(encoder, dataset, within=name in WITHIN)
        gold = [query.evidence for query in dataset.queries]
        recall.append(recall_rows(dataset, ranked).mean(1))
        ultimate.append(
            np.array([float(ranks.ultimate) for ranks in rank_queries(ranked, gold, gold)])
        )
    return recall, ultimate


def _draw(measured: dict, path: Path) -> None:
    names = list(measured)[::-1]
    values = [100 * np.mean([rows.mean() for rows in measured[name][0]]) for name in names]
    figure, axes = plt.subplots(figsize=(7, 0.4 * len(names) + 1))
    axes.barh(names, values, color="#4472a8")
    axes.set_xlim(left=min(values) - 5)
    axes.set_xlabel("recall, mean over 500, 1,000 and 2,000 characters (%)")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
