"""PowerPoint presentations, by python-pptx: a page a slide, its title as a heading, its notes after it."""

from collections.abc import Iterator
from typing import Any

import pptx
from pptx.oxml.ns import qn

from lmkrag.formats.base import Loaded, describe_properties, join_pages, open_office_file
from lmkrag.formats.drawings import read_drawings, read_paragraph
from lmkrag.formats.tabular import Grid, bar_lines

_COMPATIBILITY = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"


def read(data: bytes, name: str) -> Loaded:
    """Read a .pptx file; groups of shapes, tables, charts, SmartArt and equations are read, too."""
    presentation = pptx.Presentation(open_office_file(data, "PowerPoint", ".pptx"))
    text, starts = join_pages(["\n\n".join(_read_slide(slide)) for slide in presentation.slides])
    properties = presentation.core_properties
    title = "" if properties.title == "PowerPoint Presentation" else properties.title or ""
    meta = describe_properties(properties.author, properties.modified or properties.created)
    return Loaded(text, "pptx", title, starts, meta)


def _read_slide(slide: Any) -> Iterator[str]:
    heading = slide.shapes.title
    if heading is not None and heading.text_frame.text.strip():
        yield "# " + _read_frame(heading)
    for shape in _shapes(slide.shapes):
        if heading is not None and shape.shape_id == heading.shape_id:
            continue
        if shape.has_text_frame:
            if lines := [line for line in map(read_paragraph, shape.element.iter(qn("a:p"))) if line]:
                yield "\n".join(f"- {line}" for line in lines) if len(lines) > 1 else lines[0]
        elif shape.has_table:
            grid = Grid()
            for row in shape.table.rows:
                for cell in row.cells:
                    if not cell.is_spanned:
                        height, width = (cell.span_height, cell.span_width) if cell.is_merge_origin else (1, 1)
                        grid.add(_read_frame(cell), height, width)
                grid.end_row()
            yield "\n".join(bar_lines(grid.rows))
        else:
            yield from read_drawings(shape.element, slide.part)
    # Shapes with equations, which python-pptx does not see: they have an alternative for other programs.
    for choice in slide.element.iter(f"{_COMPATIBILITY}Choice"):
        yield from filter(None, map(read_paragraph, choice.iter(qn("a:p"))))
    if slide.has_notes_slide and (notes := slide.notes_slide.notes_text_frame.text.strip()):
        yield notes


def _read_frame(shape: Any) -> str:
    """The text of a shape or a cell on one line."""
    return " ".join(read_paragraph(paragraph._p) for paragraph in shape.text_frame.paragraphs).strip()


def _shapes(shapes: Any) -> Iterator[Any]:
    for shape in shapes:
        if hasattr(shape, "shapes"):
            yield from _shapes(shape.shapes)
        else:
            yield shape
