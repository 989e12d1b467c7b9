"""How far what `ask` says about its answers can be trusted, on corpora with questions: see `asking.py`.

Rates have Wilson's 95 % interval (Wilson, 1927), which holds for small counts and for 0 and 100 %.
"""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import sqrt
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from answers import auroc
from real import Question, read_questions
from sklearn.linear_model import LogisticRegression

from lmkrag import Answer, Engine, Span
from lmkrag.readers.confidence import confidence_features
from lmkrag.readers.extractive import ExtractiveReader

LABELS = ("strong", "likely", "unsure", "weak")
SHARED = 0.5  # of the words of the sentence that answers, which a marked one has
T = TypeVar("T")


class Outcome(NamedTuple):
    """The result of a question of a corpus.

    ``kind`` is "answered" or the reason why nothing answers it. ``three`` and ``first`` say whether
    one of the first three passages and whether the first one answers; ``right``, whether what is
    said answers; ``marked``, whether the first marked sentence does, None without one; ``short``,
    whether the short answer is right, None without one; ``brief``, whether the question has an
    answer in a few words, not yes or no; ``seconds`` are the CPU time of a search and of `ask`.
    """

    question: Question
    kind: str
    three: bool
    first: bool
    right: bool
    marked: bool | None
    short: bool | None
    brief: bool
    label: str
    confidence: float
    features: tuple[float, ...]
    seconds: tuple[float, float]
    said: str


def ask_corpus(folder: Path, work: Path) -> Iterator[Outcome]:
    """Index what is new of a corpus, and ask its questions."""
    with Engine.open(work / folder.name, create=True) as engine:
        engine.add(folder / "files")
        questions = read_questions(folder / "questions.jsonl")
        sentences = read_sentences(folder / "questions.jsonl")
        engine.ask(questions[-1].text)  # so that the first search loads nothing
        # Search for all questions first. The cache of readings is too small for them, so each
        # `ask` is a cache miss.
        searches = [measure(engine.search, question.text) for question in questions]
        for question, (spans, search_seconds) in zip(questions, searches, strict=True):
            answer, ask_seconds = measure(engine.ask, question.text)
            pattern = question.pattern or re.compile(r"(?!)")
            said = [answer.text, *(citation.quote for citation in answer.citations)]
            yield Outcome(
                question,
                "answered" if question.pattern else question.kind,
                any(pattern.search(span.text) for span in spans[:3]),
                bool(spans) and pattern.search(spans[0].text) is not None,
                any(map(pattern.search, said)),
                judge_mark(answer, pattern, sentences.get(question.id)),
                judge_short(answer, question),
                question.short is not None and question.kind != "yes/no",
                answer.label,
                answer.confidence or 0.0,
                weigh(question.text, spans),
                (search_seconds, ask_seconds),
                answer.text,
            )


def read_sentences(file: Path) -> dict[str, str]:
    """Return the sentence that answers each question of a file, by its id, where it is known."""
    rows = map(json.loads, file.read_text("utf-8").splitlines())
    return {row["id"]: row["sentence"] for row in rows if row.get("sentence")}


def judge_mark(answer: Answer, pattern: re.Pattern[str], sentence: str | None) -> bool | None:
    """Return whether the first sentence that an answer cites is one that answers; None without one."""
    if not answer.citations:
        return None
    quote = answer.citations[0].quote
    if pattern.search(quote):
        return True
    wanted, shown = (set(re.findall(r"\w+", text.lower())) for text in (sentence or "", quote))
    return bool(wanted) and len(wanted & shown) >= SHARED * len(wanted)


def judge_short(answer: Answer, question: Question) -> bool | None:
    """Return whether the short answer is right; None without one."""
    if not answer.short:
        return None
    return question.short is not None and question.short.search(answer.short[0].text) is not None


def measure(call: Callable[[str], T], question: str) -> tuple[T, float]:
    """Return the result of a call and its CPU time in seconds."""
    began = time.process_time()
    return call(question), time.process_time() - began


def weigh(question: str, spans: Sequence[Span]) -> tuple[float, ...]:
    """Return the features that the confidence is estimated from."""
    readings = [each.reading for each in ExtractiveReader().read(question, spans)]
    return confidence_features(spans, readings)


def write_rate(flags: Sequence[bool]) -> str:
    """Return how many flags are set, in %, with Wilson's 95 % interval."""
    count, z = len(flags), 1.96
    if not count:
        return "0 of 0"
    rate = sum(flags) / count
    middle = (rate + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * sqrt(rate * (1 - rate) / count + z * z / (4 * count * count))
    low, high = 100 * (middle - half), 100 * (middle + half)
    return f"{sum(flags)} of {count} ({100 * rate:.1f} % [{low:.1f}, {high:.1f}])"


def print_corpora(outcomes: Sequence[Outcome]) -> None:
    """Print what can be trusted of the answers to the questions of corpora."""
    answered = [outcome for outcome in outcomes if outcome.kind == "answered"]
    brief = [outcome for outcome in answered if outcome.brief]
    strong = [outcome for outcome in outcomes if outcome.label == "strong"]
    right = [outcome for outcome in answered if outcome.right]
    rates = {
        "answered in the first passage": [outcome.first for outcome in answered],
        "answered in the first three": [outcome.three for outcome in answered],
        "answered by `ask`": [outcome.right for outcome in answered],
        "the same, and not called weak": [o.right and o.label != "weak" for o in answered],
        "short answers, of those with one": [outcome.short is not None for outcome in brief],
        "short answers that are right": [bool(o.short) for o in outcomes if o.short is not None],
        "right answers whose mark is right": [bool(outcome.marked) for outcome in right],
        "strong, of the answerable": [outcome.label == "strong" for outcome in answered],
        "strong that are right": [o.kind == "answered" and o.right for o in strong],
    }
    for kind in dict.fromkeys(outcome.kind for outcome in outcomes if outcome.kind != "answered"):
        labels = [outcome.label for outcome in outcomes if outcome.kind == kind]
        rates[f"{kind}, called weak"] = [label == "weak" for label in labels]
        rates[f"{kind}, called strong"] = [label == "strong" for label in labels]
    print(f"\n{len(outcomes)} questions\n\n| | |\n|---|---|")
    for name, flags in rates.items():
        print(f"| {name} | {write_rate(flags)} |")
    search, ask = np.array([outcome.seconds for outcome in outcomes]).mean(0)
    print(
        f"\nCPU time of a search {1e3 * search:.0f} ms, of `ask` {1e3 * ask:.0f} ms: {ask / search:.2f} times"
    )
    used = [label for label in LABELS if any(outcome.label == label for outcome in outcomes)]
    print(f"\n| questions | {' | '.join(used)} |\n|---|{'---|' * len(used)}")
    for kind in dict.fromkeys(outcome.kind for outcome in outcomes):
        labels = [outcome.label for outcome in outcomes if outcome.kind == kind]
        print(f"| {kind} | {' | '.join(str(labels.count(label)) for label in used)} |")
    print_reliability(
        np.array([outcome.question.corpus for outcome in outcomes]),
        np.array([outcome.three for outcome in outcomes]),
        np.array([outcome.features for outcome in outcomes]),
        {"constants in use": np.array([outcome.confidence for outcome in outcomes])},
    )


def print_faults(outcomes: Sequence[Outcome]) -> None:
    """Print what is said wrongly: short answers, strong answers, marks."""
    for outcome in outcomes:
        faults = {
            "short": outcome.short is False,
            "strong": outcome.label == "strong"
            and not (outcome.kind == "answered" and outcome.right),
            "mark": outcome.right and outcome.kind == "answered" and not outcome.marked,
        }
        wrong = [name for name, is_wrong in faults.items() if is_wrong]
        if wrong:
            question, said = outcome.question, " ".join(outcome.said.split())[:160]
            print(
                f"{', '.join(wrong)}: {question.id} {question.text} {outcome.confidence:.2f}: {said}"
            )


def print_reliability(
    sets: np.ndarray,
    truth: np.ndarray,
    features: np.ndarray,
    confidence: Mapping[str, np.ndarray],
    weights: np.ndarray | None = None,
) -> None:
    """Print how well confidences separate and are calibrated; also of one fitted with each set left out.

    Args:
        sets: the set of each question ``[n]``.
        truth: whether the passages that are shown answer ``[n]``.
        features: what a confidence is estimated from ``[n, d]``.
        confidence: the probabilities ``[n]`` to judge, by name.
        weights: of the questions in the fit ``[n]``.
    """
    refitted = np.zeros(len(truth))
    for left_out in np.unique(sets):
        rest = sets != left_out
        if not rest.any():
            continue
        model = LogisticRegression(C=10).fit(
            features[rest], truth[rest], None if weights is None else weights[rest]
        )
        refitted[~rest] = model.predict_proba(features[~rest])[:, 1]
    for name, values in {**confidence, "fitted, one set left out": refitted}.items():
        print(f"\n| {name} | questions | mean | answered |\n|---|---|---|---|")
        error = 0.0
        for low in np.arange(0, 1, 0.2):
            inside = (values >= low) & (values < low + 0.2 + (low > 0.7))
            if inside.any():
                error += abs(values[inside].mean() - truth[inside].mean()) * inside.mean()
                print(
                    f"| {low:.1f} | {inside.sum()} | {values[inside].mean():.2f} | {truth[inside].mean():.2f} |"
                )
        print(f"calibration error {error:.3f}, AUROC {auroc(values[truth], values[~truth]):.3f}")
