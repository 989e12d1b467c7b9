"""A search, from the question to its spans, in seven steps."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from lmkrag.index.live import Selection
from lmkrag.index.snapshot import Snapshot
from lmkrag.language.question import Question
from lmkrag.language.terms import merge_variants, query_variants, query_words
from lmkrag.results import SpanList
from lmkrag.search.candidates import (
    SearchQuery,
    gather_matches,
    prefer_named_documents,
    score_matches,
)
from lmkrag.search.code_blocks import is_mostly_code, rank_code
from lmkrag.search.filters import Expression, to_expression
from lmkrag.search.merging import Results
from lmkrag.search.operators import apply_operators
from lmkrag.search.periods import Period, filter_period, keep_period
from lmkrag.search.ranking import Ranker, Unranked
from lmkrag.search.request import SearchRequest
from lmkrag.search.selection import FilterCache
from lmkrag.search.spelling import split_compounds
from lmkrag.search.translations import prefer_language
from lmkrag.search.weights import WEIGHTS, Weights
from lmkrag.types.arrays import Scores

_ABBREVIATION = 3  # letters, at most: a text may have the words that it stands for


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchQuestion:
    """A question as it is searched for.

    Attributes:
        read: what it says.
        vector: ``[dimensions]`` of length one; None in lexical mode, where similarities are 0 then.
        ranker: re-ranks the results of all searches for it.
        select: returns the documents of a snapshot that match a filter.
        weights: of the search.
        for_reader: whether a reader gets all passages of a file.
    """

    read: Question
    vector: Scores | None
    ranker: Ranker = field(default_factory=Unranked)
    select: Callable[[Snapshot, Expression], Selection] = FilterCache().select
    weights: Weights = WEIGHTS
    for_reader: bool = False


def find_spans(snapshot: Snapshot, question: SearchQuestion, request: SearchRequest) -> SpanList:
    """Find the best spans of a snapshot, best first; notes say what was left out.

    About ``request.limit`` are returned where there are as many. The more are made, the more
    sentences are compared, and the order may differ: who wants results of a smaller number to be
    the first of a larger one searches twice, see :mod:`lmkrag.evidence.finder`.
    """
    # 1. Read the question: which documents it is asked of, its words in their languages.
    period = Period(request.since or "", request.until or "")
    allowed, notes = _select_documents(snapshot, question, request, period)
    # 2. Encode it: its vector was encoded together with those of other questions.
    query = _make_query(snapshot, question, request, allowed)
    # 3. Gather the sentences nearest to the question, and those with its words.
    matches = gather_matches(snapshot, query)
    if not len(matches.sentences):
        return SpanList(notes=notes)
    # 4. Lower the scores of other documents than those that the question names.
    preferred = prefer_named_documents(snapshot, query, matches)
    # 5. Fuse the scores, by which spans grow from the best sentences.
    candidates = score_matches(snapshot, query, preferred)
    candidates = apply_operators(question.read, candidates)
    candidates = keep_period(period, candidates)
    if allowed is not None and allowed.is_partial:
        candidates = candidates.keep(allowed.has(candidates.sentences))
    if not len(candidates.sentences):
        return SpanList(notes=notes)
    mostly_code = is_mostly_code(candidates)
    candidates = rank_code(candidates, question.read.code, mostly_code=mostly_code)
    candidates = prefer_language(candidates, question.read)
    # 6. Re-rank them, 7. make the results: before or after, as the ranker reads them. Of a folder
    # of source code, people get one passage of each file of code.
    limits_files = request.per_document is not None or request.context_tokens is not None
    results = Results(
        candidates,
        request,
        count=_count_made(question, request),
        collapse=mostly_code and not (question.for_reader or limits_files),
    )
    spans = question.ranker.rank(results)
    if question.ranker.note:
        notes.append(question.ranker.note)
    return SpanList((span for span in spans if not question.read.excludes(span.text)), notes)


def _select_documents(
    snapshot: Snapshot, question: SearchQuestion, request: SearchRequest, period: Period
) -> tuple[Selection | None, list[str]]:
    """The documents to search, None for all, and a note on those that are from another time."""
    expression = to_expression(request.filter)
    allowed = question.select(snapshot, expression) if expression else None
    if not period.is_limited:
        return allowed, []
    searched = len(snapshot.documents.keys if allowed is None else allowed.positions)
    allowed = question.select(snapshot, filter_period(expression, period))
    left_out = searched - len(allowed.positions)
    note = f"only passages {period}; {left_out} of {searched} documents are from another time"
    return allowed, [note]


def _make_query(
    snapshot: Snapshot,
    question: SearchQuestion,
    request: SearchRequest,
    allowed: Selection | None,
) -> SearchQuery:
    """The question in the languages of an index."""
    languages, keys = snapshot.totals.languages, question.read.keys
    names = " ".join(name for name in keys.names if len(name) > _ABBREVIATION)
    text = question.read.text
    if request.mode == "lexical":  # else their meaning finds as much
        text = " ".join([text, *split_compounds(snapshot, text)])
    variants = query_variants(text, languages)
    own_words = None
    if question.read.is_about_asker:
        own_words = merge_variants(query_variants(text, languages, stop_words=True))
    weights = question.weights
    if request.level == "passage":
        weights = replace(weights, keep=weights.passage_keep)
    return SearchQuery(
        question.vector,
        merge_variants(variants),
        mode=request.mode,
        top_k=_count_made(question, request),
        phrases=query_words(" ".join(question.read.phrases), languages),
        allowed=allowed,
        weights=weights,
        variants=variants,
        exact=query_variants(" ".join(keys.exact), languages),
        names=query_variants(names, languages),
        numbers=query_variants(" ".join(keys.numbers), languages),
        own_words=own_words,
    )


def _count_made(question: SearchQuestion, request: SearchRequest) -> int:
    """Results to make: twice as many as wanted where some may be excluded."""
    may_exclude = question.read.excluded or request.since or request.until
    return (request.limit or 0) * (2 if may_exclude else 1)
