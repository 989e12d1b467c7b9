"""Does a search find the right one of many documents that are alike by what the question says of it?

    python benchmarks/alike.py ../shared/data/dev/cuad [--work DIR] [--questions 200]

Searches the whole set for questions about contracts, each after the names of the two parties ("Consider the agreement
between X and Y. ..."), which are in the annotations of the set. Prints recall within 500 to 4,000 characters in the
whole set, with and without the rule that looks for the document that a question names, and in the right document
alone; and how often the first result is in the right document.
"""

import argparse
import re
import tempfile
from pathlib import Path
from unittest.mock import patch

import numpy as np

from lmkrag import Engine, Span
from lmkrag.evaluation.dataset import Dataset, Query, draw_sample, load_dataset
from lmkrag.evaluation.metrics import BUDGETS, overlap_at, paired_interval
from lmkrag.search import candidates as gather
from lmkrag.search.filters import quote

_ROLE = re.compile(
    r"(the )?(company|distributor|licensee|licensor|sponsor|consultant|employer|executive|client|fund"
    r"|marketing affiliate|blockchain administrator|sub-advisor|parties|x+)$",
    re.IGNORECASE,
)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cuad", type=Path)
    parser.add_argument("--work", type=Path, help="keep the index here")
    parser.add_argument("--questions", type=int, default=200)
    options = parser.parse_args()
    dataset = load_dataset(options.cuad)
    questions = draw_sample(_name_parties(dataset), options.questions)
    with (
        tempfile.TemporaryDirectory() as folder,
        Engine.open(options.work or folder, create=True) as engine,
    ):
        engine.add(dataset.documents)
        whole = [engine.search(text, level="span", top_k=60) for _, text in questions]
        equal = lambda openings, *_: np.zeros(len(openings.documents))  # noqa: E731
        with patch.object(gather, "weigh_documents", equal):
            without = [engine.search(text, level="span", top_k=60) for _, text in questions]
        inside = [
            engine.search(
                query.query, level="span", top_k=60, filter=f"doc_id={quote(query.doc_id)}"
            )
            for query, _ in questions
        ]
    print(
        f"{len(questions)} questions, {len(dataset.documents)} contracts, e.g. {questions[0][1]!r}\n"
    )
    print(
        f"| searched | recall within {' / '.join(map(str, BUDGETS))} characters | right document first |\n|---|---|---|"
    )
    for name, results in (
        ("the set", without),
        ("the set, naming", whole),
        ("the right document", inside),
    ):
        right = np.mean(
            [
                spans[0].doc_id == query.doc_id
                for (query, _), spans in zip(questions, results, strict=True)
            ]
        )
        print(
            f"| {name} | {' / '.join(f'{x:.1f}' for x in _recall(questions, results).mean(0))} | {100 * right:.1f} |"
        )
    gained = _recall(questions, whole) - _recall(questions, without)
    intervals = (paired_interval(gained[:, i]) for i in range(len(BUDGETS)))
    print(
        "\nnaming: "
        + " / ".join(f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]" for mean, low, high in intervals)
    )


def _recall(questions: list[tuple[Query, str]], results: list[list[Span]]) -> np.ndarray:
    rows = []
    for (query, _), spans in zip(questions, results, strict=True):
        pieces = [(span.doc_id, span.start, span.end) for span in spans]
        rows.append([overlap.recall for overlap in overlap_at(pieces, query.evidence)])
    return 100 * np.array(rows)


def _name_parties(dataset: Dataset) -> list[tuple[Query, str]]:
    """Return questions that begin with two parties of their contract; two contracts of one pair are left out."""
    texts = {document.doc_id: document.text for document in dataset.documents}
    parties: dict[str, tuple[str, ...]] = {}
    for query in dataset.queries:
        if query.query.lower().startswith("parties") and query.doc_id not in parties:
            marked = (
                " ".join(texts[query.doc_id][start:end].split()) for start, end in query.spans
            )
            names = [
                re.split(r" \(| a/k/a|, dba", name.strip('"“”,() '))[0].strip() for name in marked
            ]
            names = [
                name
                for name in names
                if 4 <= len(name) <= 70 and name[0].isupper() and not _ROLE.match(name)
            ]
            names = sorted(
                (name for name in dict.fromkeys(names) if "referred" not in name),
                key=len,
                reverse=True,
            )
            if len(names) > 1:
                parties[query.doc_id] = tuple(names[:2])
    pairs = [tuple(sorted(names)) for names in parties.values()]
    return [
        (
            query,
            f"Consider the agreement between {' and '.join(parties[query.doc_id])}. {query.query}",
        )
        for query in dataset.queries
        if query.spans
        and query.doc_id in parties
        and pairs.count(tuple(sorted(parties[query.doc_id]))) == 1
        and not query.query.lower().startswith(("parties", "document name"))
    ]


if __name__ == "__main__":
    main()
