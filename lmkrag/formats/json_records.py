"""JSON and JSON Lines: one line a record, each value beside its name."""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

from lmkrag.errors import DocumentError
from lmkrag.formats.base import Loaded
from lmkrag.formats.tabular import format_record, table_lines
from lmkrag.formats.text import decode

_MAX_DEPTH = 20
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/|,(?=\s*[}\]])', re.DOTALL)
_MOST_TRIED = 1_000  # broken records after which each is looked for on a line of its own
_BETWEEN = re.compile(r"[\s,\]\x1e]*")  # records
_NAMES = ("columns", "fields", "header", "headers", "names")  # of the list that names the columns of ``data``


def read(data: bytes, name: str) -> Loaded:
    """Read JSON, with comments or not, or JSON Lines: a line a record or value; broken records are left out."""
    text = decode(data)
    values, left_out = _read_values(text)
    if not values and any(map(str.isalpha, text)) and not name.lower().endswith(("l", ".ndjson")):
        return Loaded(text, "text")
    if not values:
        raise DocumentError(f"broken JSON ({left_out})")
    lines = _read_value(values if len(values) > 1 or left_out else values[0])
    return Loaded("\n".join(filter(None, lines)), "json", left_out=left_out)


def _read_values(text: str) -> tuple[list[Any], str]:
    """The values of a file, one as a rule, and what was left out."""
    values: list[Any] = []
    first = broken = 0
    decoder, position = json.JSONDecoder(), 0
    while (position := _BETWEEN.match(text, position).end()) < len(text):  # type: ignore[union-attr]
        end = text.find("\n", position) % (len(text) + 1)
        is_line = broken >= _MOST_TRIED  # an error costs a look at the whole text
        try:
            value, size = decoder.raw_decode(text[position:end]) if is_line else decoder.raw_decode(text, position)
            position = position + size if is_line else size
            values.append(value)
        except (ValueError, RecursionError):
            if text[position] == "[" and not values and not broken:
                position += 1  # a list that is cut off
                continue
            first, broken = first or text.count("\n", 0, position) + 1, broken + 1
            position = end
    for _ in range(2 if broken else 0):  # comments, and the commas before these
        text = _COMMENT.sub(lambda match: match[1] or "", text)
        try:
            return [json.loads(text)], ""
        except (ValueError, RecursionError):
            continue
    left_out = f"{broken} of {len(values) + broken} records, the first in line {first}" if broken else ""
    return values if len(values) >= broken else [], left_out


def _read_value(value: Any, name: str = "", depth: int = 0) -> list[str]:
    """The lines of a value: of a list, of a table in one of the forms of pandas, or of an object."""
    if isinstance(value, list):
        if len(value) > 1 and all(isinstance(row, list) and _is_flat(row) for row in value):
            return table_lines([[_show(cell) for cell in row] for row in value])
        return [format_record(_leaves(item, name, depth)) for item in value]
    if not isinstance(value, dict) or depth >= _MAX_DEPTH:
        return [format_record(_leaves(value, name, depth))]
    if columns := _find_columns(value):
        rows = zip_longest(*(cells for _, cells in columns))
        return [
            format_record((name, _show(cell)) for (name, _), cell in zip(columns, row, strict=True)) for row in rows
        ]
    parts = list(value.values())
    if len(parts) > 1 and all(isinstance(part, dict) for part in parts):
        common = set.intersection(*map(set, parts))
        if 2 * len(common) >= len(set.union(*map(set, parts))) > 0:  # records by their keys
            return [format_record(_leaves(part, _join(name, key), depth + 1)) for key, part in value.items()]
    lines: list[str] = []
    for key, part in value.items():
        records = isinstance(part, list) and any(isinstance(item, dict | list) for item in part)
        inner = _read_value if isinstance(part, dict) or records else None
        full = _join(name, key)
        lines += inner(part, full, depth + 1) if inner else [format_record(_leaves(part, full, depth + 1))]
    return lines


def _find_columns(value: Mapping[str, Any]) -> list[tuple[str, list[Any]]]:
    """The columns of a table whose names stand beside its rows, or whose values stand side by side."""
    names = next((value[key] for key in _NAMES if isinstance(value.get(key), list)), None)
    rows = value.get("data", value.get("rows"))
    if names and rows and isinstance(rows, list) and all(isinstance(row, list) and _is_flat(row) for row in rows):
        shown = [_show(name.get("name", "") if isinstance(name, dict) else name) for name in names]
        return list(zip(shown, map(list, zip_longest(*rows)), strict=False))
    parts = list(value.values())
    if len(parts) > 1 and all(isinstance(part, dict) and _is_flat(list(part.values())) for part in parts):
        types = [{float if isinstance(cell, int) else type(cell) for cell in part.values()} for part in parts]
        by_columns = max(map(len, types)) == 1 < len({*map(frozenset, types)})
        is_counted = all(map(str.isdecimal, parts[0]))
        if any(list(part) != list(parts[0]) for part in parts) or not (is_counted or by_columns):
            return []
        value = value if is_counted else {"": None, **value}
        parts = [*([] if is_counted else [list(parts[0])]), *(list(part.values()) for part in parts)]
    is_table = len(parts) > 1 and all(isinstance(part, list) and len(part) > 1 and _is_flat(part) for part in parts)
    return list(zip(value, parts, strict=True)) if is_table and len({*map(len, parts)}) == 1 else []


def _is_flat(values: list[Any]) -> bool:
    return not any(isinstance(value, dict | list) for value in values)


def _join(name: str, key: str) -> str:
    return f"{name}.{key}" if name else key


def _show(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _leaves(value: Any, name: str, depth: int) -> Iterator[tuple[str, str]]:
    """Yield (dotted name, value) of everything in a JSON value."""
    if isinstance(value, dict) and depth < _MAX_DEPTH:
        for key, inner in value.items():
            yield from _leaves(inner, _join(name, key), depth + 1)
    elif isinstance(value, list) and depth < _MAX_DEPTH:
        for inner in value:
            yield from _leaves(inner, name, depth + 1)
    else:
        yield name, _show(value)
