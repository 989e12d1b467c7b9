"""How sure is `ask` of its answers, and is it right? Fits the confidence of the reader without a language model.

    python benchmarks/confidence.py DATA [CORPUS...] --work DIR [--queries 24]

Searches for the questions of the sets below DATA in their own documents, in all documents but the one that answers, and
in another set's; for those of `squad_unanswerable`, which its documents nearly answer; and for those of corpora with
questions (see `asking.py`), which get two thirds of the weight. A question is answered if one of the first three
passages holds at least half of what answers it. Prints the constants of `AnswerWeights` that a logistic regression
gives, and how well the confidence separates (AUROC) and is calibrated, with the constants in use and fitted with each
set left out. Documents of each set are drawn at random; indexes are kept in DIR and reused.
"""

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from real import read_questions
from scipy.special import expit
from sets import WITHIN
from sklearn.linear_model import LogisticRegression
from trust import print_reliability, weigh

from lmkrag import Engine, Span
from lmkrag.evaluation.dataset import Dataset, Query, choose_queries, draw_sample, load_dataset
from lmkrag.readers.weights import ANSWERS
from lmkrag.search.filters import quote
from lmkrag.types import Document

NEARLY = "squad_unanswerable"


class Case(NamedTuple):
    """A question of a set: whether the first passages answer it, and the features of the confidence."""

    set: str
    answered: bool
    features: tuple[float, ...]


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("corpora", type=Path, nargs="*")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--sets", default="", help="names, separated by commas; all without")
    parser.add_argument(
        "--characters", type=int, default=150_000, help="of the documents of each set, at least"
    )
    parser.add_argument("--queries", type=int, default=24, help="of each set")
    options = parser.parse_args()
    names = sorted(
        path.parent.name
        for path in options.data.glob("*/docs.jsonl.gz")
        if path.parent.name[:3] != "ml_"
    )
    names = [name for name in names if not options.sets or name in options.sets.split(",")]
    sets = {name: load_dataset(options.data / name) for name in names}
    others = [name for name in names if name != NEARLY and name not in WITHIN]
    cases: list[Case] = []
    for place, name in enumerate(names):
        with Engine.open(options.work / name, create=True) as engine:
            if not engine.status().documents:
                engine.add(sample_documents(sets[name], options.characters))
            indexed = {document.doc_id for document in engine.documents()}
            queries = [query for query in sets[name].queries if query.doc_id in indexed]
            if name == NEARLY:
                cases += ask(engine, name, draw_sample(queries, 2 * options.queries))
                continue
            queries = draw_sample([query for query in queries if query.spans], options.queries)
            cases += ask(engine, name, queries, "=" if name in WITHIN else "")
            if name not in WITHIN:
                cases += ask(engine, name, queries[::2], "!=")
            strangers = [other for other in others if other != name]
            stranger = sets[
                strangers[(7 * place) % len(strangers)]
            ]  # 7: not the neighbour, which may be alike
            unanswered = [
                replace(query, spans=()) for query in choose_queries(stranger, options.queries // 3)
            ]
            cases += ask(engine, name, unanswered)
    corpora = [corpus for corpus in options.corpora if (corpus / "questions.jsonl").exists()]
    for corpus in corpora:
        cases += ask_corpus(corpus, options.work)
    report(cases, [corpus.name for corpus in corpora])


def sample_documents(dataset: Dataset, characters: int) -> list[Document]:
    """Return random documents that answer questions, of at least ``characters`` characters in total."""
    ids = {query.doc_id for query in dataset.queries}
    documents = [document for document in dataset.documents if document.doc_id in ids]
    sizes = np.array([len(document.text) for document in documents])
    order = np.random.default_rng(0).permutation(len(documents))
    return [
        documents[number]
        for number in order[: int(np.searchsorted(sizes[order].cumsum(), characters)) + 1]
    ]


def ask(engine: Engine, name: str, queries: Iterable[Query], operator: str = "") -> Iterator[Case]:
    """Search for questions: with "=" only in the document that answers, with "!=" only in the others."""
    for query in queries:
        spans = engine.search(
            query.query, filter=f"doc_id{operator}{quote(query.doc_id)}" if operator else None
        )
        if spans:
            yield Case(
                name, any(holds(span, query) for span in spans[:3]), weigh(query.query, spans)
            )


def holds(span: Span, query: Query) -> bool:
    """Return whether a passage has half of a piece that answers, or the piece has half of the passage."""
    return span.doc_id == query.doc_id and any(
        2 * (min(span.end, end) - max(span.start, start)) >= min(end - start, span.end - span.start)
        for start, end in query.spans
    )


def ask_corpus(folder: Path, work: Path) -> Iterator[Case]:
    """Ask the questions of a corpus."""
    with Engine.open(work / folder.name, create=True) as engine:
        engine.add(folder / "files")
        for question in read_questions(folder / "questions.jsonl"):
            spans = engine.search(question.text)
            answered = question.pattern and any(
                question.pattern.search(span.text) for span in spans[:3]
            )
            if spans:
                yield Case(folder.name, bool(answered), weigh(question.text, spans))


def report(cases: list[Case], corpora: list[str]) -> None:
    """Fit, and print the constants and how they do."""
    sets = np.array([case.set for case in cases])
    answered = np.array([case.answered for case in cases])
    features = np.array([case.features for case in cases])
    is_corpus = np.isin(sets, corpora)
    weights = np.where(is_corpus, 2 * (~is_corpus).sum() / max(1, is_corpus.sum()), 1.0)
    model = LogisticRegression(C=10).fit(features, answered, weights)
    in_use = expit(ANSWERS.bias + features @ np.array(ANSWERS.features))
    print(
        f"{len(cases)} questions; fitted: bias {model.intercept_[0]:.2f}, features {np.round(model.coef_[0], 3)}"
    )
    print_reliability(sets, answered, features, {"constants in use": in_use}, weights)


if __name__ == "__main__":
    main()
