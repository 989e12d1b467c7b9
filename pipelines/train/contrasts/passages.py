"""Passages of documents, and what is made of them."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lmkrag.evaluation.dataset import Query, load_dataset
from lmkrag.sentences.split import split_sentences
from lmkrag.types import Document
from pipelines.train.mined import ANSWERS, NO_ANSWER, Passage, Span, is_evidence, make_negative

LENGTHS = (160, 900)  # characters of a passage, drawn between these
MOST = 1_200  # characters of the evidence of a question that is used
LEAST = 60  # characters of a passage that lost what answers
PLACE = 90  # characters of a place


class Contrast(NamedTuple):
    """A question and its passages; who rewords it gets its ``key`` and a ``hint`` on it."""

    key: str
    question: str
    passages: tuple[Passage, ...]
    hint: str = ""


Family = Callable[[str, Path, int, np.random.Generator], Iterator[Contrast]]
"""Yields contrasts of a kind: of a set, the folder of all sets, so many questions."""


def load_set(folder: Path) -> tuple[dict[str, Document], list[Query]]:
    """Return the documents of a set by their names, and the questions whose evidence is used."""
    dataset = load_dataset(folder)
    documents = {document.doc_id: document for document in dataset.documents}
    queries = [
        query
        for query in dataset.queries
        if query.spans and query.spans[0][1] - query.spans[0][0] <= MOST
    ]
    return documents, queries


@cache
def list_sentences(text: str) -> tuple[Span, ...]:
    """Return the sentences of a text, as characters ``(start, end)``."""
    return tuple((sentence.start, sentence.end) for sentence in split_sentences(text))


def read_sentences(text: str) -> list[str]:
    """Return the sentences of a text."""
    return [text[low:high] for low, high in list_sentences(text)]


def name_document(document: Document) -> str:
    """Return the title of a document as people would write it, without the numbers of a filing."""
    title = document.title.split(";")[0]
    if re.search(r"EX-\d", title):
        company = title.split()[0].split("_")[0]
        company = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", company)
        kind = re.split(r"EX-[\d.]+[\s-]*\d*", title)[-1].strip(" -")
        year = re.search(r"\b(?:19|20)\d\d", title)
        title = f"{company} {year.group() if year else ''} {kind}".replace("  ", " ")
    return title[:PLACE].strip()


def cut_passage(
    document: Document, evidence: Sequence[Span], rng: np.random.Generator, *, is_short: bool
) -> tuple[Passage, Span]:
    """Return the first evidence with some sentences around it, and their numbers.

    ``is_short`` says that the evidence is a short answer. The numbers are ``(first, stop)``.
    """
    bounds = list_sentences(document.text)
    start, end = evidence[0]
    inside = [number for number, (low, high) in enumerate(bounds) if low < end and high > start]
    most = int(rng.integers(*LENGTHS))
    first, stop = _grow(bounds, inside[0], inside[-1] + 1, most, rng)
    labels, short = [], None
    for number, (low, high) in enumerate(bounds[first:stop]):
        is_answer = is_evidence((low, high), evidence)
        labels.append(ANSWERS if is_answer else NO_ANSWER)
        has_short = is_short and is_answer and low <= start and end <= high
        if has_short and short is None:
            short = (number, start - low, end - low)
    texts = read_sentences(document.text)[first:stop]
    passage = Passage(name_document(document), tuple(texts), tuple(labels), short)
    return passage, (first, stop)


def cut_beside(document: Document, inside: Span, rng: np.random.Generator) -> list[Passage]:
    """Return the passages before and after sentences ``(first, stop)``, which do not answer."""
    bounds, most = list_sentences(document.text), int(rng.integers(*LENGTHS))
    first, stop = low, high = inside
    while low > 0 and bounds[first - 1][1] - bounds[low - 1][0] <= most:
        low -= 1
    while high < len(bounds) and bounds[high][1] - bounds[stop][0] <= most:
        high += 1
    texts = read_sentences(document.text)
    sides = (texts[low:first], texts[stop:high])
    return [make_negative(name_document(document), side) for side in sides if side]


def leave_out(passage: Passage) -> list[Passage]:
    """Return a passage without its sentences that answer, or nothing if too little is left."""
    pairs = zip(passage.sentences, passage.labels, strict=True)
    rest = [text for text, label in pairs if label == NO_ANSWER]
    return [make_negative(passage.place, rest)] if sum(map(len, rest)) > LEAST else []


def shared_names(one: str, other: str) -> int:
    """Return how many words two names share."""
    return len({*one.lower().split()} & {*other.lower().split()})


def _grow(
    bounds: Sequence[Span], first: int, stop: int, most: int, rng: np.random.Generator
) -> Span:
    """Add sentences before and after others, by chance, up to ``most`` characters."""

    def fits(side: Span) -> bool:
        low, high = side
        is_inside = low >= 0 and high <= len(bounds)
        return is_inside and bounds[high - 1][1] - bounds[low][0] <= most

    while True:
        before, after = (first - 1, stop), (first, stop + 1)
        sides = (before, after) if rng.random() < 0.5 else (after, before)
        side = next(filter(fits, sides), None)
        if side is None:
            return first, stop
        first, stop = side
