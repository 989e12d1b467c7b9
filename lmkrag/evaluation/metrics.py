"""How exactly retrieved characters match the evidence, at budgets of characters."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

BUDGETS = (500, 1_000, 2_000, 4_000)

Piece = tuple[str, int, int]
"""Document, start, end."""


class Overlap(NamedTuple):
    """Shares of one query at one budget.

    ``recall`` is found evidence over what the budget allows, min(evidence, budget); ``raw`` over all evidence.
    """

    recall: float
    raw: float
    precision: float
    iou: float


def overlap_at(pieces: Iterable[Piece], gold: Sequence[Piece], budgets: Sequence[int] = BUDGETS) -> list[Overlap]:
    """Score retrieved pieces against the evidence within the first characters retrieved.

    Args:
        pieces: best first; one that passes the budget is cut there. A character retrieved twice costs twice and
            counts once.
        gold: the evidence; pieces of it that overlap count once.
        budgets: characters, increasing.

    Returns:
        One ``Overlap`` a budget.

    >>> overlap_at([("a", 0, 50), ("a", 90, 200)], [("a", 40, 100)], [100])
    [Overlap(recall=0.3333333333333333, raw=0.3333333333333333, precision=0.2, iou=0.14285714285714285)]
    """
    evidence = {(doc_id, position) for doc_id, start, end in gold for position in range(start, end)}
    documents = {doc_id for doc_id, _, _ in gold}
    found: set[tuple[str, int]] = set()
    results = []
    waiting = iter(pieces)
    used = 0
    rest: Piece | None = None
    for budget in budgets:
        while used < budget:
            piece = rest or next(waiting, None)
            rest = None
            if piece is None:
                break
            doc_id, start, end = piece
            stop = min(end, start + budget - used)
            if stop < end:
                rest = (doc_id, stop, end)
            if doc_id in documents:
                found.update(key for position in range(start, stop) if (key := (doc_id, position)) in evidence)
            used += stop - start
        results.append(
            Overlap(
                recall=len(found) / min(len(evidence), budget),
                raw=len(found) / len(evidence),
                precision=len(found) / max(used, 1),
                iou=len(found) / (used + len(evidence) - len(found)),
            )
        )
    return results
