"""Jupyter notebooks, by nbformat: Markdown cells as they are, code cells and what they printed in fences."""

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import nbformat

from lmkrag.formats.base import Loaded
from lmkrag.formats.html import extract
from lmkrag.formats.text import decode

_MOST_PRINTED = 4_000  # characters of what a cell printed
_SCREEN = re.compile(r"\x1b\[[\d;?]*[A-Za-z]|[^\n]*\r(?!\n)")  # colours, and lines that were written over
_OBJECT = re.compile(r"<[\w.]+(?: .*)?>\s*$")  # such as <Figure size 640x480 with 1 Axes>


def read(data: bytes, name: str) -> Loaded:
    """Read a notebook's cells in order."""
    notebook = nbformat.reads(decode(data), as_version=4)
    text = "\n\n".join(part for cell in notebook.cells for part in _read_cell(cell) if part)
    title = next((line[2:].strip() for line in text.splitlines() if line.startswith("# ")), "")
    return Loaded(text, "notebook", title)


def _read_cell(cell: Any) -> Iterator[str]:
    source = cell.source.strip("\n")
    if cell.cell_type != "code":
        yield source
        return
    yield _fence(source)
    left = _MOST_PRINTED
    for is_plain, outputs in groupby(map(_output_text, cell.outputs), key=lambda shown: shown[0]):
        text = ("" if is_plain else "\n\n").join(text for _, text in outputs).strip("\n")[:left]
        left -= len(text)
        yield _fence(text) if is_plain else text


def _fence(text: str) -> str:
    return f"```\n{text}\n```" if text.strip() else ""


def _output_text(output: Any) -> tuple[bool, str]:
    """Whether an output is plain text, and the text; empty for warnings, pictures and what is only for a screen."""
    if output.output_type == "stream":
        return True, _SCREEN.sub("", output.text) if output.name == "stdout" else ""
    if output.output_type == "error":
        return True, f"{output.ename}: {output.evalue}\n"
    data = output.get("data", {})
    if "text/markdown" in data:
        return False, str(data["text/markdown"])
    plain = str(data.get("text/plain", ""))
    if "text/html" in data and (shown := extract(str(data["text/html"]).encode())):
        return False, shown
    return True, f"{data.get('text/latex', '')}\n" if _OBJECT.match(plain) else f"{plain}\n"
