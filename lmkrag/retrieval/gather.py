"""Gather the sentences that a question may be answered by, and score them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from lmkrag.arrays import Hashes, Ids, Mask, Scores
from lmkrag.corpus.structure import LEAD_IN, NAVIGATION, NO_CONTENT, RECORD
from lmkrag.index.live import Selection
from lmkrag.index.ranges import DocumentRanges
from lmkrag.index.snapshot import Matches, Nearest, Searchable, join_matches, spread_scores
from lmkrag.retrieval.fusion import LEXICAL_SHARE, Fused, fuse
from lmkrag.retrieval.growth import REACH, grow_spans
from lmkrag.retrieval.naming import Naming, find_named
from lmkrag.types import Mode

_POOL = 128  # sentences each of the two searches brings in, at least
_POOL_PER_RESULT = 8
_EXPANDED = (
    32  # of them whose neighbours are looked at, at least: with half as many the development sets' spans are equal
)
_EXPANDED_PER_RESULT = 4

NAMED = 2.0
"""Other documents lose this share of their scores for each point of margin of the one that a question names."""

MOST_LOST = 0.9
"""The share of their scores that they lose at most: what they hold still comes after it, in its order."""

LEAST_FIT, FULL_FIT = 0.7, 0.85
"""Of the best score found, the share that the named document's best must reach to be preferred at all, and fully."""


NAVIGATION_SHARE = 0.1
"""What entries of tables of contents and links keep of their scores: they repeat what they lead to."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Sentences near anything a query found, by increasing id, each ``[n]``.

    ``has_content`` is false where a sentence says nothing by itself, ``lead_in`` true where the next belongs to it,
    ``record`` where nothing around it does.
    ``words`` maps the hashes of the question's words to what each weighs; ``fused`` has what the scores are made of.
    """

    sentences: Ids
    documents: Ids
    score: Scores
    dense: Scores
    lexical: Scores
    has_content: Mask
    lead_in: Mask
    record: Mask
    words: dict[int, float]
    fused: Fused

    def times(self, name: str, factor: Scores) -> "Candidates":
        """Return the candidates with their scores multiplied by one more factor ``[n]``."""
        fused = self.fused.times(name, factor)
        return replace(self, fused=fused, score=fused.score)

    def grow(self) -> Iterator[tuple[int, int, int]]:
        """Yield the spans that grow from the candidates: see :func:`lmkrag.retrieval.growth.grow_spans`."""
        return grow_spans(
            self.score,
            self.sentences,
            self.documents,
            has_content=self.has_content,
            lead_in=self.lead_in,
            record=self.record,
        )

    def keep(self, kept: Mask) -> "Candidates":
        """Return some of the candidates: those that ``kept`` ``[n]`` is true of."""
        arrays = ("sentences", "documents", "score", "dense", "lexical", "has_content", "lead_in", "record")
        return replace(self, **{name: getattr(self, name)[kept] for name in arrays}, fused=self.fused.keep(kept))


def gather_candidates(
    snapshot: Searchable,
    vector: Scores | None,
    words: Hashes,
    *,
    top_k: int,
    mode: Mode = "hybrid",
    allowed: Selection | None = None,
    phrases: Hashes | None = None,
) -> Candidates | None:
    """Bring in what either search finds, the neighbours of the best, and the scores of all of them.

    Where the question names a document, that one's best sentences are brought in, too; if they fit the question about
    as well as what was found, the words that name it have done their work: they count no more inside documents, and
    other documents lose.

    Args:
        snapshot: to search in.
        vector: ``[dimensions]`` of the query, of length one; None will do in lexical mode.
        words: hashes of the query's words.
        top_k: how many results will be made of them.
        mode: which scores count.
        allowed: documents to search in; None for all.
        phrases: words of quoted phrases: what has most of them is brought in, too.

    Returns:
        The candidates, or None when nothing was found.
    """
    pool = max(_POOL, _POOL_PER_RESULT * top_k)
    most = max(_EXPANDED, _EXPANDED_PER_RESULT * top_k)

    def search(some_words: Hashes, where: Selection | None, nearest: Nearest | None = None) -> Matches:
        return snapshot.search(vector, some_words, mode=mode, top_k=pool, allowed=where, nearest=nearest)

    matches = search(words, allowed)
    if phrases is not None and len(phrases) and mode != "dense":
        matches = join_matches(matches, snapshot.search(vector, phrases, mode="lexical", top_k=pool, allowed=allowed))
    if not len(matches.sentences):
        return None
    among = None if allowed is None else allowed.kept
    naming = None if matches.terms is None else find_named(snapshot, matches.terms, among)
    terms = matches.terms or snapshot.find_terms(words)
    weighed = dict(zip(words.tolist(), terms.weights, strict=True))
    if naming is None:
        return _describe(snapshot, vector, matches, mode, most, weighed)
    named = Selection(snapshot.documents, [int(snapshot.documents.keys[naming.document])])
    inside = search(words, named)
    matches = join_matches(matches, inside)
    candidates = _describe(snapshot, vector, matches, mode, most, weighed)
    weights = _document_weights(snapshot, candidates, naming)
    if weights is None:
        return candidates
    if mode != "lexical":  # there, where nothing but words counts, each may be needed
        matches = join_matches(
            search(naming.words, allowed, matches.nearest), search(naming.words, named, inside.nearest)
        )
    return _describe(snapshot, vector, matches, mode, most, weighed, weights)


def _document_weights(snapshot: Searchable, candidates: Candidates, naming: Naming) -> Scores | None:
    """What the scores in each document ``[documents]`` are multiplied by; None if another one is meant after all."""
    inside = candidates.documents == snapshot.documents.keys[naming.document]
    best = float(candidates.score.max())
    if best <= 0 or not inside.any():
        return None
    fit = float(candidates.score[inside].max()) / best
    sure = min(MOST_LOST, NAMED * naming.margin) * min(1.0, max(0.0, (fit - LEAST_FIT) / (FULL_FIT - LEAST_FIT)))
    weights: Scores = (1 - sure * (1 - naming.shares / naming.shares[naming.document])).astype(np.float32)
    return weights if sure > 0 else None


def _describe(
    snapshot: Searchable,
    vector: Scores | None,
    matches: Matches,
    mode: Mode,
    most: int,
    words: dict[int, float],
    weights: Scores | None = None,
) -> Candidates:
    own = np.zeros(len(matches.sentences), np.float32) if mode == "lexical" else matches.dense.copy()
    own += LEXICAL_SHARE * matches.lexical / matches.lexical.max(initial=1e-9)
    if weights is not None:
        own *= weights[snapshot.documents.owners(matches.sentences)]
    best = np.argsort(-own, kind="stable")[:most]
    sentences, owners = _with_reach(matches.sentences, matches.sentences[best], snapshot.documents)
    known = snapshot.describe(sentences, owners, vector, matches)
    lexical = spread_scores(matches.lexical, matches.sentences, sentences)
    fused = fuse(
        None if mode == "lexical" else known.dense,
        None if mode == "dense" else lexical,
        sentences,
        known.documents,
        known.paragraphs,
        known.title_match,
        known.document_score,
    )
    if weights is not None:
        fused = fused.times("named document", weights[owners])
    navigation = (known.roles & NAVIGATION) != 0
    if navigation.any():
        fused = fused.times("contents or links", np.where(navigation, NAVIGATION_SHARE, 1).astype(np.float32))
    return Candidates(
        sentences=sentences,
        documents=known.documents,
        score=fused.score,
        dense=known.dense,
        lexical=lexical,
        has_content=(known.roles & NO_CONTENT) == 0,
        lead_in=(known.roles & LEAD_IN) != 0,
        record=(known.roles & RECORD) != 0,
        words=words,
        fused=fused,
    )


def _with_reach(sentences: Ids, best: Ids, documents: DocumentRanges) -> tuple[Ids, Ids]:
    """The sentences and the ``REACH`` neighbours of the best ones in their documents; positions of their documents."""
    owner = documents.owners(best)
    near = best[:, None] + np.arange(-REACH, REACH + 1)
    inside = (near >= documents.first[owner][:, None]) & (near < documents.stop[owner][:, None])
    gathered = np.union1d(sentences, near[inside])
    return gathered, documents.owners(gathered)
