"""A search, from the question to its results, in seven steps."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from lmkrag.encoder.spec import MULTILINGUAL_ENCODER
from lmkrag.formats.pages import Pages
from lmkrag.index.catalog import DocumentRow
from lmkrag.index.live import Selection
from lmkrag.index.searchable import NOTHING_NEAR, Matches, retry_expired, spread_scores
from lmkrag.index.snapshot import Snapshot
from lmkrag.language.question import NO_QUESTION, Question
from lmkrag.language.terms import merge_variants, query_variants, query_words
from lmkrag.reranker.base import DEFAULT_RERANKER, MULTILINGUAL_RERANKER, Reranker
from lmkrag.reranker.loading import load_passage_reranker, load_reranker
from lmkrag.results import CUT_SHORT, Context, Span, SpanList
from lmkrag.search.agreement import compare_passages
from lmkrag.search.candidates import (
    SearchQuery,
    Views,
    gather_matches,
    prefer_named_document,
    score_matches,
)
from lmkrag.search.code_blocks import is_mostly_code, rank_code
from lmkrag.search.explaining import Growth
from lmkrag.search.filters import Expression, to_expression
from lmkrag.search.freshness import find_boxes, mark_stale
from lmkrag.search.fusion import fuse
from lmkrag.search.growth import Grown
from lmkrag.search.merging import merge_level, merge_passages
from lmkrag.search.operators import apply_operators
from lmkrag.search.packing import Cost, fill_budget
from lmkrag.search.passage_ranking import PassageRanking
from lmkrag.search.periods import Period, filter_period, keep_period
from lmkrag.search.request import DEFAULT_CONTEXT, SearchRequest, check_query
from lmkrag.search.rerank import Reranking
from lmkrag.search.results import Results
from lmkrag.search.selection import FilterCache
from lmkrag.search.weights import WEIGHTS, Weights
from lmkrag.specs import CODE
from lmkrag.system.deadline import stop_if_late
from lmkrag.types import Level, SentenceScore
from lmkrag.types.arrays import Hashes, Scores

if TYPE_CHECKING:
    from lmkrag.encoder.index_encoder import IndexEncoders
    from lmkrag.readers.base import Reader
    from lmkrag.readers.prompt import Layout


_AT_ONCE = 20_000  # vectors in memory
_ABBREVIATION = 3  # letters, at most: a text may have the words that it stands for


class Searcher:
    """Searches an index for people and for readers. State: the selections of the last filters, and
    ``pages``.
    """

    def __init__(
        self,
        reading: Callable[[], AbstractContextManager[Snapshot]],
        encoders: "IndexEncoders",
        reranker: Reranker | str | None = None,
        *,
        rerank: bool = True,
        rerank_timeout_ms: float | None = None,
        weights: Weights = WEIGHTS,
    ) -> None:
        """Take a function that gives snapshots, the encoders, and a re-ranker or its name; defaults
        to our own.

        ``rerank`` and ``rerank_timeout_ms`` are the defaults of requests.
        """
        self._reading, self._encoders, self._reranker = reading, encoders, reranker
        self._rerank, self._timeout_ms, self._weights = rerank, rerank_timeout_ms, weights
        self._filters = FilterCache()
        self.pages = Pages()
        self.names_folders = (
            True  # in the note that says how to bring the index in step, and in filters
        )

    def search(
        self,
        queries: Sequence[str],
        request: SearchRequest,
        *,
        cost: Cost | None = None,
        similarity: bool = False,
    ) -> list[SpanList]:
        """Search for each query, all in one snapshot; mark the results whose files are not as they
        were indexed.

        Raises UsageError: a query is not a string.

        ``cost`` counts a span's tokens, where the request limits them. With ``similarity``, which
        readers ask for, all passages of a file are returned, and their hits have similarities in
        lexical mode, too.
        """
        # 1. Read the questions: their operators, names and numbers.
        questions = [
            Question.read(check_query(query), exclusions=request.operators) for query in queries
        ]
        # 2. Encode all questions together.
        vectors: Sequence[Scores | None] = [None] * len(queries)
        if request.mode != "lexical" or similarity:
            vectors = list(
                self._encoders.encode_questions([question.text for question in questions])
            )

        cost = cost or (lambda _, span: self._encoders.count_tokens(span.text))

        def search() -> list[SpanList]:
            with self._reading() as snapshot:
                results = []
                for question, vector in zip(questions, vectors, strict=True):
                    stop_if_late()
                    spans = self._search_one(
                        snapshot, question, vector, request, cost, not similarity
                    )
                    index = self._encoders.path if self.names_folders else None
                    spans = mark_stale(snapshot, spans, index)
                    results.append(
                        find_boxes(snapshot, spans, self.pages) if request.boxes else spans
                    )
                return results

        return retry_expired(search)

    def _search_one(
        self,
        snapshot: Snapshot,
        question: Question,
        vector: Scores | None,
        request: SearchRequest,
        cost: Cost,
        collapse: bool,
    ) -> SpanList:
        languages, expression = snapshot.totals.languages, to_expression(request.filter)
        variants, keys = query_variants(question.text, languages), question.keys
        allowed = self._select(snapshot, expression) if expression else None
        notes: list[str] = []
        period = None
        if request.since or request.until:
            period = Period(request.since or "", request.until or "")
            searched = len(snapshot.documents.keys if allowed is None else allowed.positions)
            allowed = self._select(snapshot, filter_period(expression, period))
            left_out = searched - len(allowed.positions)
            notes.append(
                f"only passages {period}; {left_out} of {searched} documents are from another time"
            )
        weights = self._weights
        if request.level == "passage":
            weights = replace(weights, keep=weights.passage_keep)
        query = SearchQuery(
            vector,
            merge_variants(variants),
            mode=request.mode,
            phrases=query_words(" ".join(question.phrases), languages),
            allowed=allowed,
            weights=weights,
            variants=variants,
            names=query_variants(
                " ".join(name for name in keys.names if len(name) > _ABBREVIATION), languages
            ),
            numbers=query_variants(" ".join(keys.numbers), languages),
        )
        reranking, ranking = self._start_reranking(question, request)
        compared: list[str] = []

        def compare(spans: list[Span]) -> list[Span]:
            spans, compared[:] = compare_passages(
                question.text, spans, partial(read_text, snapshot)
            )
            return spans

        def find(count: int) -> list[Span]:
            return find_spans(
                snapshot,
                query._replace(top_k=count),
                level=request.level,
                per_document=request.per_document,
                collapse=collapse
                and request.per_document is None
                and request.context_tokens is None,
                explain=request.explain,
                question=question,
                period=period,
                compare=list if request.level == "document" else compare,
                reranking=reranking,
                ranking=ranking if request.level == "passage" else None,
            )

        if request.token_limit is None:
            spans = find(request.limit or 0)
        else:
            spans = fill_budget(find, limit=request.limit, budget=request.token_limit, cost=cost)
        notes += compared
        if any(each is not None and each.cut_short for each in (reranking, ranking)):
            notes.append(CUT_SHORT)
        return SpanList(spans, notes)

    def _select(self, snapshot: Snapshot, expression: Expression) -> Selection:
        return self._filters.select(snapshot, expression, names_folders=self.names_folders)

    def _start_reranking(
        self, question: Question, request: SearchRequest
    ) -> tuple[Reranking | None, PassageRanking | None]:
        """The re-ranker of sentences, and that of passages, which we have only for English."""
        by_default = self._rerank and request.mode != "lexical"
        if not (by_default if request.rerank is None else request.rerank):
            return None, None
        timeout_ms = request.rerank_timeout_ms or self._timeout_ms
        options: dict[str, Any] = {"timeout_ms": timeout_ms, "weights": self._weights}
        text = question.text
        if self._reranker is not None:
            return Reranking(text, partial(load_reranker, self._reranker), **options), None
        is_english = self._encoders.name != MULTILINGUAL_ENCODER or question.is_english
        name = DEFAULT_RERANKER if is_english else MULTILINGUAL_RERANKER
        prose_only = request.rerank is None
        reranking = Reranking(text, partial(load_reranker, name), prose_only=prose_only, **options)
        ranking = PassageRanking(text, load_passage_reranker, **options) if is_english else None
        return reranking, ranking

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
        from lmkrag.readers.base import (
            LanguageModelReader,
        )  # a search alone does without this import

        if not isinstance(reader, LanguageModelReader):
            return self.search(
                questions, request, similarity=True
            )  # similarities show whether anything answers

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
            if not spans:  # either no passage matches, or none fits
                (spans,) = self.search([question], replace(request, context_tokens=None, top_k=1))
            context = build_context(
                question, spans, budget=budget, count_tokens=count_tokens, layout=layout
            )
            contexts.append(replace(context, notes=spans.notes))
        return contexts


def read_text(snapshot: Snapshot, doc_id: str, start: int, end: int) -> str:
    """Return characters of a document by its name, or an empty string if it is gone."""
    row = snapshot.find_document(doc_id)
    return "" if row is None else snapshot.read_text(row, start, end)


def find_spans(
    snapshot: Snapshot,
    query: SearchQuery,
    *,
    level: Level = "passage",
    per_document: int | None = None,
    collapse: bool = False,
    explain: bool = False,
    question: Question = NO_QUESTION,
    period: Period | None = None,
    compare: Callable[[list[Span]], list[Span]] = list,
    reranking: Reranking | None = None,
    ranking: PassageRanking | None = None,
) -> list[Span]:
    """Find the best spans, best first, without the encoder or the text of the question.

    ``reranking`` re-ranks the best passages, and ``ranking`` ranks passages of prose as they are
    shown; None not to. ``collapse`` returns one passage of each file where most files are source
    code. The other options are those of :class:`lmkrag.search.request.SearchRequest`.
    """
    factor = 2 if question.excluded or period else 1  # some may be excluded
    top_k, least = query.top_k, query.top_k * factor
    count = least if ranking is None else max(least, query.weights.ranked_in_doubt * factor)
    query = query._replace(top_k=count)
    # 3. Gather the sentences nearest to the question, and those with its words.
    matches = gather_matches(snapshot, query)
    if not len(matches.sentences):
        return []
    # 4. Lower the scores of other documents if the question names one.
    preferred = prefer_named_document(snapshot, query, matches)
    # 5. Fuse the scores, and grow spans from the best sentences.
    candidates = score_matches(snapshot, query, preferred)
    views = Views(snapshot, candidates)
    if question.has_operators:
        candidates = apply_operators(question, candidates, views.sentence)
        views = Views(snapshot, candidates)
    if period is not None:
        candidates = keep_period(period, candidates, views)
        views = Views(snapshot, candidates)
    if not len(candidates.sentences):
        return []
    mostly_code = CODE in views.languages and is_mostly_code(candidates, views)
    if mostly_code and not question.code.about_prose:
        count, ranking = least, None  # its model was trained on prose
    if CODE in views.languages:
        candidates = rank_code(candidates, views, question.code, mostly_code=mostly_code)

    # 7. Make the results, after step 6 or for it.
    def make(grown: Iterable[Grown], score: Scores) -> list[Span]:
        growth: Growth | None = None
        if explain:
            grown = list(grown)
            growth = (
                {hit: (first, stop) for first, stop, hit in grown}
                if level in ("passage", "span")
                else {}
            )
        results = Results(views, candidates, score, growth)
        limits: dict[str, Any] = {"top_k": count, "per_document": per_document}
        if level == "passage":
            results_shown = top_k if collapse and mostly_code else 0
            return merge_passages(
                results, grown, collapse=results_shown, weights=query.weights, **limits
            )
        return merge_level(level, results, candidates, score, grown, **limits)

    # 6. Re-rank: passages as they are shown, or sentences. Spans have the scores of their best
    # sentences then.
    make_unranked = cache(lambda: make(candidates.grow(), candidates.score))
    spans = None if ranking is None else ranking.rank(make_unranked())
    if spans is None:
        order = None if reranking is None else reranking.rerank_spans(views, candidates, level)
        spans = make_unranked() if order is None else make(*order)
        spans = spans if ranking is None else ranking.refine(spans)
    return [span for span in compare(spans) if not question.excludes(span.text)][:top_k]


def score_document(
    snapshot: Snapshot, row: DocumentRow, vector: Scores, words: Hashes
) -> list[SentenceScore]:
    """Return the score of every sentence of a document, from its first to its last character.

    The scores are fused as in a search of this document alone, so that they compare its sentences
    with each other. ``vector`` ``[dimensions]`` of the question has length one; ``words`` are the
    hashes of its words.
    """
    sentences = np.arange(row.first_sentence, row.first_sentence + row.sentences, dtype=np.int64)
    parts = [np.zeros(0, np.float32)]
    for low in range(0, len(sentences), _AT_ONCE):
        stop_if_late()
        parts.append(snapshot.read_vectors(sentences[low : low + _AT_ONCE]) @ vector)
    dense = np.concatenate(parts)
    inside = Selection(snapshot.documents, snapshot.documents.find(np.array([row.id])))
    matches = snapshot.search(None, words, mode="lexical", top_k=len(sentences), allowed=inside)
    lexical = spread_scores(matches.lexical, matches.sentences, sentences)
    owners = snapshot.documents.owners(sentences)
    known = snapshot.describe(
        sentences, owners, None, Matches(sentences, dense, lexical, matches.terms, NOTHING_NEAR)
    )
    score = fuse(
        dense, lexical, sentences, known.documents, known.paragraphs, known.title_match
    ).score
    view = snapshot.view_document(row.id)
    values = zip(score.tolist(), dense.tolist(), lexical.tolist(), strict=True)
    return [SentenceScore(*view.bounds(ordinal), *scores) for ordinal, scores in enumerate(values)]
