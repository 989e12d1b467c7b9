"""A tree as HTML that is safe wherever it is put: every text is escaped, and only known elements are written."""

from collections.abc import Sequence
from html import escape

from lmkrag.rendering.tree import Node

_STYLES = {
    "table": "border-collapse: collapse",
    "th": "border: 1px solid; padding: 0 .4em; text-align: left",
    "td": "border: 1px solid; padding: 0 .4em",
    "p": "white-space: pre-line",
}
TAGS = frozenset(
    "p h1 h2 h3 h4 h5 h6 ul ol li blockquote pre code em strong s br hr table thead tbody tr th td a mark cite".split()
)
"""The elements of a tree; a page may have these and no others."""


def to_html(nodes: Sequence[Node]) -> str:
    """Return a tree as HTML."""
    return "".join(_write(node) for node in nodes)


def _write(node: Node) -> str:
    if "text" in node:
        return escape(node["text"])
    inside, tag = to_html(node["children"]), node["tag"]
    if tag not in TAGS:
        return inside
    if tag in ("br", "hr"):
        return f"<{tag}>"
    given = {name: value for name, value in node["attributes"].items() if name in ("href", "start")}
    if tag in _STYLES:
        given["style"] = _STYLES[tag]
    attributes = "".join(f' {name}="{escape(str(value))}"' for name, value in given.items())
    return f"<{tag}{attributes}>{inside}</{tag}>"
