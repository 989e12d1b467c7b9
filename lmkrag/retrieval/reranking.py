"""A second look: the best places that a search found are read together with the question, and put in a new order."""

import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from lmkrag.arrays import Ids, Mask, Scores
from lmkrag.index.view import DocumentView
from lmkrag.reranker.base import PLACE_LENGTH, ListwiseReranker, Place, Reading, ReadSentences, Reranker, nothing_read
from lmkrag.retrieval.gather import Candidates
from lmkrag.retrieval.results import Results

PLACES = 16
"""Places that are read, at most."""

_AT_A_TIME = 2
"""Places that are read at once while time is limited: our own re-ranker reads each on a processor of its own."""

Grown = tuple[int, int, int]
"""Positions of a span's first candidate, of the one after its last, and of the one that it grew from."""

_Wanted = tuple[DocumentView, int, int]  # a place: its document, its first sentence, and the one after its last
_Key = tuple[int, int, int]  # the same with the document's id


class Reread(NamedTuple):
    """Scores ``[n]`` of candidates after the second look, and which of them were read ``[n]``.

    What was not read has its old score, or so much less that no place that was read has a lower one.
    """

    score: Scores
    read: Mask

    def order(self, grown: Iterable[Grown]) -> list[Grown]:
        """Return spans by their best sentence, those that were read first; the others keep their order."""
        spans = list(grown)
        seen = [span for span in spans if self.read[span[2]]]
        scores = self.score_spans(seen)
        seen.sort(key=lambda span: -scores[span[2]])
        return seen + [span for span in spans if not self.read[span[2]]]

    def score_spans(self, grown: Iterable[Grown]) -> Scores:
        """Return the scores ``[n]``, a span's hit with that of the best sentence of its span."""
        scores = self.score.copy()
        for first, stop, hit in grown:
            scores[hit] = self.score[first:stop].max()
        return scores


class SecondLook:
    """Reads what one search found. State: what was read already, so that a search may be repeated for more results."""

    def __init__(self, question: str, reranker: Reranker, *, milliseconds: float | None = None) -> None:
        """Take the question, what reads it with places, and how long it may read; None for no limit."""
        self._question, self._reranker = question, reranker
        self._seconds = None if milliseconds is None else milliseconds / 1_000
        self._began: float | None = None  # to read
        self._readings: dict[_Key, Reading] = {}
        self._slowest = 0.0  # seconds that reading once took

    def reread(self, results: Results, candidates: Candidates, grown: Iterable[Grown]) -> Reread:
        """Read the places of the best spans, best first, until time is up."""
        wanted: dict[_Wanted, Ids] = {}
        covered = np.zeros(len(candidates.sentences), bool)
        for first, stop, hit in grown:
            if covered[hit]:
                continue
            view = results.view(hit)
            low, high = find_place(view, results.ordinal(first), results.ordinal(stop - 1) + 1, results.ordinal(hit))
            positions = find_positions(candidates, view, low, high)
            covered[positions[positions >= 0]] = True
            wanted[view, low, high] = positions
            if len(wanted) == PLACES:
                break
        self._read(list(wanted))
        found = self._gather(wanted, candidates)
        if found is None:
            return Reread(candidates.score, np.zeros(len(candidates.sentences), bool))
        positions, sentences = found
        read = np.zeros(len(candidates.sentences), bool)
        read[positions] = True
        score = candidates.score.copy()
        score[positions] += np.float32(self._reranker.weight) * self._rank(sentences)
        if not read.all():
            places = sentences.places
            lowest = min(float(score[positions[places == place]].max()) for place in np.unique(places))
            score[~read] -= max(0.0, float(score[~read].max()) - lowest)
        return Reread(score, read)

    def _gather(self, wanted: dict[_Wanted, Ids], candidates: Candidates) -> tuple[Ids, ReadSentences] | None:
        """Where the sentences that were read are among the candidates, and what is known of each; None for none.

        A sentence of two places is taken from the first.
        """
        parts: list[tuple[Ids | Scores, ...]] = []
        read = np.zeros(len(candidates.sentences), bool)
        for place, ((view, low, high), positions) in enumerate(wanted.items()):
            reading = self._readings.get((view.row.id, low, high))
            if reading is None:
                continue
            kept = np.flatnonzero((positions >= 0) & ~read[positions])
            read[positions[kept]] = True
            lengths = np.diff([view.bounds(low)[0], *(view.bounds(ordinal)[1] for ordinal in range(low, high))])
            values = (reading.rank, reading.answers, reading.strength)
            parts.append((positions[kept], np.full(len(kept), place), lengths[kept], *(one[kept] for one in values)))
        if not read.any():
            return None
        positions, places, lengths, rank, answers, strength = map(np.concatenate, zip(*parts, strict=True))
        order = np.argsort(positions)
        positions = positions[order]
        return positions, ReadSentences(
            sentences=candidates.sentences[positions],
            documents=candidates.documents[positions],
            places=places[order],
            lengths=lengths[order],
            score=candidates.score[positions],
            similarity=candidates.dense[positions],
            rank=rank[order],
            answers=answers[order],
            strength=strength[order],
        )

    def _rank(self, sentences: ReadSentences) -> Scores:
        """The re-ranker's scores of what was read: of each place by itself, or of all of it compared."""
        if not isinstance(self._reranker, ListwiseReranker):
            return sentences.rank
        return _checked(self._reranker.compare(sentences), len(sentences.rank))

    def _read(self, wanted: Sequence[_Wanted]) -> None:
        """Read places that were not read yet: all at once, or some at a time while there is time, once in any case."""
        new = [place for place in wanted if (place[0].row.id, *place[1:]) not in self._readings]
        size = len(new) if self._seconds is None else _AT_A_TIME
        for start in range(0, len(new), max(1, size)):
            began = time.monotonic()
            self._began = self._began or began
            if self._seconds is not None and self._slowest and began + self._slowest > self._began + self._seconds:
                return
            part = new[start : start + size]
            places = [
                Place(view.row.title, tuple(view.sentence(ordinal) for ordinal in range(low, high)))
                for view, low, high in part
            ]
            for (view, low, high), reading in zip(part, self._score(places), strict=True):
                self._readings[view.row.id, low, high] = reading
            self._slowest = max(self._slowest, time.monotonic() - began)

    def _score(self, places: Sequence[Place]) -> list[Reading]:
        """Read some places with the question; of a re-ranker that compares nothing, ranks are all there is."""
        if isinstance(self._reranker, ListwiseReranker):
            return self._reranker.read(self._question, places)
        scored = self._reranker.score(self._question, places)
        return [
            nothing_read(len(place.sentences))._replace(rank=_checked(scores, len(place.sentences)))
            for place, scores in zip(places, scored, strict=True)
        ]


def find_place(view: DocumentView, low: int, high: int, hit: int) -> tuple[int, int]:
    """Return the sentences to read around a hit: of its span ``[low, high)``, then before and after it by turns.

    A hit that is longer than a place is read alone.
    """
    first, stop = _widen(view, hit, hit + 1, low, high)
    return _widen(view, first, stop, 0, view.row.sentences)


def _widen(view: DocumentView, first: int, stop: int, low: int, high: int) -> tuple[int, int]:
    """Take sentences before and after by turns, within ``[low, high)``, while the place is short enough."""

    def fits(start: int, end: int) -> bool:
        return low <= start and end <= high and view.bounds(end - 1)[1] - view.bounds(start)[0] <= PLACE_LENGTH

    while True:
        before = first
        if fits(first - 1, stop):
            first -= 1
        if fits(first, stop + 1):
            stop += 1
        elif first == before:
            return first, stop


def find_positions(candidates: Candidates, view: DocumentView, low: int, high: int) -> Ids:
    """Return where the sentences ``[low, high)`` of a document are among the candidates; -1 for those that are not."""
    wanted = np.arange(low, high) + view.row.first_sentence
    places = np.minimum(np.searchsorted(candidates.sentences, wanted), len(candidates.sentences) - 1)
    found: Ids = np.where(candidates.sentences[places] == wanted, places, -1)
    return found


def _checked(scores: Scores, sentences: int) -> Scores:
    """Scores as they can be added: of the right number and finite, else none."""
    if len(scores) != sentences or not np.isfinite(scores).all():
        return np.zeros(sentences, np.float32)
    return np.asarray(scores, np.float32)
