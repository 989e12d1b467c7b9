"""Find tables in PDFs: lines whose words stand far apart. Tabs replace the gaps between columns."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

YEAR = r"(?:19|20)\d\d"  # alone among numbers it names a column

_LINE = re.compile(r"[^\n]+")
_GAP = re.compile(r"(?<=\S) (?=\S)|(?<=\S)(?=[-–—\d$(])")
_AMOUNT = re.compile(
    r"(?:(?:[$€£¥]|[A-Z]{3}) ?)?[(+\-–−]?[$€£¥]?\d[\d,.]*(?: ?[)%x])*|[-–—]|n/?[am]\b",
    re.IGNORECASE,
)
_BEFORE_AMOUNT, _AFTER_AMOUNT = "$€£¥", ")%"
_WIDE = 0.8  # of the height of a line: a space takes about 0.3, in justified text some 0.5
_INDENT = 4.0  # the same, from where the names of rows begin, for a line that has none
_FEWEST_GAPS, _FEWEST_ROWS = 2, 2  # of a row, of a table
_SHORT, _ENDS = 60, (*"0123456789", ")", "%")
_BETWEEN = 2  # lines between two rows of one table: labels of groups of rows

Box = tuple[float, float, float, float]  # (left, top, right, bottom) as shares of a page


class Rectangle(NamedTuple):
    """Where a character or a line stands on a page, in points from the lower left corner."""

    left: float
    bottom: float
    right: float
    top: float

    @property
    def height(self) -> float:
        """The height, in points."""
        return self.top - self.bottom


# The number of a character on its page, or where it stands if it is none of the page's.
Source = int | Rectangle
# Gives the rectangle of a character; None for one that has none.
Measure = Callable[[int], Rectangle | None]
# What takes the place of ``[start, stop)`` in a text; its box, if of no character.
Edit = tuple[int, int, str, Rectangle | None]


def apply_edits(
    text: str, sources: Sequence[Source], edits: Iterable[Edit]
) -> tuple[str, list[Source]]:
    """Return a text with edits, and the sources of its characters.

    Args:
        text: the text of a page.
        sources: for each character of the text its number on the page, or its box.
        edits: edits by their places; one inside of an earlier one is left out.
    """
    pieces, position = [], 0
    changed: list[Source] = []
    for start, stop, replacement, box in edits:
        if start < position:
            continue
        pieces += [text[position:start], replacement]
        changed += sources[position:start]
        changed += [sources[min(start, len(text) - 1)] if box is None else box] * len(replacement)
        position = stop
    return "".join([*pieces, text[position:]]), [*changed, *sources[position:]]


def mark_columns(text: str, box: Measure) -> Iterator[Edit]:
    """Yield edits that put tabs between the columns of the tables of a page.

    A table is made of lines with several amounts whose words stand far apart, two at least, and the
    line above them if it is divided like that. A tab takes the place of a space. It is added where
    the column of names is empty, and where PDFium has no space, which happens before a single
    character.

    Args:
        text: the text of the page.
        box: returns the rectangle of a character; None if it has none.
    """
    spans = [line.span() for line in _LINE.finditer(text)]
    rows = [_may_be_row(text[start:end]) for start, end in spans]
    for first, stop in _runs(rows):
        for gap in _divide_rows(text, spans[max(0, first - 1) : stop], box):
            yield gap, gap + 1 if text[gap] == " " else gap, "\t", None


def _may_be_row(line: str) -> bool:
    """Return whether a line has several amounts, or is short and ends with one; the page
    decides.
    """
    amounts = [word for word in line.split() if _AMOUNT.fullmatch(word)]
    return len(amounts) >= _FEWEST_GAPS or (len(line) <= _SHORT and line.rstrip().endswith(_ENDS))


def _divide_rows(text: str, spans: Sequence[tuple[int, int]], box: Measure) -> Iterator[int]:
    """Yield the gaps between the columns of some lines; none if fewer than two are divided like
    rows.
    """
    lines = [(box(start), start, _find_gaps(text, start, end, box)) for start, end in spans]
    body = [place for place, _, gaps in lines if place and len(gaps) >= _FEWEST_GAPS]
    if len(body) < _FEWEST_ROWS:
        return
    edge = min(place.left + _INDENT * place.height for place in body)
    for place, start, gaps in lines:
        if gaps and place and place.left > edge:
            gaps.insert(0, start)  # years above the amounts: nothing above the names
        if len(gaps) >= _FEWEST_GAPS:
            yield from gaps


def _runs(rows: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """Yield the (first, stop) of lines that may be rows of one table, and what stands between
    them.
    """
    first = None
    for number, row in enumerate([*rows, False]):
        if row and first is None:
            first = number
        elif first is not None and not row and not any(rows[number : number + _BETWEEN + 1]):
            yield first, number
            first = None


def _find_gaps(text: str, start: int, end: int, box: Measure) -> list[int]:
    """Return the spaces of a line that divide two columns, and the characters that begin one
    without a space before them.
    """
    gaps = []
    for gap in _GAP.finditer(text, start, end):
        before, after = gap.start() - 1, gap.end()
        if text[before] in _BEFORE_AMOUNT or text[after] in _AFTER_AMOUNT:
            continue
        if are_apart(box(before), box(after), _WIDE):
            gaps.append(gap.start())
    return gaps


def are_apart(left: Rectangle | None, right: Rectangle | None, least: float) -> bool:
    """Return whether the space between two characters is wider than ``least`` heights."""
    return bool(left and right and right.left - left.right > least * left.height)
