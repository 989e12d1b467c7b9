"""Ranges of sentence ids: which document a sentence is of, and which row of a file it is."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from lmkrag.system.processes import computed_once
from lmkrag.types.arrays import NO_IDS, Ids, Mask


@dataclass(frozen=True)
class DocumentRanges:
    """The documents of a snapshot, in the order of their sentences.

    Attributes:
        keys: ``[n]`` int64, row ids of the catalog, increasing.
        first: ``[n]`` int64, id of the first sentence of each.
        stop: ``[n]`` int64, the id after its last sentence.
        columns: names of the columns that each block of documents has.
    """

    keys: Ids  # the catalog's row ids
    first: Ids  # ``[first, stop)`` are the sentence ids
    stop: Ids
    columns: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    @property
    def sentences(self) -> int:
        """Number of sentences of all documents."""
        return int((self.stop - self.first).sum())

    @computed_once
    def living(self) -> tuple[Ids, Ids]:
        """The ranges ``[first, stop)`` of all sentences, with neighbouring documents joined: two
        arrays ``[k]``.
        """
        opens = np.flatnonzero(np.append(True, self.first[1:] != self.stop[:-1])[: len(self.first)])
        return self.first[opens], self.stop[np.append(opens[1:], len(self.stop))[: len(opens)] - 1]

    def find(self, keys: Ids) -> Ids:
        """Return the positions of documents by their row ids.

        Args:
            keys: ``[k]`` int64, increasing row ids; unknown ones are left out.
        """
        position = np.searchsorted(self.keys, keys)
        return (
            position[self.keys[np.minimum(position, len(self.keys) - 1)] == keys]
            if len(self.keys)
            else position[:0]
        )

    def owners(self, sentences: Ids) -> Ids:
        """Return the position of the document of each sentence ``[k]``; -1 for a sentence of no
        document.
        """
        return find_ranges(sentences, self.first, self.stop)


NO_DOCUMENTS = DocumentRanges(NO_IDS, NO_IDS, NO_IDS)


def find_ranges(ids: Ids, first: Ids, stop: Ids) -> Ids:
    """Return which range holds each id.

    Args:
        ids: ``[k]`` int64.
        first: ``[n]`` int64, increasing beginnings of ranges that do not overlap.
        stop: ``[n]`` int64, the number after each range.

    Returns:
        ``[k]`` int64, positions of ranges; -1 for an id that is in none.
    """
    if not len(first):
        return np.full(len(ids), -1)
    position = np.searchsorted(first, ids, side="right") - 1
    return np.where((position >= 0) & (ids < stop[position]), position, -1)


def expand_ranges(first: Ids, counts: Ids) -> Ids:
    """Return the numbers of ranges, end to end: ``counts[i]`` numbers from ``first[i]`` on."""
    return np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())


def join_runs(runs: Ids) -> Ids:
    """Join each run with the next one where that goes on from it.

    Args:
        runs: ``[n, 3]`` int64: (row, first sentence, count).

    Returns:
        Runs ``[k, 3]`` with ``k <= n``.
    """
    opens = np.flatnonzero(
        np.append(True, (runs[1:, :2] != runs[:-1, :2] + runs[:-1, 2:]).any(axis=1))[: len(runs)]
    )
    return np.column_stack(
        [runs[opens, :2], np.add.reduceat(runs[:, 2], opens) if len(runs) else opens]
    )


def clip_runs(runs: Ids, first: Ids, stop: Ids) -> tuple[Ids, Ids]:
    """Return the parts of runs that lie in ranges of sentences.

    Args:
        runs: ``[n, 3]`` int64: (row, first sentence, count).
        first: ``[m]`` int64, increasing beginnings of ranges that do not overlap.
        stop: ``[m]`` int64, the sentence after each range.

    Returns:
        The parts ``[k, 3]``, and the position of the range of each ``[k]``.
    """
    low = np.searchsorted(stop, runs[:, 1], side="right")
    counts = np.maximum(np.searchsorted(first, runs[:, 1] + runs[:, 2]) - low, 0)
    position, run = expand_ranges(low, counts), np.repeat(runs, counts, axis=0)
    start = np.maximum(run[:, 1], first[position])
    length = np.minimum(run[:, 1] + run[:, 2], stop[position]) - start
    inside = length > 0  # a document may be empty
    return np.column_stack([run[:, 0] + start - run[:, 1], start, length])[inside], position[inside]


def sort_runs(runs: Ids) -> Ids:
    """Return runs ``[n, 3]`` (row, first sentence, count) by sentence."""
    return runs[np.argsort(runs[:, 1], kind="stable")]


def find_rows(runs: Ids, sentences: Ids) -> tuple[Mask, Ids]:
    """Return the rows of sentences.

    Args:
        runs: ``[n, 3]`` int64: (row, first sentence, count), sorted by sentence.
        sentences: ``[k]`` int64, sentence ids.

    Returns:
        Which sentences are in the runs ``[k]`` bool, and the rows of these.
    """
    position = find_ranges(sentences, runs[:, 1], runs[:, 1] + runs[:, 2])
    inside = position >= 0
    run = runs[position[inside]]
    return inside, run[:, 0] + sentences[inside] - run[:, 1]
