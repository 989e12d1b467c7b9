"""Excel workbooks, by openpyxl: each sheet under its name, a line for each row, each value beside
its column's name.
"""

import io
import posixpath
import re
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from html import unescape
from typing import IO, Any

from lxml import etree
from openpyxl.reader.excel import ExcelReader
from openpyxl.styles.stylesheet import apply_stylesheet
from openpyxl.utils.cell import coordinate_to_tuple, range_boundaries

from lmkrag.errors import DocumentError
from lmkrag.formats import base, html
from lmkrag.formats.base import (
    OLD_OFFICE,
    Links,
    Loaded,
    Parts,
    describe_properties,
    fold,
    mark_raised,
    open_office_file,
    parse_xml,
    read_whole,
)
from lmkrag.formats.cell_values import show_value
from lmkrag.formats.damaged_cells import Sheet
from lmkrag.formats.delimited import read_csv
from lmkrag.formats.drawings import DRAWING, read_paragraph
from lmkrag.formats.tabular import MOST_COVERED, Grid, Repeats, table_lines
from lmkrag.specs import NOT_COMPUTED

_MERGED = re.compile(rb"<(?:\w+:)?mergeCell\b[^<>]*?\bref=\"([A-Z]+\d+:[A-Z]+\d+)\"")
_NOT_COMPUTED = re.compile(
    rb"<(?:\w+:)?c\b(?![^<>]*\bt=)(?>[^<>]*?\br=\"([A-Z]+\d+)\")[^<>]*>\s*"
    rb"<(?:\w+:)?f\b[^<>]*?(?:/>|>([^<]*)</(?:\w+:)?f>)\s*+"
    rb"(?:<(?:\w+:)?v\s*/>|<(?:\w+:)?v>\s*</(?:\w+:)?v>)?+\s*</(?:\w+:)?c>"
)
_LINKED = re.compile(
    rb'<(?:\w+:)?hyperlink\b(?=[^<>]*\bref="([A-Z]+\d+))(?=[^<>]*\b\w+:id="([^"]+)")'
)
_LINK_FORMULA = re.compile(
    rb'<(?:\w+:)?c\b(?=[^<>]*?\br="([A-Z]+\d+)")[^<>]*>\s*<(?:\w+:)?f\b[^<>]*>\s*HYPERLINK\((?:"|&quot;)([^"<>()]*?)(?:"|&quot;)'
)
_CORE = "docProps/core.xml"
# Excel 97: the beginning of a workbook, and FILEPASS.
_LOCKED = re.compile(rb"\t\x08\x10\0\0\x06.{14}/\0", re.DOTALL)
_SHEETS = "{urn:schemas-microsoft-com:office:spreadsheet}"  # of Excel 2003


_Cells = list[list[str]]  # by row and column


class _Reader(ExcelReader):  # type: ignore[misc]  # openpyxl has no types
    """Reads a workbook's cells, even if its styles or properties are broken."""

    def open_sheets(self, parts: Parts) -> Iterator[Any]:
        """Read what the sheets have in common, and open each, without those that are broken."""
        self.read_manifest()
        self.read_strings()
        self.read_workbook()
        with suppress(Exception):  # of invalid values
            self.read_properties()
        with suppress(Exception):
            apply_stylesheet(self.archive, self.wb)
        for sheet, relation in self.parser.find_sheets():
            if relation.target in self.valid_files and "chartsheet" not in relation.Type:
                place = self.wb, sheet.name, relation.target, self.shared_strings
                opened = parts.read(f"sheet {sheet.name}", Sheet, *place)
                if opened is not None:
                    opened.sheet_state = sheet.state
                    yield opened


def _mark_raised_runs(file: IO[bytes], archive: zipfile.ZipFile) -> IO[bytes]:
    """Return a workbook with ``^`` before the exponents in its texts."""
    changed = {}
    for name in archive.namelist():
        if name.lower().startswith(("xl/sharedstrings", "xl/worksheets/")):
            xml = archive.read(name)
            with suppress(etree.XMLSyntaxError):  # its sheet is left out then
                if b'"superscript"' in xml:
                    changed[name] = _mark_raised(xml)
    return base.rewrite_archive(archive, changed) if changed else file


def _mark_raised(xml: bytes) -> bytes:
    root = parse_xml(xml)
    for text in root.iterfind(".//{*}r/{*}t"):
        if text.getparent().find("{*}rPr/{*}vertAlign[@val='superscript']") is not None:
            before = "".join(text.xpath("../preceding-sibling::*[1]/*[local-name()='t']/text()"))
            text.text = mark_raised(before, text.text or "")
    return bytes(etree.tostring(root))


def read(data: bytes, name: str) -> Loaded:
    """Read an Excel file: the values last computed, as they are shown.

    The comments and boxes of a sheet follow it. A sheet that can't be read is left out.

    Args:
        data: the bytes of the file.
        name: its name.

    Raises:
        DocumentError: it is encrypted, of a version before 2007, or too large.
    """
    file = open_office_file(data, "Excel", ".xlsx")
    with warnings.catch_warnings(), zipfile.ZipFile(file) as archive:
        warnings.simplefilter("ignore")  # of styles and validations, which are not read here
        reader = _Reader(
            _mark_raised_runs(file, archive), read_only=True, data_only=True, keep_links=False
        )
        parts = Parts()
        sheets = [
            (
                _name_sheet(sheet.title, sheet.sheet_state == "visible"),
                _read_sheet(sheet, archive, parts),
            )
            for sheet in reader.open_sheets(parts)
        ]
        # The properties: openpyxl fills in today's date, so the file's own is read from its XML.
        properties = reader.wb.properties
        core = archive.read(_CORE) if _CORE in archive.namelist() else b""
        changed = re.search(rb"<\w+:modified[^<>]*>([^<]*)<", core)
    meta = describe_properties(properties.creator, changed[1].decode() if changed else "")
    title = properties.title or ""
    return Loaded(_join(sheets), "xlsx", title, meta=meta, left_out=parts.left_out)


def _read_sheets(sheets: Iterable[tuple[str, Callable[[], list[str]]]]) -> Loaded:
    """Return a workbook from the names of its sheets and what reads the lines of each."""
    parts = Parts()
    lines = [(name, parts.read(f"sheet {name}", read) or []) for name, read in sheets]
    return Loaded(_join(lines), "xlsx", left_out=parts.left_out)


def read_old(data: bytes, name: str) -> Loaded:
    """Read an .xls or .xlsb file, by python-calamine: numbers without their formats, and no
    comments.

    Other files have these suffixes, too: HTML pages, CSV tables, and the XML of Excel 2003.

    Raises:
        DocumentError: it is encrypted.
    """
    import python_calamine as calamine

    if data.lstrip().startswith(b"<"):
        return _read_2003(data) if _SHEETS.strip("{}").encode() in data else html.read(data, name)
    if not data.startswith((OLD_OFFICE, b"PK", b"\t\x08")):
        return read_csv(data, name)
    if base.ENCRYPTED in data or _LOCKED.search(data):
        raise DocumentError("encrypted Excel file: save it without a password")
    book = calamine.CalamineWorkbook.from_filelike(io.BytesIO(data))
    return _read_sheets(
        (
            _name_sheet(sheet.name, sheet.visible == calamine.SheetVisibleEnum.Visible),
            partial(_read_old_sheet, book, sheet.name),
        )
        for sheet in book.sheets_metadata
        if sheet.typ == calamine.SheetTypeEnum.WorkSheet
    )


def _read_old_sheet(book: Any, name: str) -> list[str]:
    table = book.get_sheet_by_name(name)
    rows, repeats = _read_dense(table), Repeats()
    for (top, left), (bottom, right) in table.merged_cell_ranges or ():
        _repeat(rows, repeats, left + 1, top + 1, right + 1, bottom + 1)
    return table_lines(rows)


def _read_dense(table: Any) -> _Cells:
    """Return the rows of a sheet from its first row and column on; an empty row has no cells."""
    indent = [""] * (table.start or (0, 0))[1]
    rows = []
    for row in table.iter_rows():
        texts = [cell if cell == "" else show_value(cell, "General") for cell in row]
        rows.append([*indent, *texts] if any(texts) else [])
    return rows


def _read_2003(data: bytes) -> Loaded:
    sheets = parse_xml(data.lstrip()).iter(f"{_SHEETS}Worksheet")
    return _read_sheets(
        (sheet.get(f"{_SHEETS}Name", ""), partial(_read_2003_sheet, sheet)) for sheet in sheets
    )


def _read_2003_sheet(sheet: etree._Element) -> list[str]:
    grid = Grid()
    for row in sheet.iter(f"{_SHEETS}Row"):
        for cell in row.iterchildren(f"{_SHEETS}Cell"):
            text = "".join(cell.xpath("*[local-name()='Data']//text()")).strip()
            down = read_whole(cell.get(f"{_SHEETS}MergeDown"), 0)
            across = read_whole(cell.get(f"{_SHEETS}MergeAcross"), 0)
            place = read_whole(cell.get(f"{_SHEETS}Index"), 0)
            grid.add(text.removesuffix("T00:00:00.000"), down + 1, across + 1, place)
        grid.end_row()
    return table_lines(grid.rows)


def _name_sheet(name: str, is_visible: bool) -> str:
    """Return the heading of a sheet, which says so if the sheet is hidden."""
    return name if is_visible else f"{name} (hidden sheet)"


def _join(sheets: Iterable[tuple[str, list[str]]]) -> str:
    return "\n\n".join(f"# {name}\n\n" + "\n".join(lines) for name, lines in sheets if lines)


def _read_sheet(sheet: Any, archive: zipfile.ZipFile, parts: Parts) -> list[str]:
    path, name = sheet._worksheet_path.lstrip("/"), f"sheet {sheet.title}"
    rows, lines = parts.read(name, _read_cells, sheet, path, archive) or ([], [])
    beside = parts.read(f"comments of {name}", lambda: [*_read_beside(path, archive)]) or []
    for coordinate, text in beside:
        value = _value(rows, *coordinate_to_tuple(coordinate)) if coordinate else ""
        lines += [f"{value}: {text}" if value else text]
    return lines


def _read_cells(sheet: Any, path: str, archive: zipfile.ZipFile) -> tuple[_Cells, list[str]]:
    """Return the cells of a sheet as they are shown, by rows, and the lines made of them."""
    xml = archive.read(path)
    formulas = {}
    for place, formula in _NOT_COMPUTED.findall(xml):
        shown = unescape(formula.decode("utf-8", "replace"))
        formulas[coordinate_to_tuple(place.decode())] = f"={shown} {NOT_COMPUTED}"
    rows: list[list[str]] = []
    sheet.reset_dimensions()  # report generators write wrong ones
    for number, row in enumerate(sheet.iter_rows(), 1):
        texts = [
            formulas.get((number, column), "")
            if cell.value is None
            else show_value(cell.value, _read_format(cell))
            for column, cell in enumerate(row, 1)
        ]
        rows.append(texts if any(texts) else [])
    for place, address in _find_links(xml, path, archive):
        row, column = coordinate_to_tuple(place)
        if words := _value(rows, row, column):
            rows[row - 1][column - 1] += Links().add(words, address, words, is_alone=True)
    repeats = Repeats()
    for merged in _MERGED.findall(xml):
        _repeat(rows, repeats, *range_boundaries(merged.decode()))
    return rows, table_lines(rows)


def _read_format(cell: Any) -> str:
    try:
        return str(cell.number_format)
    except (AttributeError, IndexError, TypeError):  # of a style that is not there
        return "General"


def _value(rows: Sequence[Sequence[str]], row: int, column: int) -> str:
    return "".join(cell for cells in rows[row - 1 : row] for cell in cells[column - 1 : column])


def _repeat(rows: _Cells, repeats: Repeats, left: int, top: int, right: int, bottom: int) -> None:
    """Write the value of a merged cell into each row and column that it covers.

    A value that is alone in its row is a caption, and stands there once.

    Args:
        rows: the rows of the sheet, which are changed.
        repeats: counts the characters that are added.
        left: first column, from 1.
        top: first row, from 1.
        right: last column.
        bottom: last row.
    """
    value = _value(rows, top, left)
    right = min(right, left + MOST_COVERED)
    if not value:
        return
    for number, cells in enumerate(rows[top - 1 : min(bottom, top + MOST_COVERED)]):
        repeats.count(value, right - left + 1)
        own = 1 if number == 0 else 0  # the value itself stands in the first row
        if sum(map(bool, cells)) > own:
            cells += [""] * (right - len(cells))
            cells[left - 1 : right] = [value] * (right - left + 1)


def _find_links(xml: bytes, path: str, archive: zipfile.ZipFile) -> Iterator[tuple[str, str]]:
    """Yield the cells of a sheet that are links, each with its address."""
    targets = {each.get("Id"): each.get("Target", "") for each in _read_relations(path, archive)}
    for place, key in _LINKED.findall(xml):
        yield place.decode(), targets.get(key.decode(), "")
    for place, address in _LINK_FORMULA.findall(xml):
        yield place.decode(), unescape(address.decode("utf-8", "replace"))


def _read_relations(path: str, archive: zipfile.ZipFile) -> list[etree._Element]:
    folder, name = posixpath.split(path)
    relations = f"{folder}/_rels/{name}.rels"
    if relations not in archive.namelist():
        return []
    return [*parse_xml(archive.read(relations))]


def _read_beside(path: str, archive: zipfile.ZipFile) -> Iterator[tuple[str, str]]:
    """Yield the comments of a sheet with their cells, and the text of its boxes."""
    folder = posixpath.dirname(path)
    for relation in _read_relations(path, archive):
        kind, target = relation.get("Type", ""), relation.get("Target", "")
        target = posixpath.normpath(posixpath.join("/" + folder, target)).lstrip("/")
        if target not in archive.namelist():
            continue
        if kind.endswith("/comments"):
            for comment in parse_xml(archive.read(target)).iterfind(".//{*}comment"):
                text = fold("".join(part.text or "" for part in comment.iterfind(".//{*}t")))
                yield comment.get("ref", ""), re.sub(r"^\[Threaded comment\].*?Comment: ", "", text)
        elif kind.endswith("/drawing"):
            paragraphs = parse_xml(archive.read(target)).iter(f"{DRAWING}p")
            yield from (("", text) for text in map(read_paragraph, paragraphs) if text)
