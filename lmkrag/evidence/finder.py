"""Find evidence: search, and let passes order and mark the results in the same snapshot."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from lmkrag.encoder.spec import DEFAULT_ENCODER
from lmkrag.errors import EncoderError, IndexMismatch
from lmkrag.evidence.abstaining import abstain
from lmkrag.evidence.agreement import put_newer_first
from lmkrag.evidence.dating import date_spans
from lmkrag.evidence.freshness import find_boxes, mark_stale
from lmkrag.evidence.passes import Pass, SearchContext
from lmkrag.formats.pages import Pages
from lmkrag.index.catalog import DocumentRow
from lmkrag.index.searchable import retry_expired
from lmkrag.index.snapshot import Snapshot
from lmkrag.language.question import Question
from lmkrag.language.terms import query_words
from lmkrag.reranker.base import Reranker
from lmkrag.results import Context, Span, SpanList
from lmkrag.search.packing import Cost, exclude_known, fill_budget, take_spans
from lmkrag.search.ranking import Rankers, Unranked
from lmkrag.search.request import DEFAULT_CONTEXT, MOST_RESULTS, SearchRequest, check_query
from lmkrag.search.searcher import SearchQuestion, find_spans
from lmkrag.search.selection import FilterCache
from lmkrag.search.sentence_scores import score_document
from lmkrag.search.spelling import Spelled, correct_spelling
from lmkrag.search.weights import Weights
from lmkrag.specs import ENGLISH
from lmkrag.system.deadline import stop_if_late
from lmkrag.types import SentenceScore
from lmkrag.types.arrays import Scores

if TYPE_CHECKING:
    from lmkrag.encoder.index_encoder import IndexEncoders
    from lmkrag.readers.base import Reader
    from lmkrag.readers.prompt import Layout


_FIRST_PART = 24  # results that are found first, whatever number is wanted
_MORE = 4  # times as many are found after that, where they are wanted


ORDERING_PASSES: tuple[Pass, ...] = (date_spans, put_newer_first)
"""The passes that may order results, in their order, before the best are kept. Leave one out to
switch it off.
"""

MARKING_PASSES: tuple[Pass, ...] = (abstain, mark_stale, find_boxes)
"""The passes over the results that a search returns, in their order."""


class EvidenceFinder:
    """Searches an index for people and for readers. State: the selections of the last filters, and
    ``pages``.
    """

    def __init__(
        self,
        reading: Callable[[], AbstractContextManager[Snapshot]],
        encoders: "IndexEncoders",
        reranker: Reranker | str | None,
        *,
        rerank: bool,
        rerank_timeout_ms: float | None,
        weights: Weights,
    ) -> None:
        """Take a function that gives snapshots, the encoders, and a re-ranker or its name; None for
        our own.

        ``rerank`` and ``rerank_timeout_ms`` are the defaults of requests.
        """
        self._reading, self._encoders, self._weights = reading, encoders, weights
        self._rankers = Rankers(encoders.name, reranker, rerank, rerank_timeout_ms, weights)
        self._filters = FilterCache()
        self.pages = Pages()
        self.names_folders = True  # in notes and in filters

    def search(
        self,
        queries: Sequence[str],
        request: SearchRequest,
        *,
        cost: Cost | None = None,
        for_reader: bool = False,
    ) -> list[SpanList]:
        """Search for each query, all in one snapshot, and let passes order and mark the results.

        Raises UsageError: a query is not a string.

        ``cost`` counts a span's tokens, where the request limits them. For a reader all passages of
        a file are returned, and their hits have similarities in lexical mode, too.
        """
        spelled = self._correct_spelling([check_query(query) for query in queries])
        questions = [Question.read(each.text, exclusions=request.operators) for each in spelled]
        vectors: Sequence[Scores | None] = [None] * len(queries)
        if request.mode != "lexical" or for_reader:
            vectors = list(self._encoders.encode_questions([each.text for each in questions]))
        asked = [
            SearchQuestion(
                read=question,
                vector=vector,
                select=partial(self._filters.select, names_folders=self.names_folders),
                weights=self._weights,
                for_reader=for_reader,
            )
            for question, vector in zip(questions, vectors, strict=True)
        ]
        results = retry_expired(partial(self._search_each, asked, request, cost))
        for each, spans in zip(spelled, results, strict=True):
            spans.notes = (*each.notes, *spans.notes)
        return results

    def _correct_spelling(self, queries: Sequence[str]) -> list[Spelled]:
        """The queries with misspelt words corrected."""
        # whose common words are one token of the encoder
        languages = {ENGLISH} if self._encoders.name == DEFAULT_ENCODER else None

        def correct() -> list[Spelled]:
            with self._reading() as snapshot:
                return [
                    correct_spelling(snapshot, query, self._count_tokens, languages)
                    for query in queries
                ]

        return retry_expired(correct)

    def _count_tokens(self, word: str) -> int:
        """The tokens of a word; one, so that none counts as misspelt, if the encoder can't be
        loaded: a lexical search works without it.
        """
        try:
            return self._encoders.count_word(word)
        except (EncoderError, IndexMismatch):
            return 1

    def _search_each(
        self, questions: Sequence[SearchQuestion], request: SearchRequest, cost: Cost | None
    ) -> list[SpanList]:
        results = []
        with self._reading() as snapshot:
            for question in questions:
                stop_if_late()
                ranker = self._rankers.start(question.read, request)
                started = replace(question, ranker=ranker)
                results.append(self._search_one(snapshot, started, request, cost))
        return results

    def _search_one(
        self,
        snapshot: Snapshot,
        question: SearchQuestion,
        request: SearchRequest,
        cost: Cost | None,
    ) -> SpanList:
        index = self._encoders.path if self.names_folders else None
        context = SearchContext(snapshot, question.read, request, self.pages, index)
        parts = self._find_parts(context, question)
        if request.token_limit is None:
            spans = take_spans(parts, request.limit or 0)
        else:
            spans = fill_budget(
                parts, limit=request.limit, budget=request.token_limit, cost=cost or self._cost
            )
        for mark in MARKING_PASSES:
            spans = mark(spans, context)
        return spans

    def _find_parts(self, context: SearchContext, question: SearchQuestion) -> Iterator[SpanList]:
        """Yield all results, best first, in parts, each as passes order it.

        How many results are wanted changes neither which are first nor their order: the best are
        found among the sentences for 24 results, and what a search for more finds follows them.
        """
        size, best = _FIRST_PART, SpanList()
        while True:
            request = replace(context.request, top_k=size)
            found = find_spans(context.snapshot, question, request)
            part = SpanList(exclude_known(found, best, request.per_document), found.notes)
            for order in ORDERING_PASSES:
                part = order(part, context)
            yield part
            if len(found) < size or size == MOST_RESULTS:
                return
            best = SpanList([*best, *part])
            question = replace(question, ranker=Unranked())
            size = min(size * _MORE, MOST_RESULTS)

    def _cost(self, _: int, span: Span) -> int:
        return self._encoders.count_tokens(span.text)

    def score_sentences(
        self, query: str, find: Callable[[Snapshot], DocumentRow]
    ) -> list[SentenceScore]:
        """Return how well each sentence of a document fits a question; ``find`` returns its row."""
        (vector,) = self._encoders.encode_questions([check_query(query)])

        def score() -> list[SentenceScore]:
            with self._reading() as snapshot:
                words = query_words(query, snapshot.totals.languages)
                return score_document(snapshot, find(snapshot), vector, words)

        return retry_expired(score)

    def search_for(
        self, reader: "Reader", questions: Sequence[str], request: SearchRequest
    ) -> list[SpanList]:
        """Return the spans that a reader gets for each question, a language model as many as fit
        its context.
        """
        from lmkrag.readers.base import LanguageModelReader  # a search does without this import

        if not isinstance(reader, LanguageModelReader):
            return self.search(questions, request, for_reader=True)

        def count_tokens(text: str) -> int:
            count = reader.count_tokens(text)
            return self._encoders.count_tokens(text) if count is None else count

        contexts = self.build_contexts(questions, request, count_tokens)
        return [SpanList(context.spans, context.notes) for context in contexts]

    def build_contexts(
        self,
        questions: Sequence[str],
        request: SearchRequest,
        count_tokens: Callable[[str], int] | None = None,
        *,
        layout: "Layout" = "fenced",
    ) -> list[Context]:
        """Return what a language model sees for each question, within its tokens. Raises
        UsageError: no span fits.
        """
        from lmkrag.readers.prompt import build_context, framed_cost

        count_tokens = count_tokens or self._encoders.count_tokens
        budget = request.context_tokens or DEFAULT_CONTEXT
        request = replace(request, context_tokens=budget)
        results = self.search(questions, request, cost=framed_cost(count_tokens, layout))
        contexts = []
        for question, spans in zip(questions, results, strict=True):
            if not spans and spans.confidence is None:  # no passage matches, or none fits
                (spans,) = self.search([question], replace(request, context_tokens=None, top_k=1))
            context = build_context(
                question, spans, budget=budget, count_tokens=count_tokens, layout=layout
            )
            contexts.append(replace(context, notes=spans.notes))
        return contexts
