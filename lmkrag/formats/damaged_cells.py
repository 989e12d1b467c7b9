"""Sheets of Excel of which some cells are damaged: openpyxl gives up the sheet, here the rest is
read.
"""

from collections.abc import Iterator
from typing import Any

from openpyxl.worksheet._read_only import ReadOnlyWorksheet
from openpyxl.worksheet._reader import VALUE_TAG, WorkSheetParser

_Row = tuple[Any, ...]


class Sheet(ReadOnlyWorksheet):  # type: ignore[misc]  # openpyxl has no types
    """A sheet whose damaged cells have no style, and a text without type as their value."""

    def _cells_by_row(
        self, min_col: int, min_row: int, *others: Any, **options: Any
    ) -> Iterator[_Row]:
        with self._get_source() as source:
            parser = _Parser(
                source,
                self._shared_strings,
                data_only=self.parent.data_only,
                epoch=self.parent.epoch,
                date_formats=self.parent._date_formats,
                timedelta_formats=self.parent._timedelta_formats,
            )
            following = min_row
            for number, cells in parser.parse():
                for _ in range(following, number):
                    yield ()
                following = max(following, number) + 1
                yield self._get_row(cells, min_col)


class _Parser(WorkSheetParser):  # type: ignore[misc]
    col_counter: int  # the column of the last cell, from 1

    def parse_cell(self, element: Any) -> dict[str, Any]:
        column = self.col_counter
        try:
            cell: dict[str, Any] = super().parse_cell(element)
        except (ValueError, IndexError, TypeError):
            is_shared = element.get("t") == "s"  # a number that stands for no text
            if is_shared and (value := element.find(VALUE_TAG)) is not None:
                element.remove(value)
            element.attrib.pop("s", None)
            element.set("t", "str")
            self.col_counter = column
            cell = super().parse_cell(element)
        return cell
