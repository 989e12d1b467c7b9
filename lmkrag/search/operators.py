"""Compare candidates with the operators of a question."""

import numpy as np

from lmkrag.language.question import Question, normalize_phrase
from lmkrag.search.candidates import Candidates


def apply_operators(question: Question, candidates: Candidates) -> Candidates:
    """Raise candidates with phrases, and remove excluded ones."""
    weights = candidates.weights
    if not (question.phrases or question.excluded):
        return candidates
    texts = [
        normalize_phrase(candidates.sentence(position))
        for position in range(len(candidates.sentences))
    ]
    if question.phrases:
        held = np.array([sum(phrase in text for phrase in question.phrases) for text in texts])
        factor = weights.only_phrases if question.is_phrases else weights.phrase
        candidates = candidates.times("quoted phrase", factor**held)
    kept = [not any(phrase in text for phrase in question.excluded) for text in texts]
    return candidates.keep(np.array(kept, bool))
