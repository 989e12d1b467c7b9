"""From questions to spans within a budget: encode, search one snapshot, pack."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING

from lmkrag.index.snapshot import retry_expired
from lmkrag.index.words import query_words
from lmkrag.readers.base import LanguageModelReader, Reader
from lmkrag.readers.prompt import build_context, framed_cost
from lmkrag.reranker.base import Reranker
from lmkrag.reranker.loading import load_reranker
from lmkrag.retrieval.operators import Operators, parse_operators
from lmkrag.retrieval.packing import Cost, fill_budget
from lmkrag.retrieval.request import SearchRequest, check_query
from lmkrag.retrieval.reranking import SecondLook
from lmkrag.retrieval.search import search_spans
from lmkrag.retrieval.selecting import FilterCache
from lmkrag.retrieval.sentence_scores import score_document
from lmkrag.types import Context, SentenceScore, Span

if TYPE_CHECKING:
    from lmkrag.arrays import Scores
    from lmkrag.encoders import IndexEncoders
    from lmkrag.index.catalog import DocumentRow
    from lmkrag.index.snapshot import Searchable

DEFAULT_BUDGET = 2_000
"""Tokens of context a reader gets."""


class Searcher:
    """Searches an index for people and for readers. State: what filters keep of the newest snapshot."""

    def __init__(
        self,
        reading: "Callable[[], AbstractContextManager[Searchable]]",
        encoders: "IndexEncoders",
        reranker: Reranker | str | None = None,
        *,
        rerank: bool | float = True,
    ) -> None:
        """Take what gives snapshots, what encodes questions, and the re-ranker or its name; by default our own.

        ``rerank`` is the default of requests.
        """
        self._reading, self._encoders, self._reranker, self._rerank = reading, encoders, reranker, rerank
        self._filters = FilterCache()

    def forget(self) -> None:
        """Forget what filters keep: another index is read now."""
        self._filters.clear()

    def search(
        self, queries: Sequence[str], request: SearchRequest, *, cost: Cost | None = None, similarity: bool = False
    ) -> list[list[Span]]:
        """Search for each query, all in one snapshot.

        Args:
            queries: questions or words.
            request: how to search.
            cost: of a span, where the request has a budget; the tokens of its text without one.
            similarity: encode the queries in lexical mode, too, so that hits have a similarity.

        Raises:
            UsageError: a query is not a string.
        """
        parsed = [parse_operators(check_query(query), exclusions=request.operators) for query in queries]
        queries = [text for text, _ in parsed]
        vectors: Sequence[Scores | None] = [None] * len(queries)
        if request.mode != "lexical" or similarity:
            vectors = list(self._encoders.encode_questions(queries))

        def search() -> list[list[Span]]:
            with self._reading() as snapshot:
                return [
                    self._search_one(snapshot, text, vector, operators, request, cost or self._text_cost)
                    for (text, operators), vector in zip(parsed, vectors, strict=True)
                ]

        return retry_expired(search)

    def _search_one(
        self,
        snapshot: "Searchable",
        text: str,
        vector: "Scores | None",
        operators: Operators,
        request: SearchRequest,
        cost: Cost,
    ) -> list[Span]:
        words = query_words(text)
        second_look = self._look_again(text, request)
        allowed = self._filters.select(snapshot, request.filter) if request.filter else None

        def find(count: int) -> list[Span]:
            return search_spans(
                snapshot,
                vector,
                words,
                top_k=count,
                mode=request.mode,
                level=request.level,
                per_document=request.per_document,
                allowed=allowed,
                explain=request.explain,
                operators=operators,
                second_look=second_look,
            )

        if request.budget is None:
            return find(request.limit or 0)
        return fill_budget(find, limit=request.limit, budget=request.budget, cost=cost)

    def _look_again(self, question: str, request: SearchRequest) -> SecondLook | None:
        rerank = request.rerank
        if rerank is None:
            rerank = self._rerank and request.mode != "lexical"
        if not rerank:
            return None
        reranker = load_reranker(self._reranker)
        return SecondLook(question, reranker, milliseconds=None if rerank is True else float(rerank))

    def _text_cost(self, number: int, span: Span) -> int:
        return self._encoders.count_tokens(span.text)

    def score_sentences(self, query: str, row: "DocumentRow", snapshot: "Searchable") -> list[SentenceScore]:
        """Return how well each sentence of a document fits a question: see :func:`score_document`."""
        vector = self._encoders.encode_questions([check_query(query)])[0]
        return score_document(snapshot, row, vector, query_words(query))

    def search_for(self, reader: Reader, questions: Sequence[str], request: SearchRequest) -> list[list[Span]]:
        """Return the spans a reader gets for each question, within its budget."""
        if not isinstance(reader, LanguageModelReader):
            # It reads the passages with the question itself.
            within = replace(request, budget=request.budget or DEFAULT_BUDGET, rerank=request.rerank or False)
            return self.search(questions, within, similarity=True)  # it tells by similarity whether anything answers

        def count_tokens(text: str) -> int:
            own = reader.count_tokens(text)
            return self._encoders.count_tokens(text) if own is None else own

        return [list(context.spans) for context in self.build_contexts(questions, request, count_tokens)]

    def build_contexts(
        self, questions: Sequence[str], request: SearchRequest, count_tokens: Callable[[str], int] | None = None
    ) -> list[Context]:
        """Return what a language model is shown for each question, within its budget, frames counted.

        Args:
            questions: in words.
            request: how to search.
            count_tokens: of a text; by the tokenizer of the index's encoder without one.

        Raises:
            UsageError: the budget holds no span.
        """
        count_tokens = count_tokens or self._encoders.count_tokens
        budget = request.budget or DEFAULT_BUDGET
        request = replace(request, budget=budget)
        found = self.search(questions, request, cost=framed_cost(count_tokens))
        contexts = []
        for question, spans in zip(questions, found, strict=True):
            if not spans:  # is there nothing, or nothing that fits?
                (spans,) = self.search([question], replace(request, budget=None, top_k=1))
            contexts.append(build_context(question, spans, budget=budget, count_tokens=count_tokens))
        return contexts
