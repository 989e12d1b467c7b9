"""Gather the candidate sentences of a search, prefer the documents that the question names, and
score them.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np

from lmkrag.index.live import Selection, select_own
from lmkrag.index.ranges import DocumentRanges
from lmkrag.index.searchable import Matches, Nearest, join_matches, spread_scores
from lmkrag.index.snapshot import Snapshot
from lmkrag.index.view import DocumentView
from lmkrag.language.terms import merge_variants
from lmkrag.search.fusion import Fused, fuse
from lmkrag.search.growth import Grown, grow_spans
from lmkrag.search.naming import WordKind, find_naming_words, read_openings, weigh_documents
from lmkrag.search.weights import Weights
from lmkrag.sentences.structure import (
    ASSISTANT,
    HEADING,
    LEAD_IN,
    MESSAGE,
    NAVIGATION,
    NO_CONTENT,
    RECORD,
)
from lmkrag.types import Mode
from lmkrag.types.arrays import Floats, Hashes, Ids, Mask, Scores


@dataclass(frozen=True, slots=True)
class Candidates:
    """The matches of a query and sentences near the best of them, by increasing id; arrays are
    ``[n]``.
    """

    sentences: Ids
    documents: Ids
    dense: Scores
    lexical: Scores
    has_content: Mask  # this and the next are roles: see :mod:`lmkrag.sentences.structure`
    lead_in: Mask
    record: Mask
    heading: Mask
    words: dict[tuple[int, ...], float]  # the weight of each word of the question, by its hashes
    fused: Fused  # the scores with their parts
    weights: Weights  # of the search
    languages: Collection[str]  # of the index
    view_document: Callable[[int], DocumentView]  # by row ids, each looked up once

    @property
    def score(self) -> Scores:
        """Their fused scores."""
        return self.fused.score

    def view(self, candidate: int) -> DocumentView:
        """Return the document that a candidate (a position) is of."""
        return self.view_document(int(self.documents[candidate]))

    def ordinal(self, candidate: int) -> int:
        """Return which sentence of its document a candidate is."""
        return int(self.sentences[candidate]) - self.view(candidate).row.first_sentence

    def sentence(self, candidate: int) -> str:
        """Return the text of a candidate."""
        return self.view(candidate).sentence(self.ordinal(candidate))

    def times(self, name: str, factor: Scores | Floats) -> "Candidates":
        """Return the candidates with their scores multiplied by one more factor ``[n]``."""
        return replace(self, fused=self.fused.times(name, factor.astype(np.float32)))

    def grow(self) -> Iterator[Grown]:
        """Yield the spans that grow from the candidates: see
        :func:`lmkrag.search.growth.grow_spans`.
        """
        return grow_spans(
            self.score,
            self.sentences,
            self.documents,
            has_content=self.has_content,
            lead_in=self.lead_in,
            record=self.record,
            heading=self.heading,
            weights=self.weights,
        )

    def keep(self, mask: Mask) -> "Candidates":
        """Return the candidates where ``mask`` ``[n]`` is true."""
        if mask.all():
            return self
        arrays = (
            "sentences",
            "documents",
            "dense",
            "lexical",
            "has_content",
            "lead_in",
            "record",
            "heading",
        )
        return replace(
            self,
            **{name: getattr(self, name)[mask] for name in arrays},
            fused=self.fused.keep(mask),
        )


class SearchQuery(NamedTuple):
    """A question as it is searched for, and the options of the search."""

    # ``[dimensions]`` of length one; None in lexical mode, where similarities are 0 then
    vector: Scores | None
    words: Hashes  # hashes of the question's words
    mode: Mode
    top_k: int
    # words of quoted phrases: sentences that have most of them are gathered, too
    phrases: Hashes
    allowed: Selection | None  # the documents to search, None for all
    weights: Weights
    variants: Sequence[tuple[int, ...]]  # hashes of each word by several languages
    exact: Sequence[tuple[int, ...]]  # the same of words of dates, codes and versions
    names: Sequence[tuple[int, ...]]  # of words that are names
    numbers: Sequence[tuple[int, ...]]  # and of those that are numbers
    # all words of the question, if it is about the one who asks: messages of people have few words
    own_words: Hashes | None

    def kind(self, forms: tuple[int, ...]) -> WordKind:
        """Return the kind of a word, given its hashes."""
        if forms in self.exact:
            return "exact"
        if forms in self.names:
            return "name"
        return "number" if forms in self.numbers else "word"

    def match(
        self,
        snapshot: Snapshot,
        words: Hashes,
        *,
        mode: Mode | None = None,
        allowed: Selection | None = None,
        nearest: Nearest | None = None,
    ) -> Matches:
        """Search for words, and for the question's vector unless its ``nearest`` sentences are
        given.
        """
        pool = max(self.weights.pool, self.weights.pool_per_result * self.top_k)
        return snapshot.search(
            self.vector, words, mode=mode or self.mode, top_k=pool, allowed=allowed, nearest=nearest
        )


def gather_matches(snapshot: Snapshot, query: SearchQuery) -> Matches:
    """Return the sentences that are nearest to a question, and those with most of its words."""
    matches = query.match(snapshot, query.words, allowed=query.allowed)
    if len(query.phrases) and query.mode != "dense":
        matches = join_matches(
            matches, query.match(snapshot, query.phrases, mode="lexical", allowed=query.allowed)
        )
    if query.own_words is not None:
        own = select_own(snapshot.segments, snapshot.documents, query.allowed)
        if own is not None:
            matches = join_matches(matches, query.match(snapshot, query.own_words, allowed=own))
    return matches


class Preferred(NamedTuple):
    """Matches, and the factors of documents."""

    matches: Matches
    words: dict[tuple[int, ...], float]  # weights of the question's words, by their hashes
    # by positions of documents; None if none is preferred
    factors: Callable[[Ids], Scores] | None = None


def prefer_named_documents(snapshot: Snapshot, query: SearchQuery, matches: Matches) -> Preferred:
    """Prefer the documents that a question is about, by the words that name them.

    Their best sentences are gathered, too, and the scores of all others are lowered, by how much
    less likely the question is about them. Where it is clear which documents are meant, the words
    that name them do not count inside documents, but in lexical mode: who asks for words wants all.
    """
    terms = matches.terms or snapshot.find_terms(query.words)
    weights = dict(zip(query.words.tolist(), terms.weights, strict=True))
    forms = query.variants
    # The most frequent form of a word shows how rare it is: in an index of one language the others
    # are in no text.
    words = {each: min(weights[form] for form in each) for each in forms}
    allowed = None if query.allowed is None else query.allowed.positions
    count = len(snapshot.documents.keys if allowed is None else allowed)
    if matches.terms is None or not forms or count < 2:
        return Preferred(matches, words)
    openings = read_openings(snapshot, terms, forms, allowed, query.weights)
    kinds = [query.kind(each) for each in forms]
    naming = weigh_documents(openings, count, kinds, query.weights)
    if not len(naming) or naming.max() <= naming.min():
        return Preferred(matches, words)
    is_meant = naming == naming.max()
    if np.count_nonzero(is_meant) <= query.weights.most_named:
        named = Selection(snapshot.documents, openings.documents[is_meant])
        inside = query.match(snapshot, query.words, allowed=named)
        matches = join_matches(matches, inside)
        margin = naming.max() - naming[~is_meant].max()
        names = find_naming_words(openings, is_meant, count, query.weights)
        is_clear = margin >= query.weights.clear_margin and 0 < names.sum() < len(names)
        if is_clear and query.mode != "lexical":
            others = merge_variants(
                each for each, is_name in zip(forms, names, strict=True) if not is_name
            )
            matches = join_matches(
                query.match(snapshot, others, allowed=query.allowed, nearest=matches.nearest),
                query.match(snapshot, others, allowed=named, nearest=inside.nearest),
            )
    known = np.exp(naming - naming.max())
    least = 1 - query.weights.max_penalty

    def factors(positions: Ids) -> Scores:
        place = np.minimum(np.searchsorted(openings.documents, positions), len(known) - 1)
        is_known = openings.documents[place] == positions
        factor: Scores = np.where(is_known, known[place], known.min()).astype(np.float32)
        return np.maximum(factor, np.float32(least))

    return Preferred(matches, words, factors)


def score_matches(snapshot: Snapshot, query: SearchQuery, preferred: Preferred) -> Candidates:
    """Return the matches with the neighbours of the best of them, and the fused scores of all of
    these.
    """
    matches, words, factors = preferred
    weights, mode = query.weights, query.mode
    score = (
        np.zeros(len(matches.sentences), np.float32) if mode == "lexical" else matches.dense.copy()
    )
    score += weights.lexical * matches.lexical / matches.lexical.max(initial=1e-9)
    if factors is not None:
        score *= factors(snapshot.documents.owners(matches.sentences))
    most = max(weights.expanded, weights.expanded_per_result * query.top_k)
    best = np.argsort(-score, kind="stable")[:most]
    sentences, owners = _with_neighbours(
        matches.sentences, matches.sentences[best], snapshot.documents, weights.reach
    )
    known = snapshot.describe(sentences, owners, query.vector, matches)
    lexical = spread_scores(matches.lexical, matches.sentences, sentences)
    fused = fuse(
        None if mode == "lexical" else known.dense,
        None if mode == "dense" else lexical,
        sentences,
        known.documents,
        known.paragraphs,
        weights,
        (known.roles & MESSAGE) != 0,
    )
    candidates = Candidates(
        sentences=sentences,
        documents=known.documents,
        dense=known.dense,
        lexical=lexical,
        has_content=(known.roles & NO_CONTENT) == 0,
        lead_in=(known.roles & LEAD_IN) != 0,
        record=(known.roles & RECORD) != 0,
        heading=(known.roles & HEADING) != 0,
        words=words,
        fused=fused,
        weights=weights,
        languages=snapshot.totals.languages,
        view_document=cache(snapshot.view_document),
    )
    if factors is not None:
        candidates = candidates.times("named documents", factors(owners))
    if query.own_words is not None:
        of_others = (known.roles & ASSISTANT) != 0
        candidates = candidates.times("who speaks", np.where(of_others, weights.assistant, 1))
    navigation = (known.roles & NAVIGATION) != 0
    return candidates.times("contents or links", np.where(navigation, weights.navigation, 1))


def _with_neighbours(
    sentences: Ids, best: Ids, documents: DocumentRanges, reach: int
) -> tuple[Ids, Ids]:
    """The sentences and ``reach`` neighbours of the best ones in their documents; positions of
    their documents.
    """
    owner = documents.owners(best)
    near = best[:, None] + np.arange(-reach, reach + 1)
    inside = (near >= documents.first[owner][:, None]) & (near < documents.stop[owner][:, None])
    gathered = np.union1d(sentences, near[inside])
    return gathered, documents.owners(gathered)
