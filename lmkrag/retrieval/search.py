"""From a query's vector and words to spans. The query's text is never seen here, nor the encoder."""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from lmkrag.arrays import Hashes, Scores
from lmkrag.index.live import Selection
from lmkrag.index.snapshot import Searchable
from lmkrag.retrieval.gather import Candidates, gather_candidates
from lmkrag.retrieval.growth import JOIN
from lmkrag.retrieval.joining import join_passages
from lmkrag.retrieval.operators import NO_OPERATORS, Operators, apply_operators
from lmkrag.retrieval.reranking import SecondLook
from lmkrag.retrieval.results import Results
from lmkrag.types import Level, Mode, Span

Run = tuple[int, int, tuple[int, ...]]
"""Positions of the first candidate, of the one after the last, and of the hits, best first."""


def search_spans(
    snapshot: Searchable,
    vector: Scores | None,
    words: Hashes,
    *,
    top_k: int,
    mode: Mode = "hybrid",
    level: Level = "passage",
    per_document: int | None = None,
    allowed: Selection | None = None,
    explain: bool = False,
    operators: Operators = NO_OPERATORS,
    second_look: SecondLook | None = None,
) -> list[Span]:
    """Find the best spans, best first.

    Args:
        snapshot: to search in.
        vector: ``[dimensions]`` of the query, of length one; in lexical mode None will do, and similarities are 0 then.
        words: hashes of the query's words.
        top_k: how many spans, after merging.
        mode: which scores count.
        level: passages that can be read alone, grown spans, sentences, or whole documents by their best sentence.
        per_document: how many spans of one document, at most; None for no limit.
        allowed: documents to search in; None for all.
        explain: give each span its explanation.
        operators: of the query: what comes first, and what is left out.
        second_look: reads the best places together with the question, and orders them anew.
    """
    wanted = top_k if not operators.excluded else 2 * top_k  # some may be left out
    candidates = gather_candidates(
        snapshot, vector, words, top_k=wanted, mode=mode, allowed=allowed, phrases=operators.words()
    )
    if candidates is not None and operators != NO_OPERATORS:
        candidates = apply_operators(operators, candidates, Results(snapshot, candidates).sentence)
    if candidates is None or not len(candidates.sentences):
        return []
    results = Results(snapshot, candidates, explain=explain)
    found = _find(results, candidates, wanted, level, per_document, second_look)
    return [span for span in found if not operators.excludes(span.text)][:top_k]


def _find(
    results: Results,
    candidates: Candidates,
    top_k: int,
    level: Level,
    per_document: int | None,
    second_look: SecondLook | None,
) -> list[Span]:
    """The spans of a level, best first."""
    grown = candidates.grow()
    if second_look is not None:
        spans = list(grown)
        reread = second_look.reread(results, candidates, spans)
        grown = iter(reread.order(spans))
        results.score = reread.score if level in ("sentence", "document") else reread.score_spans(spans)
    if level == "document":
        # by the best sentence: the maximum does best in LongRAG, arXiv 2406.15319
        best = np.argsort(-results.score, kind="stable").tolist()
        found = _limit(candidates, ((hit, hit + 1, (hit,)) for hit in best), top_k, 1)
        return [results.make_span(0, results.view(hits[0]).row.length, hits) for _, _, hits in found]
    if level == "sentence":
        positions = np.flatnonzero(candidates.has_content)
        order = positions[np.argsort(-results.score[positions], kind="stable")].tolist()
        runs: Iterator[Run] = ((hit, hit + 1, (hit,)) for hit in order)
        return _spans(results, _limit(candidates, runs, top_k, per_document))
    grown = _record(grown, results)
    if level == "passage":
        return join_passages(results, grown, top_k=top_k, per_document=per_document)
    return _spans(results, _merge(candidates, results.score, grown, top_k, per_document))


def _record(grown: Iterator[tuple[int, int, int]], results: Results) -> Iterator[tuple[int, int, int]]:
    for first, stop, hit in grown:
        results.grown[hit] = first, stop
        yield first, stop, hit


def _limit(candidates: Candidates, runs: Iterator[Run], top_k: int, per_document: int | None) -> list[Run]:
    """The first ``top_k`` runs, ``per_document`` of each document at most."""
    kept: list[Run] = []
    counts: Counter[int] = Counter()
    for run in runs:
        document = int(candidates.documents[run[0]])
        if per_document is None or counts[document] < per_document:
            counts[document] += 1
            kept.append(run)
            if len(kept) == top_k:
                break
    return kept


def _merge(
    candidates: Candidates, score: Scores, grown: Iterator[tuple[int, int, int]], top_k: int, per_document: int | None
) -> list[Run]:
    """Join spans that touch and are nearly as good, best first, until ``top_k`` are left whole."""
    merged: list[Run] = []
    for first, stop, hit in grown:
        run: Run = (first, stop, (hit,))
        near = [other for other in merged if _touch(candidates, other, run)]
        near = [other for other in near if score[hit] >= JOIN * score[other[2][0]]]
        if near:
            parts = [*near, run]
            joined = (min(p[0] for p in parts), max(p[1] for p in parts), tuple(h for p in parts for h in p[2]))
            merged[merged.index(near[0])] = joined
            for other in near[1:]:
                merged.remove(other)
        elif per_document is not None and per_document <= sum(
            candidates.documents[other[0]] == candidates.documents[hit] for other in merged
        ):
            continue
        elif len(merged) < top_k:
            merged.append(run)
        else:
            break
    return merged


def _touch(candidates: Candidates, one: Run, other: Run) -> bool:
    """True when two runs of candidates follow each other in one document, nothing between them."""
    left, right = sorted((one, other))
    if left[1] != right[0] or candidates.record[left[1] - 1] or candidates.record[right[0]]:
        return False
    before, after = right[0] - 1, right[0]
    return bool(
        candidates.sentences[after] - candidates.sentences[before] == 1
        and candidates.documents[after] == candidates.documents[before]
    )


def _spans(results: Results, runs: list[Run]) -> list[Span]:
    spans = []
    for first, stop, hits in runs:
        view = results.view(first)
        start, end = view.bounds(results.ordinal(first))[0], view.bounds(results.ordinal(stop - 1))[1]
        spans.append(results.make_span(start, end, hits))
    return spans
