"""Excel workbooks, by openpyxl: each sheet under its name, a line a row, each value beside its column's name."""

import datetime
import io
import re
import warnings
from collections.abc import Iterator
from typing import Any

import openpyxl

from lmkrag.errors import DocumentError
from lmkrag.formats.base import Loaded, check_office_file
from lmkrag.formats.tabular import table_lines

_MIDNIGHT = datetime.time()
_DIGITS = 15  # Excel's own precision: 0.1 + 0.2 is 0.3 there
_LITERAL = re.compile(r'"[^"]*"|\\.')  # in a number's format


def read(data: bytes, name: str) -> Loaded:
    """Read an .xlsx file: the values that were last computed, not the formulas."""
    check_office_file(data, "Excel", ".xlsx")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of styles and validations, which nobody reads here
            workbook = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
            sheets = [(sheet.title, table_lines(list(_rows(sheet)))) for sheet in workbook.worksheets]
            title, author = workbook.properties.title or "", workbook.properties.creator or ""
            workbook.close()
    except Exception as error:  # openpyxl lets errors of its XML and zip readers through
        raise DocumentError(f"broken Excel file ({type(error).__name__})") from error
    parts = [f"# {sheet}\n\n" + "\n".join(lines) for sheet, lines in sheets if lines]
    if not parts:
        raise DocumentError("workbook without values")
    known = {"author": author} if author and author != "openpyxl" else {}
    return Loaded("\n\n".join(parts), "xlsx", title, meta=known)


def _rows(sheet: Any) -> Iterator[list[str]]:
    for row in sheet.iter_rows():
        cells = [_show(cell.value, cell.number_format) if cell.value is not None else "" for cell in row]
        if any(cells):
            yield cells


def _show(value: Any, number_format: str) -> str:
    """A value as people write it."""
    if isinstance(value, datetime.datetime):
        return value.date().isoformat() if value.time() == _MIDNIGHT else value.isoformat(" ", "minutes")
    if isinstance(value, int | float) and not isinstance(value, bool):
        if "%" in _LITERAL.sub("", number_format):
            return f"{100 * value:.{_DIGITS}g}%"
        return f"{value:.{_DIGITS}g}" if abs(value) < 10**_DIGITS else str(value)
    return str(value).strip()
