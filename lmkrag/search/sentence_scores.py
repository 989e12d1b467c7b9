"""Score every sentence of a document for a question."""

import numpy as np

from lmkrag.index.catalog import DocumentRow
from lmkrag.index.live import Selection
from lmkrag.index.searchable import NOTHING_NEAR, Matches, spread_scores
from lmkrag.index.snapshot import Snapshot
from lmkrag.search.fusion import fuse
from lmkrag.system.deadline import stop_if_late
from lmkrag.types import SentenceScore
from lmkrag.types.arrays import NO_SCORES, Hashes, Scores

_AT_ONCE = 20_000  # vectors in memory


def score_document(
    snapshot: Snapshot, row: DocumentRow, vector: Scores, words: Hashes
) -> list[SentenceScore]:
    """Return the score of every sentence of a document, from its first to its last character.

    The scores are fused as in a search of this document alone, so that they compare its sentences
    with each other. ``vector`` ``[dimensions]`` of the question has length one; ``words`` are the
    hashes of its words.
    """
    sentences = np.arange(row.first_sentence, row.first_sentence + row.sentences, dtype=np.int64)
    parts = [NO_SCORES]
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
    score = fuse(dense, lexical, sentences, known.documents, known.paragraphs).score
    view = snapshot.view_document(row.id)
    values = zip(score.tolist(), dense.tolist(), lexical.tolist(), strict=True)
    return [SentenceScore(*view.bounds(ordinal), *scores) for ordinal, scores in enumerate(values)]
