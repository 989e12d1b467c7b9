"""From a query's vector and words to spans. The query's text is never seen here, nor the encoder."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lmkrag.arrays import Hashes, Ids, Scores
from lmkrag.index.catalog import DocumentRow
from lmkrag.index.live import Selection
from lmkrag.index.snapshot import Snapshot
from lmkrag.index.view import DocumentView
from lmkrag.retrieval.gather import Candidates, gather_candidates
from lmkrag.retrieval.growth import JOIN, grow_spans
from lmkrag.retrieval.passages import complete_span
from lmkrag.types import Hit, Level, Mode, Span

Run = tuple[int, int, tuple[int, ...]]
"""Positions of the first candidate, of the one after the last, and of the hits, best first."""


def search_spans(
    snapshot: Snapshot,
    vector: Scores | None,
    words: Hashes,
    *,
    top_k: int,
    mode: Mode = "hybrid",
    level: Level = "span",
    sentences_before: int | None = None,
    allowed: Selection | None = None,
) -> list[Span]:
    """Find the best spans, best first.

    Args:
        snapshot: to search in.
        vector: ``[dimensions]`` of the query, of length one; in lexical mode None will do, and similarities are 0 then.
        words: hashes of the query's words.
        top_k: how many spans, after merging.
        mode: which scores count.
        level: grown spans, single sentences, or whole documents by their best sentence.
        sentences_before: grow a fixed number of sentences backward instead of adaptively.
        allowed: documents to search in; None for all.
    """
    candidates = gather_candidates(snapshot, vector, words, top_k=top_k, mode=mode, allowed=allowed)
    if candidates is None:
        return []
    if level == "document":
        return _documents(snapshot, candidates, top_k)
    if level == "sentence":
        positions = np.flatnonzero(candidates.has_content)
        order = positions[np.argsort(-candidates.score[positions], kind="stable")[:top_k]].tolist()
        return _spans(snapshot, candidates, [(position, position + 1, (position,)) for position in order])
    grown = grow_spans(
        candidates.score,
        candidates.sentences,
        candidates.documents,
        has_content=candidates.has_content,
        lead_in=candidates.lead_in,
        sentences_before=sentences_before,
    )
    if level == "passage":
        return _passages(snapshot, candidates, grown, top_k)
    return _spans(snapshot, candidates, _merge(candidates, grown, top_k))


def _passages(
    snapshot: Snapshot, candidates: Candidates, grown: Iterator[tuple[int, int, int]], top_k: int
) -> list[Span]:
    """Complete spans to passages, best first; those that meet among the first few become one."""
    views: dict[int, DocumentView] = {}
    made: list[_Passage] = []
    for rank, (first, stop, hit) in enumerate(grown):
        key = int(candidates.documents[hit])
        view = views.get(key) or views.setdefault(key, snapshot.view_document(key))
        before = view.row.first_sentence
        sentences = candidates.sentences
        low, high = int(sentences[first]) - before, int(sentences[stop - 1]) + 1 - before
        passage = _Passage(view, *_strip(view, *complete_span(view, low, high)), [hit])
        if not _join(made, passage, touching=rank < JOINED, core=(view.bounds(low)[0], view.bounds(high - 1)[1])):
            if len(made) == top_k:
                break
            made.append(passage)
    return [
        _make_span(
            passage.view.row,
            passage.start,
            passage.view.text(passage.start, passage.end),
            [
                _hit(
                    candidates,
                    passage.view.row,
                    hit,
                    np.array(passage.view.bounds(int(candidates.sentences[hit]) - passage.view.row.first_sentence)),
                )
                for hit in passage.hits
            ],
        )
        for passage in made
    ]


JOINED = 8
"""Spans, the best ones, that become one passage with a better one that they touch."""

SMALL = 100


@dataclass(slots=True)
class _Passage:
    view: DocumentView
    start: int
    end: int
    hits: list[int]


def _strip(view: DocumentView, start: int, end: int) -> tuple[int, int]:
    text = view.text(start, end)
    return start + len(text) - len(text.lstrip()), start + len(text.rstrip())


def _join(made: list[_Passage], passage: _Passage, *, touching: bool, core: tuple[int, int]) -> bool:
    """Make a passage part of better ones that it meets; return whether it is."""
    for other in made:
        if other.view is not passage.view:
            continue
        low, high = min(other.start, passage.start), max(other.end, passage.end)
        if passage.end <= other.start or other.end <= passage.start:
            gap = passage.view.text(min(other.end, passage.end), max(other.start, passage.start))
            if not touching or (gap and not gap.isspace()) or high - low > SMALL_JOIN:
                continue
            other.start, other.end = low, high
        elif other.start <= core[0] and core[1] <= other.end + 2:
            pass
        elif touching or high - low - (other.end - other.start) <= SMALL:
            other.start, other.end = low, high
        elif passage.start < other.start:
            passage.end = other.start
            continue
        else:
            passage.start = other.end
            continue
        other.hits += passage.hits
        _absorb(made, other)
        return True
    return False


SMALL_JOIN = 300


def _absorb(made: list[_Passage], grown: _Passage) -> None:
    """Take what a passage has grown over."""
    for other in [o for o in made if o is not grown and o.view is grown.view]:
        if other.start < grown.end and grown.start < other.end:
            grown.start, grown.end = min(grown.start, other.start), max(grown.end, other.end)
            grown.hits += other.hits
            made.remove(other)


def _merge(candidates: Candidates, grown: Iterator[tuple[int, int, int]], top_k: int) -> list[Run]:
    """Join spans that touch and are nearly as good, best first, until ``top_k`` are left whole."""
    merged: list[Run] = []
    for first, stop, hit in grown:
        run: Run = (first, stop, (hit,))
        near = [other for other in merged if _touch(candidates, other, run)]
        near = [other for other in near if candidates.score[hit] >= JOIN * candidates.score[other[2][0]]]
        if near:
            parts = [*near, run]
            joined = (min(p[0] for p in parts), max(p[1] for p in parts), tuple(h for p in parts for h in p[2]))
            merged[merged.index(near[0])] = joined
            for other in near[1:]:
                merged.remove(other)
        elif len(merged) < top_k:
            merged.append(run)
        else:
            break
    return merged


def _touch(candidates: Candidates, one: Run, other: Run) -> bool:
    """True when two runs of candidates follow each other in one document, nothing between them."""
    left, right = sorted((one, other))
    if left[1] != right[0]:
        return False
    before, after = right[0] - 1, right[0]
    return bool(
        candidates.sentences[after] - candidates.sentences[before] == 1
        and candidates.documents[after] == candidates.documents[before]
    )


def _spans(snapshot: Snapshot, candidates: Candidates, runs: Sequence[Run]) -> list[Span]:
    sentences = candidates.sentences
    passages = snapshot.read_passages(
        [(int(sentences[first]), int(sentences[stop - 1]) + 1) for first, stop, _ in runs]
    )
    spans = []
    for (first, _, hits), passage in zip(runs, passages, strict=True):
        text = passage.text
        start = int(passage.borders[0]) + len(text) - len(text.lstrip())
        found = [
            _hit(candidates, passage.document, hit, passage.borders[hit - first : hit - first + 2]) for hit in hits
        ]
        spans.append(_make_span(passage.document, start, text.strip(), found))
    return spans


def _hit(candidates: Candidates, row: DocumentRow, position: int, borders: Ids) -> Hit:
    sentence = int(candidates.sentences[position])
    return Hit(
        sentence_id=sentence,
        doc_id=row.doc_id,
        ordinal=sentence - row.first_sentence,
        start=int(borders[0]),
        end=int(borders[1]),
        score=float(candidates.score[position]),
        dense=float(candidates.dense[position]),
        lexical=float(candidates.lexical[position]),
    )


def _make_span(row: DocumentRow, start: int, text: str, hits: Sequence[Hit]) -> Span:
    page = bisect_right(row.page_starts, start) if row.page_starts else None
    return Span(
        doc_id=row.doc_id,
        path=row.path,
        start=start,
        end=start + len(text),
        text=text,
        score=hits[0].score,
        page=page,
        hits=tuple(hits),
        title=row.title,
        kind=row.kind,
        meta=row.meta,
    )


def _documents(snapshot: Snapshot, candidates: Candidates, top_k: int) -> list[Span]:
    """Whole documents, each by the best sentence in it (the maximum does best in LongRAG, arXiv 2406.15319)."""
    best: dict[int, int] = {}
    for position in np.argsort(-candidates.score, kind="stable").tolist():
        best.setdefault(int(candidates.documents[position]), position)
        if len(best) == top_k:
            break
    hits = [int(candidates.sentences[position]) for position in best.values()]
    passages = snapshot.read_passages([(hit, hit + 1) for hit in hits])
    return [
        _make_span(
            passage.document,
            0,
            snapshot.read_text(passage.document),
            [_hit(candidates, passage.document, position, passage.borders)],
        )
        for position, passage in zip(best.values(), passages, strict=True)
    ]
