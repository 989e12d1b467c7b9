"""The function, class or section around some lines of source code, by indentation."""

import re

from lmkrag.index.view import DocumentView
from lmkrag.sentences.code_lines import CLOSES, measure_indentation

_ABOVE = re.compile(r"\*|//|/\*|#|--|@")
"""How a line begins that belongs to what is below it: a comment or a decorator."""


def enclosing_block(view: DocumentView, start: int, end: int, most: int) -> tuple[int, int]:
    """Return the largest block of at most ``most`` characters around characters ``[start, end)``.

    A block is a line with what is indented below it and the lines right above it (decorators, comments). Blocks of the
    outermost level come first; where one is too long, that of the next level inside it is tried.

    Returns:
        (start, end) in characters, whole lines; what was given where no block is short enough.
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
