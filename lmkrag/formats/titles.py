"""Headings of a page of a PDF: lines that are larger than its text, or bold where that is not."""

import re
from collections import Counter
from collections.abc import Callable, Sequence

from lmkrag.formats.columns import Measure, Source

_LINE = re.compile(r"\S(?:[^\n]*\S)?")
_LARGER, _NO_SMALLER = 1.12, 0.9  # than the height of most text: what is a heading, and bold text that may be one
_SAME = 0.06  # of a height: between the lines of one heading
_LEADING = 2.0  # heights of a line between the lines of one heading at most, from bottom to bottom
_APART = 2.0  # heights of a letter between the columns of a table
_MOST_LINES, _LONGEST = 3, 150  # of a heading
_MARK = "## "
_TITLE = re.compile(r"(?:\W{0,2}[\dIVXLC]{1,5}[.)]?(?:\d{1,3}\.?)*\W+)?[^\W\d_].*[^\W\d_]{2}")
_NONE = re.compile(
    r"\t|://|www\.|\S@\S|(?:[.…_] ?){4,}|[,;:.!–—#-]$"
    r"|^(?:figure|fig\.|table|abbildung|abb\.|tabelle|tableau|figura|tabla|tabella|tabela)\s*\d",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W\d_]{3,}")


def mark_titles(
    text: str, sources: Sequence[Source], box: Measure, look: Callable[[int], tuple[float, bool]]
) -> tuple[str, Sequence[Source]]:
    """Return a page with ``##`` before its headings, and its sources; ``look``: a character's font size, if bold."""
    lines = [match.span() for match in _LINE.finditer(text)]
    looks = [_look(text, *line, look) for line in lines]
    weights: Counter[float] = Counter()
    for (start, end), (height, _) in zip(lines, looks, strict=True):
        weights[round(2 * height) / 2] += end - start
    if len(lines) < 2 or not (body := weights.most_common(1)[0][0]):
        return text, sources
    strong = sum(end - start for (start, end), (_, is_bold) in zip(lines, looks, strict=True) if is_bold)
    plain_body = 2 * strong < sum(end - start for start, end in lines)
    stands_out = [
        height >= _LARGER * body or (is_bold and plain_body and height >= _NO_SMALLER * body)
        for height, is_bold in looks
    ]
    if 2 * sum(stands_out) > len(lines):
        return text, sources  # a poster, or a title page
    pieces: list[str] = []
    marked: list[Source] = []
    done = number = 0
    while number < len(lines):
        stop = number + 1
        while stop < len(lines) and stands_out[number] and _continues(lines, looks, number, stop, box):
            stop += 1
        start, end = lines[number][0], lines[stop - 1][1]
        title = text[start:end].replace("\n", " ")
        heads = stands_out[number] and stop < len(lines) and look(lines[stop][0]) != looks[stop - 1]
        if heads and stop - number <= _MOST_LINES and _is_title(title) and not _has_columns(text, start, end, box):
            pieces += [text[done:start], _MARK, title]
            marked += [*sources[done:start], *[sources[start]] * len(_MARK), *sources[start:end]]
            done = end
        number = stop
    return "".join([*pieces, text[done:]]), [*marked, *sources[done:]]


def _look(text: str, start: int, end: int, look: Callable[[int], tuple[float, bool]]) -> tuple[float, bool]:
    """The size of a line, and whether it is bold throughout."""
    (first, is_bold), (last, ends_bold) = look(start), look(end - 1)
    return min(first, last), is_bold and ends_bold


def _continues(
    lines: Sequence[tuple[int, int]], looks: Sequence[tuple[float, bool]], first: int, number: int, box: Measure
) -> bool:
    """Whether a line goes on with the heading that begins at another: right below, and looking the same."""
    (height, is_bold), (other, other_bold) = looks[first], looks[number]
    above, below = box(lines[number - 1][0]), box(lines[number][0])
    if above is None or below is None or is_bold is not other_bold or abs(other - height) > _SAME * height:
        return False
    return 0 < above[1] - below[1] <= _LEADING * height


def _has_columns(text: str, start: int, end: int, box: Measure) -> bool:
    """Whether words of a line stand so far apart that they name the columns of a table."""
    for space in re.finditer(r"\S \S", text[start:end]):
        left, right = box(start + space.start()), box(start + space.end() - 1)
        if left is not None and right is not None and right[0] - left[2] > _APART * (left[3] - left[1]):
            return True
    return False


def _is_title(title: str) -> bool:
    if len(title) > _LONGEST or not _TITLE.match(title) or _NONE.search(title) or not _WORD.search(title):
        return False
    first = next(character for character in title if character.isalpha())
    return not first.islower() and 2 * sum(map(str.isalpha, title)) > len(title.replace(" ", ""))
