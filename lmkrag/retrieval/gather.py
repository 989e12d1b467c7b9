"""Gather the sentences that a question may be answered by, and score them."""

from dataclasses import dataclass

import numpy as np

from lmkrag.arrays import Hashes, Ids, Mask, Scores
from lmkrag.corpus.structure import LEAD_IN, NO_CONTENT
from lmkrag.index.live import Selection
from lmkrag.index.ranges import DocumentRanges
from lmkrag.index.snapshot import Snapshot
from lmkrag.retrieval.fusion import LEXICAL_SHARE, fuse
from lmkrag.retrieval.growth import REACH
from lmkrag.types import Mode

_POOL = 128  # sentences each of the two searches brings in, at least
_POOL_PER_RESULT = 8
_EXPANDED = (
    32  # of them whose neighbours are looked at, at least: with half as many the development sets' spans are equal
)
_EXPANDED_PER_RESULT = 4


@dataclass(frozen=True, slots=True)
class Candidates:
    """Sentences near anything a query found, by increasing id, each ``[n]``.

    ``has_content`` is false where a sentence says nothing by itself, ``lead_in`` true where the next belongs to it.
    """

    sentences: Ids
    documents: Ids
    score: Scores
    dense: Scores
    lexical: Scores
    has_content: Mask
    lead_in: Mask


def gather_candidates(
    snapshot: Snapshot,
    vector: Scores | None,
    words: Hashes,
    *,
    top_k: int,
    mode: Mode = "hybrid",
    allowed: Selection | None = None,
) -> Candidates | None:
    """Bring in what either search finds, the neighbours of the best, and the scores of all of them.

    Args:
        snapshot: to search in.
        vector: ``[dimensions]`` of the query, of length one; None will do in lexical mode.
        words: hashes of the query's words.
        top_k: how many results will be made of them.
        mode: which scores count.
        allowed: documents to search in; None for all.

    Returns:
        The candidates, or None when nothing was found.
    """
    pool = max(_POOL, _POOL_PER_RESULT * top_k)
    matches = snapshot.search(vector, words, mode=mode, top_k=pool, allowed=allowed)
    if not len(matches.sentences):
        return None
    own = np.zeros(len(matches.sentences), np.float32) if mode == "lexical" else matches.dense.copy()
    own += LEXICAL_SHARE * matches.lexical / matches.lexical.max(initial=1e-9)
    best = np.argsort(-own, kind="stable")[: max(_EXPANDED, _EXPANDED_PER_RESULT * top_k)]
    sentences, owners = _with_reach(matches.sentences, matches.sentences[best], snapshot.documents)
    known = snapshot.describe(sentences, owners, vector, matches)
    lexical = np.zeros(len(sentences), np.float32)
    lexical[np.searchsorted(sentences, matches.sentences)] = matches.lexical
    score = fuse(
        None if mode == "lexical" else known.dense,
        None if mode == "dense" else lexical,
        sentences,
        known.documents,
        known.paragraphs,
        known.title_match,
        known.document_score,
    )
    has_content = (known.roles & NO_CONTENT) == 0
    lead_in = (known.roles & LEAD_IN) != 0
    return Candidates(sentences, known.documents, score, known.dense, lexical, has_content, lead_in)


def _with_reach(sentences: Ids, best: Ids, documents: DocumentRanges) -> tuple[Ids, Ids]:
    """The sentences and the ``REACH`` neighbours of the best ones in their documents; positions of their documents."""
    owner = documents.owners(best)
    near = best[:, None] + np.arange(-REACH, REACH + 1)
    inside = (near >= documents.first[owner][:, None]) & (near < documents.stop[owner][:, None])
    gathered = np.union1d(sentences, near[inside])
    return gathered, documents.owners(gathered)
