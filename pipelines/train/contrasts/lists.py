"""The introduction of a list, with the whole list, a half of it, and none of it."""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from lmkrag.evaluation.dataset import load_dataset
from pipelines.train.contrasts.passages import MOST, Contrast, name_document, read_sentences
from pipelines.train.mined import ANSWERS, NO_SHORT, Passage, make_negative

SETS = {"aws_headings": 800, "faq_headings": 400, "peps": 300, "rfcs": 300, "eips": 300}
_INTRODUCTION = re.compile(r"\w.*:\s*$", re.DOTALL)
_SHORTEST, _LONGEST = 25, 220  # characters of an introduction
_FEWEST, _MOST_ITEMS = 3, 14
_ITEM = re.compile(r"\s*(?:[-*+•]|\d{1,2}[.)])\s+\S")
_LEFT_OUT = 0.5  # of the lists


def ask_lists(name: str, data: Path, count: int, rng: np.random.Generator) -> Iterator[Contrast]:
    """Yield the introductions of lists as questions."""
    made = 0
    for document in load_dataset(data / name).documents:
        texts = read_sentences(document.text)
        number = 0
        while number < len(texts) and made < count:
            intro, number = number, number + 1
            if not _introduces(texts[intro]):
                continue
            stop = number
            while stop < len(texts) and _ITEM.match(texts[stop]):
                stop += 1
            items = texts[number:stop]
            is_usable = _FEWEST <= len(items) <= _MOST_ITEMS and sum(map(len, items)) <= MOST
            if not is_usable or rng.random() < _LEFT_OUT:
                continue
            made += 1
            number = stop
            place = name_document(document)
            passages = (
                _make_list(place, texts[intro], items, complete=1),
                _make_list(place, texts[intro], items[: len(items) // 2], complete=0),
                make_negative(place, texts[max(0, intro - 2) : intro + 1]),
            )
            if after := texts[stop : stop + 3]:
                passages = (*passages, make_negative(place, after))
            question = texts[intro].strip().rstrip(":")
            yield Contrast(f"{name}/list/{document.doc_id}/{intro}", question, passages, place)


def _introduces(text: str) -> bool:
    return _SHORTEST < len(text.strip()) < _LONGEST and bool(_INTRODUCTION.search(text))


def _make_list(place: str, intro: str, items: list[str], *, complete: int) -> Passage:
    labels = (ANSWERS,) * (1 + len(items))
    return Passage(place, (intro, *items), labels, NO_SHORT, complete)
