"""Charts and SmartArt of Office: their words and values.

They are parts of their own beside a slide or a text.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import groupby, islice
from typing import Any

from lxml import etree

from lmkrag.formats.base import (
    MATH_TEXT,
    fold,
    mark_raised,
    parse_xml,
    read_run,
    read_whole,
    table_row,
)

_OFFICE = "http://schemas.openxmlformats.org"
_RELATIONSHIP = f"{{{_OFFICE}/officeDocument/2006/relationships}}"
DRAWING, _CHART, _DIAGRAM = (
    f"{{{_OFFICE}/drawingml/2006/{name}}}" for name in ("main", "chart", "diagram")
)
_RAISED = re.compile(r"\+?0*[1-9]")
_MOST_POINTS = 10_000  # of a chart

_Points = dict[int, str]  # values by their positions


def read_drawings(element: Any, part: Any) -> Iterator[str]:
    """Yield the content of the charts and the SmartArt below an element: titles, tables of values,
    lists of words.

    Args:
        element: an element of a slide or a text.
        part: the part of the package that it is in.
    """
    for chart in element.iter(f"{_CHART}chart"):
        if key := chart.get(f"{_RELATIONSHIP}id"):
            yield from _read_chart(_open(part, key))
    for ids in element.iter(f"{_DIAGRAM}relIds"):
        points = _open(part, ids.get(f"{_RELATIONSHIP}dm")).iter(f"{_DIAGRAM}pt")
        if items := [f"- {text}" for text in map(read_paragraphs, points) if text]:
            yield "\n".join(items)


def _open(part: Any, key: str) -> etree._Element:
    """Return the root of a part that another part names; an empty element if it is missing."""
    if key not in part.rels:
        return etree.Element("none")
    return parse_xml(part.rels[key].target_part.blob)


def read_paragraph(paragraph: Any) -> str:
    """Return the text of a paragraph of a drawing, equations included, on one line."""
    text = ""
    for run in paragraph.iter(f"{DRAWING}t", f"{DRAWING}br", MATH_TEXT):
        properties = run.getparent().find(f"{DRAWING}rPr")
        attributes = {} if properties is None else properties.attrib
        if attributes.get("strike", "noStrike") != "noStrike":
            continue  # what is no longer so
        part = " " if run.tag == f"{DRAWING}br" else read_run(run)
        raised = _RAISED.match(attributes.get("baseline", ""))
        text += mark_raised(text, part) if raised else part
    return fold(text)


def read_paragraphs(element: Any) -> str:
    """Return the text of the paragraphs in an element of a drawing, on one line."""
    return " ".join(map(read_paragraph, element.iter(f"{DRAWING}p"))).strip()


def _read_chart(root: etree._Element) -> Iterator[str]:
    """Yield the title of a chart of any kind, and a row for each category or point with the values
    of its series.
    """
    title = root.find(f"{_CHART}chart/{_CHART}title")
    if title is not None and (text := read_paragraphs(title)):
        yield text
    names, categories = [""], _Points()
    columns: list[_Points] = []
    epoch = root.find(f"{_CHART}date1904")
    since_1904 = epoch is not None and epoch.get("val", "1") in ("1", "true")
    for series in root.iter(f"{_CHART}ser"):
        read = partial(_read_points, series, since_1904)
        own = read("cat") or read("xVal") or categories
        if categories and own != categories:  # each series of points has places of its own
            yield from _show_columns(names, categories, columns)
            names, columns = [""], []
        categories = own
        columns.append(read("val") or read("yVal"))
        names.append(" ".join(read("tx").values()))
    yield from _show_columns(names, categories, columns)


def _show_columns(names: list[str], categories: _Points, columns: list[_Points]) -> Iterator[str]:
    rows = [
        [category, *(column.get(index, "") for column in columns)]
        for index, category in categories.items()
    ]
    if rows:
        yield "\n".join(map(table_row, [names, *rows]))


def _read_points(series: etree._Element, since_1904: bool, name: str) -> _Points:
    """Return the cached values of a part of a series, as they are shown; of categories in groups
    each has the name of its group before it.
    """
    levels: list[_Points] = []
    found = series.iterfind(f"{_CHART}{name}//{_CHART}pt")
    for level, points in groupby(found, etree._Element.getparent):
        shown = (_show_point(point, level, since_1904) for point in islice(points, _MOST_POINTS))
        levels.append({index: value for index, value in shown if value})
    own, *groups = levels or [{}]
    for group in groups:  # which is named at its first category
        label = ""
        for index in sorted(own):
            label = group.get(index, label)
            own[index] = f"{label} {own[index]}"
    return own


def _show_point(point: etree._Element, level: etree._Element, since_1904: bool) -> tuple[int, str]:
    """Return the position of a point, and its value as it is shown."""
    from lmkrag.formats.cell_values import show_number  # openpyxl takes time to import

    value = (point.findtext(f"{_CHART}v") or "").strip()
    if level.tag == f"{_CHART}numCache":
        code = point.get("formatCode") or level.findtext(f"{_CHART}formatCode") or "General"
        with suppress(ValueError, OverflowError):  # of an error, or a day that no calendar has
            value = show_number(float(value), code, since_1904=since_1904)
    return read_whole(point.get("idx"), 0), value
