"""What a framework is told of a span beside its text."""

from typing import Any

from lmkrag.types import Span


def describe_span(span: Span) -> dict[str, Any]:
    """Return where a span stands and what its document is; no page where there are none."""
    place = {"source": span.path, "doc_id": span.doc_id, "start": span.start, "end": span.end}
    document = {"title": span.title, "kind": span.kind}
    return {**place, **document, **({} if span.page is None else {"page": span.page})}
