"""OpenDocument texts, by odfpy: headings, list items and tables in document order."""

import io
from typing import Any

from odf import table, teletype, text
from odf.opendocument import load

from lmkrag.corpus.formats.base import Loaded, open_archive, table_row
from lmkrag.errors import DocumentError


def read(data: bytes, name: str) -> Loaded:
    """Read an .odt file: one paragraph a line, headings as ``#``, list items as ``-``, table rows between ``|``."""
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
            blocks.append("#" * level + " " + _text(child))
        elif name == "p":
            blocks.append(_text(child))
        elif name == "list":
            items = [_text(item) for item in child.getElementsByType(text.P) if _text(item)]
            blocks.append("\n".join(f"- {item}" for item in items))
        elif name == "table":
            rows = [
                table_row(_text(cell) for cell in row.getElementsByType(table.TableCell))
                for row in child.getElementsByType(table.TableRow)
            ]
            blocks.append("\n".join(rows))
        elif name not in ("sequence-decls", "tracked-changes", "forms"):
            blocks += _read(child)
    return blocks


def _text(node: Any) -> str:
    return " ".join(teletype.extractText(node).split())
