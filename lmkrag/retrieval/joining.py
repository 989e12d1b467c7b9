"""Passages from grown spans, best first: each completed, those that meet joined, copies told once."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from lmkrag.index.view import DocumentView
from lmkrag.retrieval.passages import complete_span
from lmkrag.retrieval.results import Results, strip
from lmkrag.types import Span

JOINED = 8
"""Spans, the best ones, that become one passage with a better one that they touch."""

LONGEST_JOINED = 300
"""Characters of a passage that is made by joining spans that only touch: slivers become one, paragraphs do not."""

TAKEN_OVER = 100
"""Characters by which a passage is extended at most for a lesser one that overlaps it; else that is cut off."""

_COPY = 80  # characters: shorter texts stand in many documents that are no copies


@dataclass(slots=True)
class _Passage:
    view: DocumentView
    start: int
    end: int
    hits: list[int]
    also_in: list[str] = field(default_factory=list)

    @property
    def words(self) -> str:
        return " ".join(self.view.text(self.start, self.end).split())


def join_passages(
    results: Results, grown: Iterator[tuple[int, int, int]], *, top_k: int, per_document: int | None = None
) -> list[Span]:
    """Return the passages of grown spans, best first.

    Args:
        results: makes the spans.
        grown: (first, stop, hit) positions of candidates, best first.
        top_k: how many passages.
        per_document: how many of one document, at most.
    """
    made: list[_Passage] = []
    for rank, (first, stop, hit) in enumerate(grown):
        view = results.view(hit)
        low, high = results.ordinal(first), results.ordinal(stop - 1) + 1
        passage = _Passage(view, *strip(view, *complete_span(view, low, high)), [hit])
        touching = rank < JOINED and view.kind(results.ordinal(hit)) != "record"
        if _joins(made, passage, view.bounds(results.ordinal(hit)), touching=touching):
            continue
        if per_document is not None and sum(other.view is view for other in made) >= per_document:
            continue
        if len(made) >= top_k:
            made = _without_copies(made)
            if len(made) == top_k:
                break
        made.append(passage)
    return [
        replace(results.make_span(passage.start, passage.end, passage.hits), also_in=tuple(passage.also_in))
        for passage in _without_copies(made)
    ]


def _joins(made: list[_Passage], passage: _Passage, hit: tuple[int, int], *, touching: bool) -> bool:
    """Make a passage part of a better one that it meets; return whether it is.

    One that overlaps a better one and is not joined keeps the side on which its hit (start, end) stands.
    """
    for better in made:
        if better.view is not passage.view:
            continue
        low, high = min(better.start, passage.start), max(better.end, passage.end)
        apart = passage.end <= better.start or better.end <= passage.start
        if apart:
            gap = passage.view.text(min(better.end, passage.end), max(better.start, passage.start))
            if not touching or high - low > LONGEST_JOINED or gap.strip():
                continue
        if apart or touching or high - low - (better.end - better.start) <= TAKEN_OVER:
            better.start, better.end = low, high
        elif hit[1] <= better.start or better.end <= hit[0]:
            left = hit[1] <= better.start
            start, end = (passage.start, better.start) if left else (better.end, passage.end)
            passage.start, passage.end = strip(passage.view, start, end)
            continue
        better.hits += passage.hits
        _take_over(made, better)
        return True
    return False


def _take_over(made: list[_Passage], passage: _Passage) -> None:
    """Make one of a passage that has grown and those that it now overlaps, in the place of the best of them."""
    while True:
        together = [
            other
            for other in made
            if other.view is passage.view and other.start < passage.end and passage.start < other.end
        ]
        if len(together) == 1:
            return
        best, *others = together
        best.start, best.end = min(other.start for other in together), max(other.end for other in together)
        for other in others:
            best.hits += other.hits
            made.remove(other)
        passage = best


def _without_copies(made: list[_Passage]) -> list[_Passage]:
    """Leave out passages whose words a better one of another document has; that one tells where else they stand."""
    kept: list[tuple[_Passage, str]] = []
    for passage in made:
        words = passage.words
        same = (
            other for other, text in kept if len(words) >= _COPY and other.view is not passage.view and words in text
        )
        better = next(same, None)
        if better is None:
            kept.append((passage, words))
        else:
            better.also_in = list(dict.fromkeys([*better.also_in, passage.view.row.doc_id, *passage.also_in]))
    return [passage for passage, _ in kept]
