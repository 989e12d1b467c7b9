"""The passage that a re-ranker reads for a result: the result itself, or the text around a span, a
sentence or the best sentence of a document.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from lmkrag.index.view import DocumentView
from lmkrag.reranker.base import PASSAGE_CHARS, PlacedText
from lmkrag.reranker.inputs import prepare_passage
from lmkrag.results import Span
from lmkrag.search.candidates import Candidates
from lmkrag.search.units import find_bounds, measure


class SpanInput(NamedTuple):
    """The passage that a re-ranker reads for a result.

    Attributes:
        passage: the passage.
        sentences: the characters ``[start, end)`` of its sentences, where the result is a part of
            it.
        first: the first of these sentences in the result.
        stop: the one after the last.
    """

    passage: PlacedText
    sentences: tuple[tuple[int, int], ...] = ()
    first: int = 0
    stop: int = 0


def prepare_surroundings(candidates: Candidates, span: Span) -> SpanInput:
    """Return the sentences around the best hit of a span, a sentence or a document."""
    hit = span.hits[0]
    view = candidates.view(int(np.searchsorted(candidates.sentences, hit.sentence_id)))
    low, high = view.ordinal_at(span.start), view.ordinal_at(span.end - 1) + 1
    # First the sentences of the span, then those before and after it.
    first, stop = _extend(view, hit.ordinal, hit.ordinal + 1, low, high)
    first, stop = _extend(view, first, stop, 0, view.row.sentences)
    start, end = find_bounds(view, first, stop)
    read = prepare_passage(replace(span, text=view.text(start, end)))
    bounds = (view.bounds(ordinal) for ordinal in range(first, stop))
    sentences = tuple(read.locate(left - start, right - start) for left, right in bounds)
    return SpanInput(read.passage, sentences, max(low, first) - first, min(high, stop) - first)


def _extend(view: DocumentView, first: int, stop: int, low: int, high: int) -> tuple[int, int]:
    """Take sentences before and after by turns, within ``[low, high)``, while the passage is short
    enough.
    """

    def fits(start: int, end: int) -> bool:
        return low <= start and end <= high and measure(view, start, end) <= PASSAGE_CHARS

    while True:
        before = first
        if fits(first - 1, stop):
            first -= 1
        if fits(first, stop + 1):
            stop += 1
        elif first == before:
            return first, stop
