"""Questions with passages, and what is known of their sentences: the files `SET.jsonl.gz`."""

import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
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

    ``short`` is the sentence, start and end of a short answer, :data:`NO_SHORT` if an answer has
    none, and None if nothing is known of one. ``complete`` is 1 if the passage has the whole
    answer, 0 if it has a part of it, and -1 if that is not known.
    """

    place: str
    sentences: tuple[str, ...]
    labels: tuple[int, ...]
    short: tuple[int, int, int] | None = None
    complete: int = UNKNOWN

    @property
    def answers(self) -> bool:
        """Whether a sentence answers."""
        return ANSWERS in self.labels


def make_negative(place: str, sentences: Sequence[str]) -> Passage:
    """Return a passage that does not answer."""
    return Passage(place, tuple(sentences), (NO_ANSWER,) * len(sentences))


class Mined(NamedTuple):
    """A question and its passages."""

    question: str
    passages: tuple[Passage, ...]


def write_mined(path: Path, questions: Iterable[Mined]) -> None:
    """Write a file; print how many questions and passages there are."""
    asked = taken = 0
    partial = path.with_suffix(".partial")
    with gzip.open(partial, "wt", encoding="utf-8") as file:
        for question, passages in questions:
            file.write(json.dumps([question, passages], ensure_ascii=False) + "\n")
            asked, taken = asked + 1, taken + len(passages)
    partial.rename(path)
    print(f"{path}: {asked} questions, {taken} passages", flush=True)


def read_lines(path: Path) -> Iterator[Any]:
    """Yield what the lines of a gzipped file say in JSON."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def read_mined(path: Path) -> list[Mined]:
    """Return the questions of a file."""
    return [
        Mined(question, tuple(map(_from_record, passages)))
        for question, passages in read_lines(path)
    ]


def _from_record(record: list[Any]) -> Passage:
    place, sentences, labels, short, complete = record
    return Passage(
        place, tuple(sentences), tuple(labels), None if short is None else tuple(short), complete
    )
