"""Gather the candidate sentences of a search, prefer the document that the question names, and
score them.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np

from lmkrag.index.live import Selection
from lmkrag.index.ranges import DocumentRanges
from lmkrag.index.searchable import Matches, Nearest, join_matches, spread_scores
from lmkrag.index.snapshot import Snapshot
from lmkrag.index.view import DocumentView
from lmkrag.index.words.lexical import (
    Places,
    Terms,
    count_document_words,
    count_sentence_words,
    find_first,
)
from lmkrag.language.terms import merge_variants
from lmkrag.search.fusion import Fused, fuse
from lmkrag.search.growth import Grown, grow_spans
from lmkrag.search.weights import WEIGHTS, Weights
from lmkrag.sentences.structure import HEADING, LEAD_IN, NAVIGATION, NO_CONTENT, RECORD
from lmkrag.types import Mode
from lmkrag.types.arrays import Floats, Hashes, Ids, Mask, Scores

_TITLED = 1_000  # documents whose titles are matched


@dataclass(frozen=True, slots=True)
class Candidates:
    """The matches of a query and sentences near the best of them, by increasing id; arrays are
    ``[n]``.
    """

    sentences: Ids
    documents: Ids
    score: Scores
    dense: Scores
    lexical: Scores
    has_content: Mask  # this and the next are roles: see :mod:`lmkrag.sentences.structure`
    lead_in: Mask
    record: Mask
    heading: Mask
    words: dict[tuple[int, ...], float]  # the weight of each word of the question, by its hashes
    fused: Fused  # the scores with their parts
    weights: Weights  # of the search
    views: "Views"  # their documents

    def view(self, candidate: int) -> DocumentView:
        """Return the document that a candidate (a position) is of."""
        return self.views.view(int(self.documents[candidate]))

    def ordinal(self, candidate: int) -> int:
        """Return which sentence of its document a candidate is."""
        return int(self.sentences[candidate]) - self.view(candidate).row.first_sentence

    def sentence(self, candidate: int) -> str:
        """Return the text of a candidate."""
        return self.view(candidate).sentence(self.ordinal(candidate))

    def times(self, name: str, factor: Scores | Floats) -> "Candidates":
        """Return the candidates with their scores multiplied by one more factor ``[n]``."""
        fused = self.fused.times(name, factor.astype(np.float32))
        return replace(self, fused=fused, score=fused.score)

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
        arrays = (
            "sentences",
            "documents",
            "score",
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


class Views:
    """Documents of a snapshot by their row ids, each looked up once."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.languages = snapshot.totals.languages
        self.view = cache(snapshot.view_document)


class SearchQuery(NamedTuple):
    """A question as it is searched for, and the options of the search."""

    # ``[dimensions]`` of length one; None in lexical mode, where similarities are 0 then
    vector: Scores | None
    words: Hashes  # hashes of the question's words
    mode: Mode = "hybrid"
    top_k: int = 8
    # words of quoted phrases: sentences that have most of them are gathered, too
    phrases: Hashes | None = None
    allowed: Selection | None = None  # the documents to search, None for all
    weights: Weights = WEIGHTS
    # hashes of each word by several languages; empty where each has one
    variants: Sequence[tuple[int, ...]] = ()
    names: Sequence[tuple[int, ...]] = ()  # the same of words that are names
    numbers: Sequence[tuple[int, ...]] = ()  # and of those that are numbers

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
        mode = mode or self.mode
        return snapshot.search(
            self.vector, words, mode=mode, top_k=pool, allowed=allowed, nearest=nearest
        )


def gather_matches(snapshot: Snapshot, query: SearchQuery) -> Matches:
    """Return the sentences that are nearest to a question, and those with most of its words."""
    matches = query.match(snapshot, query.words, allowed=query.allowed)
    if query.phrases is not None and len(query.phrases) and query.mode != "dense":
        matches = join_matches(
            matches, query.match(snapshot, query.phrases, mode="lexical", allowed=query.allowed)
        )
    return matches


class Preferred(NamedTuple):
    """Matches, and the factors of documents."""

    matches: Matches
    words: dict[tuple[int, ...], float]  # weights of the question's words, by their hashes
    # by positions of documents; None if none is preferred
    factors: Callable[[Ids], Scores] | None = None


class DocumentMatch(NamedTuple):
    """The document that a question names."""

    document: int  # its position in the snapshot
    documents: Ids  # ``[n]``, positions of the documents that were compared
    shares: Floats  # ``[n]``, of the question's words, by weight, in their openings and titles
    margin: float  # between its share and the next best one
    words: Hashes  # words of the question that do not name it


def match_document(
    snapshot: Snapshot,
    terms: Terms,
    among: Ids | None = None,
    weights: Weights = WEIGHTS,
    names: Sequence[tuple[int, ...]] = (),
) -> DocumentMatch | None:
    """Return the document that a question names by words of its opening or title; None if no single
    one stands out.

    Where documents are alike (contracts, releases, minutes), each of them has a passage that fits
    the question, and only rare words say which one is meant: "Consider the agreement between X and
    Y; may the recipient share ...?"

    Words are weighted by their inverse document frequency. The document must be ahead of all
    others, and no other may have as many of the words anywhere, or one of the question's ``names``
    that it lacks. ``among`` are the positions of the documents to choose from, increasing.
    """
    count = len(snapshot.documents.keys if among is None else among)
    if count < 2:
        return None
    places = find_first(snapshot.segments, snapshot.documents, terms)
    chosen = _choose_documents(places, len(snapshot.documents.keys), among)
    documents = np.flatnonzero(chosen)
    lengths = count_document_words(snapshot.segments, snapshot.documents, documents)
    border = np.clip(weights.opening_share * lengths, weights.min_opening, weights.opening)
    held, opened, in_rows, inverse = [], [], [], []
    for place in places:
        mask = chosen[place.documents]
        owners = np.searchsorted(documents, place.documents[mask])
        held.append(owners)
        opened.append(owners[place.before[mask] < border[owners]])
        in_rows.append(owners[(place.roles[mask] & RECORD) != 0])
        inverse.append(
            math.log1p((count - len(owners) + 0.5) / (len(owners) + 0.5)) if len(owners) else 0.0
        )
    total = sum(inverse)
    if total <= 0:
        return None
    mass = _add_up(held, inverse, len(documents))
    likely = _find_best(mass + 0.5 * _add_up(opened, inverse, len(documents)), _TITLED)
    titled = snapshot.titles_with(terms.words, documents[likely]) > 0
    opened = [
        np.union1d(owners, likely[in_title])
        for owners, in_title in zip(opened, titled, strict=True)
    ]
    shares = _add_up(opened, inverse, len(documents)) / total
    best = int(np.argmax(shares))
    mass += 0.5 * total * shares
    margin = float(shares[best] - np.delete(shares, best).max(initial=0))
    if margin < weights.document_margin or mass[best] < mass.max():
        return None
    if _lacks_name(best, names, terms.words, held, opened):
        return None
    most = max(1, weights.common_share * count)
    naming = np.array([best in owners and len(owners) <= most for owners in opened])
    # Words in rows of a table tell the rows apart.
    naming &= [best not in owners for owners in in_rows]
    left = terms.words[~naming]
    return DocumentMatch(
        int(documents[best]), documents, shares, margin, left if len(left) else terms.words
    )


def _choose_documents(places: Sequence[Places], count: int, among: Ids | None) -> Mask:
    """Which documents ``[count]`` are compared: those that hold words, and some that may be named
    by their titles.
    """
    chosen = np.zeros(count, bool)
    for place in places:
        chosen[place.documents] = True
    room = max(0, _TITLED - np.count_nonzero(chosen))
    chosen[np.flatnonzero(~chosen[:_TITLED])[:room]] = True
    if among is not None:
        chosen[np.setdiff1d(np.flatnonzero(chosen), among, assume_unique=True)] = False
    return chosen


def _lacks_name(
    document: int,
    names: Sequence[tuple[int, ...]],
    words: Hashes,
    *holders: Sequence[Ids],
) -> bool:
    """Whether a document has none of the forms of a name that another document holds."""
    for forms in names:
        columns = [column for column, word in enumerate(words.tolist()) if word in forms]
        owners = [of_words[column] for of_words in holders for column in columns]
        if any(map(len, owners)) and not any(document in each for each in owners):
            return True
    return False


def _find_best(rank: Floats, most: int) -> Ids:
    """The positions of the greatest values, in order; of equal ones the first."""
    if len(rank) <= most:
        return np.arange(len(rank))
    least = np.partition(rank, -most)[-most]
    better = np.flatnonzero(rank > least)
    return np.union1d(better, np.flatnonzero(rank == least)[: most - len(better)])


def _add_up(owners: Sequence[Ids], weights: Sequence[float], count: int) -> Floats:
    """The sum of the weights of each document's words, ``[count]``, given the documents of each
    word.
    """
    total = np.zeros(count)
    for of_word, weight in zip(owners, weights, strict=True):
        total[of_word] += weight
    return total


def prefer_named_document(snapshot: Snapshot, query: SearchQuery, matches: Matches) -> Preferred:
    """Prefer the document that a question names, if there is one.

    Its best sentences are gathered, too. If they fit the question about as well as the other
    matches, the words that name it no longer count inside documents, and the scores of other
    documents are lowered.
    """
    terms = matches.terms or snapshot.find_terms(query.words)
    weights = dict(zip(query.words.tolist(), terms.weights, strict=True))
    # The most frequent form of a word shows how rare it is: in an index of one language the others
    # are in no text.
    words = {
        forms: min(weights[form] for form in forms)
        for forms in query.variants or zip(query.words.tolist())
    }
    allowed = None if query.allowed is None else query.allowed.positions
    match = None
    if matches.terms is not None:
        match = match_document(snapshot, matches.terms, allowed, query.weights, query.names)
    if match is None:
        return Preferred(matches, words)
    named = Selection(snapshot.documents, np.array([match.document]))
    inside = query.match(snapshot, query.words, allowed=named)
    matches = join_matches(matches, inside)
    candidates = score_matches(snapshot, query, Preferred(matches, words))
    factors = _document_factors(snapshot, candidates, match, query.weights)
    if factors is not None and query.mode != "lexical":  # in lexical mode, every word may be needed
        matches = join_matches(
            query.match(snapshot, match.words, allowed=query.allowed, nearest=matches.nearest),
            query.match(snapshot, match.words, allowed=named, nearest=inside.nearest),
        )
    return Preferred(matches, words, factors)


def _document_factors(
    snapshot: Snapshot, candidates: Candidates, match: DocumentMatch, weights: Weights
) -> Callable[[Ids], Scores] | None:
    """Factors of the scores in documents, by their positions; None if another document is meant
    after all.
    """
    inside = candidates.documents == snapshot.documents.keys[match.document]
    best = float(candidates.score.max())
    if best <= 0 or not inside.any():
        return None
    fit = float(candidates.score[inside].max()) / best
    penalty = min(weights.max_penalty, weights.document_match_gain * match.margin)
    penalty *= min(1.0, max(0.0, (fit - weights.min_fit) / (weights.full_fit - weights.min_fit)))
    if penalty <= 0:
        return None

    def factors(positions: Ids) -> Scores:
        place = np.minimum(np.searchsorted(match.documents, positions), len(match.documents) - 1)
        shares = np.where(match.documents[place] == positions, match.shares[place], 0.0)
        factor: Scores = (1 - penalty * (1 - shares / match.shares.max())).astype(
            np.float32
        )  # the named one has most
        return factor

    return factors


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
        known.title_match,
        known.document_score,
        weights,
    )
    candidates = Candidates(
        sentences=sentences,
        documents=known.documents,
        score=fused.score,
        dense=known.dense,
        lexical=lexical,
        has_content=(known.roles & NO_CONTENT) == 0,
        lead_in=(known.roles & LEAD_IN) != 0,
        record=(known.roles & RECORD) != 0,
        heading=(known.roles & HEADING) != 0,
        words=words,
        fused=fused,
        weights=weights,
        views=Views(snapshot),
    )
    if factors is not None:
        candidates = candidates.times("named document", factors(owners))
    if matches.terms is not None and candidates.record.any():
        keys = merge_variants([*query.names, *query.numbers])
        held = count_sentence_words(snapshot.segments, matches.terms, keys, sentences)
        factor = np.where(candidates.record, weights.key**held, 1)
        candidates = candidates.times("names and numbers", factor)
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
