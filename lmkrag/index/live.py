"""Segments in a snapshot: their live rows, the rows that a filter selects, and which segments to
merge.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from lmkrag.index.ranges import (
    DocumentRanges,
    clip_runs,
    expand_ranges,
    find_ranges,
    join_runs,
    sort_runs,
)
from lmkrag.index.segments import Segment, SegmentFile
from lmkrag.sentences.structure import MESSAGE, OWN
from lmkrag.system.processes import computed_once
from lmkrag.types.arrays import NO_IDS, Floats, Ids, Mask

_FACTOR = 8  # segments of one size are merged into one of the next size
_SMALL = 4_096  # rows: segments below are of one size


class Pieces(NamedTuple):
    """What BM25 compares in a segment with conversations: pieces of messages, else single rows.

    A message of a few words and an answer of many lines compare by pieces of similar lengths.

    Attributes:
        heads: ``[rows]`` int64, the first row of each row's piece.
        lengths: ``[rows]`` float64, number of words of the piece that begins with each row.
        of_messages: ``[rows]`` bool, which rows are of a conversation.
        average: mean number of words of the pieces of messages.
    """

    heads: Ids
    lengths: Floats
    of_messages: Mask
    average: float


class LiveSegment:
    """A segment in a snapshot: which of its rows are alive, and which sentences they are.

    Attributes:
        segment: the files.
        runs: ``[n, 3]`` int64, the live rows by row: (row, first sentence, count).
        alive: number of live rows.
        whole: whether all rows are alive.
        by_sentence: the runs by sentence.
    """

    def __init__(self, segment: Segment, runs: Ids, documents: DocumentRanges) -> None:
        """Keep the live rows of a segment.

        Args:
            segment: the files.
            runs: ``[n, 3]`` int64, all rows: (row, first sentence, count).
            documents: the documents that are alive.
        """
        self.segment = segment
        self.runs, _ = clip_runs(runs, *documents.living)
        self.alive = int(self.runs[:, 2].sum())
        self.whole = self.alive == segment.file.rows
        self.by_sentence = sort_runs(self.runs)

    @computed_once
    def rows(self) -> Ids:
        """``[alive]`` int64, the live rows in order."""
        return expand_ranges(self.runs[:, 0], self.runs[:, 2])

    @computed_once
    def mask(self) -> Mask:
        """``[rows of the file]``: which are alive."""
        return self.mask_of(self.runs)

    @computed_once
    def pieces(self) -> "Pieces | None":
        """The pieces of messages; None if no row is of a conversation."""
        structure = self.segment.structure
        of_messages = (structure["roles"][:] & MESSAGE) != 0
        if not of_messages.any():
            return None
        rows = np.arange(len(of_messages))
        heads = np.where(of_messages, np.maximum(rows - structure["positions"][:], 0), rows)
        lengths = np.bincount(heads, self.segment.postings.lengths, len(rows))
        average = float(lengths[np.unique(heads[of_messages])].mean())
        return Pieces(heads, lengths.astype(np.float64), of_messages, max(1.0, average))

    @computed_once
    def words(self) -> int:
        """Number of words of all live sentences together."""
        before = self.segment.postings.before
        return int((before[self.runs[:, 0] + self.runs[:, 2]] - before[self.runs[:, 0]]).sum())

    def mask_of(self, runs: Ids) -> Mask:
        """Return ``[rows of the file]`` bool, which rows are of some live runs ``[n, 3]``."""
        mask = np.zeros(self.segment.file.rows, bool)
        mask[expand_ranges(runs[:, 0], runs[:, 2])] = True
        return mask

    def sentences(self, rows: Ids) -> Ids:
        """Return the sentence id of each live row ``[k]``."""
        run = self.runs[np.searchsorted(self.runs[:, 0], rows, side="right") - 1]
        return run[..., 1] + rows - run[..., 0]


class Selection:
    """The documents that a filter selects, and their rows of each segment, which are cached.

    Attributes:
        documents: all documents of the snapshot.
        positions: ``[n]`` int64, increasing positions of the selected ones.
    """

    def __init__(
        self,
        documents: DocumentRanges,
        positions: Ids,
        ranges: tuple[Ids, Ids] | None = None,
    ) -> None:
        """Select documents, or some of their sentences.

        Args:
            documents: all documents of the snapshot.
            positions: ``[n]`` int64, increasing positions of the selected ones.
            ranges: ``[k]`` int64 each, increasing: the first selected sentences and those after
                the last; all sentences of the documents by default.
        """
        self.documents, self.positions = documents, positions
        chosen = DocumentRanges(
            documents.keys[positions], documents.first[positions], documents.stop[positions]
        )
        self.is_partial = ranges is not None
        self._ranges = chosen.living if ranges is None else ranges
        self._masks: dict[str, Mask] = {}

    def rows(self, live: LiveSegment) -> Mask:
        """Return ``[rows of the file]`` bool, which rows of a segment are of selected documents."""
        name = live.segment.file.name
        if name not in self._masks:
            self._masks[name] = live.mask_of(clip_runs(live.runs, *self._ranges)[0])
        return self._masks[name]

    def has(self, sentences: Ids) -> Mask:
        """Return which sentences ``[k]`` are selected, given by their ids."""
        return find_ranges(sentences, *self._ranges) >= 0


def select_own(
    segments: Sequence[LiveSegment], documents: DocumentRanges, within: Selection | None
) -> Selection | None:
    """Return the messages of the one who asks an assistant; None if there are none.

    Args:
        segments: the segments of a snapshot.
        documents: all documents of the snapshot.
        within: the documents to select from; None for all.
    """
    own = [
        live.sentences(rows[(live.segment.structure["roles"][rows] & OWN) != 0])
        for live in segments
        if live.pieces is not None and len(rows := live.rows)
    ]
    sentences = np.sort(np.concatenate([NO_IDS, *own]))
    if within is not None:
        sentences = sentences[within.has(sentences)]
    if not len(sentences):
        return None
    opens = np.flatnonzero(np.diff(sentences, prepend=-1) != 1)
    stops = sentences[np.append(opens[1:], len(sentences)) - 1] + 1
    positions = np.unique(documents.owners(sentences))
    return Selection(documents, positions, (sentences[opens], stops))


def choose_groups(segments: Sequence[LiveSegment]) -> list[list[LiveSegment]]:
    """Return which segments are to be merged into one each: those of one size, if there are eight
    of them.

    Sizes grow by a factor of eight, so that the number of times a row is rewritten, and the number
    of segments, grow with the logarithm of the rows. The largest of the small ones is left alone
    while it outweighs the others.
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
    """Return the runs ``[n, 3]`` of the live rows of segments laid end to end."""
    runs = np.concatenate([live.runs for live in merged])
    runs[:, 0] = np.cumsum(runs[:, 2]) - runs[:, 2]
    return join_runs(runs)


def lay_sentences(
    segments: Sequence[SegmentFile], ranges: Sequence[tuple[int, int]]
) -> Iterator[tuple[SegmentFile, Ids]]:
    """Lay ranges of sentences end to end over the rows of segments.

    Args:
        segments: new segments, in order.
        ranges: (first sentence, count) of new documents, in order.

    Yields:
        Each segment with its runs ``[n, 3]``.

    Raises:
        ValueError: the segments have more or fewer rows than there are sentences.
    """
    remaining = [(first, count) for first, count in reversed(ranges) if count]
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
