"""How sure is `ask` of its answers, and is it right? Fits the confidence of the reader without a language model.

    python benchmarks/confidence.py DATA --work DIR [--queries 40]

Asks questions of the sets below DATA of their own documents; the same questions of another set's documents, which do
not answer them; those of `squad_unanswerable`, which its documents nearly answer; and those of `asking.py`, with and
without an answer, since short questions of one's own files look different from those of the sets. A logistic
regression on half of the questions gives the constants of `lmkrag/readers/extractive.py`; on the other half it prints,
for the constants in use and for those that it fitted, how well the probability tells the kinds apart (AUROC), and how
many it refuses of each kind at the least probability in use and at those that refuse 2, 3 and 5 % of the questions that
are answered.
Indexes are kept in DIR, and shared with `depth.py`.
"""

import argparse
import random
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from answers import auroc
from asking import NONE, write_all
from scipy.special import expit
from sets import WITHIN
from sklearn.linear_model import LogisticRegression

from lmkrag import Answer, Engine, Span
from lmkrag.evaluation.dataset import Query, choose_queries, draw_sample, load_dataset
from lmkrag.readers import extractive
from lmkrag.readers.short_answers import read_spans
from lmkrag.readers.tables import find_cell
from lmkrag.readers.weights import ANSWERS
from lmkrag.reranker.loading import load_landmark_reranker
from lmkrag.search.filters import quote

NEARLY = "squad_unanswerable"
OWN, OTHER, NEAR = "answered", "asked of another set", "nearly answered"
FILES, NOTHING = "of files, answered", "of files, not answered"
KINDS = (OWN, FILES, OTHER, NEAR, NOTHING)
ANSWERED = (OWN, FILES)
WEIGHTS = {OWN: 1.0, OTHER: 0.5, NEAR: 0.5, FILES: 1.0, NOTHING: 1.0}  # of each kind in the fit


class Asked(NamedTuple):
    """What speaks for an answer to a question of a kind: see ``confidence_features``."""

    kind: str
    features: tuple[float, ...]


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--sets", default="", help="names, separated by commas; all without")
    parser.add_argument("--queries", type=int, default=40, help="of each set, asked of its own and of other documents")
    options = parser.parse_args()
    names = sorted(path.parent.name for path in options.data.glob("*/docs.jsonl.gz"))
    names = [name for name in names if not options.sets or name in options.sets.split(",")]
    sets = {name: load_dataset(options.data / name) for name in names}
    asked: list[Asked] = []
    for place, name in enumerate(names):
        with Engine.open(options.work / name, create=True) as engine:
            if not engine.status().documents:
                engine.add(sets[name].documents)
            if name == NEARLY:
                asked += ask(engine, NEAR, draw_sample(sets[name].queries, 4 * options.queries), within=True)
            else:
                asked += ask(engine, OWN, choose_queries(sets[name], options.queries), within=name in WITHIN)
            strangers = [other for other in names if other not in (name, NEARLY)]
            stranger = sets[strangers[(7 * place) % len(strangers)]]  # 7: not the neighbour, which may be alike
            asked += ask(engine, OTHER, choose_queries(stranger, options.queries), within=False)
    report(asked + list(ask_of_files()))


def ask_of_files() -> Iterator[Asked]:
    """Ask the questions of `asking.py`, but for those that a table answers."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as work:
        questions = write_all(Path(folder), random.Random(17))
        with Engine.open(work, create=True) as engine:
            engine.add(folder)
            for question in questions:
                spans = engine.ask(question.text, reader=PassagesOnly()).spans
                if find_cell(question.text, spans) is None:
                    yield from read_passages(NOTHING if question.kind == NONE else FILES, question.text, spans)


class PassagesOnly(extractive.ExtractiveReader):
    """Hands back the passages that `ask` would read: they are read here, once."""

    def answer(self, question: str, spans: Sequence[Span]) -> Answer:
        return Answer("", (), tuple(spans), self.name, found=False)


def ask(engine: Engine, kind: str, queries: Sequence[Query], *, within: bool) -> Iterator[Asked]:
    """Ask questions of an index, each of its own document where that is what it is about."""
    for query in queries:
        only = f"doc_id={quote(query.doc_id)}" if within else None
        spans = engine.ask(query.query, reader=PassagesOnly(), filter=only).spans
        yield from read_passages(kind, query.query, spans)


def read_passages(kind: str, question: str, spans: Sequence[Span]) -> Iterator[Asked]:
    """Read what a search found; nothing where it found none: the confidence is 0 then, whatever the constants."""
    shown = spans[: ANSWERS.max_passages]
    if spans:
        read = read_spans(question, shown, load_landmark_reranker())
        yield Asked(kind, extractive.confidence_features(question, spans, read))


def report(asked: Sequence[Asked]) -> None:
    """Fit on every other question, print how the constants do on the rest."""
    kinds = np.array([one.kind for one in asked])
    features = np.array([one.features for one in asked])
    fitted = np.arange(len(asked)) % 2 == 0
    weights = np.array([WEIGHTS[kind] / (kinds[fitted] == kind).sum() for kind in kinds[fitted]])
    model = LogisticRegression(C=1e6).fit(features[fitted], np.isin(kinds[fitted], ANSWERED), weights * fitted.sum())
    in_use = np.array([ANSWERS.bias, *ANSWERS.features])
    constants = {"in use": in_use, "fitted": np.array([*model.intercept_, *model.coef_[0]])}
    judged = {kind: features[~fitted & (kinds == kind)] for kind in KINDS}
    print(", ".join(f"{len(values)} {kind}" for kind, values in judged.items()), "are judged\n")
    for name, (bias, *by) in constants.items():
        values = {kind: expit(bias + rows @ np.array(by)) for kind, rows in judged.items()}
        print(f"{name}: bias {bias:.2f}, features {np.round(by, 3)}")
        for answered, kind in ((OWN, OTHER), (OWN, NEAR), (FILES, NOTHING)):
            print(f"  AUROC, {answered} against {kind}: {auroc(values[answered], values[kind]):.3f}")
        borders = [float(np.quantile(values[OWN], share)) for share in (0.02, 0.03, 0.05)]
        for least in ([ANSWERS.min_confidence] if name == "in use" else []) + borders:
            refused = (f"{100 * (values[kind] < least).mean():.1f} % {kind}" for kind in KINDS)
            print(f"  refused below {least:.3f}: {', '.join(refused)}")


if __name__ == "__main__":
    main()
