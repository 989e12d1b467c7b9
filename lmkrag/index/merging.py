"""How sentences are laid over the rows of segments, and which segments to merge."""

from collections.abc import Iterator, Sequence

import numpy as np

from lmkrag.arrays import Ids
from lmkrag.index.live import LiveSegment
from lmkrag.index.ranges import join_runs
from lmkrag.index.segments import SegmentFile

_MOST_SMALL = 8  # more small segments are merged: every search visits each
_MERGED_ROWS = 131_072  # memory must not grow with the index


def choose_groups(segments: Sequence[LiveSegment]) -> list[list[LiveSegment]]:
    """Return which segments to merge into one each: small ones, when there are many.

    The largest of them is left alone while it outweighs the others, so that a row is not rewritten at every addition.
    No group has more rows than memory allows, however large the index.
    """
    small = sorted((live for live in segments if live.alive <= _MERGED_ROWS // 2), key=lambda live: live.alive)
    if len(small) <= _MOST_SMALL:
        return []
    if small[-1].alive > 2 * sum(live.alive for live in small[:-1]):
        small.pop()
    groups: list[list[LiveSegment]] = [[]]
    for live in small:
        if sum(other.alive for other in groups[-1]) + live.alive > _MERGED_ROWS:
            groups.append([])
        groups[-1].append(live)
    return [[live for live in segments if live in group] for group in groups if len(group) > 1]


def lay_runs(merged: Sequence[LiveSegment]) -> Ids:
    """Return the runs of the live rows of segments laid end to end: ``[n, 3]``."""
    runs = np.concatenate([live.runs for live in merged])
    runs[:, 0] = np.cumsum(runs[:, 2]) - runs[:, 2]
    return join_runs(runs)


def lay_sentences(
    segments: Sequence[SegmentFile], ranges: Sequence[tuple[int, int]]
) -> Iterator[tuple[SegmentFile, Ids]]:
    """Lay ranges of sentence ids (first, count), end to end, over the rows of segments: yield each segment's runs.

    Raises:
        ValueError: there are more or fewer sentences than rows.
    """
    remaining = [(first, count) for first, count in ranges if count]
    remaining.reverse()
    for file in segments:
        runs, row = [], 0
        while row < file.rows:
            if not remaining:
                raise ValueError("more vectors than sentences were staged")
            first, count = remaining.pop()
            taken = min(count, file.rows - row)
            runs.append((row, first, taken))
            row += taken
            if taken < count:
                remaining.append((first + taken, count - taken))
        yield file, join_runs(np.array(runs, np.int64).reshape(len(runs), 3))
    if remaining:
        raise ValueError("fewer vectors than sentences were staged")
