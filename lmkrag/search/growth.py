"""Grow hits to the boundaries of the information they belong to."""

from collections.abc import Iterator

import numpy as np

from lmkrag.search.weights import WEIGHTS, Weights
from lmkrag.types.arrays import Floats, Ids, Mask, Scores

# a span: positions of its first candidate, after its last, of the hit it grew from
Grown = tuple[int, int, int]


def grow_spans(
    scores: Scores,
    sentences: Ids,
    documents: Ids,
    *,
    has_content: Mask | None = None,
    lead_in: Mask | None = None,
    record: Mask | None = None,
    heading: Mask | None = None,
    weights: Weights = WEIGHTS,
) -> Iterator[Grown]:
    """Grow spans from the best sentences down; each sentence is in one span at most.

    On each side, the segment with the greatest sum of ``score - keep * hit`` (maximum-sum subarray,
    as in dsRAG's relevant segment extraction) joins. With ``weights.sentences_before=k``, a span is
    the hit and the k sentences before it (Luo et al., 2024, section 3.3).

    All arrays are ``[n]``, ids of sentences increasing. Spans grow from and end with sentences that
    have content. They end before the next ``heading``, never with a ``lead_in``, which takes the
    next one, too, and a ``record`` is a span in itself. Yields positions (first, stop, hit), best
    hit first. Spans never overlap and stay in one document; spans that touch are left for the
    caller to merge.

    >>> scores = np.array([0.1, 0.59, 0.6, 0.2], np.float32)
    >>> next(grow_spans(scores, np.arange(4), np.zeros(4, int)))
    (1, 3, 2)
    """
    sentences_before, reach = weights.sentences_before, weights.reach
    # position i and i + 1 are neighbours
    joined = (np.diff(sentences) == 1) & (np.diff(documents) == 0)
    if record is not None and sentences_before is None:
        joined &= ~(record[1:] | record[:-1])
    if heading is not None and sentences_before is None:
        joined &= heading[:-1] | ~heading[1:]  # a section ends at the next heading
    taken = np.zeros(len(scores), bool)
    for hit in np.argsort(-scores, kind="stable").tolist():
        if taken[hit] or (has_content is not None and not has_content[hit]):
            continue
        if sentences_before is None:
            gains = (
                scores - weights.keep * scores[hit]
                if scores[hit] > 0
                else np.full(len(scores), -1.0)
            )
            first = _edge(hit, -1, reach, joined, taken, gains)
            last = _edge(hit, 1, reach, joined, taken, gains)
        else:
            first, last = _edge(hit, -1, sentences_before, joined, taken, None), hit
        if lead_in is not None and lead_in[last]:
            last = _edge(last, 1, 1, joined, taken, None)
        while has_content is not None and not has_content[last]:
            last -= 1  # a heading belongs to the text under it
        taken[first : last + 1] = True
        yield first, last + 1, hit


def _edge(
    hit: int, step: int, reach: int, joined: Mask, taken: Mask, gains: Scores | Floats | None
) -> int:
    """The outermost sentence to take on one side; every one within reach when there are no gains to
    compare.
    """
    edge = position = hit
    best = total = 0.0
    for _ in range(reach):
        following = position + step
        if (
            not 0 <= following < len(taken)
            or taken[following]
            or not joined[min(position, following)]
        ):
            break
        position = following
        total += 0.0 if gains is None else float(gains[position])
        if total >= best:
            best, edge = total, position
    return edge
