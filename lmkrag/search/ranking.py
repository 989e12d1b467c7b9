"""Re-rank the best results of a search: read them together with the question."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np

from lmkrag.encoder.spec import MULTILINGUAL_ENCODER
from lmkrag.errors import ServerError
from lmkrag.language.question import Question
from lmkrag.reranker.base import (
    DEFAULT_RERANKER,
    MULTILINGUAL_RERANKER,
    PlacedText,
    ReadingReranker,
    Reranker,
    score_sentences,
)
from lmkrag.reranker.loading import load_reranker
from lmkrag.reranker.served import ServedReranker
from lmkrag.results import CUT_SHORT, Span
from lmkrag.search.merging import Results
from lmkrag.search.request import SearchRequest
from lmkrag.search.results import multiply_score
from lmkrag.search.surroundings import SpanInput
from lmkrag.search.weights import WEIGHTS, Weights
from lmkrag.specs import CHAT, CODE
from lmkrag.types import Level
from lmkrag.types.arrays import NO_SCORES, Scores

_NOT_LEARNT = (CODE, CHAT)  # kinds that our own re-rankers have not learnt from
_AT_A_TIME = 4  # passages that are read at once while time is limited


class Ranker(Protocol):
    """Orders the results of one search."""

    note: str
    """What to say of results that could not all be read; else empty."""

    def rank(self, results: Results) -> list[Span]:
        """Return the results, best first."""


class Unranked:
    """Leaves results in the order of the search."""

    note = ""

    def rank(self, results: Results) -> list[Span]:
        """Return the results in the order of the search."""
        return results.unranked


class Rankers(NamedTuple):
    """Makes the ranker of each search.

    Attributes:
        encoder: the name of the index's encoder; of one for all languages, questions may be in any.
        reranker: a re-ranker or its name; our own if None.
        rerank: the default of requests.
        timeout_ms: the default of requests.
        weights: say how many passages are read.
    """

    encoder: str
    reranker: Reranker | str | None
    rerank: bool
    timeout_ms: float | None
    weights: Weights

    def start(self, question: Question, request: SearchRequest) -> Ranker:
        """Return the ranker of a search, whose time limit begins with it."""
        by_default = self.rerank and request.mode != "lexical"
        if not (by_default if request.rerank is None else request.rerank):
            return Unranked()
        reranker = self.reranker
        if reranker is None:
            is_english = self.encoder != MULTILINGUAL_ENCODER or question.is_english
            reranker = DEFAULT_RERANKER if is_english else MULTILINGUAL_RERANKER
        return ReadingRanker(
            question.asked,
            partial(load_reranker, reranker),
            level=request.level,
            prose_only=request.rerank is None and self.reranker is None,
            timeout_ms=request.rerank_timeout_ms or self.timeout_ms,
            weights=self.weights,
        )


@dataclass
class ReadingRanker:
    """Orders results by how the passages read that they are, or that they stand in. Its limit of
    time begins when it is made.

    Attributes:
        question: as the re-ranker reads it.
        load: returns the re-ranker.
        level: of the results.
        prose_only: do not read source code and conversations where they are most of the results:
            our own re-rankers have not learnt these.
        timeout_ms: the limit in milliseconds; none without.
        weights: say how many passages are read, and what their reading counts.
        note: what to say of results that could not all be read; else empty.
    """

    question: str
    load: Callable[[], Reranker]
    level: Level = "passage"
    prose_only: bool = False
    timeout_ms: float | None = None
    weights: Weights = WEIGHTS
    note: str = ""

    def __post_init__(self) -> None:
        seconds = math.inf if self.timeout_ms is None else self.timeout_ms / 1_000
        self._deadline = time.monotonic() + seconds

    def rank(self, results: Results) -> list[Span]:
        """Read the first results, and return all, best first; those that were not read follow in
        their order.

        Of passages, more are read until one is likely to answer; of spans, sentences and documents,
        which readers take by many, all.
        """
        spans = results.unranked
        first = spans[: self.weights.most_read]
        is_learnt = [span.kind not in _NOT_LEARNT for span in first]
        leaves_out = self.prose_only and 2 * sum(is_learnt) < len(first)
        to_read = [place for place in range(len(first)) if is_learnt[place] or not leaves_out]
        return self.reorder(spans, to_read, [results.prepare(spans[place]) for place in to_read])

    def reorder(
        self, spans: list[Span], places: Sequence[int], inputs: Sequence[SpanInput]
    ) -> list[Span]:
        """Read the ``inputs`` of the spans at ``places`` until one is likely to answer, and return
        all spans, best first; in their order where a server does not score them.

        Scores are multiplied by exp((log-odds - best log-odds) / scale). Among what was read,
        spans that were left out count as its average, and spans after it as the least of it.
        """
        if not places:
            return spans
        reranker, weights = self.load(), self.weights
        try:
            if isinstance(reranker, ServedReranker):
                passages = [each.passage for each in inputs]
                scores = reranker.score(self.question, passages, deadline=self._deadline)
            else:
                scores = self._read_enough(reranker, inputs)
        except ServerError as error:
            self.note = f"{error}: results are in the order of the search"
            return spans
        scale = weights.reading if self.level == "passage" else weights.reading_around
        if len(scores) < 2 or not np.isfinite(scores).all():
            return spans
        last = places[len(scores) - 1] + 1
        odds = np.full(last, scores.mean(), np.float32)
        odds[places[: len(scores)]] = scores
        factors = np.exp((odds - scores.max()) / scale).tolist()
        ranked = map(_multiply, spans, factors)
        rest = (_multiply(span, min(factors)) for span in spans[last:])
        return [*sorted(ranked, key=lambda span: -span.score), *rest]

    def _read_enough(self, reranker: Reranker, inputs: Sequence[SpanInput]) -> Scores:
        """The log-odds that the first spans answer, until one is likely to or time is up."""
        weights = self.weights
        at_once = weights.read_at_once if self.level == "passage" else weights.most_read
        size = at_once if self._deadline == math.inf else _AT_A_TIME
        scores = NO_SCORES
        while len(scores) < len(inputs):
            read = len(scores) % at_once
            if read == 0 and scores.max(initial=-math.inf) >= weights.likely:
                break
            if time.monotonic() > self._deadline:
                self.note = CUT_SHORT
                break
            part = inputs[len(scores) :][: min(size, at_once - read)]
            scores = np.concatenate([scores, self._score(reranker, part)])
        return scores

    def _score(self, reranker: Reranker, inputs: Sequence[SpanInput]) -> Scores:
        passages = [each.passage for each in inputs]
        if self.level == "passage" or not isinstance(reranker, ReadingReranker):
            return _validate(reranker.score(self.question, passages), passages)
        readings = reranker.read(self.question, passages)
        parts = (
            score_sentences(reading, each.sentences)[each.first : each.stop].max()
            for reading, each in zip(readings, inputs, strict=True)
        )
        return np.array(list(parts), np.float32)


def _validate(scores: Scores, passages: Sequence[PlacedText]) -> Scores:
    """The scores of passages, or zeros if their number is wrong or one is not finite."""
    if len(scores) != len(passages) or not np.isfinite(scores).all():
        return np.zeros(len(passages), np.float32)
    return np.asarray(scores, np.float32)


def _multiply(span: Span, factor: float) -> Span:
    return multiply_score(span, factor, "reading of the passage")
