"""How much speaks for an answer in the passages that were found."""

from collections.abc import Sequence

from lmkrag.types import Span

FOUND = 0.45
"""Evidence that it takes to answer: similarity and words of the question; see ``benchmarks/LOG.md``."""

COVERAGE = 0.3
"""What a passage with all of the question's words adds to the evidence."""

_LOOKED_AT = 3  # spans whose words count as evidence


def weigh_evidence(spans: Sequence[Span]) -> float:
    """Return how much speaks for an answer in ``spans``: similarity, and the words of the question that they have."""
    return best_similarity(spans) + COVERAGE * best_coverage(spans)


def best_similarity(spans: Sequence[Span]) -> float:
    """Return the best similarity of the sentences that led to ``spans``."""
    return max((hit.dense for span in spans for hit in span.hits), default=0.0)


def best_coverage(spans: Sequence[Span]) -> float:
    """Return the greatest share of the question's words that one of the first three spans has."""
    return max((span.coverage for span in spans[:_LOOKED_AT]), default=0.0)


def is_weak(span: Span) -> bool:
    """Return whether little speaks for an answer in a span; words alone can't tell."""
    return any(hit.dense for hit in span.hits) and weigh_evidence([span]) < FOUND
