"""Which rows of a segment are alive in a snapshot, and which of them a filter keeps."""

from collections.abc import Sequence

import numpy as np

from lmkrag.arrays import Ids, Mask
from lmkrag.index.ranges import DocumentRanges, expand_ranges, find_ranges, sort_runs
from lmkrag.index.segments import Segment
from lmkrag.system import computed_once


class LiveSegment:
    """A segment in a snapshot: which of its rows are alive, and which sentences they are."""

    def __init__(self, segment: Segment, runs: Ids, documents: DocumentRanges) -> None:
        """Take a segment, its runs ``[n, 3]`` (row, first sentence, count), and documents, which ``owners`` index."""
        owners = documents.owners(runs[:, 1])
        alive = owners >= 0
        self.segment = segment
        self.runs: Ids = runs[alive]
        self.owners: Ids = owners[alive]
        self.whole = bool(alive.all())
        self.by_sentence = sort_runs(self.runs)

    @computed_once
    def alive(self) -> int:
        """How many rows are alive."""
        return int(self.runs[:, 2].sum())

    @computed_once
    def rows(self) -> Ids:
        """The live rows, in order."""
        return expand_ranges(self.runs[:, 0], self.runs[:, 2])

    @computed_once
    def mask(self) -> Mask:
        """``[rows of the file]``: which are alive."""
        return self.mask_of(self.runs)

    @computed_once
    def words(self) -> int:
        """The words of all live sentences together."""
        postings = self.segment.postings
        return postings.length if self.whole else int(postings.lengths[self.mask].sum(dtype=np.int64))

    @computed_once
    def words_before(self) -> Ids:
        """``[rows of the file + 1]``: the words of all rows before each."""
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self.segment.postings.lengths, dtype=np.int64)])

    def mask_of(self, runs: Ids) -> Mask:
        """Return ``[rows of the file]``: which are of some live runs."""
        mask = np.zeros(self.segment.file.rows, bool)
        mask[expand_ranges(runs[:, 0], runs[:, 2])] = True
        return mask

    def sentences(self, rows: Ids) -> Ids:
        """Return the sentence of each live row."""
        run = self.runs[np.searchsorted(self.runs[:, 0], rows, side="right") - 1]
        return run[..., 1] + rows - run[..., 0]


class Selection:
    """The documents that a filter keeps, ``kept`` ``[documents]`` of a snapshot's; a segment's rows are found once."""

    def __init__(self, documents: DocumentRanges, keys: Sequence[int]) -> None:
        self.documents = documents
        self.kept: Mask = np.isin(documents.keys, np.array(keys, np.int64))
        self._first, self._stop = documents.first[self.kept], documents.stop[self.kept]
        self._masks: dict[str, Mask] = {}

    def rows(self, live: LiveSegment) -> Mask:
        """Return ``[rows of the file]``: which may be found."""
        name = live.segment.file.name
        if name not in self._masks:
            inside = find_ranges(live.runs[:, 1], self._first, self._stop) >= 0
            self._masks[name] = live.mask_of(live.runs[inside])
        return self._masks[name]
