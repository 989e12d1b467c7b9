"""OpenDocument texts, workbooks and presentations, by lxml."""

import re
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain

from lxml import etree

from lmkrag.formats.base import (
    SOFT_HYPHEN,
    Links,
    Loaded,
    Parts,
    describe_properties,
    fold,
    is_inside,
    join_pages,
    mark_raised,
    open_archive,
    parse_xml,
    read_margins,
    read_whole,
)
from lmkrag.formats.html_render import Element, read_math
from lmkrag.formats.tabular import Grid, bar_lines, table_lines
from lmkrag.specs import NOT_COMPUTED

_OASIS = "{urn:oasis:names:tc:opendocument:xmlns:%s:1.0}"
_NAMES = ("drawing", "office", "presentation", "style", "table", "text")
_DRAW, _OFFICE, _PRESENTATION, _STYLE, _TABLE, _TEXT = (_OASIS % name for name in _NAMES)
_DC = "{http://purl.org/dc/elements/1.1/}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_HEADING, _PARAGRAPH = f"{_TEXT}h", f"{_TEXT}p"
_NOTE, _COMMENT = f"{_TEXT}note", f"{_OFFICE}annotation"
_LINES = (_PARAGRAPH, _HEADING)
_SPACES = (f"{_TEXT}s", f"{_TEXT}tab", f"{_TEXT}line-break")
_MARGINS = [
    f"{_STYLE}{margin}{pages}"
    for margin in ("header", "footer")
    for pages in ("", "-left", "-first")
]
_NO_TEXT = (f"{_TEXT}sequence-decls", f"{_TEXT}tracked-changes", f"{_OFFICE}forms")
_SUPERSCRIPT = re.compile(r"super|[1-9]\d*%")
_MOST_REPEATED = 10_000  # rows or columns that one element of a workbook stands for
_KINDS = ("", "string-", "boolean-", "time-")  # of values
_DAY = len("2024-03-01")
_TOO_NARROW = re.compile("#+")  # a column for its numbers
_PROPERTIES = f"{_STYLE}text-properties"


def read(data: bytes, name: str) -> Loaded:
    """Read an .odt, .ods, .odp or .odg file.

    In a text each paragraph is a line, with headings as ``#``, list items as ``-`` and table rows
    between ``|``; notes, comments and text boxes follow their paragraph, and headers and footers
    come first, each once. In a workbook each row is a line under the name of its sheet. In a
    presentation each slide is a page, with its notes at the end.

    Args:
        data: the bytes of the file.
        name: its name.

    Raises:
        DocumentError: it is encrypted, or too large.
    """
    with open_archive(data, "OpenDocument") as archive:
        names = ("content.xml", "styles.xml", "meta.xml")
        content, styles, about = (_open(archive, part) for part in names)
        _insert_equations(content, archive)
    return _read_parts(content, styles, about)


def read_flat(data: bytes, name: str) -> Loaded:
    """Read an .fodt, .fods, .fodp or .fodg file, which has all parts in one: see :func:`read`."""
    root = parse_xml(data)
    return _read_parts(root, root, root)


def _read_parts(content: Element, styles: Element, about: Element) -> Loaded:
    parts = Parts()
    _read_styles(content, styles)
    _show_addresses(content)
    body = f"{_OFFICE}body/{_OFFICE}"
    margins = [line for margin in styles.iter(*_MARGINS) for line in margin.iter(*_LINES)]
    head = read_margins(map(_text, margins))
    kind, pages = "odt", [_join([*head, *_read(text)]) for text in content.iterfind(f"{body}text")]
    if content.find(f"{body}spreadsheet") is not None:
        sheets = []
        for sheet in content.iter(f"{_TABLE}table"):
            name = sheet.get(f"{_TABLE}name", "")
            sheets.append(parts.read(f"sheet {name}", _read_sheet, name, sheet) or "")
        kind, pages = "ods", [_join(sheets)]
    elif content.find(f"{body}text") is None:  # slides or drawings
        kind = "odp"
        pages = [
            parts.read(f"slide {number}", _read_page, slide) or ""
            for number, slide in enumerate(content.iter(f"{_DRAW}page"), 1)
        ]
    text, starts = join_pages(pages)
    title, author, changed = (
        about.findtext(f".//{_DC}{tag}") or "" for tag in ("title", "creator", "date")
    )
    meta = describe_properties(author, changed)
    return Loaded(text, kind, title, starts if kind == "odp" else (), meta, left_out=parts.left_out)


def _open(archive: zipfile.ZipFile, name: str) -> Element:
    """Return the root of a part of the archive; an empty element if it has no such part."""
    root = None
    with suppress(KeyError) if name == "content.xml" else suppress(KeyError, etree.XMLSyntaxError):
        root = parse_xml(archive.read(name))
    return etree.Element("none") if root is None else root


def _insert_equations(content: Element, archive: zipfile.ZipFile) -> None:
    """Put the text of equations in place of their frames; they are files of their own in the
    archive.
    """
    for shape in [*content.iter(f"{_DRAW}object")]:
        root = _open(archive, shape.get(_HREF, "").removeprefix("./").rstrip("/") + "/content.xml")
        frame = shape.getparent()
        if etree.QName(root).localname != "math" or frame.getparent() is None:
            continue
        is_inline = is_inside(frame, *_LINES)
        shown = etree.Element(f"{_TEXT}span" if is_inline else _PARAGRAPH)
        shown.text, shown.tail = read_math(root), frame.tail
        frame.getparent().replace(frame, shown)


def _read_styles(content: Element, styles: Element) -> None:
    """Put a sign before exponents and numbers of notes, which are spans in superscript; empty those
    struck through.
    """
    raised, struck = set(), set()
    for properties in chain(styles.iter(_PROPERTIES), content.iter(_PROPERTIES)):
        name = properties.getparent().get(f"{_STYLE}name", "")
        if _SUPERSCRIPT.match(properties.get(f"{_STYLE}text-position", "")):
            raised.add(name)
        if properties.get(f"{_STYLE}text-line-through-style", "none") != "none":
            struck.add(name)
    for span in [*content.iter(f"{_TEXT}span")]:
        name = span.get(f"{_TEXT}style-name")
        if name in struck:
            span.clear(keep_tail=True)
        elif name in raised:
            for part in [part for part in span.iter() if part.text][:1]:
                part.text = mark_raised("".join(span.xpath("preceding::text()[1]")), part.text)


def _show_addresses(content: Element) -> None:
    """Put the addresses of links after their words if they are alone or in a table, on a slide or
    in a workbook, else in paragraphs at the end of their section.
    """
    links, inline = Links(), (f"{_TABLE}table-cell", f"{_DRAW}page")
    paragraph, whole = content, ""
    for text in content.iterfind(f"{_OFFICE}body/*"):
        for part in [*text.iter(f"{_TEXT}a", _HEADING), None]:
            if part is None or part.tag == _HEADING:
                for line in links.take():
                    shown = etree.Element(_PARAGRAPH)
                    shown.text = line
                    text.append(shown) if part is None else part.addprevious(shown)
                continue
            words = _text(part)
            above = next(part.iterancestors(*_LINES), part)
            if above is not paragraph:
                paragraph, whole = above, _text(above)
            before = whole.partition(words)[0] + words
            is_alone = words == whole or is_inside(part, *inline)
            address = links.add(before, part.get(_HREF, ""), words, is_alone=is_alone)
            part.tail = address + (part.tail or "")


def _join(blocks: Iterable[str]) -> str:
    return "\n\n".join(block for block in blocks if block.strip())


def _read_sheet(name: str, sheet: Element) -> str:
    lines = table_lines(_read_rows(sheet))
    for cell in sheet.iter(f"{_TABLE}table-cell", f"{_TABLE}shapes"):
        value = _text(cell)
        lines += [f"{value}: {text}" if value else text for text in _beside(cell)]
    return "\n\n".join([f"# {name}", "\n".join(lines)]) if lines else ""


def _read_rows(table: Element) -> list[list[str]]:
    """Return the rows of a table; tables in its cells are left out."""
    grid = Grid()
    for row in table.iter(f"{_TABLE}table-row"):
        if next(row.iterancestors(f"{_TABLE}table")) is not table:
            continue
        cells = [*row.iterchildren(f"{_TABLE}table-cell", f"{_TABLE}covered-table-cell")]
        while cells and _count(cells[-1], "columns-repeated") > 1 and not _value(cells[-1]):
            cells.pop()  # a sheet is filled up to its edge with empty cells
        for cell in cells:
            if cell.tag == f"{_TABLE}table-cell":
                covered = _count(cell, "rows-spanned"), _count(cell, "columns-spanned")
                grid.add_times(_count(cell, "columns-repeated"), _value(cell), *covered)
        grid.end_row(_count(row, "rows-repeated") if cells else 1)
    return grid.rows


def _value(cell: Element) -> str:
    """Return the value of a cell as it is shown, else as it is stored, else its formula."""
    text, date = _text(cell), cell.get(f"{_OFFICE}date-value", "")
    date = date.removesuffix("T00:00:00").replace("T", " ")
    numbers = {int(number) for number in re.findall(r"\d{1,9}", text)}
    if len(date) == _DAY and numbers and int(date[-2:]) not in numbers:
        date = date[:4] if text.isdecimal() else date[:7]  # only its month or year is shown
    shown = date or ("" if _TOO_NARROW.fullmatch(text) else text)
    stored = next(filter(None, (cell.get(f"{_OFFICE}{kind}value") for kind in _KINDS)), None)
    formula = cell.get(f"{_TABLE}formula", "").partition("=")[2]
    return shown or stored or (f"={formula} {NOT_COMPUTED}" if formula else "")


def _count(node: Element, what: str) -> int:
    """Return how many equal rows or columns an element stands for, or covers."""
    return min(read_whole(node.get(f"{_TABLE}number-{what}"), 1), _MOST_REPEATED)


def _read_page(slide: Element) -> str:
    return _join(_read_slide(slide))


def _read_slide(slide: Element) -> Iterator[str]:
    for child in slide.iterchildren("*"):
        blocks = _read(child)
        if child.get(f"{_PRESENTATION}class") == "title" and any(blocks):
            yield "# " + " ".join(blocks)
        elif child.tag != f"{_PRESENTATION}notes":
            yield from blocks
    for notes in slide.iterchildren(f"{_PRESENTATION}notes"):
        yield from _read(notes)


def _read(node: Element) -> list[str]:
    """Return the blocks below an element."""
    blocks: list[str] = []
    for child in node.iterchildren("*"):
        if child.tag in _LINES:
            blocks += [_mark(child) + _text(child), *_beside(child)]
        elif child.tag == f"{_TEXT}list":
            items = [item for item in child.iter(*_LINES) if not _is_aside(item, child)]
            lines = [(_mark(item) or "- ") + text for item in items if (text := _text(item))]
            blocks += ["\n".join(lines), *_beside(child)]
        elif child.tag == f"{_TABLE}table":
            blocks += ["\n".join(bar_lines(_read_rows(child))), *_beside(child)]
        elif child.tag not in _NO_TEXT:
            blocks += _read(child)
    return blocks


def _mark(node: Element) -> str:
    """Return the mark of a heading; an empty string for a paragraph."""
    level = read_whole(node.get(f"{_TEXT}outline-level"), 1)
    return "#" * min(6, level) + " " if node.tag == _HEADING else ""


def _text(node: Element) -> str:
    """Return the text of an element on one line, without what is anchored in it."""
    return fold("".join(_pieces(node)).replace(SOFT_HYPHEN, ""))


def _pieces(node: Element) -> Iterator[str]:
    yield node.text or ""
    for child in node.iterchildren("*"):
        if child.tag in _SPACES:
            yield " "
        elif not _is_anchored(child) and child.tag != f"{_TEXT}ruby-text":
            yield from _pieces(child)
            if child.tag in _LINES:
                yield " "
        yield child.tail or ""


def _is_anchored(node: Element) -> bool:
    """Return whether an element is a note, a comment or a drawing, which is anchored in a paragraph
    but no part of its text.
    """
    return node.tag in (_NOTE, _COMMENT) or (node.tag.startswith(_DRAW) and node.tag != f"{_DRAW}a")


def _is_aside(node: Element, top: Element) -> bool:
    """Return whether an element is inside something anchored below ``top``."""
    return node is not top and (_is_anchored(node) or _is_aside(node.getparent(), top))


def _beside(node: Element) -> list[str]:
    """Return the notes and the text of drawings that are anchored in an element."""
    blocks: list[str] = []
    for child in node.iterchildren("*"):
        if child.tag == _NOTE:
            mark = " ".join(map(_text, child.iter(f"{_TEXT}note-citation")))
            body = " ".join(map(_text, child.iter(f"{_TEXT}note-body")))
            blocks.append(f"[^{mark}]: {body}")
        elif child.tag == _COMMENT:
            author = child.findtext(f"{_DC}creator")
            text = " ".join(map(_text, child.iter(_PARAGRAPH)))
            blocks.append(f"[{author}: {text}]" if author else f"[{text}]")
        else:
            blocks += _read(child) if _is_anchored(child) else _beside(child)
    return blocks
