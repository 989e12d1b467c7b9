"""Why a span was found: the parts of its best sentence's score, and where and why growth
stopped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

from lmkrag.language.terms import find_words
from lmkrag.search.candidates import Candidates
from lmkrag.types import Explanation, ScoreFactor, ScorePart

# positions (first, stop) that growth took, by the hit that it grew from
Growth = Mapping[int, tuple[int, int]]
_MOST_WORDS = 20  # of the question that are named


def explain_span(
    candidates: Candidates,
    hits: Sequence[int],
    grown: Growth,
    start: int,
    end: int,
) -> Explanation:
    """Explain the span ``[start, end)``, in characters, of a document.

    ``hits`` are the positions of its candidates, best first.
    """
    hit = hits[0]
    view = candidates.view(hit)
    ordinal = candidates.ordinal(hit)
    sentence = view.sentence(ordinal)
    query_words = chain.from_iterable(candidates.words)
    places = find_words(sentence, query_words, candidates.languages)
    words = [sentence[low:high].lower() for low, high in places]
    fused = candidates.fused
    parts = tuple(
        ScorePart(name, float(values[hit]), weight) for name, values, weight in fused.parts
    )
    factors = tuple(
        ScoreFactor(name, float(values[hit])) for name, values in fused.factors if values[hit] != 1
    )
    score = float(candidates.score[hit])
    explanation = Explanation(score, parts, factors, tuple(dict.fromkeys(words))[:_MOST_WORDS])
    runs = [grown[other] for other in hits if other in grown]
    if not runs:
        return explanation
    first, last = min(run[0] for run in runs), max(run[1] for run in runs) - 1
    top, bottom = candidates.ordinal(first), candidates.ordinal(last)
    return replace(
        explanation,
        sentences_before=ordinal - top,
        sentences_after=bottom - ordinal,
        stopped_before=_why_stopped(candidates, hits, first, -1, grown),
        stopped_after=_why_stopped(candidates, hits, last, 1, grown),
        added_before=max(0, view.bounds(top)[0] - start),
        added_after=max(0, end - view.bounds(bottom)[1]),
    )


def _why_stopped(
    candidates: Candidates, hits: Sequence[int], edge: int, step: int, grown: Growth
) -> str:
    """Why growth stopped at the candidate ``edge``, going backward (-1) or forward (1)."""
    hit = hits[0]
    ordinal = candidates.ordinal(edge) + step
    if ordinal < 0:
        return "the document begins here"
    if ordinal >= candidates.view(edge).row.sentences:
        return "the document ends here"
    neighbour = edge + step
    sentence = int(candidates.sentences[edge]) + step
    if (
        not 0 <= neighbour < len(candidates.sentences)
        or candidates.sentences[neighbour] != sentence
    ):
        return "this is as far as growth looks"
    for other, (first, stop) in grown.items():
        if (
            other not in hits
            and first <= neighbour < stop
            and candidates.score[other] >= candidates.score[hit]
        ):
            return "the next sentence belongs to a better result"
    if candidates.record[hit] or candidates.record[neighbour]:
        return "a record stands for itself"
    if not candidates.has_content[neighbour]:
        return "the next sentence says nothing by itself"
    keep = candidates.weights.keep
    score, least = float(candidates.score[neighbour]), keep * float(candidates.score[hit])
    if score < least:
        return (
            f"the next sentence scores {score:.3f}, less than {keep} of the best one's "
            f"{candidates.score[hit]:.3f}"
        )
    return "this is as far as growth looks"
