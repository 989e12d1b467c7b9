"""Jupyter notebooks, by nbformat: Markdown cells as they are, code cells and what they printed in fences."""

import re
from collections.abc import Iterator
from typing import Any

import nbformat

from lmkrag.errors import DocumentError
from lmkrag.formats.base import Loaded
from lmkrag.formats.text import decode

_MOST_PRINTED = 4_000  # characters of what a cell printed
_OBJECT = re.compile(r"<[\w.]+(?: .*)?>\s*$")  # such as <Figure size 640x480 with 1 Axes>


def read(data: bytes, name: str) -> Loaded:
    """Read a notebook's cells in order."""
    try:
        notebook = nbformat.reads(decode(data), as_version=4)
        parts = [part for cell in notebook.cells for part in _read_cell(cell)]
    except Exception as error:  # nbformat lets errors of json and jsonschema through
        raise DocumentError(f"broken notebook ({type(error).__name__})") from error
    text = "\n\n".join(part for part in parts if part)
    if not text:
        raise DocumentError("notebook without text")
    title = next((line[2:].strip() for line in text.splitlines() if line.startswith("# ")), "")
    return Loaded(text, "notebook", title)


def _read_cell(cell: Any) -> Iterator[str]:
    source = cell.source.strip("\n")
    if cell.cell_type != "code":
        yield source
        return
    printed = "".join(_output_text(output) for output in cell.outputs).strip("\n")[:_MOST_PRINTED]
    yield from (f"```\n{text}\n```" for text in (source, printed) if text.strip())


def _output_text(output: Any) -> str:
    """What an output shows as text; nothing for errors, pictures and what is only for a screen."""
    if output.output_type == "stream":
        return output.text if output.name == "stdout" else ""
    shown = str(output.get("data", {}).get("text/plain", ""))
    return "" if _OBJECT.match(shown) else f"{shown}\n"
