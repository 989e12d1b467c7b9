"""Tables of HTML in Markdown and of lists in reStructuredText are read as those between bars."""

import json

import pytest

from lmkrag import Engine
from lmkrag.formats.load import load_bytes

HTML = """# Boats

<table>
<thead>
<tr><th>Boat</th><th>Fee</th></tr>
</thead>
<tr><td rowspan="2">Skua</td><td>28</td></tr>
<tr><td>30</td></tr>
</table>

Fees are paid in October.
"""
ROWS = ["| Boat | Fee |", "| --- | --- |", "| Skua | 28 |", "| Skua | 30 |"]
LIST = """Boats
=====

.. list-table:: Fees of 2024
   :header-rows: 1
   :widths: 10 20

   * - Boat
     - Fee
   * - Skua
     - 28
   * - Skua
     - 30
       (at night)

Fees are paid in October.
"""


def read(text: str, name: str) -> str:
    return load_bytes(text.encode(), name, doc_id=name, path=name).text


def test_tables_on_one_line_are_apart_from_what_stands_beside_them():
    table = "<table><tr><td>Pier</td><td>Depth</td></tr><tr><td>North</td><td>7.5</td></tr></table>"
    rows = "| Pier | Depth |\n| --- | --- |\n| North | 7.5 |"
    assert read(f"<html><body>{table}</body></html>\n\nFees.\n", "a.md").startswith(f"{rows}\n")
    both = read(f"Piers: {table}{table}\n", "a.md").split("\n\n")
    assert [part.strip() for part in both if part.strip()] == ["Piers:", rows, rows]
    assert read(f"Report\n\n{table}\n", "a.txt") == f"Report\n\n{rows}\n"
    assert read("<dl><dt>Fee</dt><dd>45</dd></dl>\n", "a.md") == "Fee\n  45\n"


@pytest.mark.parametrize(
    ("name", "text", "rows"),
    [
        ("a.md", HTML, ROWS),
        ("a.md", HTML.upper(), [row.upper() for row in ROWS]),
        ("a.rst", LIST, [*ROWS[:3], "| Skua | 30 (at night) |"]),
    ],
)
def test_rows_stand_between_bars_and_lines_keep_their_numbers(name, text, rows):
    shown = read(text, name)
    lines = shown.split("\n")
    assert [line for line in lines if line.startswith("|")] == rows
    last = text.rstrip().split("\n")[-1]
    assert lines.index(last) == text.split("\n").index(last)
    assert "<t" not in shown.lower()


def test_a_table_on_one_line_is_read():
    text = "<table><tr><td>Pier</td><td>Depth</td></tr><tr><td>South</td><td>4.2</td></tr></table>"
    assert "| South | 4.2 |" in read(f"# Piers\n\n{text}\n", "a.md").split("\n")


def test_a_notebook_has_them_as_well():
    cells = [{"cell_type": "markdown", "source": HTML}]
    assert "| Skua | 30 |" in read(json.dumps({"cells": cells}), "a.ipynb")


@pytest.mark.parametrize(
    "text",
    [
        f"```html\n{HTML}```\n",
        "Write `<table><tr><td>a</td><td>b</td></tr></table>` for it.\n",
        "<table><tr><td>\n\n**A picture** of the pier.\n\n</td></tr></table>\n",
    ],
)
def test_code_and_layout_stay(text):
    assert read(text, "a.md") == text


def test_a_question_finds_a_cell(tmp_path):
    (tmp_path / "boats.md").write_text(HTML.replace("Skua</td><td>28", "Heron</td><td>28"))
    with Engine.open(tmp_path / "index", create=True, encoder="landmark-mini") as engine:
        engine.add(tmp_path / "boats.md")
        assert "| Heron | 28 |" in engine.ask("What is the fee of the Heron?").text
