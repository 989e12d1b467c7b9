"""Rank whole passages with a cross-encoder.

``landmark-reranker`` is best at questions in the text's own words. A cross-encoder of passages is
better at questions in other words. A question is in the text's own words if one of the best
passages has enough of its words.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lmkrag.reranker.base import PlacedText
from lmkrag.reranker.inputs import prepare_passage
from lmkrag.results import Span
from lmkrag.search.merging import Results
from lmkrag.search.sentence_ranking import SentenceRanking
from lmkrag.search.weights import WEIGHTS, Weights
from lmkrag.specs import CODE
from lmkrag.types import ScoreFactor
from lmkrag.types.arrays import Floats

if TYPE_CHECKING:
    from lmkrag.reranker.passages import PassageReranker

_AT_A_TIME = 4  # passages that are read at once while time is limited
_LEADING = 5  # passages whose share of the question's words counts


class PassageRanking:
    """Ranks the passages of one search. State: their scores, so that the search may be repeated for
    more results.
    """

    def __init__(
        self,
        question: str,
        load: "Callable[[], PassageReranker]",
        by_sentence: SentenceRanking,
        *,
        timeout_ms: float | None = None,
        weights: Weights = WEIGHTS,
    ) -> None:
        """Take the question, a function that loads the model, what ranks questions in the text's
        own words, and a time limit that begins now.
        """
        self._question, self._load, self._weights = question, load, weights
        self._by_sentence, self.least = by_sentence, weights.ranked_in_doubt
        self._deadline = math.inf if timeout_ms is None else time.monotonic() + timeout_ms / 1_000
        self._known: dict[PlacedText, float] = {}
        self._is_late = False

    @property
    def cut_short(self) -> bool:
        """Whether time was up before all passages were read."""
        return self._is_late or self._by_sentence.cut_short

    def rank(self, results: Results) -> list[Span]:
        """Order results by how they read, or by their sentences and then a little by how they
        read.
        """
        if results.is_code:
            return self._by_sentence.rank(results)
        passages = self.reorder(results.unranked)
        return self.refine(self._by_sentence.rank(results)) if passages is None else passages

    def reorder(self, passages: Sequence[Span]) -> list[Span] | None:
        """Read the first passages, and return all, best first; those that were not read follow in
        their order.

        ``weights.ranked`` are read, or ``weights.ranked_in_doubt`` if none of these is likely to
        answer. Returns None where the question is asked in the words of the best passages, or where
        most of them are source code: the model has learnt from prose.
        """
        weights = self._weights
        first = list(passages[: weights.ranked_in_doubt])
        coverage = max((span.coverage for span in first[:_LEADING]), default=1.0)
        if coverage >= weights.paraphrase or _is_code(first):
            return None
        inputs = [prepare_passage(span).passage for span in first]
        read = self._read(inputs[: weights.ranked])
        if len(read) and read.max() < weights.doubt:
            read = self._read(inputs)
        return _reorder(passages, read, weights.reading)

    def refine(self, passages: Sequence[Span]) -> list[Span]:
        """Read the first ``weights.refined`` passages of an order by sentences, and move them by a
        small weight.
        """
        first = passages[: self._weights.refined]
        if _is_code(first):
            return list(passages)
        inputs = [prepare_passage(span).passage for span in first]
        return _reorder(passages, self._read(inputs), self._weights.refinement)

    def _read(self, passages: Sequence[PlacedText]) -> Floats:
        """Scores of the first passages, as many as there is time for."""
        new = [passage for passage in dict.fromkeys(passages) if passage not in self._known]
        size = len(new) if self._deadline == math.inf else _AT_A_TIME
        for start in range(0, len(new), max(1, size)):
            if time.monotonic() > self._deadline:
                self._is_late = True
                break
            part = new[start : start + size]
            scores = self._load().score(self._question, part)
            self._known |= zip(part, scores.tolist(), strict=True)
        known = [self._known.get(passage) for passage in passages]
        count = known.index(None) if None in known else len(known)
        return np.array(known[:count], float)


def _is_code(passages: Sequence[Span]) -> bool:
    return 2 * sum(span.kind == CODE for span in passages) > len(passages)


def _reorder(passages: Sequence[Span], read: Floats, scale: float) -> list[Span]:
    """Order the passages that were ``read`` by score times exp((log-odds - best log-odds) / scale).

    The others follow in their order, their scores times the least of these factors.
    """
    if len(read) < 2:
        return list(passages)
    factors = np.exp((read - read.max()) / scale)
    ranked = map(_multiply, passages, factors.tolist())
    rest = (_multiply(span, float(factors.min())) for span in passages[len(read) :])
    return [*sorted(ranked, key=lambda span: -span.score), *rest]


def _multiply(span: Span, factor: float) -> Span:
    """A span whose score has one more factor, and its explanation with it."""
    factor = factor if span.score > 0 else 1 / factor
    score, explanation = span.score * factor, span.explanation
    if explanation is not None:
        factors = (*explanation.factors, ScoreFactor("reading of the passage", factor))
        explanation = replace(explanation, score=score, factors=factors)
    return replace(span, score=score, explanation=explanation)
