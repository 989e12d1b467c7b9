"""Merge grown spans to results, best first: spans that touch, passages that overlap, copies in
other documents.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from lmkrag.index.view import DocumentView
from lmkrag.rendering.places import LINED
from lmkrag.results import Span
from lmkrag.search.candidates import Candidates
from lmkrag.search.growth import Grown
from lmkrag.search.passages import complete_span
from lmkrag.search.results import Results, strip
from lmkrag.search.weights import WEIGHTS, Weights
from lmkrag.types import Level
from lmkrag.types.arrays import Scores

Run = tuple[
    int, int, tuple[int, ...]
]  # positions of the first candidate, after the last, and of the hits, best first


def merge_level(
    level: Level,
    results: Results,
    candidates: Candidates,
    score: Scores,
    grown: Iterable[Grown],
    *,
    top_k: int,
    per_document: int | None = None,
) -> list[Span]:
    """Return the best documents, sentences or spans, best first: ``top_k`` at most,
    ``per_document`` of one.

    A document is a whole span, by its best sentence (LongRAG, arXiv 2406.15319); sentences are
    those with content.
    """
    if level not in ("document", "sentence"):
        return _merge_spans(results, candidates, score, grown, top_k, per_document)
    positions = (
        np.arange(len(score)) if level == "document" else np.flatnonzero(candidates.has_content)
    )
    order = positions[np.argsort(-score[positions], kind="stable")].tolist()
    runs = ((hit, hit + 1, (hit,)) for hit in order)
    best = _limit(candidates, runs, top_k, 1 if level == "document" else per_document)
    if level == "sentence":
        return _make_spans(results, best)
    return [results.make_span(0, results.view(hits[0]).row.length, hits) for _, _, hits in best]


def _merge_spans(
    results: Results,
    candidates: Candidates,
    score: Scores,
    grown: Iterable[Grown],
    most: int,
    per_document: int | None,
) -> list[Span]:
    """Merge spans that touch, if the lesser one is nearly as good as the better one."""
    merged: list[Run] = []
    for first, stop, hit in grown:
        run: Run = (first, stop, (hit,))
        near = [other for other in merged if _touch(candidates, other, run)]
        near = [
            other for other in near if score[hit] >= candidates.weights.join * score[other[2][0]]
        ]
        if near:
            parts = [*near, run]
            joined = (
                min(p[0] for p in parts),
                max(p[1] for p in parts),
                tuple(h for p in parts for h in p[2]),
            )
            merged[merged.index(near[0])] = joined
            for other in near[1:]:
                merged.remove(other)
        elif per_document is not None and per_document <= sum(
            candidates.documents[other[0]] == candidates.documents[hit] for other in merged
        ):
            continue
        elif len(merged) < most:
            merged.append(run)
        else:
            break
    return _make_spans(results, merged)


def _limit(
    candidates: Candidates, runs: Iterator[Run], top_k: int, per_document: int | None
) -> list[Run]:
    """The first ``top_k`` runs, ``per_document`` of each document at most."""
    best: list[Run] = []
    counts: Counter[int] = Counter()
    for run in runs:
        document = int(candidates.documents[run[0]])
        if per_document is None or counts[document] < per_document:
            counts[document] += 1
            best.append(run)
            if len(best) == top_k:
                break
    return best


def _touch(candidates: Candidates, run: Run, other: Run) -> bool:
    """Whether two runs of candidates follow each other in one document, nothing between them."""
    left, right = sorted((run, other))
    before, after = left[1] - 1, right[0]
    if after != before + 1 or candidates.record[before] or candidates.record[after]:
        return False
    is_next = candidates.sentences[after] - candidates.sentences[before] == 1
    return bool(is_next and candidates.documents[after] == candidates.documents[before])


def _make_spans(results: Results, runs: list[Run]) -> list[Span]:
    spans = []
    for first, stop, hits in runs:
        view = results.view(first)
        start, end = (
            view.bounds(results.ordinal(first))[0],
            view.bounds(results.ordinal(stop - 1))[1],
        )
        spans.append(results.make_span(start, end, hits))
    return spans


@dataclass(slots=True, eq=False)
class _Passage:
    view: DocumentView
    start: int
    end: int
    hits: list[int]
    also_in: list[str] = field(default_factory=list)


def merge_passages(
    results: Results,
    grown: Iterable[Grown],
    *,
    top_k: int,
    per_document: int | None = None,
    collapse: int = 0,
    weights: Weights = WEIGHTS,
) -> list[Span]:
    """Complete grown spans to passages, and merge those that meet, best first: see
    :func:`merge_level`.

    Unless ``collapse`` is 0, only the best passage of each document is returned, with the lines of
    the others in ``more``. If fewer than ``collapse`` documents match, their next best passages are
    returned as well.
    """
    choose = _best_of_each if collapse else list
    merged: list[_Passage] = []
    for rank, (first, stop, hit) in enumerate(grown):
        view = results.view(hit)
        low, high = results.ordinal(first), results.ordinal(stop - 1) + 1
        passage = _Passage(view, *strip(view, *complete_span(view, low, high, weights)), [hit])
        touching = rank < weights.touching and view.kind(results.ordinal(hit)) != "record"
        if _merge(
            merged, passage, view.bounds(results.ordinal(hit)), touching=touching, weights=weights
        ):
            continue
        count = sum(other.view is view for other in merged)
        if per_document is not None and count >= per_document:
            continue
        if not (collapse and count) and len(choose(merged)) >= top_k:
            merged = _without_copies(merged, weights)
            if len(choose(merged)) == top_k:
                break
        merged.append(passage)
    merged = _without_copies(merged, weights)
    firsts = choose(merged)
    others = [passage for passage in merged if passage not in firsts]  # none unless they collapse
    room = max(0, collapse - len(firsts))
    return [
        replace(
            results.make_span(passage.start, passage.end, passage.hits),
            also_in=tuple(passage.also_in),
            more=_list_lines(passage.view, others[room:]) if passage in firsts else (),
        )
        for passage in [*firsts, *others[:room]]
    ]


def _best_of_each(merged: list[_Passage]) -> list[_Passage]:
    """The first passage of each document."""
    best: dict[int, _Passage] = {}
    return [
        passage for passage in merged if best.setdefault(passage.view.row.id, passage) is passage
    ]


def _list_lines(view: DocumentView, passages: Iterable[_Passage]) -> tuple[int, ...]:
    """The lines where the passages of a document begin, if its lines are those of its file."""
    inside = (passage for passage in passages if passage.view is view and view.row.kind in LINED)
    return tuple(view.count_lines(passage.start) + 1 for passage in inside)


def _merge(
    merged: list[_Passage],
    passage: _Passage,
    hit: tuple[int, int],
    *,
    touching: bool,
    weights: Weights,
) -> bool:
    """Merge a passage with a better one that it meets, or cut it where they overlap; return whether
    it is merged.
    """
    for better in merged:
        if better.view is not passage.view:
            continue
        low, high = min(better.start, passage.start), max(better.end, passage.end)
        apart = passage.end <= better.start or better.end <= passage.start
        if apart:
            if not touching or high - low > weights.max_merged_chars:
                continue
            if passage.view.text(
                min(better.end, passage.end), max(better.start, passage.start)
            ).strip():
                continue
        if (
            apart
            or touching
            or high - low - (better.end - better.start) <= weights.max_extension_chars
        ):
            better.start, better.end = low, high
        elif hit[1] <= better.start or better.end <= hit[0]:
            left = hit[1] <= better.start
            start, end = (passage.start, better.start) if left else (better.end, passage.end)
            passage.start, passage.end = strip(passage.view, start, end)
            continue
        better.hits += passage.hits
        _absorb(merged, better)
        return True
    return False


def _absorb(merged: list[_Passage], passage: _Passage) -> None:
    """Join a passage that has grown with those that it now overlaps, in the place of the best of
    them.
    """
    while True:
        together = [
            other
            for other in merged
            if other.view is passage.view
            and other.start < passage.end
            and passage.start < other.end
        ]
        if len(together) == 1:
            return
        best, *others = together
        best.start, best.end = (
            min(other.start for other in together),
            max(other.end for other in together),
        )
        for other in others:
            best.hits += other.hits
            merged.remove(other)
        passage = best


def _without_copies(merged: list[_Passage], weights: Weights) -> list[_Passage]:
    """Drop passages whose words a better one of another document has, and name their documents in
    its ``also_in``.
    """
    originals: list[tuple[_Passage, str]] = []
    for passage in merged:
        words = " ".join(passage.view.text(passage.start, passage.end).split())
        others = originals if len(words) >= weights.min_copy_chars else []
        same = (other for other, text in others if other.view is not passage.view and words in text)
        better = next(same, None)
        if better is None:
            originals.append((passage, words))
        else:
            better.also_in = list(
                dict.fromkeys([*better.also_in, passage.view.row.doc_id, *passage.also_in])
            )
    return [passage for passage, _ in originals]
