"""Short documents that were written for this, in groups of alike ones."""

import zlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipelines.train.contrasts.passages import (
    PLACE,
    Contrast,
    leave_out,
    list_sentences,
    read_sentences,
)
from pipelines.train.mined import (
    ANSWERS,
    NO_ANSWER,
    NO_SHORT,
    UNKNOWN,
    Passage,
    is_evidence,
    make_negative,
    read_lines,
)

HELD_OUT = 12  # one group in as many is not learnt from


def is_held_out(group: str) -> bool:
    """Return whether no reader learns from a group: the confidence is fitted on it."""
    return zlib.crc32(group.encode()) % HELD_OUT == 0


def read_notes(path: Path, language: str | None) -> Iterator[Contrast]:
    """Yield the questions of a file: lines with a document's group, place, text and questions.

    ``language`` takes the documents of one alone.
    """
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for record in read_lines(path):
        is_wanted = language in (None, record["lang"])
        if is_wanted and not is_held_out(record["group"]):
            groups[record["group"]].append(record)
    for name, records in groups.items():
        for number, record in enumerate(records):
            others = [_read_note(other) for other in records if other is not record]
            for at, asked in enumerate(record["questions"]):
                own = _label_note(record, asked) if asked["sentence"] else _read_note(record)
                if asked["sentence"] and not own.answers:
                    continue
                rest = leave_out(own) if asked["sentence"] else []
                key = f"notes/{name}/{number}/{at}"
                yield Contrast(key, asked["question"], (own, *others, *rest))


def _read_note(record: dict[str, Any]) -> Passage:
    """Return a document as a passage that does not answer."""
    return make_negative(record["place"][:PLACE], read_sentences(record["text"]))


def _label_note(record: dict[str, Any], asked: dict[str, Any]) -> Passage:
    """Return a document as a passage, labelled for a question that a sentence of it answers."""
    text, sentence, value = record["text"], asked["sentence"], asked.get("short") or ""
    bounds = list_sentences(text)
    start = text.find(sentence)
    evidence = [(start, start + len(sentence))] if start >= 0 else []
    labels = tuple(ANSWERS if is_evidence(each, evidence) else NO_ANSWER for each in bounds)
    begin = text.find(value, start, start + len(sentence)) if value else -1
    end = begin + len(value)
    shorts = [
        (number, begin - low, end - low)
        for number, (low, high) in enumerate(bounds)
        if low <= begin and end <= high
    ]
    short = shorts[-1] if shorts else NO_SHORT
    complete = int(asked.get("complete", UNKNOWN))
    return _read_note(record)._replace(labels=labels, short=short, complete=complete)
