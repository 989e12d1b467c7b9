"""Word documents, by python-docx: headings, list items and tables in document order."""

import io
from typing import Any

import docx
from docx.table import Table

from lmkrag.corpus.formats.base import Loaded, check_office_file, table_row
from lmkrag.errors import DocumentError


def read(data: bytes, name: str) -> Loaded:
    """Read a .docx file: one paragraph a line, headings as ``#``, list items as ``-``, table rows between ``|``."""
    check_office_file(data, "Word", ".docx")
    try:
        document = docx.Document(io.BytesIO(data))
        lines = [line for block in document.iter_inner_content() for line in _lines(block)]
        facts = document.core_properties
        title, author = facts.title or "", facts.author or ""
    except Exception as error:  # python-docx lets errors of lxml, zipfile and zlib through
        raise DocumentError(f"broken Word file ({type(error).__name__})") from error
    text = "\n\n".join(lines)
    if not text.strip():
        raise DocumentError("Word file without text")
    return Loaded(text, "docx", title, meta={"author": author} if author else {})


def _lines(block: Any) -> list[str]:
    if isinstance(block, Table):
        rows = [table_row(cell.text.replace("\n", " ").strip() for cell in row.cells) for row in block.rows]
        return ["\n".join(rows)] if rows else []
    text = block.text.strip()
    if not text:
        return []
    style = (block.style.name if block.style is not None else "") or ""
    if style == "Title":
        return ["# " + text]
    if style.startswith("Heading") and style[-1].isdigit():
        return ["#" * min(6, int(style[-1])) + " " + text]
    return ["- " + text] if style.startswith("List") else [text]
