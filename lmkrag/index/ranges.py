"""Ranges of sentence ids: which document a sentence is of, and which row of a file it is."""

from dataclasses import dataclass

import numpy as np

from lmkrag.arrays import Ids, Mask


@dataclass(frozen=True, slots=True)
class DocumentRanges:
    """The documents of a snapshot in order of their sentences, ``[n]`` each."""

    keys: Ids  # the catalog's row ids
    first: Ids  # ``[first, stop)`` are the sentence ids
    stop: Ids

    @property
    def sentences(self) -> int:
        return int((self.stop - self.first).sum())

    def owners(self, sentences: Ids) -> Ids:
        """Return the position of the document that each sentence is of, -1 where it is of none."""
        return find_ranges(sentences, self.first, self.stop)


NO_DOCUMENTS = DocumentRanges(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64))


def find_ranges(ids: Ids, first: Ids, stop: Ids) -> Ids:
    """Return the position of the sorted range ``[first, stop)`` that holds each id, -1 where none does."""
    if not len(first):
        return np.full(len(ids), -1)
    position = np.searchsorted(first, ids, side="right") - 1
    return np.where((position >= 0) & (ids < stop[position]), position, -1)


def expand_ranges(first: Ids, counts: Ids) -> Ids:
    """Return the numbers of some ranges, end to end.

    >>> expand_ranges(np.array([5, 1]), np.array([2, 3])).tolist()
    [5, 6, 1, 2, 3]
    """
    total = int(counts.sum())
    if not total:
        return np.zeros(0, np.int64)
    jump = np.ones(total, np.int64)
    jump[0] = first[0]
    starts = np.cumsum(counts)[:-1]
    jump[starts] = first[1:] - (first[:-1] + counts[:-1] - 1)
    return np.cumsum(jump)


def sort_runs(runs: Ids) -> Ids:
    """Return runs ``[n, 3]`` (row, first sentence, count) by sentence."""
    return runs[np.argsort(runs[:, 1], kind="stable")]


def find_rows(runs: Ids, sentences: Ids) -> tuple[Mask, Ids]:
    """Return which sentences ``[k]`` are in runs ``[n, 3]`` sorted by sentence, and the rows of those that are."""
    position = find_ranges(sentences, runs[:, 1], runs[:, 1] + runs[:, 2])
    inside = position >= 0
    run = runs[position[inside]]
    return inside, run[:, 0] + sentences[inside] - run[:, 1]
