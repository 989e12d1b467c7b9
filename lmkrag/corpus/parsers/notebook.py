"""Jupyter notebooks, by nbformat: Markdown cells as they are, code cells in fences, no outputs."""

import nbformat

from lmkrag.corpus.parsers.base import Loaded
from lmkrag.corpus.parsers.text import decode
from lmkrag.errors import DocumentError


def read(data: bytes, name: str) -> Loaded:
    """Read a notebook's cells in order."""
    try:
        notebook = nbformat.reads(decode(data), as_version=4)
        parts = [_cell(cell.cell_type, cell.source) for cell in notebook.cells]
    except Exception as error:  # nbformat lets errors of json and jsonschema through
        raise DocumentError(f"broken notebook ({type(error).__name__})") from error
    text = "\n\n".join(part for part in parts if part)
    if not text:
        raise DocumentError("notebook without text")
    title = next((line[2:].strip() for line in text.splitlines() if line.startswith("# ")), "")
    return Loaded(text, "notebook", title)


def _cell(kind: str, source: str) -> str:
    source = source.strip("\n")
    return f"```\n{source}\n```" if kind == "code" and source else source
