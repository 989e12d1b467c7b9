"""Rows of tables: with bars below a header (``| bolt | 340 |``), with tabs, as in LaTeX or in
reStructuredText.

Rows of data are written with the names of their columns: ``name: bolt | stock: 340``.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from lmkrag.formats.columns import YEAR
from lmkrag.sentences.structure import count_line_ends
from lmkrag.specs import Sentence, Text

LATEX_RULE = r"\s*\\(?:hline|(?:top|mid|bottom|cmid)rule|cline)\b[^&\n]*$"
"""A line of LaTeX that only divides the rows of a table."""
_RULE = re.compile(rf"[\s|:+=-]*|{LATEX_RULE}\s*")
# Of a caption, the commands of LaTeX and the directive of reStructuredText.
_COMMAND = re.compile(
    r"\\(?:caption|(?:sub){0,2}section)\*?\{([^{}\n]*)\}|\\\w+\*?(?:\{[^{}\n]*\}|\[[^\]\n]*\])*"
    r"|\.\. [\w-]+::"
)
_PIPE = re.compile(r"(?<!\\)\|")
_TAB, _AMPERSAND, _SPACES = (re.compile(sign) for sign in (r"\t", r"(?<!\\)&", r"\s{2,}"))
_ENDS, _WORDS = re.compile(r"[.!?:;,–-]$"), re.compile(r"[^\W\d_]{3}|[^\x00-\x7f]{2}")
_ROW_END = re.compile(r"\\\\[^&\n]*$")  # of LaTeX
_YEAR = re.compile(rf"(?:.*\D)?{YEAR}\D*")
_ABOVE = 2  # sentences before a table in which its caption is looked for
_CAPTIONS, _LONGEST_CAPTION = 3, 100  # lines of a caption, and characters of each, at most
# a sentence ends with one of these, has as many words, and is no caption
_STOPS, _FEWEST_WORDS = ((".", "!", "?"), 7)
_LONGEST_COLUMNS = 160  # characters of the names of a table's columns that its rows are read with
_RUNNING = re.compile(r"^\d+ |\b[ivxl]+$|^\D* \d{1,3}$")  # a header of a page
_LABELS = 1  # lines in a row that may stand between the rows of one table


def is_row(line: str) -> bool:
    """Return whether a line is a row between bars, or one of at least three columns with tabs
    between them.
    """
    return line.lstrip().startswith("|") or is_tabbed(line)


def is_tabbed(line: str) -> bool:
    """Return whether a line is a row of at least three columns with tabs between them; tabs before
    its first value alone indent it.
    """
    return line.count("\t") > 1 and "\t" in line.lstrip()


def is_rule(line: str) -> bool:
    """Return whether a line only divides a header from its rows, or is blank."""
    return _RULE.fullmatch(line) is not None


def split_row(line: str, start: int) -> list[tuple[str, int]]:
    """Return the values of a row, each with its offset.

    Args:
        line: the row.
        start: offset of the row.
    """
    if line.lstrip().startswith("|"):
        divider = _PIPE
    elif _TAB.search(line):
        divider = _TAB
    else:
        divider = _AMPERSAND if _AMPERSAND.search(line) else _SPACES
    line = line.rstrip()
    if divider is _AMPERSAND:
        line = _ROW_END.sub("", line)
    cells, first = [], 0
    for end, following in [*(match.span() for match in divider.finditer(line)), (len(line), 0)]:
        value = line[first:end]
        cells.append((value.strip(), start + first + len(value) - len(value.lstrip())))
        first = following
    if divider is not _PIPE:
        return cells
    return cells[1:] if cells[-1][0] else cells[1:-1]  # a row ends with a bar or without


def read_record(line: str, start: int) -> Iterator[tuple[str, str, int]]:
    """Yield column, value and offset of the value for each part of a row such as ``name: bolt |
    stock: 340``.

    Args:
        line: the row.
        start: offset of the row.
    """
    position = 0
    for part in line.split(" | "):
        column, _, value = part.partition(": ")
        yield column.strip(), value.strip(), start + position + len(part) - len(value.lstrip())
        position += len(part) + 3


def is_header(values: Sequence[str]) -> bool:
    """Return whether a row names columns: behind its first value it has words, and no numbers but
    years.
    """
    return all(_YEAR.fullmatch(value) or not any(map(str.isdigit, value)) for value in values[1:])


def add_contexts(text: Text, sentences: Iterable[Sentence]) -> Iterator[Sentence]:
    """Yield the sentences of a text, rows of tables with the caption and the columns as their
    context.

    A row alone does not say what its numbers are. The first row names the columns; in a table with
    tabs, which may be continued over pages and blank lines, any row does that has no numbers but
    years. A short line between two rows is a label of the rows below it, and short lines above a
    table with tabs are its heading.

    Args:
        text: the text, in memory or on disk.
        sentences: its sentences, in order.
    """
    above: list[Sentence] = []  # the last ones since the last row, held back
    since_row = _LABELS + 1
    caption = columns = label = ""
    ended = True  # whether a blank line ended the table before
    unnamed = False  # whether the columns of the table have no names yet
    for sentence in sentences:
        if sentence.kind != "row":
            if len(above) == _ABOVE:
                yield above.pop(0)
            above.append(sentence)
            since_row += 1
            continue
        line = text[sentence.start : sentence.end]
        values = _read_values(line)
        tabbed, is_far = is_tabbed(line), since_row > _LABELS
        begins = is_far or (ended and not tabbed)
        # A blank header says that they have no names.
        unnamed = (unnamed or begins) and bool(values)
        names = _may_name_columns(line, values, unnamed)
        has_captions = tabbed and (is_far or (ended and names))
        ended = count_line_ends(line) > 1
        heading = " ".join(_read_caption(text, above))
        if begins or (names and above):  # columns are named anew
            caption, columns, label = heading, "", ""
        elif above:
            label = heading
        yield from _mark_captions(text, above) if has_captions else above
        above, since_row = [], 0
        if names:
            columns, unnamed = " ".join(values)[:_LONGEST_COLUMNS], False
        if names or not columns or is_rule(line):
            yield sentence
        else:
            yield replace(sentence, context=" ".join(filter(None, (caption, columns, label))))
    yield from above


def _read_values(row: str) -> list[str]:
    """Return the values of a row, without empty ones."""
    return [value for value, _ in split_row(row, 0) if value]


def _may_name_columns(row: str, values: Sequence[str], unnamed: bool) -> bool:
    """Return whether a row names columns, by its values and whether its table has no names yet."""
    if is_rule(row):
        return False
    return is_header(values) if is_tabbed(row) else unnamed


def name_pieces(text: Text, sentences: Iterable[Sentence]) -> Iterator[Sentence]:
    """Yield the sentences of a file of records; the pieces of a long record have its first value as
    their context.
    """
    name = ""
    for sentence in sentences:
        if (
            sentence.kind != "record"
            or sentence.start == 0
            or text[sentence.start - 1 : sentence.start] in "\r\n"
        ):
            name = text[sentence.start : sentence.start + _LONGEST_COLUMNS].partition(" | ")[0]
            yield sentence
        else:
            yield replace(sentence, context=name)


def _mark_captions(text: Text, above: Sequence[Sentence]) -> Iterator[Sentence]:
    """Mark the last sentences as headings if they are short lines that end like headings."""
    first = len(above)
    while first and _is_caption(text, above[first - 1]):
        first -= 1
    if first < len(above):
        start = above[first].start
        before = text[max(0, start - 2 * _LONGEST_CAPTION) : start]
        if before.strip() and count_line_ends(before) <= 1:  # it goes on
            first = len(above)
    yield from above[:first]
    yield from (replace(sentence, kind="heading") for sentence in above[first:])


def _read_caption(text: Text, above: Iterable[Sentence]) -> list[str]:
    """Return the short lines right above a table."""
    lines = "".join(text[sentence.start : sentence.end] for sentence in above).splitlines()
    captions: list[str] = []
    for line in reversed(lines):
        words = " ".join(_COMMAND.sub(r"\1", line).split()).strip("#*_ :")
        # "Alder Foods, Inc." is none.
        is_prose = words.endswith(_STOPS) and len(words.split()) >= _FEWEST_WORDS
        if len(words) > _LONGEST_CAPTION or len(captions) == _CAPTIONS or is_prose:
            break
        if any(map(str.isalpha, words)):
            captions.append(words)
    return captions[::-1]


def _is_caption(text: Text, sentence: Sentence) -> bool:
    """Return whether a sentence may be the caption of a table."""
    lines = text[sentence.start : sentence.end].split("\n")
    lines = [line.strip() for line in lines if line.strip()]
    short = 0 < len(lines) <= _CAPTIONS + 1 and all(len(line) <= _LONGEST_CAPTION for line in lines)
    short = short and _WORDS.search(lines[-1]) is not None and not _ENDS.search(lines[-1])
    return (
        sentence.kind == "text"
        and short
        and not lines[0][0].islower()
        and not _RUNNING.search(lines[0])
    )
