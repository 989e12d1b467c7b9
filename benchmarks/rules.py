"""What does each rule of a search mend, and what does it break?

    python benchmarks/rules.py CORPORA --work DIR [--corpora NAMES] [--rules NAMES] [--questions]

CORPORA is as in `real.py`. Asks all questions with the shipped rules, and again without each rule. Prints how many
questions each rule mends and breaks: their answer is in the first passage, the first three, and the first 500 and 1,000
characters with the rule and not without it, and the other way round. A rule that mends no more than it breaks on
corpora that it was not written for has to leave. `--questions` names those whose first passage a rule decides.
Indexes, and what was read of passages, are kept in the folder `--work`.
"""

import argparse
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from real import MEASURES, RESULTS, Question, build_indexes, measure, read_corpora

from lmkrag import Engine
from lmkrag.index.store import IndexStore
from lmkrag.reranker.base import PlacedText
from lmkrag.reranker.passages import PassageReranker
from lmkrag.search.spelling import Spelled
from lmkrag.search.weights import WEIGHTS
from lmkrag.types.arrays import Scores

SHOWN = ("first", "three", "500", "1,000")

_NAMING = ("opening_name", "exact_word", "number", "leading_number", "opening_word", "missing_key")
WITHOUT: dict[str, dict[str, Any]] = {
    "neighbourhoods": {"neighbourhoods": ()},
    "paragraph": {"paragraph": 0.0},
    "document": {"document": 0.0},
    "words of neighbours": {"lexical_neighbour": 0.0},
    "contents and links": {"navigation": 1.0},
    "named documents": dict.fromkeys(_NAMING, 0.0),
    **{f"named documents: {name}": {name: 0.0} for name in _NAMING},
    "names do not count inside": {"clear_margin": np.inf},
    "answers of an assistant": {"assistant": 1.0},
    "passages of a message": {"per_message": RESULTS},
    "secondary code": {"secondary": 1.0},
    "code beside pages": {"beside": 1.0},
    "names of files": {"file_name": 0.0},
    "paths": {"path": 0.0},
    "definitions": {"definition": 1.0, "sought_definition": 1.0},
    "neighbours of candidates": {"expanded": 0, "expanded_per_result": 0},
    "whole paragraphs": {"paragraph_chars": 0},
    "whole sections": {"section_chars": 0},
    "lead-ins and headers": {"lead_chars": 0},
    "antecedents": {"antecedent_chars": 0},
    "what is announced": {"following_chars": 0},
    "touching passages": {"touching": 0},
    "copies": {"min_copy_chars": 1_000_000},
}
"""The weights that switch each rule off."""


def _unchanged(first: Any, *_: Any, **__: Any) -> Any:
    """Return the first argument, as a rule does that changes nothing."""
    return first


REPLACED: dict[str, tuple[str, Callable[..., Any]]] = {
    "spelling": ("lmkrag.evidence.finder.correct_spelling", lambda _, text, *__: Spelled(text)),
    "spellings of numbers": ("lmkrag.language.question.add_spellings", _unchanged),
    "translations": ("lmkrag.search.searcher.prefer_language", _unchanged),
    "order of code": ("lmkrag.search.searcher.rank_code", _unchanged),
    "units": ("lmkrag.search.merging.begins_unit", lambda *_: False),
    "newer first": (
        "lmkrag.evidence.agreement.compare_passages",
        lambda _, spans, *__: (spans, []),
    ),
}
"""Which function each other rule is, and what is called in its place."""


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--corpora", default="", help="names, all without")
    parser.add_argument("--rules", default="", help="names, all without")
    parser.add_argument("--questions", action="store_true", help="print those that a rule decides")
    options = parser.parse_args()
    corpora = read_corpora(options.data, options.corpora)
    questions = [question for question in corpora if question.pattern]
    build_indexes(options.data, options.work, sorted({question.corpus for question in questions}))
    rules = options.rules.split(",") if options.rules else [*WITHOUT, *REPLACED]
    columns = [MEASURES.index(name) for name in SHOWN]
    with remember_readings(options.work / "readings.pkl"):
        shipped = ask(options.work, questions)
        print(f"{len(questions)} questions: ", end="")
        print(", ".join(f"{name} {shipped[:, MEASURES.index(name)].sum()}" for name in SHOWN))
        print("\nmended / broken by each rule\n")
        print("| rule | " + " | ".join(SHOWN) + " |\n" + "|---" * (1 + len(SHOWN)) + "|")
        for rule in rules:
            without = ask(options.work, questions, rule)
            cells = (
                f"{np.count_nonzero(shipped[:, column] & ~without[:, column])} / "
                f"{np.count_nonzero(~shipped[:, column] & without[:, column])}"
                for column in columns
            )
            print(f"| {rule} | {' | '.join(cells)} |", flush=True)
            decided = np.flatnonzero(shipped[:, 0] != without[:, 0]) if options.questions else ()
            for place in decided:
                said = "mended" if shipped[place, 0] else "broken"
                print(f"{said}: {questions[place].id} {questions[place].text}")


def ask(work: Path, questions: Sequence[Question], rule: str = "") -> np.ndarray:
    """Return what is found without a rule, ``[questions, measures]`` bool."""
    weights = replace(WEIGHTS, **WITHOUT.get(rule, {}))
    replaced: AbstractContextManager[Any] = nullcontext()
    if rule in REPLACED:
        replaced = patch(*REPLACED[rule])
    found: dict[Question, list[bool]] = {}
    with replaced:
        for corpus in sorted({question.corpus for question in questions}):
            asked = [question for question in questions if question.corpus == corpus]
            with Engine(IndexStore.open(work / corpus), weights=weights) as engine:
                results = engine.search_many([each.text for each in asked], top_k=RESULTS)
            found |= dict(zip(asked, map(measure, asked, results), strict=True))
    return np.array([found[question] for question in questions])


@contextmanager
def remember_readings(file: Path) -> Iterator[None]:
    """Let the re-ranker read each passage with a question once, and keep its log-odds in a file."""
    known: dict[tuple[str, PlacedText], float] = {}
    if file.exists():
        known = pickle.loads(file.read_bytes())
    score = PassageReranker.score

    def look_up(reranker: PassageReranker, question: str, passages: Sequence[PlacedText]) -> Scores:
        new = [each for each in passages if (question, each) not in known]
        scores = score(reranker, question, new) if new else ()
        known.update(zip(((question, each) for each in new), map(float, scores), strict=True))
        return np.array([known[question, each] for each in passages], np.float32)

    with patch.object(PassageReranker, "score", look_up):
        yield
    file.write_bytes(pickle.dumps(known))


if __name__ == "__main__":
    main()
