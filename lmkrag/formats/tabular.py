"""CSV, JSON and JSON Lines: one line a record, each value beside its name."""

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

from lmkrag.errors import DocumentError
from lmkrag.formats.base import Loaded
from lmkrag.formats.text import decode

_MAX_DEPTH = 20
_SAYS_DELIMITER = re.compile(r"sep=(\t|[^\w\s\"'])\r?\n", re.IGNORECASE)  # the first line, as Excel has it
_VALUE = re.compile(r"[-+]?[$€£]?\d[\d.,:/%\s-]*$|\S+@\S+\.\S+$|https?://")  # a number, date, address: no column's name


def read_csv(data: bytes, name: str) -> Loaded:
    """Read a table: a line a row, ``column: value`` between bars."""
    text = decode(data).replace("\0", "")
    delimiters = ",;\t|"
    if said := _SAYS_DELIMITER.match(text):
        delimiters, text = said[1], text[said.end() :]
    try:
        dialect: Any = csv.Sniffer().sniff(text[:10_000], delimiters=delimiters)
    except csv.Error:
        dialect = csv.excel_tab if name.lower().endswith(".tsv") else csv.excel
    delimiter = said[1] if said else dialect.delimiter
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), dialect, delimiter=delimiter) if any(row)]
    except csv.Error as error:
        raise DocumentError(f"broken table ({error})") from error
    if not rows:
        raise DocumentError("table without rows")
    return Loaded("\n".join(table_lines(rows)), "csv")


def table_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a line a row, each value beside its column's name where the first row has such."""
    names, records = (rows[0], rows[1:]) if rows and _has_header(rows) else ([], rows)
    return [_line(zip_longest(names, row, fillvalue="")) for row in records]


def _has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row names the columns: every cell is a name, each once, and none of the values below."""
    names = [name.strip() for name in rows[0]]
    if len(rows) < 2 or len(set(names)) < len(names) or any(_VALUE.match(name) for name in names):
        return False
    return not any(name and row[column].strip() == name for row in rows[1:] for column, name in _cells(names, row))


def _cells(names: Sequence[str], row: Sequence[str]) -> Iterator[tuple[int, str]]:
    return ((column, name) for column, name in enumerate(names) if column < len(row))


def read_json(data: bytes, name: str) -> Loaded:
    """Read a JSON file: a line for each object of a list, however deep, and for each other value of an object."""
    try:
        value = json.loads(decode(data))
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"broken JSON ({type(error).__name__}: {error})") from error
    records = value if isinstance(value, list) else [value]
    lines = [_record(record) for record in records] if isinstance(value, list) else _object_lines(value)
    text = "\n".join(line for line in lines if line)
    if not text:
        raise DocumentError("JSON without values")
    return Loaded(text, "json")


def read_json_lines(data: bytes, name: str) -> Loaded:
    """Read JSON Lines: a line a record."""
    lines = []
    for number, line in enumerate(decode(data).splitlines(), 1):
        if line.strip():
            try:
                lines.append(_record(json.loads(line)))
            except (ValueError, RecursionError) as error:
                raise DocumentError(f"broken JSON in line {number} ({type(error).__name__})") from error
    if not any(lines):
        raise DocumentError("JSON without values")
    return Loaded("\n".join(lines), "json")


def _object_lines(value: Any, name: str = "", depth: int = 0) -> list[str]:
    lines: list[str] = []
    for key, inner in value.items() if isinstance(value, dict) else [("", value)]:
        full = f"{name}.{key}" if name else key
        if isinstance(inner, list) and inner and all(isinstance(item, dict) for item in inner):
            lines += [_line(_leaves(item, full, depth + 1)) for item in inner]
        elif isinstance(inner, dict) and depth < _MAX_DEPTH:
            lines += _object_lines(inner, full, depth + 1)
        else:
            lines.append(_line(_leaves(inner, full, depth + 1)))
    return lines


def _record(value: Any) -> str:
    return _line(_leaves(value, "", 0))


def _line(pairs: Any) -> str:
    cells = (f"{name.strip()}: {value}" if name.strip() else value for name, value in pairs if value.strip())
    return " | ".join(" ".join(cell.split()) for cell in cells)


def _leaves(value: Any, name: str, depth: int) -> Iterator[tuple[str, str]]:
    """Yield (dotted name, value) of everything in a JSON value."""
    if isinstance(value, dict) and depth < _MAX_DEPTH:
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}" if name else key, depth + 1)
    elif isinstance(value, list) and depth < _MAX_DEPTH:
        for inner in value:
            yield from _leaves(inner, name, depth + 1)
    elif value is not None:
        yield name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
