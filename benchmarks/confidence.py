"""How sure is `ask` of its answers, and is it right? Fits the confidence of the reader without a language model.

    python benchmarks/confidence.py DATA [CORPUS...] --work DIR [--queries 24]

Asks questions of the sets below DATA of their own documents, of all but the document that answers, and of another set's
documents; those of `squad_unanswerable`, which its documents nearly answer; and those of corpora with questions (see
`asking.py`), two thirds of the weight. A question is answered if one of the first three passages holds at least half
of what answers it. Prints the constants of `AnswerWeights` that a logistic regression gives, and how well the
confidence tells (AUROC) and is calibrated, with the constants in use and fitted with each set left out.
Documents of each set are drawn at random; indexes are kept in DIR, and used as they are.
"""

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from asking import print_reliability, weigh
from real import read_questions
from scipy.special import expit
from sets import WITHIN
from sklearn.linear_model import LogisticRegression

from lmkrag import Engine, Span
from lmkrag.evaluation.dataset import Dataset, Query, choose_queries, draw_sample, load_dataset
from lmkrag.readers.weights import ANSWERS
from lmkrag.search.filters import quote
from lmkrag.types import Document

NEARLY = "squad_unanswerable"


class Asked(NamedTuple):
    """A question of a set: whether the passages that are shown answer, and what speaks for it."""

    set: str
    answered: bool
    features: tuple[float, ...]


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("corpora", type=Path, nargs="*")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--sets", default="", help="names, separated by commas; all without")
    parser.add_argument("--characters", type=int, default=150_000, help="of the documents of each set, at least")
    parser.add_argument("--queries", type=int, default=24, help="of each set")
    options = parser.parse_args()
    names = sorted(path.parent.name for path in options.data.glob("*/docs.jsonl.gz") if path.parent.name[:3] != "ml_")
    names = [name for name in names if not options.sets or name in options.sets.split(",")]
    sets = {name: load_dataset(options.data / name) for name in names}
    others = [name for name in names if name != NEARLY and name not in WITHIN]
    asked: list[Asked] = []
    for place, name in enumerate(names):
        with Engine.open(options.work / name, create=True) as engine:
            if not engine.status().documents:
                engine.add(sample_documents(sets[name], options.characters))
            indexed = {document.doc_id for document in engine.documents()}
            own = [query for query in sets[name].queries if query.doc_id in indexed]
            if name == NEARLY:
                asked += ask(engine, name, draw_sample(own, 2 * options.queries))
                continue
            own = draw_sample([query for query in own if query.spans], options.queries)
            asked += ask(engine, name, own, "=" if name in WITHIN else "")
            if name not in WITHIN:
                asked += ask(engine, name, own[::2], "!=")
            strangers = [other for other in others if other != name]
            stranger = sets[strangers[(7 * place) % len(strangers)]]  # 7: not the neighbour, which may be alike
            unanswered = [replace(query, spans=()) for query in choose_queries(stranger, options.queries // 3)]
            asked += ask(engine, name, unanswered)
    corpora = [corpus for corpus in options.corpora if (corpus / "questions.jsonl").exists()]
    for corpus in corpora:
        asked += ask_corpus(corpus, options.work)
    report(asked, [corpus.name for corpus in corpora])


def sample_documents(dataset: Dataset, characters: int) -> list[Document]:
    """Return documents that answer questions, drawn at random, with a number of characters at least."""
    asked_about = {query.doc_id for query in dataset.queries}
    documents = [document for document in dataset.documents if document.doc_id in asked_about]
    sizes = np.array([len(document.text) for document in documents])
    order = np.random.default_rng(0).permutation(len(documents))
    return [documents[number] for number in order[: int(np.searchsorted(sizes[order].cumsum(), characters)) + 1]]


def ask(engine: Engine, name: str, queries: Iterable[Query], operator: str = "") -> Iterator[Asked]:
    """Ask questions; with an operator only of the document that answers, or only of the others."""
    for query in queries:
        spans = engine.search(query.query, filter=f"doc_id{operator}{quote(query.doc_id)}" if operator else None)
        if spans:
            yield Asked(name, any(holds(span, query) for span in spans[:3]), weigh(query.query, spans))


def holds(span: Span, query: Query) -> bool:
    """Return whether a passage has half of a piece that answers, or the piece has half of the passage."""
    return span.doc_id == query.doc_id and any(
        2 * (min(span.end, end) - max(span.start, start)) >= min(end - start, span.end - span.start)
        for start, end in query.spans
    )


def ask_corpus(folder: Path, work: Path) -> Iterator[Asked]:
    """Ask the questions of a corpus."""
    with Engine.open(work / folder.name, create=True) as engine:
        engine.add(folder / "files")
        for question in read_questions(folder / "questions.jsonl"):
            spans = engine.search(question.text)
            answered = question.pattern and any(question.pattern.search(span.text) for span in spans[:3])
            if spans:
                yield Asked(folder.name, bool(answered), weigh(question.text, spans))


def report(asked: list[Asked], corpora: list[str]) -> None:
    """Fit, and print the constants and how they do."""
    sets = np.array([one.set for one in asked])
    answered = np.array([one.answered for one in asked])
    features = np.array([one.features for one in asked])
    is_corpus = np.isin(sets, corpora)
    weights = np.where(is_corpus, 2 * (~is_corpus).sum() / max(1, is_corpus.sum()), 1.0)
    model = LogisticRegression(C=10).fit(features, answered, weights)
    in_use = expit(ANSWERS.bias + features @ np.array(ANSWERS.features))
    print(f"{len(asked)} questions; fitted: bias {model.intercept_[0]:.2f}, features {np.round(model.coef_[0], 3)}")
    print_reliability(sets, answered, features, {"constants in use": in_use}, weights)


if __name__ == "__main__":
    main()
