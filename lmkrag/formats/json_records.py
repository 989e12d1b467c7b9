"""JSON and JSON Lines: one line for each record, each value beside its name."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from lmkrag.errors import DocumentError
from lmkrag.formats.base import Loaded
from lmkrag.formats.chats import read_chats
from lmkrag.formats.html import read_value
from lmkrag.formats.rich_text import join_pieces
from lmkrag.formats.tabular import format_record, table_lines
from lmkrag.formats.text import decode

_MAX_DEPTH = 20
_MOST_FAULTS = 10_000
# Lists of points, of GeoJSON (RFC 7946) and TopoJSON.
_OUTLINE = re.compile(r"(?:^|\.)(?:coordinates|arcs)$")
_COMMENT = re.compile(
    r'("(?:\\.|[^"\\])*(?:"|\Z))|//[^\n]*|/\*.*?(?:\*/|\Z)|,(?=\s*[}\]])', re.DOTALL
)
_OPENING, _DECODER = re.compile(r"[\[{]"), json.JSONDecoder(strict=False)
# Names of the list that names the columns of ``data``.
_NAMES = ("columns", "fields", "header", "headers", "names")
_ROWS, _NAME = ("data", "rows", "records", "values"), ("name", "id", "label", "title")

_Object = Mapping[str, Any]
# Where a part of a text begins, and its value; None if it is broken.
_Piece = tuple[int, tuple[Any] | None]
_Columns = list[tuple[str, list[Any]]]  # names and values
_Inner = list[tuple[Any, str]]  # the records in a record, and their dotted names


def read(data: bytes, name: str) -> Loaded:
    """Read JSON, with comments or not, or JSON Lines.

    Each record or value is a line; broken records are left out. Exports of chats are read as
    messages.

    Args:
        data: the bytes of the file.
        name: its name.

    Raises:
        DocumentError: nothing in it can be parsed.
    """
    text = decode(data)
    content, left_out = _read_text(text)
    if content is None:
        has_lines = name.lower().endswith(("l", ".ndjson"))
        if has_lines or not any(map(str.isalpha, text)):
            raise DocumentError("broken JSON (nothing in it is whole)")
        return Loaded(text, "text")
    value = join_pieces(content[0])
    broken = {"records": left_out} if left_out else {}
    if chats := read_chats(value):
        return replace(chats, left_out=broken)
    lines = filter(None, value.split("\n") if isinstance(value, str) else _read_value(value))
    return Loaded("\n".join(lines), "json", left_out=broken)


def _read_text(text: str) -> tuple[tuple[Any] | None, str]:
    """Return the value of a file, the list of its values if it has several, and which records were
    left out.
    """
    cleaned = text
    for _ in range(3):  # comments, and the commas before these
        if result := _parse(cleaned):
            return result, ""
        cleaned = _COMMENT.sub(lambda match: match[1] or "", cleaned)
    # Not one value: try a value on each line, then lists and objects wherever they stand.
    lines = _parse_lines(text)
    if lines and all(result for _, result in lines):
        return _gather(text, lines)
    pieces = _find_pieces(text)
    whole = sum(result is not None for _, result in pieces)
    return _gather(text, pieces) if 2 * whole >= len(pieces) > 0 else (None, "")


def _parse_lines(text: str) -> list[_Piece]:
    """Return the values of the lines of a text. A bracket alone on a line has no value."""
    lines, position = [], 0
    for line in text.split("\n"):
        record = line.strip(" \t\r,\x1e")
        if record not in ("", "[", "]"):
            lines.append((position, _parse(record)))
        position += len(line) + 1
    return lines


def _find_pieces(text: str) -> list[_Piece]:
    """Return the largest lists and objects of a text that are whole, and the smallest with each
    fault; none of a text that is nested too deeply, or has more than 10,000 faults.
    """
    whole: list[_Piece] = []
    faults: dict[int, _Piece] = {}  # by their offsets
    position, left = 0, _MAX_DEPTH * len(text)  # characters that may be read again
    while bracket := _OPENING.search(text, position):
        start, position = bracket.span()
        try:
            value, position = _DECODER.raw_decode(text, start)
            whole.append((start, (value,)))
        except json.JSONDecodeError as error:
            faults[error.pos] = (start, None)
            left -= error.pos - start
        except RecursionError:
            return []
        if left < 0 or len(faults) > _MOST_FAULTS:
            return []
    return [*whole, *faults.values()]


def _parse(text: str) -> tuple[Any] | None:
    """Return the value of a text in a tuple; None if it is broken JSON.

    Control characters in strings are accepted.
    """
    try:
        return (json.loads(text, strict=False),)
    except (ValueError, RecursionError):
        return None


def _gather(text: str, pieces: list[_Piece]) -> tuple[tuple[Any], str]:
    """Return the values of the pieces of a text, and which of them are broken.

    Args:
        text: the text.
        pieces: the offset of each piece, and its value.
    """
    broken = [start for start, result in pieces if result is None]
    line = text.count("\n", 0, broken[0]) + 1 if broken else 0
    left_out = f"{len(broken)} of {len(pieces)} records, the first in line {line}" if broken else ""
    values = [result[0] for _, result in pieces if result]
    return (values if len(pieces) > 1 else values[0],), left_out


def _read_value(value: Any, name: str = "", depth: int = 0) -> list[str]:
    """Return the lines of a value: of a list, an object, or a value alone.

    Args:
        value: a JSON value.
        name: its dotted name; empty for a whole file.
        depth: number of lists and objects around it.
    """
    if isinstance(value, list):
        return _read_list(value, name, depth)
    if isinstance(value, dict) and depth < _MAX_DEPTH:
        return _read_object(value, name, depth)
    return _read_record(value, name, depth)


def _read_list(items: list[Any], name: str, depth: int) -> list[str]:
    """Return the lines of a list: of lists of values as a table, else of each item."""
    rows = [item for item in items if isinstance(item, list)]
    flat = [row for row in rows if _is_flat(row)]
    if len(rows) > 1 and 2 * len(flat) > len(items):
        lines = table_lines([_show(cell) for cell in row] for row in rows)
        items = [item for item in items if not isinstance(item, list)]
    elif len(flat) < len(rows) and depth < _MAX_DEPTH:
        return [line for item in items for line in _read_value(item, name, depth + 1)]
    else:
        lines = []
    return lines + [line for item in items for line in _read_record(item, name, depth)]


def _read_object(value: dict[str, Any], name: str, depth: int) -> list[str]:
    """Return the lines of an object: those of a table, if it has a form of pandas, and those of its
    parts.
    """
    columns = _read_split(value) or _read_nested(value) or _read_lists(value)
    names = [name for name, _ in columns]
    rows = zip_longest(*(cells for _, cells in columns))
    lines = [format_record(zip(names, map(_show, row), strict=True)) for row in rows]
    are_records = _are_alike([part for part in value.values() if isinstance(part, dict)])
    for key, part in value.items():
        if _is_outline(key, part) or (columns and isinstance(part, list | dict)):
            continue  # of a map, or in the table
        is_nested = isinstance(part, dict) and not are_records
        is_table = isinstance(part, list) and not _is_flat(part)
        read_part = _read_value if is_nested or is_table else _read_record
        lines += read_part(part, _join(name, key), depth + 1)
    return lines


def _are_alike(objects: list[dict[str, Any]]) -> bool:
    """Return whether objects are records, since most of them have the same names."""
    counts = Counter(key for part in objects for key in part)
    return len(objects) > 1 and 2 * counts.total() > len(objects) * len(counts)


def _read_split(value: Mapping[str, Any]) -> _Columns:
    """Return the columns of a table like ``{"columns": ["size", "stock"], "data": [["M8", 340],
    ["M10", 12]]}``; an empty list if an object is none.
    """
    names, rows = _find_list(value, _NAMES), _find_list(value, _ROWS)
    if not all(isinstance(row, list | None) for row in rows):
        return []
    labels = (
        next(map(key.get, filter(key.get, _NAME)), "") if isinstance(key, dict) else key
        for key in names
    )
    return list(zip(map(_show, labels), map(list, zip_longest(*filter(None, rows))), strict=False))


def _find_list(value: _Object, keys: Iterable[str]) -> list[Any]:
    return next((value[key] for key in keys if isinstance(value.get(key), list)), [])


def _read_nested(value: _Object) -> _Columns:
    """Return the columns of a table like ``{"size": {"0": "M8", "1": "M10"}, "stock": {"0": 340,
    "1": 12}}``.

    Its rows are numbered, or named in a column of their own if each column has values of its own
    type.
    """
    parts = list(value.values())
    if len(parts) < 2 or not all(isinstance(part, dict) for part in parts):
        return []
    rows = list(parts[0])
    is_even = all(list(part) == rows and _is_flat(part.values()) for part in parts)
    if len(rows) < 2 or not is_even:
        return []
    columns = [(name, list(part.values())) for name, part in value.items()]
    if all(map(str.isdecimal, rows)):
        return columns
    types = {frozenset(map(_find_type, cells)) for _, cells in columns}
    return [("", rows), *columns] if len(types) > 1 and max(map(len, types)) == 1 else []


def _find_type(cell: Any) -> type:
    return float if isinstance(cell, int) else type(cell)


def _read_lists(value: _Object) -> _Columns:
    """Return the columns of a table like ``{"size": ["M8", "M10"], "stock": [340, 12]}``, perhaps
    beside a title.
    """
    columns = [(name, part) for name, part in value.items() if isinstance(part, list)]
    if len(columns) < 2 or any(isinstance(part, dict) for part in value.values()):
        return []
    fewest = 2 if len(columns) == len(value) else 3  # beside a title, lists of two may be anything
    lengths = {len(column) for _, column in columns}
    is_even = len(lengths) == 1 and min(lengths) >= fewest
    return columns if is_even and all(_is_flat(column) for _, column in columns) else []


def _is_outline(name: str, value: Any) -> bool:
    return isinstance(value, list) and _OUTLINE.search(name) is not None and not _is_flat(value)


def _is_flat(values: Iterable[Any]) -> bool:
    return not any(isinstance(value, dict | list) for value in values)


def _join(name: str, key: str) -> str:
    return f"{name}.{key}" if name else key


def _show(value: Any) -> str:
    if value is None or isinstance(value, str):
        return read_value(value or "")
    return json.dumps(value, ensure_ascii=False)


def _read_record(
    value: Any, name: str, depth: int, outer: Sequence[tuple[str, str]] = ()
) -> list[str]:
    """Return the line of a record, and one for each of several records in it.

    Their lines begin with the name or the first value of the outer record.
    """
    inner: _Inner = []
    pairs = list(_leaves(value, name, depth, inner))
    names = [pair for pair in pairs if pair[0].rpartition(".")[2].lower() in _NAME][:2] or pairs[:1]
    lines = [format_record([*outer, *pairs])] if len(pairs) > len(names) or not inner else []
    for part, full in inner:
        lines += _read_record(part, full, depth + 1, [*outer, *names])
    return lines


def _leaves(value: Any, name: str, depth: int, inner: _Inner) -> Iterator[tuple[str, str]]:
    """Yield the dotted name and the value of everything in a JSON value; ``inner`` gets lists of
    records.
    """
    if not isinstance(value, dict | list) or depth >= _MAX_DEPTH:
        yield name, _show(value)
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _leaves(part, _join(name, key), depth + 1, inner)
    elif not _is_outline(name, value):
        keys = [
            {*map(str.lower, part)} - {"value"} if isinstance(part, dict) else () for part in value
        ]
        # {"name": "size", "value": 1} is no record.
        if len(value) > 1 and all(len(names) > 1 for names in keys):
            inner += [(part, name) for part in value]
            return
        for part in value:
            yield from _leaves(part, name, depth + 1, inner)
