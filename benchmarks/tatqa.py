"""Does a search find the row or the paragraph that answers among real statements of companies?

    python benchmarks/tatqa.py DATA [--failures]

DATA is a file in the format of TAT-QA (github.com/NExTplusplus/TAT-QA): tables of annual reports, each with its
paragraphs and questions. Each table with its paragraphs becomes one document in Markdown; all are in one index.
Prints, by where the answer stands, the share of questions with a row or a paragraph that answers in the first passage,
in the first three and in the first ten: among all documents, and in the question's own document. The questions name no
company, so other documents may answer them too; the second figures leave these out.

The rows that answer are those with most of the answers or, if the answer is computed, with most of the numbers that
it is computed from. Without such rows, the paragraphs that contain an answer, or that the data names, answer. Questions
without either are left out.
"""

import argparse
import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lmkrag import Document, Engine, Span
from lmkrag.search.filters import quote

_NUMBER = re.compile(r"\d[\d,.]*")
_FIRST = (1, 3, 10)


class Question(NamedTuple):
    """A question, where its answer stands (table or text), its document, and the places (start, end) that answer."""

    text: str
    source: str
    doc_id: str
    places: tuple[tuple[int, int], ...]


def read(path: Path) -> tuple[list[Document], list[Question]]:
    """Return the documents and the questions of a file."""
    documents, questions = [], []
    for number, context in enumerate(json.loads(path.read_text("utf-8"))):
        paragraphs = {
            str(part["order"]): " ".join(part["text"].split()) for part in context["paragraphs"]
        }
        rows = [
            [" ".join(cell.split()).replace("|", "/") for cell in row]
            for row in context["table"]["table"]
        ]
        lines = [f"| {' | '.join(row)} |" for row in rows]
        text = "\n\n".join(
            [*paragraphs.values(), "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]])]
        )
        document = Document(f"{number}.md", f"{number}.md", text)
        documents.append(document)
        for question in context["questions"]:
            counts = [_count_answers(row, question) for row in rows]
            answers = [
                line for line, count in zip(lines, counts, strict=True) if count == max(counts)
            ]
            if "table" not in question["answer_from"] or not max(counts):
                matches = [
                    paragraph for paragraph in paragraphs.values() if any(_say(paragraph, question))
                ]
                answers = matches or [
                    paragraphs[order] for order in question["rel_paragraphs"] if order in paragraphs
                ]
            places = tuple(
                (start, start + len(answer)) for answer in answers for start in _find(text, answer)
            )
            if places:
                questions.append(
                    Question(question["question"], question["answer_from"], document.doc_id, places)
                )
    return documents, questions


def _count_answers(row: Sequence[str], question: dict[str, Any]) -> int:
    """Count the cells of a row that are answers, or numbers or names that the answer is derived from."""
    if question["answer_type"] in ("arithmetic", "count") or question["req_comparison"]:
        derivation = question["derivation"].lower()
        answers = [*_NUMBER.findall(derivation), *derivation.split("##")]
    else:
        answers = [str(answer).lower() for answer in np.atleast_1d(question["answer"])]
    plain = {answer.strip("$() %.,") for answer in answers}
    return sum(cell.lower().strip("$() %.,") in plain for cell in row if cell)


def _say(paragraph: str, question: dict[str, Any]) -> Iterator[bool]:
    return (
        str(answer).lower() in paragraph.lower() for answer in np.atleast_1d(question["answer"])
    )


def _find(text: str, part: str) -> Iterator[int]:
    return (match.start() for match in re.finditer(re.escape(part), text))


def measure(question: Question, spans: Sequence[Span]) -> list[bool]:
    """Whether a place that answers is in the first passage, the first three and the first ten."""
    right = [
        span.doc_id == question.doc_id
        and any(span.start < end and start < span.end for start, end in question.places)
        for span in spans
    ]
    return [any(right[:count]) for count in _FIRST]


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument(
        "--failures",
        action="store_true",
        help="print the questions that the first passage of their document does not answer",
    )
    options = parser.parse_args()
    documents, questions = read(options.data)
    with tempfile.TemporaryDirectory() as work, Engine.open(work, create=True) as engine:
        report = engine.add(documents)
        print(
            f"{len(documents)} documents, {report.sentences:,} sentences, {len(questions)} questions\n"
        )
        among = [engine.search(question.text, top_k=10) for question in questions]
        inside = [
            engine.search(question.text, top_k=10, filter=f"doc_id={quote(question.doc_id)}")
            for question in questions
        ]
    sources = np.array([question.source for question in questions])
    for title, results in (("among all documents", among), ("in its document", inside)):
        print(f"{title:20s}  first   three    ten")
        rows = np.array(
            [measure(question, spans) for question, spans in zip(questions, results, strict=True)]
        )
        for source in [*dict.fromkeys(sources), "all"]:
            chosen = rows[(sources == source) | (source == "all")]
            print(
                f"{source:20s} {'  '.join(f'{share:6.1f}' for share in 100 * chosen.mean(0))}   ({len(chosen)})"
            )
    for question, spans in zip(questions, inside, strict=True) if options.failures else ():
        if not measure(question, spans)[0]:
            print(f"\n{question.doc_id} {question.text}")
            for span in spans[:2]:
                print(f"  {' '.join(span.text.split())[:150]}")


if __name__ == "__main__":
    main()
