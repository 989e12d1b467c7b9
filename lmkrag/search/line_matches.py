"""Results as lines of their files, as grep prints them."""

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
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
    """Lines of a file, numbered from 1, or of the passage itself in a file without lines, such as a
    PDF.
    """

    path: str  # absolute, or from the working directory if that is shorter
    lines: list[str]  # all of the file's, or of the passage's
    first: int
    last: int
    span: Span
    definition: int | None = None  # the line that names the function or class around them

    @property
    def is_numbered(self) -> bool:
        """Whether the lines are those of the file."""
        return self.span.line is not None

    def locate(self, number: int) -> str:
        """Return the number of a line, or the page, row or paragraph of one of a passage."""
        if self.is_numbered:
            return str(number)
        start = self.span.start + sum(len(line) + 1 for line in self.lines[: number - 1])
        return self.span.locate(start).removeprefix(self.span.doc_id).lstrip(":, ")


def find_lines(
    spans: Sequence[Span], query: str, pattern: re.Pattern[str] | None = None
) -> Iterator[LineMatch]:
    """Yield the best lines of each passage's best sentence, or every line of the passages that a
    pattern matches.

    Files that can't be read any more are left out. The words of the query choose the first line to
    show. No line is shown twice.
    """
    shown: defaultdict[tuple[str, int], set[int | None]] = defaultdict(set)
    for match in _find_each(spans, query, pattern):
        known = shown[match.path, 0 if match.is_numbered else match.span.start]
        new = _find_new(range(match.first, match.last + 1), known)
        if not new:
            continue
        definition = None if match.definition in known else match.definition
        known.update([*new, definition])
        yield replace(match, first=new[0], last=new[-1], definition=definition)


def _find_new(numbers: range, known: Set[int | None]) -> list[int]:
    """Return the first numbers in a row that are not known."""
    from_new = dropwhile(known.__contains__, numbers)
    return list(takewhile(lambda number: number not in known, from_new))


def _find_each(
    spans: Sequence[Span], query: str, pattern: re.Pattern[str] | None
) -> Iterator[LineMatch]:
    """Yield the lines of each passage."""
    words, names = find_stems(query), find_identifiers(query)
    texts: dict[str, str] = {}
    for span in spans:
        if span.line is None:
            text, line, last_line = span.text, 1, 1 + span.text.count("\n")
        else:
            if span.path not in texts:
                try:
                    texts[span.path] = Path(span.path).read_text("utf-8", "replace")
                except OSError:
                    continue  # it was removed meanwhile
            text, line, last_line = texts[span.path], span.line, span.last_line or span.line
        lines = text.removesuffix("\n").split("\n")  # a form feed ends no line
        path = min(span.path, os.path.relpath(span.path), key=len)
        if pattern is not None:
            for number in range(line, min(len(lines), last_line) + 1):
                if pattern.search(lines[number - 1]):
                    yield LineMatch(path, lines, number, number, span)
            continue
        best = span.hits[0] if span.hits else span
        start = max(0, best.start - span.start)
        first = line + span.text.count("\n", 0, start)
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
