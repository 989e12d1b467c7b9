"""In other languages than English, does `ask` tell questions that the documents answer from those about something else?

    python benchmarks/refusals.py DATA --work DIR [--queries 30] [--characters 60000] [--encoder landmark-multilingual]

Asks questions of each set `ml_*` below DATA of its own documents, and as many of another set's, in its language if
there is one. A logistic regression gives the constants of `lmkrag/readers/weights.py` (to be fitted on training
sets). Prints, for the constants in use and for the fitted ones, how well the confidence tells the two kinds apart
(AUROC), and the questions of each kind that are refused or get "may not answer", by language.
Indexes are kept in DIR, and shared with `languages.py` where queries and characters are the same.
"""

import argparse
from collections import defaultdict
from pathlib import Path

import numpy as np
from answers import auroc
from lmkrag.readers.weights import ANSWERS
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from lmkrag import Engine
from lmkrag.evaluation.dataset import Dataset, Query, load_dataset
from lmkrag.readers import extractive
from lmkrag.training.validation import sample_dataset


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument(
        "--queries",
        type=int,
        default=30,
        help="of each set, asked of its own and of other documents",
    )
    parser.add_argument("--characters", type=int, default=60_000, help="of each set, at least")
    parser.add_argument("--encoder", default="landmark-multilingual")
    options = parser.parse_args()
    names = sorted(
        path.name for path in options.data.glob("ml_*") if not path.name.startswith("ml_x_")
    )
    sets = {
        name: sample_dataset(load_dataset(options.data / name), options.characters, options.queries)
        for name in names
    }
    rows: list[tuple[str, bool, tuple[float, ...]]] = []
    for name in names:
        with Engine.open(
            options.work / options.encoder / name, create=True, encoder=options.encoder
        ) as engine:
            if not engine.status().documents:
                engine.add(list(sets[name].documents))
            language = name.split("_")[1]
            rows += [(language, True, features) for features in ask(engine, sets[name].queries)]
            rows += [
                (language, False, features) for features in ask(engine, find_strangers(name, sets))
            ]
    report(rows)


def find_strangers(name: str, sets: dict[str, Dataset]) -> tuple[Query, ...]:
    """Return the questions of another set, of the same language if there is one."""
    others = [other for other in sets if other != name]
    alike = [other for other in others if other.split("_")[1] == name.split("_")[1]]
    return sets[(alike or others)[len(name) % len(alike or others)]].queries


def ask(engine: Engine, queries: tuple[Query, ...]) -> list[tuple[float, ...]]:
    """Return the features of the confidence for each question that is not in English."""
    features = []
    for query in queries:
        spans = engine.search(query.query)
        if extractive.is_foreign(query.query, spans):
            features.append(extractive.confidence_features(query.query, spans, []))
    return features


def report(rows: list[tuple[str, bool, tuple[float, ...]]]) -> None:
    """Fit, and print how the constants do."""
    answered = np.array([is_answered for _, is_answered, _ in rows])
    features = np.array([values for _, _, values in rows])
    model = LogisticRegression(C=1e6).fit(features, answered)
    print(f"{answered.sum()} questions of the documents, {(~answered).sum()} of others")
    in_use = np.array([ANSWERS.foreign_bias, *ANSWERS.foreign_features])
    for what, (bias, *by) in {
        "in use": in_use,
        "fitted": [*model.intercept_, *model.coef_[0]],
    }.items():
        sure = expit(bias + features @ np.array(by))
        refused = sure < ANSWERS.min_confidence
        print(
            f"{what}: bias {bias:.2f}, features {np.round(by, 2)}, AUROC {auroc(sure[answered], sure[~answered]):.3f}"
        )
        print(
            f"  refused: {100 * refused[answered].mean():.1f} % and {100 * refused[~answered].mean():.1f} %"
        )
    by_language: dict[str, list[int]] = defaultdict(list)
    for number, (language, _, _) in enumerate(rows):
        by_language[language].append(number)
    sure = expit(in_use[0] + features @ in_use[1:])
    print("\n| language | questions of the documents refused | of others |\n|---|---|---|")
    for language, numbers in by_language.items():
        chosen, refused = answered[numbers], sure[numbers] < ANSWERS.min_confidence
        print(
            f"| {language} | {100 * refused[chosen].mean():.0f} % | {100 * refused[~chosen].mean():.0f} % |"
        )


if __name__ == "__main__":
    main()
