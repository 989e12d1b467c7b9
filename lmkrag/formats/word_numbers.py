"""The numbers of Word's lists and clauses, which Word counts when it shows a document: they are in
no text.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from docx.oxml.ns import qn

from lmkrag.formats.base import read_whole

MOST_BASES = 20  # of a style; a broken file may have a circle of them


@dataclass(frozen=True, slots=True)
class _Level:
    """How one level of a list counts: ``text`` is ``%1.%2`` for 7.2, ``style`` that of the
    paragraphs it numbers.
    """

    start: int = 1
    format: str = "decimal"
    text: str = ""
    style: str = ""
    plain: bool = False  # the numbers of other levels in decimals, whatever these count in


@dataclass(slots=True)
class _List:
    levels: dict[int, _Level]
    counts: dict[int, int] = field(default_factory=dict)


class WordNumbers:
    """Counts the numbered paragraphs of a document, which are asked for in order.

    State: the count of each level of each list.
    """

    def __init__(self, numbering: Any | None, styles: Any) -> None:
        """Take the parts of a document that define numbers.

        Args:
            numbering: the root of its numbering; None if it has none.
            styles: the root of its styles.
        """
        lists: dict[str, _List] = {}
        self._lists: dict[str, _List] = {}  # by number; several may go on counting one list
        self._restarts: dict[str, dict[int, int]] = defaultdict(dict)
        self._styles = {
            style.get(qn("w:styleId")): style for style in styles.findall(qn("w:style"))
        }
        if numbering is None:
            return
        for element in numbering.findall(qn("w:abstractNum")):
            lists[element.get(qn("w:abstractNumId"))] = _List(_read_levels(element))
        for element in numbering.findall(qn("w:num")):
            number = element.get(qn("w:numId"))
            entry = lists.get(find_value(element, "w:abstractNumId"))
            if entry is None:
                continue
            self._lists[number] = entry
            for override in element.findall(qn("w:lvlOverride")):
                level = read_whole(override.get(qn("w:ilvl")), 0)
                if levels := _read_levels(override):
                    self._lists[number] = entry = _List({**entry.levels, **levels})
                if start := find_value(override, "w:startOverride"):
                    self._restarts[number][level] = read_whole(start, 1)

    def next(self, paragraph: Any) -> str:
        """Return what Word shows before a paragraph: ``7.2``, ``(a)``, ``-`` for a bullet; empty if
        it is not numbered.
        """
        number, level = self._find(paragraph)
        entry = self._lists.get(number)
        if entry is None or level not in entry.levels:
            return ""
        current = entry.levels[level]
        following = entry.counts.get(level, current.start - 1) + 1
        entry.counts[level] = self._restarts[number].pop(level, following)
        entry.counts = {deep: count for deep, count in entry.counts.items() if deep <= level}
        if current.format == "bullet":
            return "-"
        shown = current.text
        for depth, other in entry.levels.items():
            kind = "decimal" if current.plain else other.format
            ordinal = format_ordinal(entry.counts.get(depth, other.start), kind)
            shown = shown.replace(f"%{depth + 1}", ordinal)
        return shown.strip()

    def _find(self, paragraph: Any) -> tuple[str, int]:
        """Return the number and the level of a paragraph's list, from itself or from its style."""
        element, style = paragraph, find_value(paragraph, "w:pPr", "w:pStyle")
        named_style = style
        for _ in range(MOST_BASES):
            if number := find_value(element, "w:pPr", "w:numPr", "w:numId"):
                levels = self._lists[number].levels if number in self._lists else {}
                of_style = (
                    depth
                    for depth, level in levels.items()
                    if named_style and level.style == named_style
                )
                written = find_value(element, "w:pPr", "w:numPr", "w:ilvl")
                return number, read_whole(written, next(of_style, 0))
            if style not in self._styles:
                break
            element = self._styles[style]
            style = find_value(element, "w:basedOn")
        return "", 0


def _read_levels(element: Any) -> dict[int, _Level]:
    return {
        read_whole(level.get(qn("w:ilvl")), 0): _Level(
            read_whole(find_value(level, "w:start"), 1),
            find_value(level, "w:numFmt") or "decimal",
            find_value(level, "w:lvlText"),
            find_value(level, "w:pStyle"),
            level.find(qn("w:isLgl")) is not None,
        )
        for level in element.findall(qn("w:lvl"))
    }


def find_value(element: Any, *path: str, default: str = "") -> str:
    """Return the value of an element inside another.

    Args:
        element: the outer element.
        path: names of the elements on the way to the inner one.
        default: returned if the inner element has no value.

    Returns:
        The value; an empty string if there is no such element.
    """
    child = element.find("/".join(map(qn, path)))
    return "" if child is None else child.get(qn("w:val"), default)


_ROMAN = {
    1000: "m",
    900: "cm",
    500: "d",
    400: "cd",
    100: "c",
    90: "xc",
    50: "l",
    40: "xl",
    10: "x",
    9: "ix",
    5: "v",
    4: "iv",
    1: "i",
}


def format_ordinal(count: int, kind: str) -> str:
    """Return a number as a list shows it.

    Args:
        count: the number.
        kind: one of Word's formats; an unknown one is shown in decimals.

    >>> [format_ordinal(4, kind) for kind in ("decimal", "lowerLetter", "upperRoman", "decimalZero")]
    ['4', 'd', 'IV', '04']
    """  # noqa: E501
    if kind == "none":
        return ""
    if kind == "decimalZero":
        return f"{count:02}"
    shown = str(count)
    if kind.endswith("Letter") and count > 0:  # z, aa, bb
        shown = chr(ord("a") + (count - 1) % 26) * min(1 + (count - 1) // 26, 10)
    elif kind.endswith("Roman") and 0 < count < 4_000:
        shown = ""
        for value, numeral in _ROMAN.items():
            shown += numeral * (count // value)
            count %= value
    return shown.upper() if kind.startswith("upper") else shown
