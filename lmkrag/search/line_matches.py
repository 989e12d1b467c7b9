"""Results as lines of their files, as grep prints them."""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile, takewhile
from pathlib import Path

from lmkrag.language.question import find_identifiers
from lmkrag.language.terms import find_stems
from lmkrag.results import Span
from lmkrag.search.code_blocks import find_definitions
from lmkrag.sentences.code_lines import DEFINITION
from lmkrag.sentences.declarations import declares

_MOST_LINES = 3  # of a result


@dataclass(frozen=True, slots=True)
class LineMatch:
    """Lines of a file, numbered from 1."""

    path: str  # absolute, or from the working directory if that is shorter
    lines: list[str]  # all of the file's
    first: int
    last: int
    span: Span
    definition: int | None = None  # the line that names the function or class around them


def find_lines(
    spans: Sequence[Span], query: str, pattern: re.Pattern[str] | None = None
) -> Iterator[LineMatch]:
    """Yield the best lines of each passage's best sentence, or every line of the passages that a
    pattern matches.

    Files without lines, such as PDFs, and those that can't be read any more are left out. The words
    of the query choose the first line to show. No line is shown twice.
    """
    shown: set[tuple[str, int | None]] = set()
    for match in _find_each(spans, query, pattern):
        places = [(match.path, number) for number in range(match.first, match.last + 1)]
        new = list(takewhile(lambda p: p not in shown, dropwhile(shown.__contains__, places)))
        if not new:
            continue
        definition = match.definition
        if (match.path, definition) in shown:
            definition = None
        shown.update([*new, (match.path, definition)])
        yield replace(match, first=new[0][1], last=new[-1][1], definition=definition)


def _find_each(
    spans: Sequence[Span], query: str, pattern: re.Pattern[str] | None
) -> Iterator[LineMatch]:
    """Yield the lines of each passage."""
    words, names = find_stems(query), find_identifiers(query)
    texts: dict[str, str] = {}
    for span in spans:
        if span.line is None:
            continue
        if span.path not in texts:
            try:
                texts[span.path] = Path(span.path).read_text("utf-8", "replace")
            except OSError:
                continue  # it was removed meanwhile
        text = texts[span.path]
        lines = text.removesuffix("\n").split("\n")  # a form feed ends no line
        path = min(span.path, os.path.relpath(span.path), key=len)
        if pattern is not None:
            for number in range(span.line, min(len(lines), span.last_line or span.line) + 1):
                if pattern.search(lines[number - 1]):
                    yield LineMatch(path, lines, number, number, span)
            continue
        best = span.hits[0] if span.hits else span
        start = max(0, best.start - span.start)
        first = span.line + span.text.count("\n", 0, start)
        inside = span.text[start : best.end - span.start].rstrip()
        last = min(len(lines), first + inside.count("\n"))
        first = max(
            range(first, last + 1),
            key=lambda number: _weigh(lines[number - 1], words, names),
            default=first,
        )
        has_definition = span.kind == "code" and first <= last
        definition = next(find_definitions(text, first), None) if has_definition else None
        last = min(last, first + _MOST_LINES - 1)
        while last > first and not lines[last - 1].strip():
            last -= 1
        yield LineMatch(path, lines, first, last, span, definition)


def _weigh(line: str, words: Sequence[str], names: Sequence[str]) -> float:
    """The number of the question's words in a line, more if it defines something, and -1 if it is
    blank.
    """
    if not line.strip():
        return -1
    lowered = line.lower()
    defines = 0.5 * bool(DEFINITION.match(line)) + bool(names and declares(line, names))
    return sum(word in lowered for word in words) + defines
