"""Are the answers in a mixed folder found, and can they be read alone?

    python benchmarks/folder.py [--levels passage,span] [--against recursive:200] [--by-kind] [--failures]

Indexes `benchmarks/folder/corpus` (manuals, sources, logs, tables, mail, transcripts, notes in five languages, and many
documents that are alike) and asks `questions.jsonl`. A result answers alone when it is of the right document and holds
the answer and all else that the question `needs`: a row's header, the question of a reply, the name of a function.
Prints, in %: first results and any of the first three that answer alone, answers within 500 to 8,000 characters, and
what `ask` without a language model says: right (the answer is in what it quotes), half (in a passage that it cites),
wrong or refused; and which questions without an answer it refuses.
"""

import argparse
import json
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lmkrag import Answer, Engine
from lmkrag.conversation import Conversation
from lmkrag.evaluation.baselines import Baseline

FOLDER = Path(__file__).with_name("folder")
BUDGETS = (500, 1_000, 2_000, 4_000, 8_000)
RESULTS = 60


class Piece(NamedTuple):
    """A result: its document and its text."""

    doc_id: str
    text: str


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--levels", default="passage,span")
    parser.add_argument("--against", default="recursive:200")
    parser.add_argument(
        "--by-kind", action="store_true", help="first results that answer, by kind of question"
    )
    parser.add_argument(
        "--failures", action="store_true", help="print the first results that do not answer"
    )
    options = parser.parse_args()
    questions = [
        json.loads(line) for line in (FOLDER / "questions.jsonl").read_text("utf-8").splitlines()
    ]
    answered = [question for question in questions if question["doc_ids"]]
    with tempfile.TemporaryDirectory() as work, Engine.open(work, create=True) as engine:
        engine.add(FOLDER / "corpus")
        systems = {level: _search(engine, answered, level) for level in options.levels.split(",")}
        systems |= {
            name: _chunks(engine, answered, name)
            for name in filter(None, options.against.split(","))
        }
        answers = list(engine.ask_many([question["question"] for question in questions]))
        followed = _converse(engine)
    _print_results(answered, systems)
    if options.by_kind:
        _print_kinds(answered, systems)
    _print_answers(questions, answers)
    print(f"follow-up questions of conversations: {_percent(followed)} % of {len(followed)} right")
    if options.failures:
        _print_failures(answered, next(iter(systems.values())))


def _search(engine: Engine, questions: list[dict[str, Any]], level: Any) -> list[list[Piece]]:
    results = engine.search_many(
        [question["question"] for question in questions], level=level, top_k=RESULTS
    )
    return [[Piece(span.doc_id, span.text) for span in spans] for spans in results]


def _chunks(engine: Engine, questions: list[dict[str, Any]], name: str) -> list[list[Piece]]:
    baseline = Baseline(name)
    documents = [engine.document(info.doc_id) for info in engine.documents()]
    units = list(baseline.encode_documents(documents))
    pieces = [
        Piece(document.doc_id, document.text[start:end])
        for document, unit in zip(documents, units, strict=True)
        for start, end in unit.bounds
    ]
    vectors = np.concatenate([unit.vectors for unit in units])
    scores = baseline.encode_queries([question["question"] for question in questions]) @ vectors.T
    return [
        [pieces[i] for i in row]
        for row in np.argsort(-scores, axis=1, kind="stable")[:, :RESULTS].tolist()
    ]


def _converse(engine: Engine) -> list[bool]:
    """Whether `lmkrag chat` without a language model answers each follow-up of `conversations.jsonl`."""
    right = []
    for line in (FOLDER / "conversations.jsonl").read_text("utf-8").splitlines():
        conversation = Conversation(engine)
        for number, turn in enumerate(json.loads(line)):
            answer = conversation.ask(turn["question"])
            if number:
                right.append(_quotes({**turn, "needs": []}, answer))
    return right


def _cites(question: dict[str, Any], answer: Answer) -> bool:
    cited = (cited.span for cited in answer.citations if cited.span.doc_id in question["doc_ids"])
    return any(_holds(question, span.text, alone=False) for span in cited)


def _quotes(question: dict[str, Any], answer: Answer) -> bool:
    """Whether the answer is in what is shown, taken from a passage of the right document."""
    shown = [answer.text, *(citation.quote for citation in answer.citations)]
    return _cites(question, answer) and any(_holds(question, text, alone=False) for text in shown)


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def _holds(question: dict[str, Any], text: str, *, alone: bool) -> bool:
    parts = [question["answer"], *(question["needs"] if alone else [])]
    return all(_plain(part) in _plain(text) for part in parts)


def _answers_alone(question: dict[str, Any], pieces: Iterable[Piece]) -> bool:
    return any(
        piece.doc_id in question["doc_ids"] and _holds(question, piece.text, alone=True)
        for piece in pieces
    )


def _within(question: dict[str, Any], pieces: list[Piece], budget: int) -> bool:
    for piece in pieces:
        if piece.doc_id in question["doc_ids"] and _holds(
            question, piece.text[:budget], alone=False
        ):
            return True
        budget -= len(piece.text)
        if budget <= 0:
            break
    return False


def _percent(values: Iterable[bool]) -> str:
    return f"{100 * np.mean(list(values)):.1f}"


def _print_results(questions: list[dict[str, Any]], systems: dict[str, list[list[Piece]]]) -> None:
    print(f"{len(questions)} questions with an answer\n")
    budgets = " / ".join(f"{budget:,}" for budget in BUDGETS)
    print(
        f"| results | first answers | first three | answer within {budgets} characters | length of the first |"
    )
    print("|---|---|---|---|---|")
    for name, results in systems.items():
        both = list(zip(questions, results, strict=True))
        within = (
            _percent(_within(question, pieces, budget) for question, pieces in both)
            for budget in BUDGETS
        )
        length = np.median([len(pieces[0].text) if pieces else 0 for pieces in results])
        first, three = (
            _percent(_answers_alone(question, pieces[:n]) for question, pieces in both)
            for n in (1, 3)
        )
        print(f"| {name} | {first} | {three} | {' / '.join(within)} | {length:.0f} |")


def _print_kinds(questions: list[dict[str, Any]], systems: dict[str, list[list[Piece]]]) -> None:
    print(
        "\n| kind | questions | "
        + " | ".join(systems)
        + " |\n|---|---"
        + "|---" * len(systems)
        + "|"
    )
    by_kind = defaultdict(list)
    for position, question in enumerate(questions):
        by_kind[question["kind"]].append(position)
    for kind, positions in by_kind.items():
        cells = (
            _percent(_answers_alone(questions[i], results[i][:1]) for i in positions)
            for results in systems.values()
        )
        print(f"| {kind} | {len(positions)} | {' | '.join(cells)} |")


def _print_answers(questions: list[dict[str, Any]], answers: list[Answer]) -> None:
    sums: dict[str, int] = dict.fromkeys(("right", "half", "wrong", "refused"), 0)
    refused = defaultdict(list)
    for question, answer in zip(questions, answers, strict=True):
        if not question["doc_ids"]:
            refused[question["kind"]].append(not answer.found)
        elif not answer.found:
            sums["refused"] += 1
        else:
            half = _cites(question, answer)
            sums["right" if _quotes(question, answer) else "half" if half else "wrong"] += 1
    total = sum(sums.values())
    print(
        "\nask without a language model: "
        + ", ".join(f"{100 * n / total:.1f} % {what}" for what, n in sums.items())
    )
    for kind, values in refused.items():
        print(f"refused of {len(values)} {kind} questions without an answer: {_percent(values)} %")


def _print_failures(questions: list[dict[str, Any]], results: list[list[Piece]]) -> None:
    for question, pieces in zip(questions, results, strict=True):
        if not _answers_alone(question, pieces[:1]):
            rank = next(
                (n for n, piece in enumerate(pieces, 1) if _answers_alone(question, [piece])), 0
            )
            print(
                f"\n## {question['question']} ({question['kind']}; wanted {question['answer']!r} {question['needs']})"
            )
            print(
                f"answered alone by result {rank or 'none'}; first, of {pieces[0].doc_id}:\n{pieces[0].text}"
            )


if __name__ == "__main__":
    main()
