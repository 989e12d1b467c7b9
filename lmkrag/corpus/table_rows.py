"""Rows of tables as parsers write them: ``| bolt | 340 |`` below a header, or ``name: bolt | stock: 340`` alone."""

import re
from collections.abc import Iterator

_RULE = re.compile(r"[\s|:+=-]*")
_PIPE = re.compile(r"(?<!\\)\|")


def is_row(line: str) -> bool:
    """Return whether a line is a row between bars."""
    return line.lstrip().startswith("|")


def is_rule(line: str) -> bool:
    """Return whether a line only divides a header from its rows; blank lines are none either."""
    return _RULE.fullmatch(line) is not None


def split_row(line: str, start: int) -> list[tuple[str, int]]:
    """Return the values between the bars of a row that begins at ``start``, and where they begin."""
    bars = [match.start() for match in _PIPE.finditer(line)]
    cells = []
    for left, right in zip(bars, [*bars[1:], len(line)], strict=True):
        value = line[left + 1 : right]
        if right == len(line) and not value.strip():
            break
        cells.append((value.strip(), start + left + 1 + len(value) - len(value.lstrip())))
    return cells


def read_record(line: str, start: int) -> Iterator[tuple[str, str, int]]:
    """Yield the columns, values and starts of ``name: bolt | stock: 340``, which begins at ``start``."""
    position = 0
    for part in line.split(" | "):
        column, _, value = part.partition(": ")
        yield column.strip(), value.strip(), start + position + len(column) + 2
        position += len(part) + 3
