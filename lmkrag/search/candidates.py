"""The sentences that a question may be answered by: gather them, prefer the document that it names, score them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from lmkrag.arrays import Hashes, Ids, Mask, Scores
from lmkrag.index.live import Selection
from lmkrag.index.ranges import DocumentRanges
from lmkrag.index.searchable import Matches, Nearest, join_matches, spread_scores
from lmkrag.index.snapshot import Snapshot
from lmkrag.search.document_match import DocumentMatch, match_document
from lmkrag.search.fusion import Fused, fuse
from lmkrag.search.growth import Grown, grow_spans
from lmkrag.search.weights import WEIGHTS, Weights
from lmkrag.sentences.structure import HEADING, LEAD_IN, NAVIGATION, NO_CONTENT, RECORD
from lmkrag.types import Mode


@dataclass(frozen=True, slots=True)
class Candidates:
    """Sentences near anything a query found, by increasing id, each ``[n]``."""

    sentences: Ids
    documents: Ids
    score: Scores
    dense: Scores
    lexical: Scores
    has_content: Mask  # false where a sentence has no content of its own
    lead_in: Mask  # the next sentence belongs to it
    record: Mask  # nothing around it belongs to it
    heading: Mask  # of the text under it
    words: dict[tuple[int, ...], float]  # what each word of the question weighs, by its hashes
    fused: Fused  # what the scores are made of
    weights: Weights  # of the search

    def times(self, name: str, factor: Scores) -> "Candidates":
        """Return the candidates with their scores multiplied by one more factor ``[n]``."""
        fused = self.fused.times(name, factor)
        return replace(self, fused=fused, score=fused.score)

    def grow(self) -> Iterator[Grown]:
        """Yield the spans that grow from the candidates: see :func:`lmkrag.search.growth.grow_spans`."""
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
        """Return some of the candidates: those that ``mask`` ``[n]`` is true of."""
        arrays = ("sentences", "documents", "score", "dense", "lexical", "has_content", "lead_in", "record", "heading")
        return replace(self, **{name: getattr(self, name)[mask] for name in arrays}, fused=self.fused.keep(mask))


class SearchQuery(NamedTuple):
    """What is searched for, and how."""

    vector: Scores | None  # ``[dimensions]`` of length one; None in lexical mode, where similarities are 0 then
    words: Hashes  # hashes of the question's words
    mode: Mode = "hybrid"
    top_k: int = 8
    phrases: Hashes | None = None  # words of quoted phrases: sentences that have most of them are gathered, too
    allowed: Selection | None = None  # the documents to search, None for all
    weights: Weights = WEIGHTS
    variants: Sequence[tuple[int, ...]] = ()  # hashes of each word by several languages; empty where each has one

    def match(
        self,
        snapshot: Snapshot,
        words: Hashes,
        *,
        mode: Mode | None = None,
        allowed: Selection | None = None,
        nearest: Nearest | None = None,
    ) -> Matches:
        """Search for some words; for the question's vector, too, unless what is nearest to it is known."""
        pool = max(self.weights.pool, self.weights.pool_per_result * self.top_k)
        mode = mode or self.mode
        return snapshot.search(self.vector, words, mode=mode, top_k=pool, allowed=allowed, nearest=nearest)


def gather_matches(snapshot: Snapshot, query: SearchQuery) -> Matches:
    """Return the sentences that are nearest to a question, and those with most of its words."""
    matches = query.match(snapshot, query.words, allowed=query.allowed)
    if query.phrases is not None and len(query.phrases) and query.mode != "dense":
        quoted = query.match(snapshot, query.phrases, mode="lexical", allowed=query.allowed)
        matches = join_matches(matches, quoted)
    return matches


class Preferred(NamedTuple):
    """Matches, and how documents are preferred."""

    matches: Matches
    words: dict[tuple[int, ...], float]  # weights of the question's words, by their hashes
    factors: Callable[[Ids], Scores] | None = None  # of scores, by positions of documents; None where none is preferred


def prefer_named_document(snapshot: Snapshot, query: SearchQuery, matches: Matches) -> Preferred:
    """Prefer the document that a question names, if there is one.

    Its best sentences are gathered, too. If they fit the question about as well as what was found, the words that name
    it have done their work: they count no more inside documents, and other documents' scores are lowered.
    """
    terms = matches.terms or snapshot.find_terms(query.words)
    weights = dict(zip(query.words.tolist(), terms.weights, strict=True))
    # The most frequent form of a word tells how rare it is: in an index of one language the others are in no text.
    words = {forms: min(weights[form] for form in forms) for forms in query.variants or zip(query.words.tolist())}
    allowed = None if query.allowed is None else query.allowed.kept
    match = None if matches.terms is None else match_document(snapshot, matches.terms, allowed, query.weights)
    if match is None:
        return Preferred(matches, words)
    named = Selection(snapshot.documents, np.array([match.document]))
    inside = query.match(snapshot, query.words, allowed=named)
    matches = join_matches(matches, inside)
    candidates = score_matches(snapshot, query, Preferred(matches, words))
    factors = _document_factors(snapshot, candidates, match, query.weights)
    if factors is not None and query.mode != "lexical":  # there, where nothing but words counts, each may be needed
        matches = join_matches(
            query.match(snapshot, match.words, allowed=query.allowed, nearest=matches.nearest),
            query.match(snapshot, match.words, allowed=named, nearest=inside.nearest),
        )
    return Preferred(matches, words, factors)


def _document_factors(
    snapshot: Snapshot, candidates: Candidates, match: DocumentMatch, weights: Weights
) -> Callable[[Ids], Scores] | None:
    """Factors of the scores in documents, by their positions; None if another document is meant after all."""
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
        factor: Scores = (1 - penalty * (1 - shares / match.shares.max())).astype(np.float32)  # the named one has most
        return factor

    return factors


def score_matches(snapshot: Snapshot, query: SearchQuery, preferred: Preferred) -> Candidates:
    """Return the matches with the neighbours of the best of them, and the fused scores of all of these."""
    matches, words, factors = preferred
    weights, mode = query.weights, query.mode
    own = np.zeros(len(matches.sentences), np.float32) if mode == "lexical" else matches.dense.copy()
    own += weights.lexical * matches.lexical / matches.lexical.max(initial=1e-9)
    if factors is not None:
        own *= factors(snapshot.documents.owners(matches.sentences))
    most = max(weights.expanded, weights.expanded_per_result * query.top_k)
    best = np.argsort(-own, kind="stable")[:most]
    sentences, owners = _with_neighbours(matches.sentences, matches.sentences[best], snapshot.documents, weights.reach)
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
    if factors is not None:
        fused = fused.times("named document", factors(owners))
    navigation = (known.roles & NAVIGATION) != 0
    if navigation.any():
        fused = fused.times("contents or links", np.where(navigation, weights.navigation, 1).astype(np.float32))
    return Candidates(
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
    )


def _with_neighbours(sentences: Ids, best: Ids, documents: DocumentRanges, reach: int) -> tuple[Ids, Ids]:
    """The sentences and ``reach`` neighbours of the best ones in their documents; positions of their documents."""
    owner = documents.owners(best)
    near = best[:, None] + np.arange(-reach, reach + 1)
    inside = (near >= documents.first[owner][:, None]) & (near < documents.stop[owner][:, None])
    gathered = np.unique(np.append(sentences, near[inside]), return_index=True)[0]
    return gathered, documents.owners(gathered)
