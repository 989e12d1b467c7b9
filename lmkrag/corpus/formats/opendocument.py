"""OpenDocument texts, by odfpy: headings, list items and tables in document order."""

import io
from collections.abc import Iterator
from typing import Any

from odf import table, teletype, text
from odf.element import Node
from odf.namespaces import DRAWNS, OFFICENS, TEXTNS
from odf.opendocument import load

from lmkrag.corpus.formats.base import Loaded, open_archive, table_row
from lmkrag.errors import DocumentError

_NOTE, _COMMENT = (TEXTNS, "note"), (OFFICENS, "annotation")
_ASIDES = (_NOTE, _COMMENT)
_PARAGRAPHS = ((TEXTNS, "p"), (TEXTNS, "h"))
_SPACES = ((TEXTNS, "s"), (TEXTNS, "tab"), (TEXTNS, "line-break"))


def read(data: bytes, name: str) -> Loaded:
    """Read an .odt file: one paragraph a line, headings as ``#``, list items as ``-``, table rows between ``|``.

    Notes and text boxes follow their paragraph; comments are not read.
    """
    open_archive(data, "OpenDocument").close()
    try:
        document = load(io.BytesIO(data))
        blocks = _read(document.text)
        title, author = _meta(document, "dc:title"), _meta(document, "dc:creator")
    except Exception as error:  # odfpy lets errors of its XML and zip readers through
        raise DocumentError(f"broken OpenDocument file ({type(error).__name__})") from error
    found = "\n\n".join(block for block in blocks if block.strip())
    if not found:
        raise DocumentError("OpenDocument text without text")
    return Loaded(found, "odt", title, meta={"author": author} if author else {})


def _meta(document: Any, tag: str) -> str:
    return next((teletype.extractText(node) for node in document.meta.childNodes if node.tagName == tag), "")


def _read(node: Any) -> list[str]:
    """The blocks below an element."""
    blocks: list[str] = []
    for child in node.childNodes:
        name = getattr(child, "qname", ("", ""))[1]
        if name == "h":
            level = min(6, int(child.getAttribute("outlinelevel") or 1))
            blocks += ["#" * level + " " + _text(child), *_beside(child)]
        elif name == "p":
            blocks += [_text(child), *_beside(child)]
        elif name == "list":
            paragraphs = [item for item in child.getElementsByType(text.P) if not _is_aside(item, child)]
            blocks.append("\n".join(f"- {_text(item)}" for item in paragraphs if _text(item)))
            blocks += _beside(child)
        elif name == "table":
            rows = [
                table_row(_text(cell) for cell in row.getElementsByType(table.TableCell))
                for row in child.getElementsByType(table.TableRow)
            ]
            blocks += ["\n".join(rows), *_beside(child)]
        elif name not in ("sequence-decls", "tracked-changes", "forms"):
            blocks += _read(child)
    return blocks


def _text(node: Any) -> str:
    """The text of an element on one line, without what stands beside it."""
    return " ".join("".join(_pieces(node)).split())


def _pieces(node: Any) -> Iterator[str]:
    for child in node.childNodes:
        if child.nodeType == Node.TEXT_NODE:
            yield child.data
        elif child.qname in _SPACES:
            yield " "
        elif not _stands_beside(child):
            yield from _pieces(child)
            if child.qname in _PARAGRAPHS:
                yield " "


def _stands_beside(node: Any) -> bool:
    """Whether an element is a note, a comment or a drawing: anchored in a paragraph, and no part of its text."""
    return node.qname in _ASIDES or (node.qname[0] == DRAWNS and node.qname[1] != "a")


def _is_aside(node: Any, top: Any) -> bool:
    while node is not top:
        if _stands_beside(node):
            return True
        node = node.parentNode
    return False


def _beside(node: Any) -> list[str]:
    """The notes and the text of drawings that are anchored in an element."""
    blocks: list[str] = []
    for child in node.childNodes:
        if child.nodeType != Node.ELEMENT_NODE or child.qname == _COMMENT:
            continue
        if child.qname == _NOTE:
            mark, body = (
                " ".join(map(_text, child.getElementsByType(kind))) for kind in (text.NoteCitation, text.NoteBody)
            )
            blocks.append(f"[^{mark}]: {body}")
        elif _stands_beside(child):
            blocks += _read(child)
        else:
            blocks += _beside(child)
    return blocks
