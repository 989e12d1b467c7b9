"""A passage as a tree of elements whose texts have offsets in their document, and the tree as
HTML.
"""

from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise
from typing import Any

# ``{"tag", "attributes", "children"}``, or text: ``{"text", "start"}``, -1 where unknown
Node = dict[str, Any]
# ``[start, end)`` of the document, and what is there, such as ``"quoted"``
Marks = Sequence[tuple[int, int, str]]
_INSIDE_PARAGRAPHS = ("p", "li", "h1", "h2", "h3", "h4", "h5", "h6")
_STYLES = {
    "table": "border-collapse: collapse",
    "th": "border: 1px solid; padding: 0 .4em; text-align: left",
    "td": "border: 1px solid; padding: 0 .4em",
    "p": "white-space: pre-line",
}
TAGS = frozenset(
    (
        "p h1 h2 h3 h4 h5 h6 ul ol li blockquote pre code em strong s br hr table thead "
        "tbody tr th td a mark cite span"
    ).split()
)
"""The allowed elements of a tree; a page displays no others."""


def element(tag: str, *children: Node, **attributes: str | int) -> Node:
    """Return an element.

    Args:
        tag: its name, one of :data:`TAGS`.
        children: elements and texts.
        attributes: attributes by name.
    """
    return {"tag": tag, "attributes": attributes, "children": list(children)}


def text_node(text: str, start: int = -1) -> Node:
    """Return a text.

    Args:
        text: the text.
        start: offset of its first character in the document; -1 if it was added.
    """
    return {"text": text, "start": start}


def mark_nodes(nodes: Sequence[Node], marks: Marks) -> list[Node]:
    """Return a tree with ``mark`` elements around the marked characters.

    Args:
        nodes: the tree.
        marks: ranges ``[start, end)`` of the document, each with the ``kind`` of its marks.
    """
    return [piece for node in nodes for piece in _mark(node, marks)]


def _mark(node: Node, marks: Marks) -> Iterator[Node]:
    if "text" not in node:
        yield {**node, "children": mark_nodes(node["children"], marks)}
        return
    text, start = node["text"], node["start"]
    places = {0, len(text)}
    if start >= 0:
        places |= {
            place - start
            for mark in marks
            for place in mark[:2]
            if start < place < start + len(text)
        }
    for low, high in pairwise(sorted(places)):
        piece = text_node(text[low:high], start + low if start >= 0 else -1)
        kinds = [kind for first, stop, kind in marks if start >= 0 and first <= start + low < stop]
        yield element("mark", piece, kind=" ".join(dict.fromkeys(kinds))) if kinds else piece


def append_inline(nodes: list[Node], inline: Node) -> None:
    """Add an inline element to the end of the last paragraph, list item or heading, or as a
    paragraph of its own.
    """
    last = nodes[-1] if nodes else element("hr")
    while last.get("tag") in ("ul", "ol", "blockquote") and last["children"]:
        last = last["children"][-1]
    if last.get("tag") == "li" and last["children"] and last["children"][-1].get("tag") == "p":
        last = last["children"][-1]
    if last.get("tag") in _INSIDE_PARAGRAPHS:
        last["children"] += [text_node(" "), inline]
    else:
        nodes.append(element("p", inline))


def to_html(nodes: Sequence[Node]) -> str:
    """Return a tree as HTML that is safe wherever it is put.

    Every text is escaped, and only known elements and attributes are written.
    """
    return "".join(_write(node) for node in nodes)


def _write(node: Node) -> str:
    if "text" in node:
        return escape(node["text"])
    inside, tag = to_html(node["children"]), node["tag"]
    if tag not in TAGS:
        return inside
    if tag in ("br", "hr"):
        return f"<{tag}>"
    values = {
        name: value for name, value in node["attributes"].items() if name in ("href", "start")
    }
    if tag in _STYLES:
        values["style"] = _STYLES[tag]
    attributes = "".join(f' {name}="{escape(str(value))}"' for name, value in values.items())
    return f"<{tag}{attributes}>{inside}</{tag}>"
