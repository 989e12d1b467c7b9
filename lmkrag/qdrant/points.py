"""Segments whose vectors are points on Qdrant: the file of vectors has the points' ids instead."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from lmkrag.arrays import Ids
from lmkrag.index.files import File, MappedFile, read_tables, write_tables
from lmkrag.index.ranges import find_ranges, join_runs, sort_runs
from lmkrag.index.segments import Segment
from lmkrag.index.vectors.vector_set import Slices
from lmkrag.system import computed_once

_COLUMNS = ("rows", "points", "counts")


def write_points(path: Path, read: Slices, rows: int) -> File:
    """Write the ids of the points of ``rows`` rows, which ``read`` yields in order, and make the file durable."""
    points = np.concatenate([np.zeros(0, np.int64), *read()])
    runs = join_runs(np.column_stack([np.arange(rows), points, np.ones(rows, np.int64)]))
    return write_tables(path, dict(zip(_COLUMNS, np.ascontiguousarray(runs.T), strict=True)))


class PointFile:
    """Which point has the vector of each row: runs ``[n, 3]`` of row, first point and count."""

    def __init__(self, file: MappedFile) -> None:
        tables = read_tables(file)
        self.runs = np.column_stack([tables[name] for name in _COLUMNS])
        self.by_point = sort_runs(self.runs)

    def of(self, rows: Ids) -> Ids:
        """Return the points of some rows."""
        run = self.runs[np.searchsorted(self.runs[:, 0], rows, side="right") - 1]
        points: Ids = run[:, 1] + rows - run[:, 0]
        return points


class PointSegment(Segment):
    """The files of a segment, with the ids of points instead of vectors."""

    @computed_once
    def points(self) -> PointFile:
        """The points of its rows."""
        return PointFile(self._vectors)

    def slices(self, rows: Ids) -> Iterator[Ids]:
        """Yield the points of some rows."""
        yield self.points.of(rows)

    def check(self) -> None:
        """Compare each file with its checksum. Raises IndexCorrupt: one differs."""
        _ = self.points, self.postings, self.structure


def find_in_runs(runs: Ids, keys: Ids, column: int) -> Ids:
    """Return for each key, looked up in a column of runs that are sorted by it, what the other column has, or -1.

    >>> find_in_runs(np.array([[0, 70, 2], [2, 90, 1]]), np.array([71, 72, 90]), 1).tolist()
    [1, -1, 2]
    """
    place = find_ranges(keys, runs[:, column], runs[:, column] + runs[:, 2])
    run = runs[place] if len(runs) else np.zeros((len(keys), 3), np.int64)
    return np.where(place >= 0, run[:, 1 - column] + keys - run[:, column], -1)
