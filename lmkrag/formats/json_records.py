"""JSON and JSON Lines: one line a record, each value beside its name."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from lmkrag.errors import DocumentError
from lmkrag.formats.base import Loaded
from lmkrag.formats.tabular import format_record, table_lines
from lmkrag.formats.text import decode

_MAX_DEPTH = 20
_OUTLINE = re.compile(r"(?:^|\.)(?:coordinates|arcs)$")  # lists of points, of GeoJSON (RFC 7946) and TopoJSON
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*(?:"|\Z))|//[^\n]*|/\*.*?(?:\*/|\Z)|,(?=\s*[}\]])', re.DOTALL)
_LINE = re.compile(r"[\[{].*[\]}]$|[\"\w-]")  # that may be a value
_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"?|[][{},]')
_NAMES = ("columns", "fields", "header", "headers", "names")  # of the list that names the columns of ``data``
_ROWS, _NAME = ("data", "rows", "records", "values"), ("name", "id", "label", "title")


def read(data: bytes, name: str) -> Loaded:
    """Read JSON, with comments or not, or JSON Lines: a line a record or value; broken records are left out."""
    text = decode(data)
    content, left_out = _read_text(text)
    if content is None and any(map(str.isalpha, text)) and not name.lower().endswith(("l", ".ndjson")):
        return Loaded(text, "text")
    if content is None:
        raise DocumentError("broken JSON (nothing in it is whole)")
    return Loaded(
        "\n".join(filter(None, _read_value(content[0]))), "json", left_out={"records": left_out} if left_out else {}
    )


def _read_text(text: str) -> tuple[tuple[Any] | None, str]:
    """The value of a file, the list of its values if it has several, and what was left out."""
    cleaned = text
    for _ in range(3):  # comments, and the commas before these
        if result := _parse(cleaned):
            return result, ""
        cleaned = _COMMENT.sub(lambda match: match[1] or "", cleaned)
    lines, position = [], 0
    for line in text.split("\n"):
        if (record := line.strip(" \t\r,\x1e")) and record not in ("[", "]"):
            lines.append((position, _parse(record) if _LINE.match(record) else None))
        position += len(line) + 1
    values = [result[0] for _, result in lines if result]
    if 0 < len(values) == len(lines):
        return _gather(text, lines)
    spans, open_brackets = _find_brackets(text)
    pieces = [(start, _parse(text[start:end])) for start, end in spans[0]]
    if len(pieces) > len(values) and all(result for _, result in pieces):  # several on a line, or lines of one
        return _gather(text, pieces)
    if 3 * sum(isinstance(value, dict | list) for value in values) >= len(lines) > 1:
        return _gather(text, lines)
    whole = [bracket for bracket in open_brackets if bracket.count]
    if last := next((bracket for bracket in whole if bracket.sign == "["), whole[-1] if whole else None):
        closing = "".join("]" if bracket.sign == "[" else "}" for bracket in open_brackets[last.depth :: -1])
        if result := _parse(text[: last.end] + closing):
            number = text.count("\n", 0, last.end + 1) + 1
            return result, f"1 of {last.count + 1} records, the first in line {number}"
    for depth in range(_MAX_DEPTH):
        pieces = [(start, _parse(text[start:end])) for start, end in spans[depth]]
        if 2 * sum(result is not None for _, result in pieces) >= len(pieces) > 0:
            return _gather(text, pieces)
    return None, ""


def _parse(text: str) -> tuple[Any] | None:
    """The value that a text is, control characters in strings included; None for broken JSON."""
    try:
        return (json.loads(text, strict=False),)
    except (ValueError, RecursionError):
        return None


def _gather(text: str, pieces: list[tuple[int, tuple[Any] | None]]) -> tuple[tuple[Any], str]:
    """The values of the pieces of a text that begin at places of it, and what could not be read."""
    broken = [start for start, result in pieces if result is None]
    line = text.count("\n", 0, broken[0]) + 1 if broken else 0
    left_out = f"{len(broken)} of {len(pieces)} records, the first in line {line}" if broken else ""
    values = [result[0] for _, result in pieces if result]
    return (values if len(pieces) > 1 else values[0],), left_out


@dataclass(slots=True)
class _Bracket:
    """An open list or object, and where the last of its ``count`` whole parts ends."""

    sign: str
    start: int
    depth: int
    end: int
    count: int = 0


def _find_brackets(text: str) -> tuple[list[list[tuple[int, int]]], list[_Bracket]]:
    """The lists and objects of a text by their depth, and those that are never closed; deep ones are left out."""
    spans: list[list[tuple[int, int]]] = [[] for _ in range(_MAX_DEPTH)]
    stack: list[_Bracket] = []
    deeper = 0
    for match in _TOKEN.finditer(text):
        sign = match[0]
        if sign in "[{":
            if deeper or len(stack) == _MAX_DEPTH:
                deeper += 1
            else:
                stack.append(_Bracket(sign, match.start(), len(stack), match.end()))
        elif sign in "]}" and deeper:
            deeper -= 1
        elif sign in "]}" and stack:
            closed = stack.pop()
            spans[closed.depth].append((closed.start, match.end()))
            if stack:
                stack[-1].end, stack[-1].count = match.end(), stack[-1].count + 1
        elif sign == "," and stack and not deeper:
            stack[-1].count += not text[stack[-1].end : match.start()].isspace() and stack[-1].end < match.start()
            stack[-1].end = match.start()
    return spans, stack


def _read_value(value: Any, name: str = "", depth: int = 0) -> list[str]:
    """The lines of a value: of a list, of a table in one of the forms of pandas, or of an object."""
    if isinstance(value, list):
        rows = [[_show(cell) for cell in row] for row in value if isinstance(row, list)]
        if len(rows) > 1 and 2 * sum(isinstance(row, list) and _is_flat(row) for row in value) > len(value):
            others = [item for item in value if not isinstance(item, list)]
            return table_lines(rows) + [line for item in others for line in _read_record(item, name, depth)]
        if depth < _MAX_DEPTH and any(isinstance(item, list) and not _is_flat(item) for item in value):
            return [line for item in value for line in _read_value(item, name, depth + 1)]
        return [line for item in value for line in _read_record(item, name, depth)]
    if not isinstance(value, dict) or depth >= _MAX_DEPTH:
        return _read_record(value, name, depth)
    lines: list[str] = []
    if columns := _find_columns(value):
        names = [column for column, _ in columns]
        cells = zip_longest(*(column for _, column in columns))
        lines = [format_record(zip(names, map(_show, row), strict=True)) for row in cells]
    objects = [part for part in value.values() if isinstance(part, dict)]
    counts = Counter(key for part in objects for key in part)
    records = len(objects) > 1 and 2 * counts.total() > len(objects) * len(counts)  # most have the same names
    for key, part in value.items():
        if _is_outline(key, part) or (columns and isinstance(part, list | dict)):
            continue  # of a map, or in the table
        holds_records = isinstance(part, list) and any(isinstance(item, dict | list) for item in part)
        read_part = _read_value if (isinstance(part, dict) and not records) or holds_records else _read_record
        lines += read_part(part, _join(name, key), depth + 1)
    return lines


def _find_columns(value: Mapping[str, Any]) -> list[tuple[str, list[Any]]]:
    """The columns of a table whose names stand beside its rows, or whose values stand side by side."""
    names = next((value[key] for key in _NAMES if isinstance(value.get(key), list)), None)
    rows: list[Any] = next((value[key] for key in _ROWS if isinstance(value.get(key), list)), [])
    if names and rows and all(isinstance(row, list | None) for row in rows):
        labels = (next(map(key.get, filter(key.get, _NAME)), "") if isinstance(key, dict) else key for key in names)
        return list(zip(map(_show, labels), map(list, zip_longest(*filter(None, rows))), strict=False))
    parts = list(value.values())
    if len(parts) > 1 and all(isinstance(part, dict) and _is_flat(list(part.values())) for part in parts):
        types = [{float if isinstance(cell, int) else type(cell) for cell in part.values()} for part in parts]
        by_columns = max(map(len, types)) == 1 < len({*map(frozenset, types)})
        is_counted = all(map(str.isdecimal, parts[0]))
        if any(list(part) != list(parts[0]) for part in parts) or not (is_counted or by_columns):
            return []
        value = value if is_counted else {"": None, **value}
        parts = [*([] if is_counted else [list(parts[0])]), *(list(part.values()) for part in parts)]
    columns = [(name, part) for name, part in zip(value, parts, strict=True) if isinstance(part, list)]
    fewest = 2 if len(columns) == len(parts) else 3  # rows; beside a title, lists of two may be anything
    is_table = len(columns) > 1 and all(len(column) >= fewest and _is_flat(column) for _, column in columns)
    is_table = is_table and not any(isinstance(part, dict) for part in parts)
    return columns if is_table and len({len(column) for _, column in columns}) == 1 else []


def _is_outline(name: str, value: Any) -> bool:
    return isinstance(value, list) and _OUTLINE.search(name) is not None and not _is_flat(value)


def _is_flat(values: list[Any]) -> bool:
    return not any(isinstance(value, dict | list) for value in values)


def _join(name: str, key: str) -> str:
    return f"{name}.{key}" if name else key


def _show(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _read_record(value: Any, name: str, depth: int, outer: Sequence[tuple[str, str]] = ()) -> list[str]:
    """The line of a record, and one for each of several records in it, which begins with what names the outer one."""
    inner: list[tuple[Any, str]] = []
    pairs = list(_leaves(value, name, depth, inner))
    names = [pair for pair in pairs if pair[0].rpartition(".")[2].lower() in _NAME][:2] or pairs[:1]
    lines = [format_record([*outer, *pairs])] if len(pairs) > len(names) or not inner else []
    return lines + [line for part, full in inner for line in _read_record(part, full, depth + 1, [*outer, *names])]


def _leaves(value: Any, name: str, depth: int, inner: list[tuple[Any, str]]) -> Iterator[tuple[str, str]]:
    """Yield (dotted name, value) of everything in a JSON value but lists of records, which ``inner`` gets."""
    if isinstance(value, dict) and depth < _MAX_DEPTH:
        for key, part in value.items():
            yield from _leaves(part, _join(name, key), depth + 1, inner)
    elif depth < _MAX_DEPTH and _is_outline(name, value):
        return
    elif isinstance(value, list) and depth < _MAX_DEPTH:
        keys = [{*map(str.lower, part)} - {"value"} if isinstance(part, dict) else () for part in value]
        if len(value) > 1 and all(len(names) > 1 for names in keys):  # {"name": "size", "value": 1} is no record
            inner += [(part, name) for part in value]
            return
        for part in value:
            yield from _leaves(part, name, depth + 1, inner)
    else:
        yield name, _show(value)
