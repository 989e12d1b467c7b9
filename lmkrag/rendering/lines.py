"""Rewrite reStructuredText, notes of MkDocs and table rows without their header as Markdown, line
by line.

A line keeps its source, so that elements made of it know their offsets. Directives are those of
docutils and Sphinx, https://docutils.sourceforge.io/docs/ref/rst/directives.html.
"""

import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

from lmkrag.formats.markup import (
    CODE_DIRECTIVES,
    MOST_MATTER,
    UnseenLines,
    is_admonition,
    measure_matter,
    show_admonition,
)
from lmkrag.sentences.split import split_front_matter, split_properties
from lmkrag.sentences.table_rows import is_row, is_rule

_LINE = re.compile(r"([^\r\n]*)(?:\r\n|\r|\n|\Z)")
_DIRECTIVE = re.compile(r"\s*\.\. (?:\|[^|]*\| )?([\w:+.-]+)::\s*(.*)")
_COMMENT = re.compile(r"\s*\.\.(?:\s|$)")
_FIELD = re.compile(r"\s*:[^:`]+:(?:\s|$)")
_ADORNMENT = re.compile(r"([=\-~^\"'`#*+.:_])\1{2,}\s*")
_RST_TABLE = re.compile(r"\s*(?:[=-]+(?: +[=-]+)+|\+[-=+]+\+)\s*")
_NOTE = re.compile(r"\s*(?:!!!|\?\?\?\+?)\s+(\w+)(?:\s*\"([^\"]*)\")?\s*")
_HIDDEN = {
    "toctree",
    "contents",
    "index",
    "highlight",
    "meta",
    "module",
    "currentmodule",
    "py:module",
    "raw",
}
_SHOWS_CODE = {*CODE_DIRECTIVES, "literalinclude", "math"}
_FENCE, _DEEPEST = "```", 100  # columns; each level of recursion needs one


class Line(NamedTuple):
    """A line as Markdown, with its source.

    Attributes:
        shown: the line as Markdown.
        source: the line as it stands in the document; empty if it was added.
        start: offset of the source in the document; -1 if the line was added.
    """

    shown: str
    source: str = ""
    start: int = -1


def split_lines(text: str, start: int) -> list[Line]:
    """Return the lines of a text.

    Args:
        text: the text.
        start: its offset in the document.
    """
    lines = [Line(match[1], match[1], start + match.start()) for match in _LINE.finditer(text)]
    return lines[:-1] if len(lines) > 1 and not lines[-1].source else lines


def add_rules(lines: Iterable[Line], header: str) -> Iterator[Line]:
    """Put a header and a rule before rows of tables that have none, since a table of Markdown needs
    both.

    Args:
        lines: the lines.
        header: the first row of a table that begins before the lines; empty if there is none.
    """
    lines = list(lines)
    begins, fenced = True, False
    for number, line in enumerate(lines):
        fenced = fenced != line.shown.lstrip().startswith((_FENCE, "~~~"))
        row = is_row(line.shown) and not fenced
        following = lines[number + 1].shown if number + 1 < len(lines) else ""
        is_first = row and begins and not (is_rule(line.shown) and "-" in line.shown)
        if is_first and not (is_rule(following) and "-" in following):
            if header and "|" in header:
                yield from (Line(header), _rule(header), line)
            else:
                yield from (line, _rule(line.shown))
        else:
            yield line
        begins = not row
        header = header if begins and not line.shown.strip() else ""


def _rule(row: str) -> Line:
    """Return the rule below a header, with as many columns."""
    columns = max(1, row.strip().strip("|").count("|") + 1)
    return Line("|" + "---|" * columns)


def hide_unseen(lines: Sequence[Line]) -> Iterator[Line]:
    """Leave out lines of Markdown that are mark-up alone, those of code aside, and the properties
    of front matter that are for programs.
    """
    number, fence, unseen = 0, "", UnseenLines()
    if lines and lines[0].start == 0:  # of the document
        number = len(split_front_matter(line.shown for line in lines)[0])
        yield from _show_properties(lines[:number])
    while number < len(lines):
        line = lines[number]
        number += 1
        opening = line.shown.lstrip()[:3]
        if opening in (_FENCE, "~~~") and fence in ("", opening):
            fence = "" if fence else opening
        if fence:
            yield line
        elif matter := measure_matter(
            [each.shown for each in lines[number - 1 : number - 1 + MOST_MATTER]]
        ):
            number += matter - 1
        elif is_admonition(line.shown):
            yield from (Line(""), line._replace(shown=show_admonition(line.shown)), Line(""))
        elif line.shown.strip() and unseen.has(line.shown):
            yield line._replace(shown="")
        else:
            yield line


def _show_properties(lines: Sequence[Line]) -> Iterator[Line]:
    """The properties of front matter that are for readers, with a blank line after each."""
    if not lines:
        return
    number = 0
    for _, part, kind in split_properties([f"{line.shown}\n" for line in lines]):
        first, number = number, number + part.count("\n")
        if kind == "record":
            yield from (*lines[first:number], Line(""))


def shape_notes(lines: Sequence[Line]) -> Iterator[Line]:
    """Write the notes of MkDocs (``!!! tip "Title"``) as paragraphs with a name in bold."""
    number = 0
    while number < len(lines):
        note = _NOTE.fullmatch(lines[number].shown)
        number += 1
        if note is None or _indent(lines[number - 1].source) > _DEEPEST:
            yield lines[number - 1]
            continue
        yield from (
            Line(""),
            Line(f"**{note[2] or note[1].capitalize()}**", *lines[number - 1][1:]),
            Line(""),
        )
        stop = _block_end(lines, number, len(note[0]) - len(note[0].lstrip()))
        yield from shape_notes(_dedent(lines[number:stop]))
        number = stop


def shape_rst(lines: Sequence[Line]) -> Iterator[Line]:
    """Write reStructuredText as Markdown: headings, literal blocks and directives.

    Comments and targets are left out.
    """
    number = 0
    while number < len(lines):
        line = lines[number]
        text = line.shown
        number += 1
        if (directive := _DIRECTIVE.fullmatch(text)) is not None and _indent(
            line.source
        ) <= _DEEPEST:
            number = yield from _shape_directive(lines, number, directive)
        elif _COMMENT.match(text):
            number = yield from _hide(lines, number, _indent(text))
        elif _RST_TABLE.fullmatch(text):
            below = (lines[place] for place in range(number, len(lines)))
            table = [line, *takewhile(lambda row: row.shown.strip(), below)]
            yield from (Line(_FENCE), *table, Line(_FENCE))
            number += len(table) - 1
        elif text.rstrip().endswith("::"):
            yield line._replace(shown=text.rstrip()[:-1] if text.strip() != "::" else "")
            number = yield from _fence(lines, number, _indent(text))
        elif _ADORNMENT.fullmatch(text):
            yield line._replace(shown="")  # a heading has been given its mark already
        elif text.strip() and number < len(lines) and _is_underline(text, lines[number].shown):
            yield line._replace(shown=f"## {text.strip()}")
        elif _FIELD.match(text) and (number == 1 or _FIELD.match(lines[number - 2].shown)):
            yield from (line._replace(shown=text.strip()[1:]), Line(""))
        else:
            yield line


def _shape_directive(
    lines: Sequence[Line], number: int, directive: "re.Match[str]"
) -> Generator[Line, None, int]:
    """Write a directive and its block; return the number of the line after them."""
    name, argument = directive[1].lower(), directive[2].strip()
    line = lines[number - 1]
    indent = _indent(line.shown)
    if name in _SHOWS_CODE:
        yield line._replace(shown="")
        return (yield from _fence(lines, number, indent, options=True))
    if name in _HIDDEN:
        return (yield from _hide(lines, number, indent))
    stop = _block_end(lines, number, indent)
    title = name.rpartition(":")[2].capitalize()
    is_picture = name in ("image", "figure")
    yield line._replace(shown="" if is_picture else f"**{title}** {argument}".rstrip())
    body = _dedent(lines[number:stop])
    yield from shape_rst(
        [inner._replace(shown="") if _FIELD.match(inner.shown) else inner for inner in body]
    )
    return stop


def _fence(
    lines: Sequence[Line], number: int, indent: int, *, options: bool = False
) -> Generator[Line, None, int]:
    """Write an indented block as fenced code; return the number of the line after it."""
    stop = _block_end(lines, number, indent)
    block = _dedent(lines[number:stop])
    while block and (not block[0].shown.strip() or (options and _FIELD.match(block[0].shown))):
        block.pop(0)
    if block:
        yield from (Line(""), Line(_FENCE), *block, Line(_FENCE))
    return stop


def _hide(lines: Sequence[Line], number: int, indent: int) -> Generator[Line, None, int]:
    """Leave out the line before ``number`` and the block under it."""
    stop = _block_end(lines, number, indent)
    yield from (line._replace(shown="") for line in lines[number - 1 : stop])
    return stop


def _is_underline(title: str, below: str) -> bool:
    return bool(_ADORNMENT.fullmatch(below)) and len(below.rstrip()) >= len(title.strip())


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def _block_end(lines: Sequence[Line], number: int, indent: int) -> int:
    """Return where the lines end that are blank or indented by more than ``indent``; blank lines at
    the end do not count.
    """
    stop = number
    for position in range(number, len(lines)):
        text = lines[position].shown
        if text.strip() and _indent(text) <= indent:
            break
        if text.strip():
            stop = position + 1
    return stop


def _dedent(lines: Sequence[Line]) -> list[Line]:
    """Return lines without their common indentation."""
    least = min((_indent(line.shown) for line in lines if line.shown.strip()), default=0)
    return [line._replace(shown=line.shown[least:]) for line in lines]
