"""How exactly retrieved characters match the evidence, at budgets of characters.

Chunks of different sizes are compared by the characters that a reader gets, not by their number.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmkrag.errors import needs

BUDGETS = (500, 1_000, 2_000, 4_000)

Piece = tuple[str, int, int]  # document, start, end


class Overlap(NamedTuple):
    """Shares of one query at one budget of characters, 0 to 1.

    Attributes:
        recall: found evidence over what the budget allows, min(evidence, budget).
        raw: found evidence over all evidence.
        precision: found evidence over retrieved characters.
        iou: found evidence over the union of evidence and retrieved characters.
        whole: share of the evidence's spans that are found from end to end.
    """

    recall: float  # found evidence over what the budget allows, min(evidence, budget)
    raw: float  # found evidence over all evidence
    precision: float
    iou: float
    whole: float  # of the evidence's spans, those that are found from end to end


def overlap_at(
    pieces: Iterable[Piece], gold: Sequence[Piece], budgets: Sequence[int] = BUDGETS
) -> list[Overlap]:
    """Score retrieved pieces against the evidence, once for each budget.

    A piece that passes the budget is cut there. A character retrieved twice costs twice and counts
    once.

    Args:
        pieces: the retrieved pieces (document, start, end), best first.
        gold: the evidence, at least one piece.
        budgets: increasing numbers of characters.

    >>> overlap_at([("a", 0, 50), ("a", 90, 200)], [("a", 40, 100)], [100])
    [Overlap(recall=0.3333333333333333, raw=0.3333333333333333, precision=0.2, iou=0.14285714285714285, whole=0.0)]
    """  # noqa: E501
    evidence = {(doc_id, position) for doc_id, start, end in gold for position in range(start, end)}
    documents = {doc_id for doc_id, _, _ in gold}
    hits: set[tuple[str, int]] = set()
    results = []
    waiting = list(pieces)[::-1]
    used = 0
    for budget in budgets:
        while used < budget and waiting:
            doc_id, start, end = waiting.pop()
            stop = min(end, start + budget - used)
            if stop < end:
                waiting.append((doc_id, stop, end))
            if doc_id in documents:
                hits.update(
                    key
                    for position in range(start, stop)
                    if (key := (doc_id, position)) in evidence
                )
            used += stop - start
        results.append(
            Overlap(
                recall=len(hits) / min(len(evidence), budget),
                raw=len(hits) / len(evidence),
                precision=len(hits) / max(used, 1),
                iou=len(hits) / (used + len(evidence) - len(hits)),
                whole=sum(all((d, p) in hits for p in range(s, e)) for d, s, e in gold) / len(gold),
            )
        )
    return results


class Ranks(NamedTuple):
    """How well the units (sentences or chunks) of one query are ranked, 0 to 1.

    Attributes:
        mrr: one over the rank of the first relevant unit.
        ndcg: nDCG at 10.
        ultimate: 1 if the first unit holds the end of a span of evidence, else 0.
    """

    mrr: float  # one over the rank of the first unit of the evidence
    ndcg: float  # nDCG at 10
    ultimate: float  # 1 if the first unit holds the end of a span of evidence


def is_relevant(unit: Piece, gold: Sequence[Piece]) -> bool:
    """Return whether half of a unit is evidence, or half of a span of evidence lies in the unit."""
    doc_id, start, end = unit
    for gold_id, first, last in gold:
        shared = min(end, last) - max(start, first)
        if gold_id == doc_id and shared > 0 and 2 * shared >= min(end - start, last - first):
            return True
    return False


def rank_queries(
    rankings: Sequence[Sequence[Piece]],
    relevant: Sequence[Collection[Piece]],
    gold: Sequence[Sequence[Piece]],
) -> list[Ranks]:
    """Score the ranking of each query; MRR and nDCG are those of ``ir_measures``.

    Args:
        rankings: the units of each query, best first.
        relevant: all units of each query that :func:`is_relevant`.
        gold: the evidence of each query.

    Raises:
        MissingExtra: the ``eval`` extra is not installed.
    """
    with needs("eval", "ir-measures"):
        import ir_measures
        from ir_measures import RR, nDCG
    qrels = {str(i): {str(unit): 1 for unit in units} for i, units in enumerate(relevant)}
    run = {
        str(i): {str(unit): float(-rank) for rank, unit in enumerate(units)}
        for i, units in enumerate(rankings)
    }
    table = {
        (row.query_id, row.measure): row.value
        for row in ir_measures.iter_calc([RR, nDCG @ 10], qrels, run)
    }
    return [
        Ranks(
            mrr=table.get((str(i), RR), 0.0),
            ndcg=table.get((str(i), nDCG @ 10), 0.0),
            ultimate=float(
                any(
                    d == name and start < e <= end
                    for name, start, end in units[:1]
                    for d, _, e in gold[i]
                )
            ),
        )
        for i, units in enumerate(rankings)
    ]


_RESAMPLES = 2_000


def paired_interval(differences: NDArray[np.floating]) -> tuple[float, float, float]:
    """Return the mean of paired differences, and its 95 % interval by the percentile bootstrap
    (Efron, 1979).

    Args:
        differences: ``[queries]``, one system's scores minus the other's.

    Returns:
        Mean, lower and upper border.
    """
    with needs("eval", "scipy"):
        from scipy.stats import bootstrap
    mean = float(differences.mean())
    if len(differences) < 2 or float(np.ptp(differences)) == 0.0:
        return mean, mean, mean
    rng = np.random.default_rng(0)
    resampled = bootstrap(
        (differences,), np.mean, n_resamples=_RESAMPLES, method="percentile", rng=rng
    )
    low, high = resampled.confidence_interval
    return mean, float(low), float(high)


def macro_interval(differences: Sequence[NDArray[np.floating]]) -> tuple[float, float, float]:
    """Return the mean of the sets' mean differences, and its 95 % interval.

    Queries are resampled inside their set, and every set weighs the same.

    Args:
        differences: for each set ``[queries]``, one system's scores minus the other's.

    Returns:
        Mean, lower and upper border.
    """
    rng = np.random.default_rng(0)
    means = sum(
        rng.choice(values, (_RESAMPLES, len(values))).mean(1) / len(differences)
        for values in differences
    )
    low, high = np.percentile(means, [2.5, 97.5])
    return float(np.mean([values.mean() for values in differences])), float(low), float(high)
