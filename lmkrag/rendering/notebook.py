"""What a notebook shows of a span and of an answer."""

from html import escape

from lmkrag.rendering.blocks import answer_blocks, span_blocks
from lmkrag.rendering.html import to_html
from lmkrag.types import Answer, Span


def span_html(span: Span) -> str:
    """Return the place, the section and the text."""
    heading = f"<b>{escape(span.place)}</b> <small>{escape(span.section)}</small>"
    return f"{heading}<blockquote>{to_html(span_blocks(span))}</blockquote>"


def answer_html(answer: Answer) -> str:
    """Return the answer, and the place of each citation."""
    places = {citation.number: citation.place for citation in answer.citations}
    cited = "".join(f"<li value={number}>{escape(place)}</li>" for number, place in places.items())
    return f"{to_html(answer_blocks(answer))}<ol>{cited}</ol>"
