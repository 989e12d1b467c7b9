"""Which rows of a segment are alive in a snapshot, and which of them a filter keeps."""

import numpy as np

from lmkrag.arrays import Ids, Mask
from lmkrag.index.ranges import DocumentRanges, clip_runs, expand_ranges, sort_runs
from lmkrag.index.segments import Segment
from lmkrag.system import computed_once


class LiveSegment:
    """A segment in a snapshot: which of its rows are alive, and which sentences they are."""

    def __init__(self, segment: Segment, runs: Ids, documents: DocumentRanges) -> None:
        """Take a segment, its runs ``[n, 3]`` (row, first sentence, count), and the documents that are alive."""
        self.segment = segment
        self.runs, _ = clip_runs(runs, *documents.living)
        self.alive = int(self.runs[:, 2].sum())
        self.whole = self.alive == segment.file.rows
        self.by_sentence = sort_runs(self.runs)

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
        before = self.segment.postings.before
        return int((before[self.runs[:, 0] + self.runs[:, 2]] - before[self.runs[:, 0]]).sum())

    def mask_of(self, runs: Ids) -> Mask:
        """Return ``[rows of the file]``: which are of some live runs."""
        mask = np.zeros(self.segment.file.rows, bool)
        for row, _, count in runs.tolist():
            mask[row : row + count] = True
        return mask

    def sentences(self, rows: Ids) -> Ids:
        """Return the sentence of each live row."""
        run = self.runs[np.searchsorted(self.runs[:, 0], rows, side="right") - 1]
        return run[..., 1] + rows - run[..., 0]


class Selection:
    """The documents that a filter keeps, by increasing positions in a snapshot's; a segment's rows are found once."""

    def __init__(self, documents: DocumentRanges, kept: Ids) -> None:
        self.documents, self.kept = documents, kept
        chosen = DocumentRanges(documents.keys[kept], documents.first[kept], documents.stop[kept])
        self._living = chosen.living
        self._masks: dict[str, Mask] = {}

    def rows(self, live: LiveSegment) -> Mask:
        """Return ``[rows of the file]``: which may be found."""
        name = live.segment.file.name
        if name not in self._masks:
            self._masks[name] = live.mask_of(clip_runs(live.runs, *self._living)[0])
        return self._masks[name]
