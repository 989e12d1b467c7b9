"""Questions with passages, and what is known of their sentences: the files `SET.jsonl.gz`."""

import gzip
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ANSWERS, NO_ANSWER, UNKNOWN = 1, 0, -1  # what is known of a sentence
NO_SHORT = (-1, 0, 0)
HALF = 0.5  # a sentence answers if more of it is evidence, or if it has more of some evidence

Span = tuple[int, int]
"""Characters ``(start, end)`` of a text."""


def is_evidence(sentence: Span, evidence: Sequence[Span]) -> bool:
    """Return whether a sentence answers, by the evidence in its document."""
    low, high = sentence
    return any(
        min(high, end) - max(low, start) > HALF * min(high - low, end - start)
        for start, end in evidence
    )


class Passage(NamedTuple):
    """Sentences of a document that follow one another, and their labels.

    ``short`` is the sentence, start and end of a short answer, :data:`NO_SHORT` if there is none,
    and None if that is not known. ``complete`` is 1 if the passage has the whole answer, 0 if it
    has a part of it, and -1 if that is not known.
    """

    place: str
    sentences: tuple[str, ...]
    labels: tuple[int, ...]
    short: tuple[int, int, int] | None = NO_SHORT
    complete: int = UNKNOWN

    @property
    def answers(self) -> bool:
        """Whether a sentence answers."""
        return ANSWERS in self.labels

    def as_negative(self) -> "Passage":
        """Return the same for a question that it does not answer."""
        labels = (NO_ANSWER,) * len(self.sentences)
        return self._replace(labels=labels, short=NO_SHORT, complete=UNKNOWN)


class Mined(NamedTuple):
    """A question and its passages."""

    question: str
    passages: tuple[Passage, ...]


def write_mined(path: Path, questions: Iterable[Mined]) -> tuple[int, int]:
    """Write a file; return how many questions and passages there are."""
    counts = [0, 0]
    partial = path.with_suffix(".partial")
    with gzip.open(partial, "wt", encoding="utf-8") as file:
        for question, passages in questions:
            record = [question, [_to_record(passage) for passage in passages]]
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
            counts = [counts[0] + 1, counts[1] + len(passages)]
    partial.rename(path)
    return counts[0], counts[1]


def read_mined(path: Path) -> list[Mined]:
    """Return the questions of a file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    return [Mined(question, tuple(map(_from_record, passages))) for question, passages in records]


def _to_record(passage: Passage) -> list[Any]:
    """Scores, similarities, whether scored, and ids in an index stand there for earlier readers."""
    zeros, scored = [0.0] * len(passage.sentences), [True] * len(passage.sentences)
    is_known = passage.short is not None and (passage.short[0] >= 0 or passage.answers)
    short = [passage.short] if is_known else []
    place, sentences, labels, _, complete = passage
    return [place, sentences, zeros, zeros, labels, scored, short, 0, 0, complete]


def _from_record(record: list[Any]) -> Passage:
    place, sentences, _, _, labels, _, answers, *rest = record
    short = tuple(answers[0]) if answers else None
    complete = rest[2] if len(rest) > 2 else UNKNOWN
    return Passage(place, tuple(sentences), tuple(labels), short, complete)
