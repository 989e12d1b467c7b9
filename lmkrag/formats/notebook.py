"""Jupyter notebooks of all versions: Markdown cells as they are, code cells and what they printed
in fences.
"""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from lmkrag.formats.base import Loaded, Parts
from lmkrag.formats.html import extract
from lmkrag.formats.text import decode, find_markdown_title

_MOST_PRINTED = 4_000  # characters of what a cell printed
# Overwritten lines, and colours.
_SCREEN = re.compile(r"^[^\n]*\r(?!\n)|\x1b\[[\d;?]*[A-Za-z]", re.MULTILINE)
_OBJECT = re.compile(r"<[\w.]+(?: .*)?>\s*$")  # such as <Figure size 640x480 with 1 Axes>
# What version 3 calls it.
_FORMER = {"text": "text/plain", "html": "text/html", "latex": "text/latex"}


def read(data: bytes, name: str) -> Loaded:
    """Read a notebook's cells in order; a cell that can't be read is left out."""
    notebook = json.loads(decode(data))
    cells = [cell for sheet in notebook.get("worksheets") or [notebook] for cell in sheet["cells"]]
    parts = Parts()
    texts = [
        parts.read(f"cell {number}", _show_cell, cell) or ""
        for number, cell in enumerate(cells, 1)
        if isinstance(cell, dict)
    ]
    text = "\n\n".join(filter(None, texts))
    return Loaded(text, "notebook", find_markdown_title(text), left_out=parts.left_out)


def _show_cell(cell: Mapping[str, Any]) -> str:
    return "\n\n".join(filter(None, _read_cell(cell)))


def _join(value: Any) -> str:
    """Return a text that may be given as a list of its lines, with their ends or, as in versions 1
    and 2, without.
    """
    if not isinstance(value, list):
        return str(value or "")
    lines = [*map(str, value)]
    has_ends = len(lines) < 2 or any(line.endswith("\n") for line in lines[:-1])
    return "".join(lines) if has_ends else "".join(f"{line}\n" for line in lines)


def _read_cell(cell: Mapping[str, Any]) -> Iterator[str]:
    source = _join(cell.get("source", cell.get("input"))).strip("\n")
    if cell.get("cell_type") == "heading":
        source = f"{'#' * int(cell.get('level', 1))} {source}"
    if cell.get("cell_type") != "code":
        yield source
        return
    yield _fence(source)
    left = _MOST_PRINTED
    outputs = [output for output in cell.get("outputs") or () if isinstance(output, dict)]
    for is_plain, shown in groupby(map(_output_text, outputs), key=lambda shown: shown[0]):
        text = ("" if is_plain else "\n\n").join(text for _, text in shown).strip("\n")[:left]
        left -= len(text)
        yield _fence(text) if is_plain else text


def _fence(text: str) -> str:
    return f"```\n{text}\n```" if text.strip() else ""


def _output_text(output: Mapping[str, Any]) -> tuple[bool, str]:
    """Return whether an output is plain text, and its text.

    The text is empty for warnings, pictures and what is only for a screen.
    """
    if output.get("output_type") == "stream":
        is_printed = "stderr" not in (output.get("name"), output.get("stream"))
        return True, _SCREEN.sub("", _join(output.get("text"))) if is_printed else ""
    if "ename" in output:
        return True, _SCREEN.sub("", f"{output['ename']}: {output.get('evalue', '')}\n")
    former = {kind: output[name] for name, kind in _FORMER.items() if name in output}
    data = output.get("data") or former
    if "text/markdown" in data:
        return False, _join(data["text/markdown"])
    plain = _join(data.get("text/plain")).removesuffix("\n")
    if "text/html" in data and (shown := extract(_join(data["text/html"]).encode())):
        return False, shown
    return True, f"{_join(data.get('text/latex'))}\n" if _OBJECT.match(plain) else f"{plain}\n"
