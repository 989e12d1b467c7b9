"""How sentences are laid over the rows of segments, and which segments to merge."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from lmkrag.arrays import Ids
from lmkrag.index.live import LiveSegment
from lmkrag.index.ranges import join_runs
from lmkrag.index.segments import SegmentFile

_FACTOR = 8  # segments of one size are merged into one of the next size
_SMALL = 4_096  # rows: segments below are of one size


def choose_groups(segments: Sequence[LiveSegment]) -> list[list[LiveSegment]]:
    """Return which segments to merge into one each: those of a size, when there are many.

    Sizes grow by a factor, so that a row is rewritten, and a search visits segments, as often as the logarithm of the
    rows. The largest of the small ones is left alone while it outweighs the others.
    """
    sizes = defaultdict[int, list[LiveSegment]](list)
    for live in segments:
        sizes[int(math.log(max(live.alive, _SMALL) / _SMALL, _FACTOR) + 1e-9)].append(live)
    groups = [group for group in sizes.values() if len(group) >= _FACTOR]
    for group in groups:
        largest = max(group, key=lambda live: live.alive)
        if largest.alive < _SMALL and 3 * largest.alive > 2 * sum(live.alive for live in group):
            group.remove(largest)
    return groups


def lay_runs(merged: Sequence[LiveSegment]) -> Ids:
    """Return the runs of the live rows of segments laid end to end: ``[n, 3]``."""
    runs = np.concatenate([live.runs for live in merged])
    runs[:, 0] = np.cumsum(runs[:, 2]) - runs[:, 2]
    return join_runs(runs)


def lay_sentences(
    segments: Sequence[SegmentFile], ranges: Sequence[tuple[int, int]]
) -> Iterator[tuple[SegmentFile, Ids]]:
    """Lay ranges of sentence ids (first, count), end to end, over the rows of segments, or raise ValueError."""
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
