"""Headings of a page of a PDF: lines that are larger than its text, or bold where that is not."""

import re
from collections import Counter
from collections.abc import Callable, Sequence

from lmkrag.formats.columns import Measure, Source

_LINE = re.compile(r"\S(?:[^\n]*\S)?")
_LARGER, _LARGER_NUMBERED, _NO_SMALLER = 1.12, 1.06, 0.9  # than most text: headings, and bold text that may be one
_SAME, _LEADING = 0.06, 2.0  # of a height: how lines of one heading differ, and the most between their bottoms
_APART, _CENTRED = 2.0, 0.1  # heights of a letter between columns; of the width of a title in the middle of a page
_MOST_LINES, _LONGEST = 3, 150  # of a heading
TITLE_MARK = "## "
_TITLE = re.compile(r"(?:\W{0,2}[\dIVXLC]{1,5}[.)]?(?:\d++(?:\.\d+)*+)?\W++)?[^\W\d_].*[^\W\d_]{2}")
_NUMBERED = re.compile(r"(?:\d{1,2}(?:\.\d{1,2})*\.?|[^\W\d_][.)]) ?[^\W\d_]")
_PAGE_BEFORE, _PAGE_AFTER = re.compile(r"\d{3,} "), re.compile(r"[^\W\d_]\W+\d{1,4}$")
_TWO_WORDS = re.compile(r"\w \w")
CUT = re.compile(  # a line that goes on
    r"(?i)(?:^|\s)(?:a|an|and|as|at|but|by|for|from|in|into|is|of|on|or|that|the|to|with|und|oder|der|die|das|dem|den|für|von"
    r"|mit|et|ou|de|du|des|la|le|les|à|y|o|e|el|los|las|del|di|il|en|van|het|&|are|was|be|has|have|can|may|see|use|using"
    r"|this|these|which|following|includes?|called)$|\([^)]*$"
)
_NONE = re.compile(
    CUT.pattern + r"|\t|://|www\.|\S@\S|(?:[.…_*] ?){4,}|[,;:.!–—#-]$"
    r"|^(?:note|important|tip|warning|caution|hinweis|achtung|warnung|remarque|attention|avertissement|nota|aviso)$"
    r"|^(?:figure|fig\.|table|tab\.|listing|algorithm|chart|abbildung|abb\.|tabelle|tableau|figura|tabla|tabella|tabela)"
    r"\s*[A-Z]?[.-]?\d|^(?:page|seite|página|pagina)\s*\d"
    r"|^(?:\d\d?\.? (?:de )?)?(?:(?:janu|febru)ary?|m(?:ar(?:ch|s|zo)|ärz|a[iy]o?)|a(?:p|v|b)ril|a(?:ugust|oût|gosto)"
    r"|ju(?:n[eio]+|l[yio]+|in|illet)|\w{3,5}emb(?:er|re)|o[ck]t[ou]b(?:er|re)|janvier|février|enero|febrero)"
    r" (?:de )?(?:\d\d?,? )?\d{4}$"
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
    numbered = [_NUMBERED.match(text, start) is not None for start, _ in lines]
    stands_out = [
        height >= (_LARGER_NUMBERED if begins else _LARGER) * body
        or (is_bold and plain_body and height >= _NO_SMALLER * body)
        for begins, (height, is_bold) in zip(numbered, looks, strict=True)
    ]
    if 2 * sum(stands_out) > len(lines):
        return text, sources  # a poster, or a title page
    pieces: list[str] = []
    marked: list[Source] = []
    position = number = 0
    while number < len(lines):
        stop = number + 1
        while stop < len(lines) and stands_out[number] and not numbered[stop]:
            if not _continues(lines, looks, number, stop, box):
                break
            stop += 1
        start, end = lines[number][0], lines[stop - 1][1]
        title = text[start:end].replace("\n", " ")
        heads = stands_out[number] and stop < len(lines) and look(lines[stop][0]) != looks[stop - 1]
        heads = heads and stop - number <= _MOST_LINES and _is_title(title) and not _has_columns(text, start, end, box)
        on_edge = number == 0 or (heads and _has_page_number(text[slice(*lines[stop])]))
        beside = heads and number and not numbered[number] and _is_beside(lines, number, stop, box)
        if heads and not beside and not (on_edge and _has_page_number(title)):
            pieces += [text[position:start], TITLE_MARK, title]
            marked += [*sources[position:start], *[sources[start]] * len(TITLE_MARK), *sources[start:end]]
            position = end
        number = stop
    return "".join([*pieces, text[position:]]), [*marked, *sources[position:]]


def _look(text: str, start: int, end: int, look: Callable[[int], tuple[float, bool]]) -> tuple[float, bool]:
    """The size of a line, whose first letter may be larger or smaller, and whether it is bold throughout."""
    middle = (start + end) // 2
    sizes, bold = zip(*map(look, (start, middle - text[middle].isspace(), end - 1)), strict=True)
    return sorted(sizes)[1], all(bold)


def _continues(
    lines: Sequence[tuple[int, int]], looks: Sequence[tuple[float, bool]], first: int, number: int, box: Measure
) -> bool:
    """Whether a line goes on with the heading that begins at another: right below, and looking the same."""
    (height, is_bold), (other, other_bold) = looks[first], looks[number]
    above, below = box(lines[number - 1][0]), box(lines[number][0])
    if above is None or below is None or is_bold is not other_bold or abs(other - height) > _SAME * height:
        return False
    return 0 < above[1] - below[1] <= _LEADING * height


def _is_beside(lines: Sequence[tuple[int, int]], first: int, stop: int, box: Measure) -> bool:
    """Whether a title stands beside the line after it, as a cell and a name at a picture do, and is not centred."""
    edges = [(head[0], tail[2], head[1]) for line in lines if (head := box(line[0])) and (tail := box(line[1] - 1))]
    if len(edges) < len(lines):
        return False
    (start, end, bottom), (left, right, _) = edges[stop], edges[first]
    centre = (min(edge[0] for edge in edges) + max(edge[1] for edge in edges)) / 2
    is_below = start < right and left < end and bottom < edges[stop - 1][2]
    return not is_below and abs((left + right) / 2 - centre) > _CENTRED * (right - left)


def _has_columns(text: str, start: int, end: int, box: Measure) -> bool:
    """Whether words of a line stand so far apart that they name the columns of a table."""
    spaces = re.compile(r"(?<=\S) (?=\S)").finditer(text, start, end)
    sides = ((box(space.start() - 1), box(space.end())) for space in spaces)
    return any(left and right and right[0] - left[2] > _APART * (left[3] - left[1]) for left, right in sides)


def _has_page_number(line: str) -> bool:
    """Whether a line has the number of a page before or after it, as titles have in headers and in the contents."""
    after = _PAGE_AFTER.search(line)
    return bool(_PAGE_BEFORE.match(line) or (after and _TWO_WORDS.search(line, 0, after.start())))


def _is_title(title: str) -> bool:
    if len(title) > _LONGEST or not _TITLE.match(title) or _NONE.search(title) or not _WORD.search(title):
        return False
    first = next(character for character in title if character.isalpha())
    return not first.islower() and 2 * sum(map(str.isalpha, title)) > len(title.replace(" ", ""))
