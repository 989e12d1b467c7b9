"""PowerPoint presentations, by python-pptx: a page for each slide, its title as a heading, its
notes after it.
"""

import math
from collections.abc import Iterator
from typing import Any

import pptx
from pptx.oxml.ns import qn

from lmkrag.formats.base import Links, Loaded, Parts, join_pages, open_package, read_core_properties
from lmkrag.formats.columns import Box
from lmkrag.formats.drawings import read_drawings, read_paragraph, read_paragraphs
from lmkrag.formats.tabular import Grid, bar_lines

_GAP = "\n\n"  # between shapes
_COMPATIBILITY = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"


def read(data: bytes, name: str) -> Loaded:
    """Read a .pptx file or one of its kin; shapes in groups, tables, charts, SmartArt and equations
    are read, too.

    Raises:
        DocumentError: it is encrypted, of a version before 2007, or too large.
    """
    parts = Parts()
    presentation = open_package(data, "PowerPoint", ".pptx", pptx.Presentation, parts)
    pages = [
        parts.read(f"slide {number}", _read_page, presentation, number, parts) or ""
        for number in range(1, len(_find_slides(presentation)) + 1)
    ]
    text, starts = join_pages(pages)
    title, meta = read_core_properties(presentation.part.package)
    return Loaded(text, "pptx", title, starts, meta, left_out=parts.left_out)


def find_rectangles(data: bytes, number: int, start: int, end: int) -> list[Box]:
    """Return the frames of the shapes on a slide that have some characters of its text.

    Args:
        data: the bytes of the file.
        number: the slide, from 1.
        start: the first character of the slide's text, from 0.
        end: the character after the last one.

    Returns:
        Boxes (left, top, right, bottom) as shares of the slide, 0 to 1.
    """
    presentation = open_package(data, "PowerPoint", ".pptx", pptx.Presentation, Parts())
    width, height = presentation.slide_width, presentation.slide_height
    rectangles, place = [], 0
    for text, shape in _read_slide(presentation, number, Parts()):
        has_some = place < end and start < place + len(text)
        if has_some and shape is not None and shape.left is not None:
            left, top, right, bottom = _measure(shape)
            rectangles.append((left / width, top / height, right / width, bottom / height))
        place += len(text + _GAP)
    return rectangles


def _measure(shape: Any) -> Box:
    """Return the frame of a shape on the slide, turned and scaled as the shape and the groups
    around it are.
    """
    angle = math.radians(getattr(shape, "rotation", 0))
    sin, cos = abs(math.sin(angle)), abs(math.cos(angle))
    width, height = shape.width * cos + shape.height * sin, shape.width * sin + shape.height * cos
    left, top = shape.left + (shape.width - width) / 2, shape.top + (shape.height - height) / 2
    for group in shape.element.iterancestors(qn("p:grpSp")):
        frame = group.grpSpPr.xfrm
        across, down = frame.ext.cx / (frame.chExt.cx or 1), frame.ext.cy / (frame.chExt.cy or 1)
        left = frame.off.x + (left - frame.chOff.x) * across
        top = frame.off.y + (top - frame.chOff.y) * down
        width, height = width * across, height * down
    return left, top, left + width, top + height


def _find_slides(presentation: Any) -> list[str]:
    """Return the ids of the slides in order, missing slides included."""
    return [slide.rId for slide in presentation.element.get_or_add_sldIdLst().sldId_lst]


def _read_page(presentation: Any, number: int, parts: Parts) -> str:
    return _GAP.join(text for text, _ in _read_slide(presentation, number, parts))


def _read_slide(presentation: Any, number: int, parts: Parts) -> Iterator[tuple[str, Any]]:
    """Yield the texts of a slide, from 1, each with its shape if that is known."""
    slide = presentation.part.related_slide(_find_slides(presentation)[number - 1])
    _show_addresses(slide)
    heading = slide.shapes.title
    if heading is not None and heading.text_frame.text.strip():
        yield "# " + read_paragraphs(heading.element), heading
    if slide.element.get("show") == "0":
        yield "(hidden slide)", None
    for shape in _shapes(slide.shapes):
        if heading is not None and shape.shape_id == heading.shape_id:
            continue
        name = f"slide {number}, {shape.name}"
        for text in parts.read(name, _read_shape, shape, slide) or ():
            yield text, shape
    # Shapes with equations, which python-pptx does not see: they have an alternative for other
    # programs.
    for choice in slide.element.iter(f"{_COMPATIBILITY}Choice"):
        for text in filter(None, map(read_paragraph, choice.iter(qn("a:p")))):
            yield text, None
    notes = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
    if notes is not None and (text := notes.text.strip()):
        yield text, None


def _show_addresses(slide: Any) -> None:
    """Put the addresses of links after their words; that of a shape after its last."""
    links = Links()
    for link in slide.element.findall(f".//{qn('p:cNvPr')}/{qn('a:hlinkClick')}"):
        shape = link.getparent().getparent().getparent()
        runs = [*shape.iter(qn("a:r"))]
        if runs and not _find_link(runs[-1]):
            runs[-1].get_or_add_rPr().append(link)
    for run in slide.element.iter(qn("a:r")):
        key = _find_link(run)
        is_last = key != _find_link(run.getnext())  # of the runs of a link
        if key in slide.part.rels and slide.part.rels[key].is_external and is_last:
            words, address = run.text.rstrip(), slide.part.rels[key].target_ref
            space = run.text[len(words) :]
            run.text = words + links.add(words, address, words, is_alone=True) + space


def _find_link(run: Any) -> str:
    """Return the id of a run's link; an empty string if it has none."""
    link = None if run is None else run.find(f"{qn('a:rPr')}/{qn('a:hlinkClick')}")
    return "" if link is None else str(link.get(qn("r:id"), ""))


def _read_shape(shape: Any, slide: Any) -> list[str]:
    """Return the texts of a shape: its lines as items, a table between bars, the words of a chart
    or SmartArt.
    """
    if shape.has_text_frame:
        lines = [line for line in map(read_paragraph, shape.element.iter(qn("a:p"))) if line]
        return ["\n".join(f"- {line}" for line in lines)] if len(lines) > 1 else lines
    if not shape.has_table:
        return [*read_drawings(shape.element, slide.part)]
    grid = Grid()
    for row in shape.table.rows:
        for cell in row.cells:
            if not cell.is_spanned:
                grid.add(read_paragraphs(cell._tc), cell.span_height, cell.span_width)
        grid.end_row()
    return ["\n".join(bar_lines(grid.rows))]


def _shapes(shapes: Any) -> Iterator[Any]:
    for shape in shapes:
        if hasattr(shape, "shapes"):
            yield from _shapes(shape.shapes)
        else:
            yield shape
