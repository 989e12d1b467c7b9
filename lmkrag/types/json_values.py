"""Convert values of files and callers to values that JSON, UTF-8 and SQLite can hold."""

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date, time
from itertools import count, islice
from numbers import Integral, Real
from typing import Any

MAX_DEPTH = 32  # levels of lists and mappings inside each other
MAX_VALUES = 10_000  # values inside one
_MAX_INTEGER = 1 << 63
_MAX_DECIMAL_BITS = 13_000  # Python refuses to write integers of more than 4,300 digits


def to_json_value(value: Any) -> Any:
    """Return a value as JSON types: text that UTF-8 can hold, finite numbers, lists, mappings with
    text as keys.

    Dates become ISO 8601; infinite numbers, NaN and integers above 64 bits become text; anything
    else becomes ``str(value)``.

    Raises:
        ValueError: it is nested more than 32 levels deep, or holds more than 10,000 values.
    """
    values = count(1)

    def convert(value: Any, depth: int) -> Any:
        if next(values) > MAX_VALUES:
            raise ValueError(f"it holds more than {MAX_VALUES:,} values")
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return replace_surrogates(value)
        if isinstance(value, Integral):
            number = int(value)
            if -_MAX_INTEGER <= number < _MAX_INTEGER:
                return number
            return str(number) if number.bit_length() < _MAX_DECIMAL_BITS else hex(number)
        if isinstance(value, Real):
            return float(value) if math.isfinite(value) else str(float(value))
        if isinstance(value, date | time):
            return value.isoformat()
        if isinstance(value, Mapping | list | tuple | set | frozenset):
            if depth == MAX_DEPTH:
                raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels")
            if isinstance(value, Mapping):
                return {
                    str(convert(key, MAX_DEPTH)): convert(item, depth + 1)
                    for key, item in value.items()
                }
            return [convert(item, depth + 1) for item in islice(value, MAX_VALUES + 1)]
        return replace_surrogates(str(value))

    return convert(value, 0)


def replace_surrogates(text: str) -> str:
    """Return text of the same length that UTF-8 can hold: lone surrogates become U+FFFD."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return "".join(
            "\ufffd" if "\ud800" <= character <= "\udfff" else character for character in text
        )
    return text


def to_json(value: Any) -> Any:
    """Return a dataclass as a dictionary of its fields and the properties named in ``derived``,
    recursively.

    Tuples become lists.
    """
    if is_dataclass(value):
        names = [*(field.name for field in fields(value)), *getattr(value, "derived", ())]
        return {name: to_json(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    return value
