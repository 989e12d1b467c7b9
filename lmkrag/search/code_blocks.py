"""The function, class or section around some lines of source code, by indentation."""

import re
from typing import TYPE_CHECKING

import numpy as np

from lmkrag.index.view import DocumentView
from lmkrag.search.candidates import Candidates
from lmkrag.sentences.code_lines import CLOSES, DEFINITION, measure_indentation

if TYPE_CHECKING:
    from lmkrag.search.results import Views


_ABOVE = re.compile(r"\*|//|/\*|#|--|@")  # how a line begins that belongs to what is below it


def enclosing_block(view: DocumentView, start: int, end: int, most: int) -> tuple[int, int]:
    """Return the largest block of at most ``most`` characters around characters ``[start, end)``, else these.

    A block is a line with what is indented below it and the lines right above it (decorators, comments). Blocks of the
    outermost level come first; where one is too long, that of the next level inside it is tried.
    """
    low = max(0, start - most)
    text = view.text(low, end + most)
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    complete = low == 0 or view.text(low - 1, low) == "\n"
    first = next((i for i, line in enumerate(lines) if starts[i + 1] > start - low and not line.isspace()), None)
    stop = next((i + 1 for i in reversed(range(len(lines))) if starts[i] < end - low and not lines[i].isspace()), None)
    if first is None or stop is None or stop <= first:
        return start, end
    indents = [measure_indentation(line) for line in lines]
    inside = [indents[i] for i in range(first, stop) if not lines[i].isspace()]
    for base in sorted({indents[i] for i in range(first + 1) if not lines[i].isspace() and indents[i] <= min(inside)}):
        top, bottom = _block(lines, indents, first, stop, base)
        if starts[bottom] - starts[top] <= most and (top > 0 or complete):
            return low + min(starts[top], start - low), low + max(starts[bottom], end - low)
    return start, end


def _block(lines: list[str], indents: list[int], first: int, stop: int, base: int) -> tuple[int, int]:
    """Lines ``[top, bottom)`` of the block that opens with indentation ``base``."""

    def closes(i: int) -> bool:
        return bool(CLOSES.match(lines[i].lstrip()))

    def is_inside(i: int) -> bool:
        return lines[i].isspace() or indents[i] > base or (indents[i] == base and closes(i))

    def continues(i: int) -> bool:
        return not lines[i].isspace() and indents[i] == base

    def leads(i: int) -> bool:  # a comment may have a star in each line
        return (continues(i) and not closes(i)) or lines[i].lstrip().startswith("*")

    top, bottom = first, stop
    while top > 0 and is_inside(top):
        top -= 1
    while top > 0 and leads(top - 1):
        top -= 1
    while bottom < len(lines) and is_inside(bottom):
        bottom += 1
    # Flat lines go on up to a blank one or to the end of a block, comments and decorators with what they stand above.
    is_flat = bottom == stop
    while bottom < len(lines) and continues(bottom) and (is_flat or _ABOVE.match(lines[bottom - 1].lstrip())):
        bottom += 1
        while bottom < len(lines) and is_inside(bottom) and not (is_flat and lines[bottom].isspace()):
            bottom += 1
            is_flat = False
    while bottom > stop and lines[bottom - 1].isspace():
        bottom -= 1
    return top, bottom


def find_definition(text: str, number: int) -> int | None:
    """Return the line, from 1, that names the function or class which line ``number`` stands in, or that it names."""
    lines = text.splitlines(keepends=True)[:number]
    start, limit = sum(map(len, lines)), len(text)
    for number, line in reversed(list(enumerate(lines, 1))):
        start -= len(line)
        if not line.isspace() and not CLOSES.match(line.lstrip()) and measure_indentation(line) < limit:
            if DEFINITION.match(text, start):
                return number
            limit = measure_indentation(line)
    return None


_IDENTIFIER = re.compile(r"(?<![\w.])[A-Za-z]\w*(?:_\w+|(?<=[a-z\d])[A-Z]\w*)+|\b[A-Za-z_]\w*(?=\(\))")
_ABOUT_SECONDARY = re.compile(r"\b(?:tests?|tested|testing|fixtures?|mock\w*|vendor\w*|generated)\b", re.IGNORECASE)
_SECONDARY = re.compile(
    r"(?:^|/)(?:tests?|testing|__tests__|spec|_?vendor(?:ed)?|third[_-]party|node_modules|dist|generated)/"
    r"|(?:^|/)(?:test_[^/]*|conftest|[^/]*(?:[._-](?:test|spec|min|generated|pb2?)))\.\w+$",
    re.IGNORECASE,
)


def find_identifiers(question: str) -> tuple[str, ...]:
    """Return the names of a question that are written as in source code; all of it if it is a single name.

    >>> find_identifiers("where is getUserById used, and close()?"), find_identifiers("retry")
    (('getUserById', 'close'), ('retry',))
    """
    alone = question.strip()
    if re.fullmatch(r"[A-Za-z_]\w*", alone):
        return (alone,)
    return tuple(dict.fromkeys(match[0] for match in _IDENTIFIER.finditer(question)))


def asks_about_tests(question: str) -> bool:
    """Return whether a question is about tests, or files that were generated or copied from elsewhere."""
    return _ABOUT_SECONDARY.search(question) is not None


def is_secondary(doc_id: str) -> bool:
    """Return whether a file of source code is a test, was generated, or was copied from elsewhere.

    >>> is_secondary("src/app_test.go"), is_secondary("tests/data.py"), is_secondary("src/testament.py")
    (True, True, False)
    """
    return _SECONDARY.search(doc_id) is not None


def rank_code(candidates: Candidates, views: "Views", identifiers: tuple[str, ...], *, about_tests: bool) -> Candidates:
    """Return candidates with definitions of a question's names raised, secondary files lowered but ``about_tests``."""
    weights = candidates.weights
    secondary, defined = (np.ones(len(candidates.sentences), np.float32) for _ in range(2))
    for position in range(len(candidates.sentences)):
        row = views.view(position).row
        if row.kind != "code":
            continue
        if not about_tests and is_secondary(row.doc_id):
            secondary[position] = weights.secondary
        if identifiers:
            found = DEFINITION.finditer(views.sentence(position))
            if any(definition["name"] in identifiers for definition in found):
                defined[position] = weights.definition
    for name, factor in (("tests and generated code", secondary), ("definition", defined)):
        if (factor != 1).any():
            candidates = candidates.times(name, factor)
    return candidates
