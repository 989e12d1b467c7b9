"""Choose how the results of a search are re-ranked: by their sentences, or as they are shown."""

from functools import partial
from typing import Any, NamedTuple, Protocol

from lmkrag.encoder.spec import MULTILINGUAL_ENCODER
from lmkrag.language.question import Question
from lmkrag.reranker.base import DEFAULT_RERANKER, MULTILINGUAL_RERANKER, Reranker
from lmkrag.reranker.loading import load_passage_reranker, load_reranker
from lmkrag.results import Span
from lmkrag.search.merging import Results
from lmkrag.search.passage_ranking import PassageRanking
from lmkrag.search.request import SearchRequest
from lmkrag.search.sentence_ranking import SentenceRanking
from lmkrag.search.weights import WEIGHTS, Weights


class Ranker(Protocol):
    """Orders the results of one search, which may be repeated for more of them."""

    least: int
    """Results that it reads, at most, and a search makes for it, at least."""

    @property
    def cut_short(self) -> bool:
        """Whether time was up before all of them were read."""
        ...

    def rank(self, results: Results) -> list[Span]:
        """Return the results, best first."""
        ...


class Unranked:
    """Leaves results in the order of the search."""

    least = 0
    cut_short = False

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
    reranker: Reranker | str | None = None
    rerank: bool = True
    timeout_ms: float | None = None
    weights: Weights = WEIGHTS

    def start(self, question: Question, request: SearchRequest) -> Ranker:
        """Return the ranker of a search: passages as they are shown are read only in English."""
        by_default = self.rerank and request.mode != "lexical"
        if not (by_default if request.rerank is None else request.rerank):
            return Unranked()
        timeout_ms = request.rerank_timeout_ms or self.timeout_ms
        options: dict[str, Any] = {"timeout_ms": timeout_ms, "weights": self.weights}
        text = question.text
        if self.reranker is not None:
            return SentenceRanking(text, partial(load_reranker, self.reranker), **options)
        is_english = self.encoder != MULTILINGUAL_ENCODER or question.is_english
        load = partial(load_reranker, DEFAULT_RERANKER if is_english else MULTILINGUAL_RERANKER)
        by_sentence = SentenceRanking(text, load, prose_only=request.rerank is None, **options)
        if not is_english or request.level != "passage":
            return by_sentence
        return PassageRanking(text, load_passage_reranker, by_sentence, **options)
