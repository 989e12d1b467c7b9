"""Excel workbooks, by openpyxl: each sheet under its name, a line a row, each value beside its column's name."""

import datetime
import io
import warnings
from collections.abc import Iterator
from typing import Any

import openpyxl

from lmkrag.corpus.formats.base import Loaded, check_office_file
from lmkrag.corpus.formats.tabular import table_lines
from lmkrag.errors import DocumentError

_MIDNIGHT = datetime.time()


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
    for row in sheet.iter_rows(values_only=True):
        cells = [_show(value) for value in row]
        if any(cells):
            yield cells


def _show(value: Any) -> str:
    """A value as people write it."""
    if value is None:
        return ""
    if isinstance(value, datetime.datetime):
        return value.date().isoformat() if value.time() == _MIDNIGHT else value.isoformat(" ", "minutes")
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value).strip()
