"""The metadata of a span for another framework."""

from typing import Any

from lmkrag.reranker.highlights import Pruned
from lmkrag.results import Span


def describe_span(span: Span) -> dict[str, Any]:
    """Return where a span stands and what its document is, as metadata; values that are unknown are
    left out.
    """
    place = {"source": span.path, "doc_id": span.doc_id, "start": span.start, "end": span.end}
    document = {"title": span.title, "kind": span.kind}
    known = {
        "page": span.page,
        "line": span.line,
        "section": span.section or None,
        "also_in": list(span.also_in) or None,
        "more": list(span.more) or None,
        "header": span.header or None,
        "stale": span.stale or None,
        "instructs_model": span.instructs_model or None,
        "superseded_by": span.superseded_by or None,
        "dated": span.date or None,
        "dated_by": span.date_source or None,
    }
    return {
        **place,
        **document,
        **{name: value for name, value in known.items() if value is not None},
    }


def describe_highlights(pruned: Pruned) -> list[tuple[int, int, float]]:
    """Return the sentences of a text that were kept: start, end and the probability that each
    answers.
    """
    return [
        (highlight.sentence.start, highlight.sentence.end, round(highlight.score, 4))
        for highlight in pruned.kept
    ]
