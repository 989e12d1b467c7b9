"""Count how often the forms of a PDF are drawn: PDFium would draw one that draws itself twice 2^40
times.

A form (ISO 32000-1, 8.10) is a stream that pages draw by the operator ``Do``, and that may draw
others.
"""

import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from typing import NamedTuple

MOST_DRAWN = (
    100_000  # forms that one may draw, with those that they draw: a drawing has some hundred
)
_DEEPEST = 40  # forms in each other, which PDFium follows
_MOST_UNPACKED = 32 << 20  # bytes of a stream
_LONGEST_NAME = 24  # bytes of the numbers before "obj"
_NUMBER = re.compile(rb"(\d{1,9})\s{1,9}\d{1,5}\s{1,9}$")
_PACKED_OBJECTS, _FORM = re.compile(rb"/Type\s*/ObjStm\b"), re.compile(rb"/Subtype\s*/Form\b")
_FLATE = re.compile(rb"/Filter\s*(?:/Fl|/FlateDecode|\[\s*/Fl(?:ateDecode)?\s*\])(?!\w)")
_DRAW = re.compile(rb"/([^\s/<>\[\](){}%]+)\s+Do\b")
_RESOURCES = re.compile(rb"/Resources\s+(\d+)\s+\d+\s+R\b")
_OBJECTS = re.compile(rb"/XObject\s*(?:<<([^<>]*)>>|(\d+)\s+\d+\s+R\b)")
_ENTRY = re.compile(rb"/([^\s/<>\[\](){}%]+)\s+(\d+)\s+\d+\s+R\b")


class _Object(NamedTuple):
    """An object of a PDF: its dictionary or other value, and where its stream begins and ends in
    the file.
    """

    value: bytes
    start: int = 0
    stop: int = 0


def count_drawn(data: bytes) -> int:
    """Return how many forms are drawn by the form that draws most, itself included.

    Above :data:`MOST_DRAWN` the number is not exact. What can't be unpacked here, as in an
    encrypted file, draws nothing.
    """
    objects = dict(_find_objects(data)) if b"/Form" in data else {}
    draws = {
        number: _find_draws(data, form, objects)
        for number, form in objects.items()
        if form.start and _FORM.search(form.value)
    }
    drawn = dict.fromkeys(draws, 1)
    for _ in range(_DEEPEST if any(draws.values()) else 0):
        counts = {
            number: 1 + sum(times * drawn.get(inner, 0) for inner, times in inside.items())
            for number, inside in draws.items()
        }
        drawn = {number: min(count, MOST_DRAWN + 1) for number, count in counts.items()}
    return max(drawn.values(), default=0)


def _find_objects(data: bytes) -> Iterator[tuple[int, _Object]]:
    """Yield the objects of a file by their numbers; objects that are packed in a stream follow the
    stream.
    """
    start = 0
    while (stop := data.find(b"endobj", start)) >= 0:
        head = data.find(b"obj", start, stop)
        number = _NUMBER.search(data, max(start, head - _LONGEST_NAME), head) if head >= 0 else None
        if number is not None:
            begins = data.find(b"stream", head, stop)
            found = _Object(data[head:stop])
            if begins >= 0:
                found = _Object(data[head:begins], begins + len("stream"), stop)
            yield int(number[1]), found
            if _PACKED_OBJECTS.search(found.value):
                yield from _unpack_objects(_read_stream(data, found))
        start = stop + len("endobj")


def _unpack_objects(data: bytes) -> Iterator[tuple[int, _Object]]:
    """Yield the objects in a stream, which begins with pairs of their numbers and places."""
    head = re.match(rb"(?:\s*\d{1,10}\s+\d{1,10}\b)+", data)
    numbers = [int(number) for number in head[0].split()] if head else []
    first = head.end() + 1 if head else 0
    places = [*numbers[1::2], len(data)]
    for number, (start, stop) in zip(numbers[::2], pairwise(places), strict=False):
        yield number, _Object(data[first + start : first + stop])


def _read_stream(data: bytes, found: _Object) -> bytes:
    """Return the content of a stream, as it is stored if it is damaged or packed in another way
    than Flate.
    """
    stream = data[found.start : found.stop].lstrip(b"\r\n")
    if _FLATE.search(found.value):
        with suppress(zlib.error):
            return zlib.decompressobj().decompress(stream, _MOST_UNPACKED)
    return stream


def _find_draws(data: bytes, form: _Object, objects: Mapping[int, _Object]) -> Counter[int]:
    """Return the numbers of what a form draws, and how often it does."""
    names = Counter(_DRAW.findall(_read_stream(data, form)))
    draws: Counter[int] = Counter()
    if not names:
        return draws
    resources = form.value
    if elsewhere := _RESOURCES.search(form.value):
        resources = _value_of(int(elsewhere[1]), objects)
    if drawable := _OBJECTS.search(resources):
        entries = drawable[1] if drawable[2] is None else _value_of(int(drawable[2]), objects)
        for name, number in _ENTRY.findall(entries):
            draws[int(number)] += names[name]
    return draws


def _value_of(number: int, objects: Mapping[int, _Object]) -> bytes:
    return objects[number].value if number in objects else b""
