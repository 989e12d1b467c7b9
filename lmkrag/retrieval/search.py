"""From a query's vector and words to spans. The query's text is never seen here, nor the encoder."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmkrag.index import catalog
from lmkrag.index.catalog import DocumentRow
from lmkrag.index.store import Snapshot
from lmkrag.retrieval.fusion import fuse
from lmkrag.retrieval.growth import JOIN, REACH, grow_spans
from lmkrag.types import Hit, Level, Mode, Span

Scores = NDArray[np.float32]
Ids = NDArray[np.int64]

Run = tuple[int, int, tuple[int, ...]]
"""Positions of the first candidate, of the one after the last, and of the hits, best first."""

_POOL = 128  # sentences each of the two searches brings in, at least
_POOL_PER_SPAN = 8


@dataclass(frozen=True, slots=True)
class Candidates:
    """Sentences near anything a query found, by increasing id, with their scores."""

    sentences: Ids
    documents: Ids
    score: Scores
    dense: Scores
    lexical: Scores
    rows: dict[int, DocumentRow]


def search_spans(
    index: Snapshot,
    vector: Scores,
    terms: Sequence[str],
    *,
    top: int,
    mode: Mode = "hybrid",
    level: Level = "span",
    front: int | None = None,
    allowed: Sequence[DocumentRow] | None = None,
) -> list[Span]:
    """Find the best spans, best first.

    Args:
        index: a snapshot to search in.
        vector: ``[dimensions]`` of the query, of length one.
        terms: the query's words.
        top: how many spans, after merging.
        mode: which scores count.
        level: grown spans, single sentences, or whole documents by their best sentence.
        front: grow a fixed number of sentences backward instead of adaptively.
        allowed: documents to search in; None for all.
    """
    candidates = _gather(index, vector, terms, max(_POOL, _POOL_PER_SPAN * top), mode, allowed)
    if candidates is None:
        return []
    if level == "document":
        return _documents(index, candidates, top)
    if level == "sentence":
        order = np.argsort(-candidates.score, kind="stable")[:top].tolist()
        return [_span(index, candidates, position, position + 1, (position,)) for position in order]
    grown = grow_spans(candidates.score, candidates.sentences, candidates.documents, front=front)
    return [_span(index, candidates, *run) for run in _merge(candidates, grown, top)]


def _merge(candidates: Candidates, grown: Iterator[tuple[int, int, int]], top: int) -> list[Run]:
    """Join spans that touch and are nearly as good, best first, until ``top`` are left whole."""
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
        elif len(merged) < top:
            merged.append(run)
        else:
            break
    return merged


def _gather(
    index: Snapshot,
    vector: Scores,
    terms: Sequence[str],
    pool: int,
    mode: Mode,
    allowed: Sequence[DocumentRow] | None,
) -> Candidates | None:
    """Bring in what either search finds, its neighbours, and the scores of all of them."""
    ranges = None if allowed is None else _ranges(allowed)
    keys = None if allowed is None else [row.id for row in allowed]
    found = [np.zeros(0, np.int64)]
    if mode != "lexical":
        _, ids = index.search_dense(vector[None], pool, ranges)
        found.append(ids[0][ids[0] >= 0])
    matched, bm25 = (np.zeros(0, np.int64), np.zeros(0, np.float32))
    if mode != "dense":
        matched, bm25 = catalog.search_lexical(index.connection, terms, pool, keys)
        found.append(matched)
    seeds = np.unique(np.concatenate(found))
    if not len(seeds):
        return None
    owners = catalog.owners_of(index.connection, seeds.tolist())
    rows = catalog.documents_of(index.connection, set(owners.values()))
    sentences, documents = _with_reach(seeds, owners, rows)
    dense = index.read_vectors(sentences) @ vector
    lexical = np.zeros(len(sentences), np.float32)
    lexical[np.searchsorted(sentences, matched)] = bm25
    score = fuse(None if mode == "lexical" else dense, None if mode == "dense" else lexical, sentences, documents)
    return Candidates(sentences, documents, score, dense, lexical, rows)


def _ranges(allowed: Sequence[DocumentRow]) -> Ids:
    ranges = sorted((row.first_sentence, row.first_sentence + row.sentences) for row in allowed)
    return np.array(ranges, np.int64).reshape(len(ranges), 2)


def _with_reach(seeds: Ids, owners: dict[int, int], rows: dict[int, DocumentRow]) -> tuple[Ids, Ids]:
    """Each seed with ``REACH`` neighbours on both sides, inside its document; and the document of each."""
    sentences, documents = [], []
    for seed in seeds.tolist():
        row = rows[owners[seed]]
        low = max(row.first_sentence, seed - REACH)
        high = min(row.first_sentence + row.sentences, seed + REACH + 1)
        sentences.append(np.arange(low, high))
        documents.append(np.full(high - low, row.id))
    ids, first = np.unique(np.concatenate(sentences), return_index=True)
    return ids, np.concatenate(documents)[first]


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


def _span(index: Snapshot, candidates: Candidates, first: int, stop: int, hits: Sequence[int]) -> Span:
    row = candidates.rows[int(candidates.documents[first])]
    ids = candidates.sentences[first:stop]
    bounds = catalog.read_sentences(index.connection, int(ids[0]), int(ids[-1]) + 1)
    text = catalog.read_text(index.connection, row, bounds[0][1], bounds[-1][2])
    start = bounds[0][1] + len(text) - len(text.lstrip())
    text = text.strip()
    found = [_hit(candidates, row, position, bounds[position - first]) for position in hits]
    return _make_span(row, start, text, found)


def _hit(candidates: Candidates, row: DocumentRow, position: int, bounds: tuple[int, int, int]) -> Hit:
    key, start, end = bounds
    return Hit(
        sentence_id=key,
        doc_id=row.doc_id,
        ordinal=key - row.first_sentence,
        start=start,
        end=end,
        score=float(candidates.score[position]),
        dense=float(candidates.dense[position]),
        lexical=float(candidates.lexical[position]),
    )


def _make_span(row: DocumentRow, start: int, text: str, hits: Sequence[Hit]) -> Span:
    page = bisect_right(row.page_starts, start) if row.page_starts else None
    return Span(row.doc_id, row.path, start, start + len(text), text, hits[0].score, page, tuple(hits))


def _documents(index: Snapshot, candidates: Candidates, top: int) -> list[Span]:
    """Whole documents, each by the best sentence in it (the maximum does best in LongRAG, arXiv 2406.15319)."""
    best: dict[int, int] = {}
    for position in np.argsort(-candidates.score, kind="stable").tolist():
        best.setdefault(int(candidates.documents[position]), position)
        if len(best) == top:
            break
    spans = []
    for key, position in best.items():
        row = candidates.rows[key]
        sentence = int(candidates.sentences[position])
        bounds = catalog.read_sentences(index.connection, sentence, sentence + 1)[0]
        text = catalog.read_text(index.connection, row, 0, row.length)
        spans.append(_make_span(row, 0, text, [_hit(candidates, row, position, bounds)]))
    return spans
