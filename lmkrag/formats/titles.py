"""Headings of a page of a PDF: lines that are larger than its text, or bold where that is not."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from lmkrag.formats.columns import Edit, Measure, are_apart

_LINE = re.compile(r"\S(?:[^\n]*\S)?")
_LARGER, _LARGER_NUMBERED = 1.12, 1.06  # than most text: headings
_NO_SMALLER = 0.9  # than most text: bold text that may be a heading
_SAME = 0.06  # of a height: how lines of one heading differ
_LEADING = 2.0  # heights between the bottoms of lines of one heading, at most
_APART = 2.0  # heights of a letter between columns
_CENTRED = 0.1  # of the width of a title in the middle of a page
_MOST_LINES, _LONGEST = 3, 150  # of a heading
TITLE_MARK = "## "
ROMAN = "[IVXLC]{1,7}"
_TITLE = re.compile(r"(?:\W{0,2}[\dIVXLC]{1,5}[.)]?(?:\d++(?:\.\d+)*+)?\W++)?[^\W\d_].*[^\W\d_]{2}")
_NUMBERED = re.compile(r"(?:\d{1,2}(?:\.\d{1,2})*\.?|[^\W\d_][.)]) ?[^\W\d_]")
_PAGE_BEFORE, _PAGE_AFTER = re.compile(r"\d{3,} "), re.compile(r"[^\W\d_]\W+\d{1,4}$")
_TWO_WORDS = re.compile(r"\w \w")
CUT = re.compile(  # a line that goes on
    r"(?i)(?:^|\s)(?:a|an|and|as|at|but|by|for|from|in|into|is|of|on|or|that|the|to|with|und|oder"
    r"|der|die|das|dem|den|für|von"
    r"|mit|et|ou|de|du|des|la|le|les|à|y|o|e|el|los|las|del|di|il|en|van|het|&|are|was|be|has|have"
    r"|this|these|which)$|\([^)]*$"
    r"|(?<=[^\W\d_])\s(?:can|may|see|use|using|following|includes?|called)$"  # not "6. Use"
)
_NONE = re.compile(
    CUT.pattern + r"|\t|://|www\.|\S@\S|(?:[.…_*] ?){4,}|[,;:.!–—#-]$"
    r"|^(?:note|important|tip|warning|caution|hinweis|achtung|warnung|remarque|attention"
    r"|avertissement|nota|aviso)$"
    r"|^(?:figure|fig\.|table|tab\.|listing|algorithm|chart|abbildung|abb\.|tabelle|tableau|figura"
    r"|tabla|tabella|tabela)"
    r"\s*[A-Z]?[.-]?\d|^(?:page|seite|página|pagina)\s*\d"
    r"|^(?:\d\d?\.? (?:de "
    r")?)?(?:(?:janu|febru)ary?|m(?:ar(?:ch|s|zo)|ärz|a[iy]o?)|a(?:p|v|b)ril|a(?:ugust|oût|gosto)"
    r"|ju(?:n[eio]+|l[yio]+|in|illet)|\w{3,5}emb(?:er|re)|o[ck]t[ou]b(?:er|re)|janvier|février"
    r"|enero|febrero)"
    r" (?:de )?(?:\d\d?,? )?\d{4}$"
)
_WORD = re.compile(r"[^\W\d_]{3,}")


# Gives the size of a character's font, in points, and whether it is bold.
Look = Callable[[int], tuple[float, bool]]


class _Line(NamedTuple):
    """A line of a page: where it begins and ends in its text, and how it looks."""

    start: int
    end: int
    look: tuple[float, bool]
    is_numbered: bool


def mark_titles(text: str, box: Measure, look: Look) -> Iterator[Edit]:
    """Yield edits that put ``##`` before the headings of a page, each on one line.

    Args:
        text: the text of the page.
        box: returns the rectangle of a character; None if it has none.
        look: returns the size of a character's font in points, and whether it is bold.
    """
    for start, end in _Page(text, box, look).find_titles():
        yield start, start, TITLE_MARK, None
        for place in range(start, end):
            if text[place] == "\n":
                yield place, place + 1, " ", None


class _Page:
    """Finds the headings of a page by its text, its lines, and how its characters look and
    stand.
    """

    def __init__(self, text: str, box: Measure, look: Look) -> None:
        self._text, self._box, self._look = text, box, look
        self._lines = [self._read_line(*match.span()) for match in _LINE.finditer(text)]

    def _read_line(self, start: int, end: int) -> _Line:
        """A line, which is as large as most of it, since its first letter may be larger, and bold
        if all of it is.
        """
        middle = (start + end) // 2
        if self._text[middle].isspace():
            middle -= 1
        sizes, bold = zip(*map(self._look, (start, middle, end - 1)), strict=True)
        is_numbered = _NUMBERED.match(self._text, start) is not None
        return _Line(start, end, (sorted(sizes)[1], all(bold)), is_numbered)

    def find_titles(self) -> Iterator[tuple[int, int]]:
        """Yield the (start, end) of headings, which may have several lines."""
        stands_out = self._compare_looks()
        first = 0
        while first < len(self._lines):
            stop = first + 1
            while stop < len(self._lines) and stands_out[first] and self._continues(first, stop):
                stop += 1
            if stop < len(self._lines) and stands_out[first] and self._is_heading(first, stop):
                yield self._lines[first].start, self._lines[stop - 1].end
            first = stop

    def _compare_looks(self) -> list[bool]:
        """Which lines are larger than most text of the page, or bold where that is not; none if
        most are: a poster.
        """
        sizes: Counter[float] = Counter()
        bold = 0
        for start, end, (size, is_bold), _ in self._lines:
            sizes[round(2 * size) / 2] += end - start
            bold += end - start if is_bold else 0
        body = max(sizes, key=sizes.__getitem__, default=0.0)
        has_plain_body = 2 * bold < sizes.total()
        stands_out = [
            size >= (_LARGER_NUMBERED if is_numbered else _LARGER) * body
            or (is_bold and has_plain_body and size >= _NO_SMALLER * body)
            for _, _, (size, is_bold), is_numbered in self._lines
        ]
        return stands_out if 2 * sum(stands_out) <= len(stands_out) else [False] * len(stands_out)

    def _is_heading(self, first: int, stop: int) -> bool:
        """Return whether lines that stand out are the heading of the line after them."""
        following, last = self._lines[stop], self._lines[stop - 1]
        start, end = self._lines[first].start, last.end
        title = self._text[start:end].replace("\n", " ")
        if self._look(following.start) == last.look or stop - first > _MOST_LINES:
            return False
        if not _is_title(title) or self._has_columns(start, end):
            return False
        is_on_edge = first == 0 or _has_page_number(self._text[following.start : following.end])
        if is_on_edge and _has_page_number(title):
            return False  # of a header or a footer
        return first == 0 or self._lines[first].is_numbered or not self._is_beside(first, stop)

    def _continues(self, first: int, number: int) -> bool:
        """Return whether a line goes on with the heading that begins at another: right below, and
        looking the same.
        """
        (size, is_bold), (other, other_bold) = self._lines[first].look, self._lines[number].look
        above, below = (self._box(line.start) for line in self._lines[number - 1 : number + 1])
        if self._lines[number].is_numbered or above is None or below is None:
            return False
        is_alike = is_bold is other_bold and abs(other - size) <= _SAME * size
        return is_alike and 0 < above.bottom - below.bottom <= _LEADING * size

    def _is_beside(self, first: int, stop: int) -> bool:
        """Return whether a title stands beside the line after it, as a cell or a name at a picture
        does.

        A centred title does not.
        """
        ends = [(self._box(line.start), self._box(line.end - 1)) for line in self._lines]
        edges = [(head.left, tail.right, head.bottom) for head, tail in ends if head and tail]
        if len(edges) < len(ends):
            return False
        (start, end, bottom), (left, right, _) = edges[stop], edges[first]
        centre = (min(edge[0] for edge in edges) + max(edge[1] for edge in edges)) / 2
        is_below = start < right and left < end and bottom < edges[stop - 1][2]
        return not is_below and abs((left + right) / 2 - centre) > _CENTRED * (right - left)

    def _has_columns(self, start: int, end: int) -> bool:
        """Return whether words of a line stand so far apart that they name the columns of a
        table.
        """
        spaces = re.compile(r"(?<=\S) (?=\S)").finditer(self._text, start, end)
        return any(
            are_apart(self._box(space.start() - 1), self._box(space.end()), _APART)
            for space in spaces
        )


def _has_page_number(line: str) -> bool:
    """Return whether a line has the number of a page before or after it, as titles have in headers
    and in the contents.
    """
    after = _PAGE_AFTER.search(line)
    return bool(_PAGE_BEFORE.match(line) or (after and _TWO_WORDS.search(line, 0, after.start())))


def _is_title(title: str) -> bool:
    """Return whether a line can be a title, by its letters and its length."""
    if len(title) > _LONGEST or not _TITLE.match(title):
        return False
    if _NONE.search(title) or not _WORD.search(title):
        return False
    first = next(character for character in title if character.isalpha())
    return not first.islower() and 2 * sum(map(str.isalpha, title)) > len(title.replace(" ", ""))
