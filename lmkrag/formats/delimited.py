"""CSV and its kin: which sign divides the cells of a file, and how they are quoted."""

import csv
import io
import re
from collections import Counter
from typing import Any

from lmkrag.formats.base import Loaded
from lmkrag.formats.html import read_value
from lmkrag.formats.tabular import Rows, count_matches, most_frequent, strip_row, table_lines
from lmkrag.formats.text import decode

_SAMPLE = 100_000  # characters that tell the delimiter
_LONGEST_CELL = (1 << 31) - 1  # the limit of the csv module is 131,072 else
# The first line of a file that says its delimiter, as Excel has it.
_SAYS_DELIMITER = re.compile(r"sep=(\t|[^\w\s\"'])\r?\n", re.IGNORECASE)
_DECIMAL = re.compile(r"[^\d,]{0,3}\d[\d.' ]{0,40},\d{1,20}[^\d,]{0,4}$|\w{1,20} \d\d?, \d{4}$")
# A text that looks like a number, as Excel exports it.
_EXCEL_TEXT = re.compile(r'\A="(.*)"\Z', re.DOTALL)


def read_csv(data: bytes, name: str) -> Loaded:
    """Read a table: a line for each row, ``column: value`` between bars.

    The delimiter is the one that divides most rows into the same number of cells, but no figures
    such as ``1,50``.

    Args:
        data: the bytes of the file.
        name: its name; in a .tsv file tabs are tried first.
    """
    text = decode(data).replace("\0", "")
    delimiters = "\t,;|" if name.lower().endswith(".tsv") else ",;\t|"
    if said := _SAYS_DELIMITER.match(text):
        delimiters, text = said[1], text[said.end() :]
    sample = text[:_SAMPLE].rpartition("\n")[0] if len(text) > _SAMPLE else text
    csv.field_size_limit(_LONGEST_CELL)
    dialect = _find_dialect(sample)
    divided = {sign: _parse(sample, {**dialect, "delimiter": sign}) for sign in delimiters}
    regular = {sign: _are_regular(rows) for sign, rows in divided.items()}
    others = (sign for sign in regular if sign != "," and regular[sign][0])
    if any(_has_decimals(divided[sign]) for sign in others):
        regular.pop(",", None)
    dialect["delimiter"] = max(regular, key=lambda sign: regular[sign])
    rows = _parse(text, dialect)
    quote = dialect["quotechar"]
    is_open = text.count(quote) % 2 and rows and rows[-1] and "\n" in rows[-1][-1]
    if is_open:  # a quotation mark is never closed: from its line on none counts
        opened = text.rfind(quote + rows[-1][-1].partition("\n")[0])
        rest = text[text.rfind("\n", 0, opened) + 1 :]
        rows[-1:] = _parse(rest, {**dialect, "quoting": csv.QUOTE_NONE})
    lines = table_lines([read_value(_EXCEL_TEXT.sub(r"\1", cell)) for cell in row] for row in rows)
    return Loaded("\n".join(lines), "csv")


def _find_dialect(sample: str) -> dict[str, Any]:
    """Return how cells are quoted, as options of the csv module."""
    dialect: dict[str, Any] = {"skipinitialspace": True, "quotechar": '"'}
    if '\\"' in sample and '""' not in sample:
        dialect |= {"escapechar": "\\", "doublequote": False}
    lines = filter(str.strip, sample.split("\n"))
    if '"' not in sample and all(line.startswith("'") for line in lines):
        dialect["quotechar"] = "'"
    return dialect


def _parse(lines: str, dialect: dict[str, Any]) -> list[list[str]]:
    return list(csv.reader(io.StringIO(lines, newline=""), **dialect))


def _are_regular(rows: Rows) -> tuple[bool, float, int]:
    """Return whether rows have several cells, the share of those with the usual number of cells,
    and that number.
    """
    counts = Counter(len(strip_row(row)) for row in rows if any(row))
    usual = most_frequent(counts)
    return usual > 1, counts[usual] / max(1, counts.total()), usual


def _has_decimals(rows: Rows) -> bool:
    """Return whether most cells with a comma are figures with decimals, or days."""
    cells = [cell for row in rows[1:] for cell in row if "," in cell]
    return 2 * count_matches(_DECIMAL, cells) > len(cells)
