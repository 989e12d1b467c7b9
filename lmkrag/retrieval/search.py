"""From a query's vector and words to spans. The query's text is never seen here, nor the encoder."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmkrag.index import catalog
from lmkrag.index.catalog import DocumentRow, Living
from lmkrag.index.lexical import Words
from lmkrag.index.snapshot import Described, FoundWords, Selection, Snapshot
from lmkrag.retrieval.fusion import LEXICAL_SHARE, fuse
from lmkrag.retrieval.growth import JOIN, REACH, grow_spans
from lmkrag.types import Hit, Level, Mode, Span

Scores = NDArray[np.float32]
Ids = NDArray[np.int64]

Run = tuple[int, int, tuple[int, ...]]
"""Positions of the first candidate, of the one after the last, and of the hits, best first."""

_POOL = 128  # sentences each of the two searches brings in, at least
_POOL_PER_SPAN = 8
_GROWN = (
    32  # of them whose neighbours are looked at, at least: half as many give the same spans on the development sets
)
_GROWN_PER_SPAN = 4


@dataclass(frozen=True, slots=True)
class Candidates:
    """Sentences near anything a query found, by increasing id, with their scores and what the index knows of them."""

    sentences: Ids
    documents: Ids
    score: Scores
    dense: Scores
    lexical: Scores
    described: Described


def search_spans(
    index: Snapshot,
    vector: Scores | None,
    words: Words,
    *,
    top: int,
    mode: Mode = "hybrid",
    level: Level = "span",
    front: int | None = None,
    allowed: Selection | None = None,
) -> list[Span]:
    """Find the best spans, best first.

    Args:
        index: a snapshot to search in.
        vector: ``[dimensions]`` of the query, of length one; in lexical mode None will do, and similarities are 0 then.
        words: hashes of the query's words.
        top: how many spans, after merging.
        mode: which scores count.
        level: grown spans, single sentences, or whole documents by their best sentence.
        front: grow a fixed number of sentences backward instead of adaptively.
        allowed: documents to search in; None for all.
    """
    candidates = _gather(index, vector, words, max(_POOL, _POOL_PER_SPAN * top), top, mode, allowed)
    if candidates is None:
        return []
    if level == "document":
        return _documents(index, candidates, top)
    if level == "sentence":
        telling = np.flatnonzero(candidates.described.telling)
        order = telling[np.argsort(-candidates.score[telling], kind="stable")[:top]].tolist()
        return _spans(index, candidates, [(position, position + 1, (position,)) for position in order])
    grown = grow_spans(
        candidates.score,
        candidates.sentences,
        candidates.documents,
        hits=candidates.described.telling,
        introducing=candidates.described.introducing,
        front=front,
    )
    return _spans(index, candidates, _merge(candidates, grown, top))


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
    vector: Scores | None,
    words: Words,
    pool: int,
    top: int,
    mode: Mode,
    allowed: Selection | None,
) -> Candidates | None:
    """Bring in what either search finds, the neighbours of the best, and the scores of all of them."""
    near, similarity = np.zeros(0, np.int64), np.zeros(0, np.float32)
    if mode != "lexical" and vector is not None:
        scores, ids = index.search_dense(vector[None], pool, allowed)
        found = ids[0] >= 0
        near, similarity = ids[0][found], scores[0][found]
    matched, bm25 = np.zeros(0, np.int64), np.zeros(0, np.float32)
    found_words = None if mode == "dense" else index.find_words(words)
    if found_words is not None:
        matched, bm25 = index.search_lexical(found_words, pool, allowed)
    seeds = np.union1d(near, matched)
    if not len(seeds):
        return None
    dense = _score(index, vector, seeds, near, similarity)
    own = np.zeros(len(seeds), np.float32) if mode == "lexical" else dense.copy()
    own[np.searchsorted(seeds, matched)] += LEXICAL_SHARE * bm25 / bm25.max(initial=1e-9)
    best = np.argsort(-own, kind="stable")[: max(_GROWN, _GROWN_PER_SPAN * top)]
    sentences, owners = _with_reach(seeds, seeds[best], index.living)
    documents = index.living.keys[owners]
    dense = _score(index, vector, sentences, seeds, dense)
    lexical = np.zeros(len(sentences), np.float32)
    lexical[np.searchsorted(sentences, matched)] = bm25
    described = index.describe(sentences)
    score = fuse(
        None if mode == "lexical" else dense,
        None if mode == "dense" else lexical,
        sentences,
        documents,
        described.paragraphs,
        None if mode == "dense" else index.share_named(documents, words),
        None if found_words is None else _score_documents(index, owners, found_words),
    )
    return Candidates(sentences, documents, score, dense, lexical, described)


def _score_documents(index: Snapshot, owners: Ids, words: FoundWords) -> Scores | None:
    """What BM25 says of the whole document that each sentence is of; None where there is but one."""
    documents, place = np.unique(owners, return_inverse=True)
    return index.score_documents(documents, words)[place] if len(documents) > 1 else None


def _score(index: Snapshot, vector: Scores | None, sentences: Ids, known: Ids, similarity: Scores) -> Scores:
    """The inner product with each of some sentences ``[n]``, increasing; of those ``known`` it is at hand."""
    dense = np.zeros(len(sentences), np.float32)
    dense[np.searchsorted(sentences, known)] = similarity
    if vector is not None:
        fresh = np.ones(len(sentences), bool)
        fresh[np.searchsorted(sentences, known)] = False
        if fresh.any():
            # too few for BLAS, whose threads would cost more than they save
            dense[fresh] = np.einsum("ij,j->i", index.read_vectors(sentences[fresh]), vector)
    return dense


def _with_reach(seeds: Ids, best: Ids, living: Living) -> tuple[Ids, Ids]:
    """The seeds, the ``REACH`` neighbours of the best ones in their documents; and the position of each document."""
    owner = living.owners(best)
    near = best[:, None] + np.arange(-REACH, REACH + 1)
    inside = (near >= living.first[owner][:, None]) & (near < living.stop[owner][:, None])
    sentences = np.union1d(seeds, near[inside])
    return sentences, living.owners(sentences)


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


def _spans(index: Snapshot, candidates: Candidates, runs: Sequence[Run]) -> list[Span]:
    keys = {int(candidates.documents[first]) for first, _, _ in runs}
    rows = catalog.read_documents(index.connection, keys)
    return [_span(index, candidates, rows[int(candidates.documents[run[0]])], *run) for run in runs]


def _span(
    index: Snapshot, candidates: Candidates, row: DocumentRow, first: int, stop: int, hits: Sequence[int]
) -> Span:
    ordinals = candidates.sentences[first:stop] - row.first_sentence
    borders = catalog.read_borders(index.connection, row, int(ordinals[0]), int(ordinals[-1]) + 1)
    text = catalog.read_text(index.connection, row, int(borders[0]), int(borders[-1]))
    start = int(borders[0]) + len(text) - len(text.lstrip())
    found = [_hit(candidates, row, hit, borders[hit - first : hit - first + 2]) for hit in hits]
    return _make_span(row, start, text.strip(), found)


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
    return Span(row.doc_id, row.path, start, start + len(text), text, hits[0].score, page, tuple(hits))


def _documents(index: Snapshot, candidates: Candidates, top: int) -> list[Span]:
    """Whole documents, each by the best sentence in it (the maximum does best in LongRAG, arXiv 2406.15319)."""
    best: dict[int, int] = {}
    for position in np.argsort(-candidates.score, kind="stable").tolist():
        best.setdefault(int(candidates.documents[position]), position)
        if len(best) == top:
            break
    rows = catalog.read_documents(index.connection, best)
    spans = []
    for key, position in best.items():
        row = rows[key]
        ordinal = int(candidates.sentences[position]) - row.first_sentence
        borders = catalog.read_borders(index.connection, row, ordinal, ordinal + 1)
        text = catalog.read_text(index.connection, row, 0, row.length)
        spans.append(_make_span(row, 0, text, [_hit(candidates, row, position, borders)]))
    return spans
