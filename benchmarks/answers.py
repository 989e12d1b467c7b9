"""Short answers and "nothing here" without a language model: how often is `ask` exactly right, and when does it refuse?

    python benchmarks/answers.py [--data ../shared/data/dev] [--queries 400] [--out answers.json]

Asks the questions of `squad` and `squad_unanswerable` of their own documents. Prints exact match and F1 (as SQuAD's own
script counts them: without case, punctuation and articles) of what `ask` says first (the short answer, or the sentence
where there is none), and of the sentence alone. Then how well the confidence tells answered from unanswerable questions
(AUROC), beside the evidence of the search alone: similarity, and the words of the question. Differences have 95 %
intervals by a paired bootstrap.
"""

import argparse
import json
import string
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import mannwhitneyu

from lmkrag import Answer, Engine
from lmkrag.evaluation.dataset import draw_sample, load_dataset
from lmkrag.evaluation.metrics import paired_interval
from lmkrag.results import FOUND, UNSURE, weigh_evidence
from lmkrag.search.filters import quote

ANSWERED, UNANSWERABLE = "squad", "squad_unanswerable"


class Reply(NamedTuple):
    """A question, its right answers (none if nothing answers it), and the answer of `ask`."""

    question: str
    gold: tuple[str, ...]
    answer: Answer


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data/dev"))
    parser.add_argument("--queries", type=int, default=400, help="questions of each set")
    parser.add_argument("--out", type=Path, help="also write each question's answer and confidence")
    options = parser.parse_args()
    answered, unanswerable = (
        ask(options.data / name, options.queries) for name in (ANSWERED, UNANSWERABLE)
    )
    print_answers(answered)
    print_refusals(answered, unanswerable)
    if options.out:
        rows = [
            {
                "question": question,
                "gold": gold,
                "said": answer.text,
                "confidence": answer.confidence,
            }
            for question, gold, answer in [*answered, *unanswerable]
        ]
        options.out.write_text(json.dumps(rows, indent=1), "utf-8")


def ask(folder: Path, count: int) -> list[Reply]:
    """Ask questions of a set, each of its own document."""
    dataset = load_dataset(folder)
    texts = {document.doc_id: document.text for document in dataset.documents}
    with tempfile.TemporaryDirectory() as work, Engine.open(work, create=True) as engine:
        engine.add(dataset.documents)
        return [
            Reply(
                query.query,
                tuple(texts[query.doc_id][start:end] for start, end in query.spans),
                engine.ask(query.query, filter=f"doc_id={quote(query.doc_id)}"),
            )
            for query in draw_sample(dataset.queries, count)
        ]


def print_answers(replies: Sequence[Reply]) -> None:
    """Print exact match and F1 of the short answer and of the sentence."""
    ways: dict[str, Callable[[Answer], str]] = {
        "sentence": first_sentence,
        "short answer": first_words,
    }
    print(f"{'what is said first':24s} exact match      F1   ({len(replies)} questions)")
    scores = {}
    for name, say in ways.items():
        scores[name] = np.array(
            [
                [
                    max(score(say(reply.answer), gold) for gold in reply.gold)
                    for score in (exact, f1)
                ]
                for reply in replies
            ]
        )
        print(
            f"{name:24s} {100 * scores[name][:, 0].mean():11.1f} {100 * scores[name][:, 1].mean():7.1f}"
        )
    for column, name in enumerate(("exact match", "F1")):
        difference = scores["short answer"][:, column] - scores["sentence"][:, column]
        print(f"  difference of {name}: {interval(difference)}")
    right = [
        max(f1(first_words(reply.answer), gold) for gold in reply.gold)
        for reply in replies
        if reply.answer.short
    ]
    share = 100 * len(right) / len(replies)
    print(f"  a short answer is given to {share:.1f} %, F1 of those {100 * np.mean(right):.1f}")


def print_refusals(answered: Sequence[Reply], unanswerable: Sequence[Reply]) -> None:
    """Print how well answered questions are told from unanswerable ones."""
    ways: dict[str, tuple[Callable[[Answer], float], float]] = {
        "evidence of the search": (lambda answer: weigh_evidence(answer.spans), FOUND),
        "confidence": (lambda answer: answer.confidence or 0.0, UNSURE),
    }
    print(
        f"\n{'told by':24s} AUROC  refused though answered  refused rightly  refused rightly at 5 % wrongly"
    )
    for name, (value, least) in ways.items():
        good, bad = (
            np.array([value(reply.answer) for reply in replies])
            for replies in (answered, unanswerable)
        )
        at_five = 100 * (bad < np.quantile(good, 0.05)).mean()
        wrongly, rightly = (100 * (values < least).mean() for values in (good, bad))
        print(
            f"{name:24s} {auroc(good, bad):5.3f} {wrongly:23.1f} % {rightly:15.1f} % {at_five:28.1f} %"
        )
    print("\nconfidence   questions   answered")
    values = np.array([reply.answer.confidence or 0.0 for reply in [*answered, *unanswerable]])
    truth = np.array([True] * len(answered) + [False] * len(unanswerable))
    for low in np.arange(0, 1, 0.2):
        inside = (values >= low) & (values < low + 0.2 + (low > 0.75))
        share = f"{100 * truth[inside].mean():8.1f} %" if inside.any() else ""
        print(f"{low:.1f} - {low + 0.2:.1f} {inside.sum():11d} {share}")


def auroc(good: np.ndarray, bad: np.ndarray) -> float:
    """Return how often a good value is greater than a bad one."""
    return float(mannwhitneyu(good, bad).statistic) / (len(good) * len(bad))


def first_words(answer: Answer) -> str:
    """The short answer, or the sentence where there is none."""
    return answer.short[0].text if answer.short else first_sentence(answer)


def first_sentence(answer: Answer) -> str:
    """The sentence that is quoted first."""
    return answer.citations[0].quote if answer.citations else ""


def normal(text: str) -> list[str]:
    """The words of an answer, without case, punctuation and articles."""
    plain = "".join(character for character in text.lower() if character not in string.punctuation)
    return [word for word in plain.split() if word not in ("a", "an", "the")]


def exact(answer: str, gold: str) -> float:
    """Whether two answers are the same."""
    return float(normal(answer) == normal(gold))


def f1(answer: str, gold: str) -> float:
    """The harmonic mean of precision and recall of an answer's words."""
    ours, theirs = normal(answer), normal(gold)
    common = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * common / (len(ours) + len(theirs)) if common else 0.0


def interval(differences: np.ndarray) -> str:
    """The mean of differences in points, and its interval."""
    mean, low, high = paired_interval(100 * differences)
    return f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]"


if __name__ == "__main__":
    main()
