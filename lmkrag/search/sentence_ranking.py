"""Re-rank the best passages of a search: read them together with the question, and order spans by
the new scores.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from lmkrag.index.view import DocumentView
from lmkrag.reranker.base import (
    PASSAGE_CHARS,
    ListwiseReranker,
    PassageScores,
    Reranker,
    RerankPassage,
    ScoredSentences,
    unread_scores,
)
from lmkrag.results import Span
from lmkrag.search.candidates import Candidates
from lmkrag.search.growth import Grown
from lmkrag.search.merging import Results
from lmkrag.search.weights import WEIGHTS, Weights
from lmkrag.specs import CODE
from lmkrag.types.arrays import Ids, Scores

_AT_A_TIME = 2  # passages that are read at once while time is limited, each on a processor
_Key = tuple[
    int, int, int
]  # a passage: the id of its document, its first sentence, and the one after its last


class _Passage(NamedTuple):
    """Sentences ``[first, stop)`` of a document; ``positions`` among the candidates, -1 for those
    that are none.
    """

    view: DocumentView
    first: int
    stop: int
    positions: Ids

    @property
    def key(self) -> _Key:
        return self.view.row.id, self.first, self.stop


class SentenceRanking:
    """Ranks the results of one search by their sentences. State: scores of passages, so that a
    search for more results reuses them.
    """

    def __init__(
        self,
        question: str,
        load: Callable[[], Reranker],
        *,
        prose_only: bool = False,
        timeout_ms: float | None = None,
        weights: Weights = WEIGHTS,
    ) -> None:
        """Take the question and a function that loads the re-ranker; ``prose_only`` leaves source
        code in its order.
        """
        self._question, self._load, self._weights = question, load, weights
        self._prose_only = prose_only
        self._seconds = None if timeout_ms is None else timeout_ms / 1_000
        self._began: float | None = None  # to read
        self._known: dict[_Key, PassageScores] = {}
        self._slowest = 0.0  # seconds of the slowest run of the model
        self.cut_short = False  # whether time was up before all passages were read
        self.least = 0

    @cached_property
    def _reranker(self) -> Reranker:
        return self._load()

    def rank(self, results: Results) -> list[Span]:
        """Read the passages around the best spans until time is up, and order results by the new
        scores of their sentences.
        """
        candidates = results.candidates
        grown = list(candidates.grow())
        # 1. Choose the passages to read.
        chosen = self._choose(candidates, grown)
        # 2. Read them.
        self._read(chosen)
        reading = self._gather(chosen, candidates)
        if reading is None:
            return results.unranked
        # 3. Add the new scores to the old ones, and lower those of other sentences below each
        # passage that was read.
        positions, sentences = reading
        read = np.zeros(len(candidates.sentences), bool)
        read[positions] = True
        score = candidates.score.copy()
        score[positions] += np.float32(self._reranker.weight) * self._compare(sentences)
        if not read.all():
            passages = sentences.passages
            lowest = min(
                float(score[positions[passages == number]].max()) for number in np.unique(passages)
            )
            score[~read] -= max(0.0, float(score[~read].max()) - lowest)
        # 4. Order spans by their best sentence, those that were read first; the others keep their
        # order.
        of_spans = score.copy()
        for first, stop, hit in grown:
            of_spans[hit] = score[first:stop].max()
        grown.sort(
            key=lambda span: (not read[span[2]], -of_spans[span[2]] if read[span[2]] else 0.0)
        )
        is_grown = results.request.level in ("span", "passage")
        return results.make(grown, of_spans if is_grown else score)

    def _choose(self, candidates: Candidates, grown: Iterable[Grown]) -> list[_Passage]:
        """The passages around the best spans, each hit in one; none of what is mostly code if only
        prose is ranked.
        """
        chosen: list[_Passage] = []
        covered = np.zeros(len(candidates.sentences), bool)
        for first, stop, hit in grown:
            if len(chosen) == self._weights.reranked:
                break
            if not covered[hit]:
                view, low, high = candidates.view(hit), *map(candidates.ordinal, (first, stop - 1))
                low, high = find_passage(view, low, high + 1, candidates.ordinal(hit))
                passage = _Passage(view, low, high, find_positions(candidates, view, low, high))
                covered[passage.positions[passage.positions >= 0]] = True
                chosen.append(passage)
        code = sum(passage.view.row.kind == CODE for passage in chosen)
        return [] if self._prose_only and 2 * code > len(chosen) else chosen

    def _read(self, chosen: Sequence[_Passage]) -> None:
        """Read passages that were not read yet: all at once, or two at a time while there is time,
        at least once.
        """
        new = [passage for passage in chosen if passage.key not in self._known]
        size = len(new) if self._seconds is None else _AT_A_TIME
        for start in range(0, len(new), max(1, size)):
            began = time.monotonic()
            self._began = self._began or began
            if (
                self._seconds is not None
                and self._slowest
                and began + self._slowest > self._began + self._seconds
            ):
                self.cut_short = True
                return
            part = new[start : start + size]
            passages = [
                RerankPassage(view.row.title, tuple(view.sentence(i) for i in range(first, stop)))
                for view, first, stop, _ in part
            ]
            self._known |= zip(
                (passage.key for passage in part), self._score(passages), strict=True
            )
            self._slowest = max(self._slowest, time.monotonic() - began)

    def _score(self, passages: Sequence[RerankPassage]) -> list[PassageScores]:
        """Read passages with the question; a re-ranker that does not compare passages gives ranks
        alone.
        """
        if isinstance(self._reranker, ListwiseReranker):
            return self._reranker.read(self._question, passages)
        scored = self._reranker.score(self._question, passages)
        return [
            unread_scores(len(passage.sentences))._replace(
                rank=_validate(scores, len(passage.sentences))
            )
            for passage, scores in zip(passages, scored, strict=True)
        ]

    def _gather(
        self, chosen: Sequence[_Passage], candidates: Candidates
    ) -> tuple[Ids, ScoredSentences] | None:
        """Positions of the candidates that were read, and their scores in the first passage with
        each; None if none.
        """
        parts: list[tuple[Ids | Scores, ...]] = []
        read = np.zeros(len(candidates.sentences), bool)
        for number, passage in enumerate(chosen):
            scores = self._known.get(passage.key)
            if scores is None:
                continue
            view, first, stop, positions = passage
            new = np.flatnonzero((positions >= 0) & ~read[positions])
            read[positions[new]] = True
            lengths = np.diff(
                [
                    view.bounds(first)[0],
                    *(view.bounds(ordinal)[1] for ordinal in range(first, stop)),
                ]
            )
            values = (scores.rank, scores.answers, scores.strength)
            parts.append(
                (
                    positions[new],
                    np.full(len(new), number),
                    lengths[new],
                    *(array[new] for array in values),
                )
            )
        if not read.any():
            return None
        positions, passages, lengths, rank, answers, strength = map(
            np.concatenate, zip(*parts, strict=True)
        )
        order = np.argsort(positions)
        positions = positions[order]
        return positions, ScoredSentences(
            sentences=candidates.sentences[positions],
            documents=candidates.documents[positions],
            passages=passages[order],
            lengths=lengths[order],
            score=candidates.score[positions],
            similarity=candidates.dense[positions],
            rank=rank[order],
            answers=answers[order],
            strength=strength[order],
        )

    def _compare(self, sentences: ScoredSentences) -> Scores:
        """The scores of sentences that were read: their ranks in each passage, or compared across
        passages.
        """
        if not isinstance(self._reranker, ListwiseReranker):
            return sentences.rank
        return _validate(self._reranker.compare(sentences), len(sentences.rank))


def find_passage(view: DocumentView, low: int, high: int, hit: int) -> tuple[int, int]:
    """Return the sentences to read around a hit: of its span ``[low, high)``, then before and after
    it by turns.
    """
    first, stop = _extend(view, hit, hit + 1, low, high)
    return _extend(view, first, stop, 0, view.row.sentences)


def _extend(view: DocumentView, first: int, stop: int, low: int, high: int) -> tuple[int, int]:
    """Take sentences before and after by turns, within ``[low, high)``, while the passage is short
    enough.
    """

    def fits(start: int, end: int) -> bool:
        return (
            low <= start
            and end <= high
            and view.bounds(end - 1)[1] - view.bounds(start)[0] <= PASSAGE_CHARS
        )

    while True:
        before = first
        if fits(first - 1, stop):
            first -= 1
        if fits(first, stop + 1):
            stop += 1
        elif first == before:
            return first, stop


def find_positions(candidates: Candidates, view: DocumentView, low: int, high: int) -> Ids:
    """Return where the sentences ``[low, high)`` of a document are among the candidates; -1 for
    those that are not.
    """
    sentences = np.arange(low, high) + view.row.first_sentence
    places = np.minimum(
        np.searchsorted(candidates.sentences, sentences), len(candidates.sentences) - 1
    )
    positions: Ids = np.where(candidates.sentences[places] == sentences, places, -1)
    return positions


def _validate(scores: Scores, sentences: int) -> Scores:
    """The scores of sentences, or zeros if their number is wrong or one is not finite."""
    if len(scores) != sentences or not np.isfinite(scores).all():
        return np.zeros(sentences, np.float32)
    return np.asarray(scores, np.float32)
