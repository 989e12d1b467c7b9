"""Questions with the passages that a search would let a re-ranker read, as :mod:`mining` writes them."""

import gzip
import json
from pathlib import Path
from typing import Any, NamedTuple

ANSWERS, NO_ANSWER, UNKNOWN = 1, 0, -1  # what is known of a sentence


class MinedPassage(NamedTuple):
    """A passage that a search would let the model read: its sentences, their scores and their labels."""

    title: str
    sentences: tuple[str, ...]
    scores: tuple[float, ...]
    similarities: tuple[float, ...]
    labels: tuple[int, ...]
    scored: tuple[bool, ...]  # false for sentences without a score of the search, which get the lowest of the passage
    answers: tuple[tuple[int, int, int], ...]  # short answers: number of the sentence, start and end in it
    document: int  # its id in the index that was searched
    first: int  # the id of the first sentence there
    complete: int = UNKNOWN  # 1 if it has the whole answer, 0 if a part of it


class MinedQuestion(NamedTuple):
    """A question and its passages; one holds a sentence that answers."""

    question: str
    passages: tuple[MinedPassage, ...]


def read_mined(path: Path) -> list[MinedQuestion]:
    """Return the mined questions of a file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    return [MinedQuestion(question, tuple(map(_read_passage, passages))) for question, passages in records]


def _read_passage(record: list[Any]) -> MinedPassage:
    title, *values, answers, document, first = record[:9]
    rest = record[9:]  # whether it is complete, where that is known
    return MinedPassage(title, *map(tuple, values), tuple(map(tuple, answers)), document, first, *rest)
