"""CSV, JSON and JSON Lines: one line a record, each value beside its name."""

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise, zip_longest
from typing import Any, NamedTuple

from lmkrag.errors import DocumentError
from lmkrag.formats.base import Loaded, table_row
from lmkrag.formats.text import decode

_MAX_DEPTH = 20
_SAYS_DELIMITER = re.compile(r"sep=(\t|[^\w\s\"'])\r?\n", re.IGNORECASE)  # the first line, as Excel has it
_VALUE = re.compile(r"[-+]?[$€£]?\d[\d.,:/%\s-]*$|\S+@\S+\.\S+$|https?://")  # a number, date, address: no column's name
_YEAR = r"(?:19|20)\d\d"
_PERIOD = re.compile(  # a year, month, date or hour: names of columns of figures
    rf"(?:{_YEAR}(?:[-/.](?:\d\d?|{_YEAR})(?:[-/.]\d\d?)?)?|\d\d?[-/.](?:\d\d?[-/.])?(?:{_YEAR}|\d\d)|\d\d?:\d\d)$"
)
_ROWS_ABOVE = 20  # a header, at most
_SAMPLE_ROWS = 200  # below a row, which tell whether it is a header
_MOST_COVERED = 1_000  # rows or columns that a cell covers
_SENTENCE_ENDS = (".", "!", "?", ":")


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
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), dialect, delimiter=delimiter)]
    except csv.Error as error:
        raise DocumentError(f"broken table ({error})") from error
    if not (lines := table_lines(rows)):
        raise DocumentError("table without rows")
    return Loaded("\n".join(lines), "csv")


class Grid:
    """Rows of a table in which cells cover several rows and columns. State: the open row, and what reaches below it."""

    def __init__(self) -> None:
        self.rows: list[list[str]] = []
        self._row: list[str] = []
        self._values = 0
        self._above: dict[int, tuple[int, str]] = {}  # by column: rows that a cell still covers, and its text

    def add(self, text: str, rows: int = 1, columns: int = 1) -> None:
        """Add the next cell, to the right of those that reach down to the open row."""
        self._fill()
        rows, columns = (max(1, min(_MOST_COVERED, count)) for count in (rows, columns))
        self._values += bool(text)
        for _ in range(columns):
            if rows > 1:
                self._above[len(self._row)] = rows - 1, text
            self._row.append(text)

    def _fill(self) -> None:
        while len(self._row) in self._above:
            rows, text = self._above.pop(len(self._row))
            if rows > 1:
                self._above[len(self._row)] = rows - 1, text
            self._row.append(text)
            self._values += 2 * bool(text)

    def end_row(self) -> None:
        """Close a row. A value that has a row to itself is there once, whatever its cell covers: it is a caption."""
        self._fill()
        values = [*filter(None, self._row)]
        self.rows.append(values[:1] if self._values == 1 < len(values) else self._row)
        self._row, self._values = [], 0


class Table(NamedTuple):
    """The rows above a table's header, the names of its columns if there is a header, and the rows below."""

    captions: Sequence[Sequence[str]]
    names: Sequence[str]
    records: Sequence[Sequence[str]]


def table_lines(rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a line a row, each value beside its column's name if the column has one. Blank rows divide tables."""
    lines: list[str] = []
    names: Sequence[str] = ()
    stripped = [_strip(row) for row in rows]
    is_wide = any(len(row) > 1 for row in stripped)
    for is_blank, group in groupby(stripped, key=lambda row: not any(row)):
        if is_blank:
            continue
        captions: Sequence[Sequence[str]] = list(group)
        records: Sequence[Sequence[str]] = ()
        if not is_wide or any(sum(map(bool, row)) > 1 for row in captions):  # else it is a title or a remark
            captions, names, records = split_table(captions, names)
        lines += [_line(("", cell) for cell, _ in groupby(caption)) for caption in captions]
        lines += [_line(zip_longest(names, row, fillvalue="")) for row in records]
    return lines


def bar_lines(rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the rows of a table between bars, as Markdown has them, and those above its header as plain lines."""
    table = split_table([cells for row in rows if any(cells := [cell.strip() for cell in row])])
    captions = [" | ".join(cell for cell, _ in groupby(caption) if cell) for caption in table.captions]
    return [*captions, *map(table_row, [table.names, *table.records] if table.names else table.records)]


def split_table(rows: Sequence[Sequence[str]], names: Sequence[str] = ()) -> Table:
    """Split a table at its header. A header of several rows is joined, and one that is repeated is no record.

    Args:
        rows: their cells, without white space at their ends; a merged cell is in each row and column that it covers.
        names: of the columns of the table above, which goes on unless these rows have a header and figures below it.
    """
    number = _find_header(rows, bool(names))
    if number is None:
        return Table((), names, [row for row in rows if row != names])
    first = last = number
    while last + 2 < len(rows) and _has_groups(rows[last]) and (_rank(rows, last + 1) or (False,))[0]:
        last += 1
    while first and _has_groups(rows[first - 1]):
        first -= 1
    header = rows[first : last + 1]
    joined = [" ".join(filter(None, dict.fromkeys(cells))) for cells in zip_longest(*header, fillvalue="")]
    return Table(rows[:last], joined, [row for row in rows[last + 1 :] if row not in header])


def _find_header(rows: Sequence[Sequence[str]], need_figures: bool) -> int | None:
    """The number of the row that names the columns; rows with fewer cells may stand above it."""
    best: tuple[tuple[bool, int, bool, bool], int] | None = None
    for number, row in enumerate(rows[: min(_ROWS_ABOVE, len(rows) - 1)]):
        rank = _rank(rows, number)
        if rank and (rank[0] or not need_figures):
            is_better = best is None or (rank > best[0] and (rank[0] or best[0][1] < 2))
            best = (rank, number) if is_better else best
        is_full = _count(row) >= _usual_count(rows[number + 1 : number + 1 + _SAMPLE_ROWS])
        if is_full and not _has_groups(row) and (not rank or rank[-1]):
            break
        need_figures |= is_full  # below a row of groups of columns
    return best[1] if best else None


def _rank(rows: Sequence[Sequence[str]], number: int) -> tuple[bool, int, bool, bool] | None:
    """How well a row names columns: has it figures below, how many names, and are they plain? None for a record."""
    row = rows[number]
    below = [other for other in rows[number + 1 : number + 1 + _SAMPLE_ROWS] if other != row]
    digits = [int(cell) for cell in row if cell.isdecimal() and len(cell) < 3]
    is_series = len(digits) > 2 and digits == [*range(min(1, digits[0]), min(1, digits[0]) + len(digits))]
    has_figures = False
    periods = 0
    for place, name in enumerate(row):
        column = [other[place] for other in below if place < len(other) and other[place]] if name else []
        figures = sum(map(bool, map(_VALUE.match, column)))
        if name in column:
            return None
        if _VALUE.match(name):
            periods += 1
            if not (_PERIOD.match(name) or is_series) or 2 * sum(map(bool, map(_PERIOD.match, column))) > len(column):
                return None
            if len(row) == 2 and (figures < len(column) or figures < 2):
                return None  # the first of several labels and their values
        has_figures |= bool(column) and 2 * figures >= len(column)
    count, usual = _count(row), _usual_count(below)
    is_prose = usual == 1 and row[0].endswith(_SENTENCE_ENDS)
    if not below or 2 * count < usual or is_prose or (periods and count < usual):
        return None
    return has_figures, count, not _has_groups(row), not periods


def _count(row: Sequence[str]) -> int:
    """The values of a row, and its corner: a name of columns may be missing above the names of rows."""
    return sum(map(bool, row)) + (len(row) > 2 and not row[0])


def _usual_count(rows: Sequence[Sequence[str]]) -> int:
    counts = Counter(sum(map(bool, row)) for row in rows)
    return max(counts, key=lambda count: (counts[count], count), default=0)


def _has_groups(row: Sequence[str]) -> bool:
    """Whether a name covers several columns, as a year above its quarters does."""
    return any(left and left == right for left, right in pairwise(row))


def _strip(row: Sequence[str]) -> list[str]:
    """The cells of a row without white space at their ends, and without blank cells at its end."""
    cells = [cell.strip() for cell in row]
    while cells and not cells[-1]:
        cells.pop()
    return cells


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
