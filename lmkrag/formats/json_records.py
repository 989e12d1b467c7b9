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
_BETWEEN = re.compile(r"[\s,\]\x1e]*")  # records
_NAMES = ("columns", "fields", "header", "headers", "names")  # of the list that names the columns of ``data``


def read(data: bytes, name: str) -> Loaded:
    """Read JSON, with comments or not, or JSON Lines: a line for each object of a list, and for each other value.

    Records that are broken are left out; a file without any other is text.
    """
    text = decode(data)
    values, left_out = _read_values(text)
    if not values and any(map(str.isalpha, text)) and not name.lower().endswith(("l", ".ndjson")):
        return Loaded(text, "text")
    if not values:
        raise DocumentError(f"broken JSON ({left_out})")
    lines = _read_value(values if len(values) > 1 or left_out else values[0])
    if not any(lines):
        raise DocumentError("JSON without values")
    return Loaded("\n".join(filter(None, lines)), "json", left_out=left_out)


def _read_values(text: str) -> tuple[list[Any], str]:
    """The values of a file, one as a rule, and what was left out."""
    spelled = text
    for _ in range(3):  # as it is, without comments, and without the commas before these
        try:
            return [json.loads(spelled)], ""
        except (ValueError, RecursionError):
            spelled = _COMMENT.sub(lambda match: match[1] or "", spelled)
    values: list[Any] = []
    broken: list[int] = []
    decoder, position = json.JSONDecoder(), 0
    while (position := _BETWEEN.match(text, position).end()) < len(text):  # type: ignore[union-attr]
        try:
            value, position = decoder.raw_decode(text, position)
            values.append(value)
        except (ValueError, RecursionError):
            if text[position] == "[" and not values:
                position += 1  # a list that is cut off
                continue
            broken.append(text.count("\n", 0, position) + 1)
            position = text.find("\n", position) if "\n" in text[position:] else len(text)
    if len(values) < len(broken):
        values = []
    return (
        values,
        f"{len(broken)} of {len(values) + len(broken)} records, the first in line {broken[0]}" if broken else "",
    )


def _read_value(value: Any, name: str = "", depth: int = 0) -> list[str]:
    """The lines of a value: of a list, of a table in one of the forms of pandas, or of an object."""
    if isinstance(value, list):
        if len(value) > 1 and all(isinstance(row, list) and _is_flat(row) for row in value):
            return table_lines([[_show(cell) for cell in row] for row in value])
        return [format_record(_leaves(item, name, depth)) for item in value]
    if not isinstance(value, dict) or depth >= _MAX_DEPTH:
        return [format_record(_leaves(value, name, depth))]
    if columns := _find_columns(value):
        rows = zip_longest(*columns.values())
        return [format_record((key, _show(cell)) for key, cell in zip(columns, row, strict=True)) for row in rows]
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


def _find_columns(value: Mapping[str, Any]) -> Mapping[str, list[Any]]:
    """The columns of a table whose names stand beside its rows, or whose values stand side by side."""
    names = next((value[key] for key in _NAMES if isinstance(value.get(key), list)), None)
    rows = value.get("data", value.get("rows"))
    if names and rows and isinstance(rows, list) and all(isinstance(row, list) and _is_flat(row) for row in rows):
        shown = [_show(name.get("name", "") if isinstance(name, dict) else name) for name in names]
        return dict(zip(shown, map(list, zip_longest(*rows)), strict=False))
    parts = list(value.values())
    if len(parts) > 1 and all(isinstance(part, dict) and _is_flat(list(part.values())) for part in parts):
        if any(list(part) != list(parts[0]) for part in parts) or not all(map(str.isdecimal, parts[0])):
            return {}
        parts = [list(part.values()) for part in parts]
    is_table = len(parts) > 1 and all(isinstance(part, list) and len(part) > 1 and _is_flat(part) for part in parts)
    return dict(zip(value, parts, strict=True)) if is_table and len({*map(len, parts)}) == 1 else {}


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
