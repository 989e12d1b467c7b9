"""Headers and footers that repeat on pages: they are blanked, so that offsets stay the same."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np

from lmkrag.formats.base import fold
from lmkrag.formats.titles import TITLE_MARK

_WORD = re.compile(r"\w+")
_NUMBERING = re.compile(r"(?:\b[^\W\d]+ )?\b(?:\d+\W+)+")  # of a title: "Chapter 2.", "2.3"
_LINE = re.compile(r"^(?=[^\S\n]*\S)[^\n]+", re.MULTILINE)
_TITLE = re.compile(rf"^{TITLE_MARK}.*", re.MULTILINE)
_MOST_OFTEN = 3  # times that a heading may come again
# A line that may have the number of a page: it is indented, has a gap or the word "Page", or is a
# number and nothing else.
_PRINTED = re.compile(
    r"(?=.*\d)(?:[ \t]{3}|\W*\d+\W*$|.*?(?:\S[ \t]{2,}\S|\bpage\b))", re.IGNORECASE
)
_OF_ALL = r"(?: (?:of|/|von|de) \d+)?"
_PAGE_NUMBER = re.compile(rf"^\W*\d+\b|\bpage \d+\b{_OF_ALL}|\b\d+{_OF_ALL}\W*$", re.IGNORECASE)
_OWN_NUMBER = re.compile(
    rf"\W*(\d{{1,4}})(?!\S)|.*?\bpage (\d{{1,4}})\b|.*?(?<![\w.,:/])(\d{{1,4}}){_OF_ALL}\W*\Z",
    re.IGNORECASE,
)
_EDGE = 2  # lines at the top and at the bottom of a page, at most, that may be headers and footers
_FEWEST_RUNNING = 3  # pages that share a header or footer
_RUNNING_SHARE = 0.4  # the same as a share of all: left and right pages may differ
_SHORTEST_PAGE = 40  # lines of a page that only its number shows
_TOLERANCE = 0.1  # of the usual length of such a page, by which others may differ
_LEAST_REGULAR = 0.75  # share of such pages that differ by no more


class _EdgeLine(NamedTuple):
    """Characters ``[start, end)`` of a page, which may be a running line.

    Attributes:
        start: the first character.
        end: the character after the last one.
        text: the line on one line of single spaces.
        words: the line as others repeat it, with whether it is at the top.
        first_page: the number that the first page has, if the line has that of its page; else None.
        titles: the words between the numbers of the page and of titles.
    """

    start: int
    end: int
    text: str
    words: tuple[bool, str]
    first_page: int | None
    titles: list[str]


def blank_running_lines(pages: Sequence[str], *, exact: bool = False) -> list[str]:
    """Return pages with spaces in place of running headers and footers.

    These have the same words on many pages; or the number of the page and nothing but titles, which
    other lines have; or, on several pages, numbered headings. A heading that often repeats loses
    its mark.

    Args:
        pages: the texts of the pages.
        exact: whether lines that have a number are alike only if they count the pages, or have the
            same number; else those with the same words are.
    """
    edges = [[*_find_edges(page, index, exact=exact)] for index, page in enumerate(pages)]
    counts = Counter(key for lines in edges for key in {each.words for each in lines})
    counting = Counter(key for lines in edges for key in {each.first_page for each in lines})
    least = max(_FEWEST_RUNNING, _RUNNING_SHARE * len(pages))
    marked = () if exact else pages
    headings = Counter(title[0] for page in marked for title in _TITLE.finditer(page))
    heads = {title for line in headings for title in _find_titles(line)}
    lines_of = _find_lines(pages, chain.from_iterable(edges))

    def is_running(line: _EdgeLine) -> bool:
        count, is_number = counts[line.words], not line.titles and line.first_page is not None
        if count >= least and not is_number:
            return True
        if line.first_page is not None and counting[line.first_page] >= least:
            return all(lines_of[title] - {line.text} for title in line.titles)
        names_section = bool(line.titles) and heads.issuperset(line.titles)
        is_numbered = _NUMBERING.match(line.text) is not None
        return count >= _FEWEST_RUNNING and names_section and is_numbered

    blanked = []
    for page, lines in zip(pages, edges, strict=True):
        for line in filter(is_running, lines):
            # A line that is a heading once is the title that headers repeat: it stays.
            if headings[page[line.start : line.end]] != 1:
                page = page[: line.start] + " " * (line.end - line.start) + page[line.end :]
        blanked.append(
            _TITLE.sub(
                lambda line: line[0].replace(TITLE_MARK, "   ", headings[line[0]] > _MOST_OFTEN),
                page,
            )
        )
    return blanked


def _find_lines(pages: Sequence[str], edges: Iterable[_EdgeLine]) -> Mapping[str, set[str]]:
    """Return the lines that have each title and no other, and those at edges that have it."""
    lines = defaultdict[str, set[str]](set)
    for line in edges:
        for title in line.titles:
            lines[title].add(line.text)
    for text in map(fold, chain.from_iterable(map(str.splitlines, pages))):
        if len(titles := _find_titles(text)) == 1:
            lines[titles[0]].add(text)
    return lines


def blank_printed_lines(text: str) -> str:
    """Return a text that was made for a printer with spaces in place of its headers and footers."""
    return "".join(blank_running_lines(_divide(text), exact=True))


def _divide(text: str) -> list[str]:
    """Return the pages of a text: up to its form feeds, or to lines that count them."""
    if "\f" in text:
        return re.split(r"(?<=\f)", text)
    lines = re.split(r"(?<=\n)", text)
    counting = defaultdict[str, list[tuple[int, int]]](list)
    for place, line in enumerate(lines):
        words, number, _ = _read_number(line) if _PRINTED.match(line) else ("", None, "")
        if number is not None:
            counting[words].append((place, number))
    for counted in filter(_count_pages, counting.values()):
        ends = [0, *(place + 1 for place, _ in counted), len(lines)]
        return ["".join(lines[start:stop]) for start, stop in pairwise(ends)]
    return [text]


def _count_pages(counted: Sequence[tuple[int, int]]) -> bool:
    """Return whether lines, by their places and numbers, count pages: one by one, and nearly all at
    the same distance.
    """
    if len(counted) < _FEWEST_RUNNING:
        return False
    lengths, steps = np.diff(counted, axis=0).T
    usual = np.median(lengths)
    regular = np.abs(lengths - usual) <= _TOLERANCE * usual
    return bool((steps == 1).all() and usual >= _SHORTEST_PAGE and regular.mean() >= _LEAST_REGULAR)


def _read_number(line: str) -> tuple[str, int | None, str]:
    """Return a line without the number of a page, that number, and the line without this number.

    The first lacks whatever may be such a number. Without one, the number is None.
    """
    words = fold(line.removeprefix(TITLE_MARK).lower())
    without = _PAGE_NUMBER.sub("#", words)
    own = _OWN_NUMBER.match(words)
    if own is None:
        return without, None, words
    start, end = own.span(own.lastindex or 0)
    return without, int(words[start:end]), words[:start] + words[end:]


def _find_titles(line: str) -> list[str]:
    """Return the words of a line between the numbers of titles."""
    words = " ".join(_WORD.findall(line.lower()))
    titles = map(str.strip, _NUMBERING.split(words))
    return [title for title in titles if title and not title.isdigit()]


def _find_edges(page: str, index: int, *, exact: bool) -> Iterator[_EdgeLine]:
    """Yield the first and the last lines of page ``index``."""
    lines = [match.span() for match in _LINE.finditer(page)]
    edge = min(_EDGE, len(lines) // 4)
    for place, (start, end) in enumerate(lines):
        if not edge <= place < len(lines) - edge:
            text = fold(page[start:end])
            words, number, rest = _read_number(page[start:end])
            yield _EdgeLine(
                start,
                end,
                text,
                words=(place < edge, text if exact else words),
                first_page=None if number is None else number - index,
                titles=_find_titles(rest),
            )
