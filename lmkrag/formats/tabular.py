"""Tables: their headers, captions and merged cells; a line for each record, each value beside its
column's name.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, pairwise, takewhile, zip_longest
from typing import NamedTuple

from lmkrag.errors import DocumentError
from lmkrag.formats.base import fold, table_row
from lmkrag.formats.columns import YEAR

Row = Sequence[str]
Rows = Sequence[Row]

# A number, date, address: no column's name.
_VALUE = re.compile(r"[-+]?[$€£]?\d[\d.,:/%\s-]*$|\S[^\s@]*@\S[^\s.]*\.\S+$|https?://")
_PERIOD = re.compile(  # a year, month, date or hour: names of columns of figures
    rf"(?:(?:{YEAR}(?:[-/.](?:\d\d?|{YEAR})(?:[-/.]\d\d?)?|[01]\d(?:[0-3]\d)?)?"
    rf"|\d\d?[-/.](?:\d\d?[-/.])?(?:{YEAR}|\d\d)|\d\d?\.\d\d?\.|\d\d?[-–]\d\d?)(?:[ "
    r"T]+\d\d?:\d\d(?::[\d.]+)?Z?)?"
    r"|\d\d?:\d\d)$"
)
_SPAN = re.compile(r"\d[\d.,]*\s?(?:%|[-–]\s?\d[\d.,]*)$")  # 5%, 100-499: columns of figures, too
_DIGIT = re.compile(rf"{YEAR}|\d")
_LETTERS, _NUMBER = re.compile(r"[^\W\d_]+"), re.compile(r"\d+")
_VALUES = frozenset(
    "value values wert valeur valor valore waarde data content details answer setting".split()
)
_LONG_NAME = 60  # characters: more are rather text, if those below have as many
_ROWS_ABOVE = 20  # a header, at most
_SAMPLE_ROWS = 200  # below a row, which tell whether it is a header
MOST_COVERED = 1_000  # rows or columns that a cell covers
_MOST_REPEATED = 30_000_000  # characters of a table's cells that are there again
_BORDER = 3  # characters between two cells
_SENTENCE_ENDS = (".", "!", "?", ":")
_REMARK = re.compile(r"[(*†‡]|(?:notes?|sources?|quellen?|anmerkung(?:en)?|n\.?b)\b", re.IGNORECASE)
_LONGEST_UNIT = 12
_FEWEST_REMARKS = 3  # cells of a row that may be remarks above a header


def most_frequent(counts: Counter[int]) -> int:
    """Return the most frequent number, the largest of several; 0 if there is none."""
    return max(counts, key=lambda number: (counts[number], number), default=0)


class Repeats:
    """Counts the characters that cells of a table add by covering or repeating others.

    A few bytes of a file may stand for gigabytes.
    """

    def __init__(self) -> None:
        self._left = _MOST_REPEATED

    def count(self, text: str, times: int) -> None:
        """Count a cell that is repeated.

        Args:
            text: the text of the cell.
            times: how often it is there in addition.

        Raises:
            DocumentError: the repeated cells of the table have too many characters.
        """
        self._left -= times * (len(text) + _BORDER)
        if self._left < 0:
            raise DocumentError(
                f"a table that repeats its cells for more than {_MOST_REPEATED:,} "
                "characters: refused"
            )


class Grid:
    """The rows of a table in which cells may cover several rows and columns.

    State: the open row, and the cells that reach below it. Methods raise DocumentError if cells
    repeat too much.

    Attributes:
        rows: the closed rows.
    """

    def __init__(self) -> None:
        self.rows: list[list[str]] = []
        self._row: list[str] = []
        self._values = 0
        # By column: rows that a cell still covers, and its text.
        self._above: dict[int, tuple[int, str]] = {}
        self._repeats = Repeats()

    def add(self, text: str, rows: int = 1, columns: int = 1, place: int = 0) -> None:
        """Add the next cell to the open row, right of the cells that reach down to it.

        Args:
            text: the text of the cell.
            rows: number of rows that it covers, at most 1,000.
            columns: number of columns that it covers, at most 1,000.
            place: its column, from 1; 0 for the next free one.

        Raises:
            DocumentError: cells repeat too much.
        """
        self._fill()
        while (gap := min(place, MOST_COVERED) - 1 - len(self._row)) > 0:
            times = 1 if self._above else gap
            self._repeats.count("", times)
            self._row += [""] * times
            self._fill()
        rows, columns = (max(1, min(MOST_COVERED, count)) for count in (rows, columns))
        self._values += 1 if text else 0
        self._repeats.count(text, columns - 1)
        for _ in range(columns):
            self._append(text, rows)

    def add_times(self, times: int, text: str, rows: int, columns: int) -> None:
        """Add a cell that stands for several equal ones.

        Args:
            times: number of cells.
            text: the text of each.
            rows: number of rows that each covers.
            columns: number of columns that each covers.

        Raises:
            DocumentError: cells repeat too much.
        """
        self._repeats.count(text, times - 1)
        if rows == columns == 1 and not self._above:
            self._values += times if text else 0
            self._row += [text] * times
            return
        for _ in range(times):
            self.add(text, rows, columns)

    def _fill(self) -> None:
        while len(self._row) in self._above:
            rows, text = self._above.pop(len(self._row))
            self._repeats.count(text, 1)
            self._append(text, rows)
            self._values += 2 if text else 0

    def _append(self, text: str, rows: int) -> None:
        if rows > 1:
            self._above[len(self._row)] = rows - 1, text
        self._row.append(text)

    def end_row(self, times: int = 1) -> None:
        """Close the open row, which may stand for several equal ones.

        A value that has a row to itself is there once, whatever its cell covers: it is a caption.

        Args:
            times: number of rows.
        """
        self._fill()
        values = [*filter(None, self._row)]
        row = values[:1] if self._values == 1 < len(values) else self._row
        if times > 1:
            for cell in row:
                self._repeats.count(cell, times - 1)
        self.rows += [row] * times
        self._row, self._values = [], 0


class Table(NamedTuple):
    """A table that was split at its header.

    Attributes:
        captions: the rows above the header.
        names: the names of the columns; empty if there is no header.
        records: the rows below.
    """

    captions: Rows
    names: Row
    records: Rows


def table_lines(rows: Iterable[Row]) -> list[str]:
    """Return a line for each row, each value beside its column's name if the column has one.

    Blank rows divide tables.
    """
    lines: list[str] = []
    tables = chain.from_iterable(map(_read_tables, _split_beside([*map(strip_row, rows)])))
    for table, caption in _name_tables(tables):
        lines += [_show_row([cell for cell, _ in groupby(row)]) for row in table.captions]
        for row, label in zip(table.records, _find_labels(table), strict=True):
            is_alone = _is_remark(row) or [label] == row
            shown = _show_row(row, () if is_alone else table.names)
            above = [caption] if is_alone else [caption, label]
            lines.append(" | ".join(filter(None, [*above, shown])))
    return lines


def _find_labels(table: Table) -> list[str]:
    """Return for each record of a table the label above it: a row of one cell, such as a region.

    There are none unless the table begins with one, has several, and rows below each.
    """
    singles = [len(row) == 1 and not _is_remark(row) for row in table.records]
    are_labels = singles[:1] == [True] and sum(singles) > 1 and not singles[-1]
    if not are_labels or any(above and below for above, below in pairwise(singles)):
        return [""] * len(singles)
    labels: list[str] = []
    for row, is_single in zip(table.records, singles, strict=True):
        labels.append(row[0] if is_single else labels[-1])
    return labels


def _split_beside(rows: Rows) -> list[Rows]:
    """Return the tables of a sheet that stand side by side, with blank columns between.

    Columns that are set apart within one table stay in it. Those at the left that are blank in all
    rows are left out.
    """
    filled = {place for row in rows for place, cell in enumerate(row) if cell}
    columns = groupby(range(max(filled, default=0) + 1), key=filled.__contains__)
    bands = [[*places] for is_filled, places in columns if is_filled]
    sheet = [row[min(filled, default=0) :] for row in rows]
    if len(bands) < 2 or min(map(len, bands)) < 2:
        return [sheet]
    parts: list[Rows] = [[strip_row(row[band[0] : band[-1] + 1]) for row in rows] for band in bands]
    return parts if _are_apart(parts) else [sheet]


def _are_apart(parts: Sequence[Rows]) -> bool:
    """Return whether the parts of a sheet that stand side by side are tables of their own.

    They are if their first columns have the same name. Else each must name its rows, and they have
    titles of their own or end in different rows.
    """
    tables = [split_table([*filter(None, part)]) for part in parts]
    if not all(table.names for table in tables):
        return False
    if len({table.names[0] for table in tables}) == 1:
        return True
    ends = {max(number for number, row in enumerate(part) if row) for part in parts}
    return (len(ends) > 1 or all(table.captions for table in tables)) and all(
        _name_rows(table.records) for table in tables
    )


def _name_rows(records: Rows) -> bool:
    """Return whether the first cells of records are names, each another."""
    names = {row[0] for row in records}
    return len(names) == len(records) and all(map(_is_name, names))


def _read_tables(rows: Rows) -> Iterator[Table]:
    """Yield the tables of a sheet; what is no table has rows of captions alone."""
    names: Row = ()
    above: Rows = ()
    is_wide = any(len(row) > 1 for row in rows)
    groups = _divide(rows)
    cards = _find_cards(groups)
    for captions, below, card in zip_longest(groups, groups[1:], cards, fillvalue=()):
        if card:
            yield card
            names, above = (), ()
            continue
        records: Rows = ()
        # Rows of one cell each above a wider table are a title or a remark.
        is_table = not is_wide or any(sum(map(bool, row)) > 1 for row in captions)
        if is_table and (above or not _are_labels(captions, below)):
            captions, names, records = split_table(
                captions, () if _are_unlike(above, captions) else names
            )
            above = records
        yield Table(captions, names, records)


def _find_cards(groups: Sequence[Rows]) -> list[Table | None]:
    """Return for each group of rows the table with one record that it is if it is a card, such as
    ``Name | Ada Byrne`` above ``Room | 210``.

    Other cards have the same labels. If all have the same first value, it is the name of a column.
    """
    cards = [*map(_read_card, groups)]
    values: dict[Row, set[str]] = {}
    for card in filter(None, cards):
        values.setdefault(card.names, set()).add(card.records[0][0])
    return [card if card and len(values[card.names]) > 1 else None for card in cards]


def _read_card(rows: Rows) -> Table | None:
    """Return a table with one record, of labels and values that stand below each other, perhaps
    below a title; None if rows are none.
    """
    titles = rows[:1] if len(rows[0]) == 1 else ()
    columns = [*zip_longest(*rows[len(titles) :], fillvalue="")]
    if len(columns) != 2 or len({*columns[0]}) < max(2, len(columns[0])):
        return None
    names, values = columns
    return Table(titles, names, [values]) if all(map(_is_name, names)) else None


def _name_tables(tables: Iterable[Table]) -> Iterator[tuple[Table, str]]:
    """Yield tables, each with the caption that tells it from those with the same columns."""
    captioned: list[tuple[Table, str]] = []
    different: dict[Row, set[str]] = defaultdict(set)  # captions by names of columns
    caption = ""
    for table in tables:
        if table.captions:
            values = {*filter(None, table.captions[-1])}
            caption = "".join(values) if len(values) == 1 else ""
        own = caption if table.records and table.names else ""
        captioned.append((table, own))
        different[tuple(table.names)].update([own] if own else ())
    for table, own in captioned:
        is_needed = len(different[tuple(table.names)]) > 1 and len(own) <= _LONG_NAME
        yield table, own if is_needed else ""


def _is_remark(row: Row) -> bool:
    """Return whether a row is a note below a table, or a label of the rows that follow."""
    return len(row) == 1 and bool(row[0].endswith(_SENTENCE_ENDS) or _REMARK.match(row[0]))


def _show_row(row: Row, names: Row = ()) -> str:
    """Return a row with the names of its columns; without names as ``From: 1 May | To: 3 May`` if
    its cells are labels and values.
    """
    shown = format_record(zip_longest(names, row, fillvalue=""))
    return shown if names else shown.replace(": | ", ": ")


def _divide(rows: Rows) -> list[Rows]:
    """Return the rows between blank rows, as groups.

    A header alone between blank rows joins the rows below it. If each row has a blank row after it,
    the blank rows divide nothing.
    """
    groups: list[Rows] = [list(group) for is_filled, group in groupby(rows, key=any) if is_filled]
    if len(groups) > 2 and all(len(group) == 1 < len(group[0]) for group in groups):
        return [[*chain(*groups)]]
    for number in range(len(groups) - 2, -1, -1):
        first, below = groups[number : number + 2]
        joined = [*first, *below]
        is_alone = len(first) == 1 < len(first[0])
        if is_alone and _find_header(below, False) is None and _has_figures_below(joined, 0):
            groups[number : number + 2] = [joined]
    return groups


def _are_labels(rows: Rows, below: Rows) -> bool:
    """Return whether the rows above the first table are labels and their values, such as ``Customer
    | Ada Byrne``.

    They are if that table has more columns, and values are words.
    """
    is_narrow = max(map(len, rows)) == 2 < _usual_count(below)
    return is_narrow and any(_find_kind(row[-1]) == "words" for row in rows[1:])


def _are_unlike(above: Rows, rows: Rows) -> bool:
    """Return whether rows can't continue the table above a blank row.

    They can't if a column has words where the table above has figures.
    """
    columns = zip(zip_longest(*above, fillvalue=""), zip_longest(*rows, fillvalue=""), strict=False)
    return len(rows) > 1 and any(
        all(map(_VALUE.match, old)) and not any(map(_VALUE.match, new)) for old, new in columns
    )


def bar_lines(rows: Iterable[Row]) -> list[str]:
    """Return the rows of a table between bars, captions and boxes around words as plain lines.

    A row of blank cells is the header of a table without names of columns, as Markdown has it.
    """
    rows = [cells for row in rows if any(cells := [cell.strip() for cell in row])]
    if all(len({*row} - {""}) == 1 for row in rows):
        return ["".join({*row}) for row in rows]
    table = split_table(rows)
    captions = [
        " | ".join(cell for cell, _ in groupby(caption) if cell) for caption in table.captions
    ]
    names = table.names or ([""] * max(map(len, table.records)) if len(table.records) > 1 else ())
    return [*captions, *map(table_row, [names, *table.records] if names else table.records)]


def split_table(rows: Rows, names: Row = ()) -> Table:
    """Split a table at its header.

    A header of several rows is joined, and one that is repeated is no record.

    Args:
        rows: cells without white space at their ends; a merged cell is in each row and column that
            it covers.
        names: the names of the columns of the table above. That table goes on unless these rows
            have a header and figures below it.
    """
    number = _find_header(rows, bool(names))
    if number is None:
        return Table((), names, _fill_groups([row for row in rows if row != names], names))
    # Find the rows of the header: groups of columns above or below the row of names.
    first = last = number
    while _has_groups(rows[last]) and _has_figures_below(rows, last + 1):
        last += 1
    while first and _has_groups(rows[first - 1]):
        first -= 1
    if first and _are_remarks(rows[first - 1], rows[first]):
        first = last
    header = [*rows[first : last + 1]]
    if 0 < first == last and (reaching := _reach_over(rows[first - 1], header[0])):
        first, header = first - 1, [reaching, *header]
    # Units below the names belong to the header; what is left are the records.
    captions = rows[:last]
    if units := _find_units(rows[last + 1 :]):
        last += 1
        header.append(units)
    joined = [
        " ".join(filter(None, dict.fromkeys(cells))) for cells in zip_longest(*header, fillvalue="")
    ]
    records = [row for row in rows[last + 1 :] if not any(_repeats(row, names) for names in header)]
    return Table(captions, joined, _fill_groups(records, joined))


def _are_remarks(row: Row, below: Row) -> bool:
    """Return whether a row and the one below it are remarks in several cells, not names of groups
    of columns.

    In a header of several rows a cell begins where a cell below it begins. A remark may begin above
    the middle of a merged cell.
    """
    pairs = pairwise(zip(row, below, strict=False))
    return _count(row) >= _FEWEST_REMARKS and any(
        cell and cell != left and cell_below and cell_below == left_below
        for (left, left_below), (cell, cell_below) in pairs
    )


def _fill_groups(records: Rows, names: Row) -> Rows:
    """Return the records with the names of their groups, such as regions, which a table has in the
    first row of each group alone.
    """
    columns = range(len(names) - 1)
    groups = len([*takewhile(lambda column: _names_groups(records, column), columns)])
    if groups == 0:
        return records
    filled: list[Row] = []
    above: Row = ()
    for row in records:
        first = next((place for place, cell in enumerate(row) if cell), 0)
        is_named = any(row[groups : groups + 1])  # else it is a total, and of no group
        filled.append([*above[:first], *row[first:]] if is_named and first <= groups else row)
        above = filled[-1] if is_named else above
    return filled


def _names_groups(records: Rows, column: int) -> bool:
    """Return whether a column names groups.

    The first record has a name, most names stand above a blank cell, none follows itself, and none
    is an amount or a text.
    """
    named = [
        (row, below)
        for row, below in pairwise(records)
        if len(row) > column + 1 and row[column] and row[column + 1]
    ]
    blank = sum(not any(below[column : column + 1]) for _, below in named)
    if not named or named[0][0] != records[0] or 3 * blank < 2 * len(named):
        return False
    groups = [row[: column + 1] for row, _ in named]
    return all(left != right for left, right in pairwise(groups)) and all(
        _is_name(name) for *_, name in groups
    )


def _is_name(cell: str) -> bool:
    """Return whether a cell may name a group or a row: no amount, address or text."""
    is_short = 0 < len(cell) <= _LONG_NAME
    return is_short and bool(_PERIOD.match(cell) or not _VALUE.match(cell))


def _repeats(row: Row, names: Row) -> bool:
    """Return whether a row repeats the names of the columns; the first may have a remark: ``Port
    (continued)``.
    """
    if len(row) != len(names) or row[-1].casefold() != names[-1].casefold():
        return False  # as of most rows
    row, names = ([cell.casefold() for cell in cells] for cells in (row, names))
    return row == names or (row[1:] == names[1:] != [] and row[0].startswith(names[0]))


def _find_units(rows: Rows) -> Row:
    """Return the units that the rows below a header begin with, by column; an empty row for none.

    Units are short words above figures. The first cell, which would name the row, is blank or one
    of them.
    """
    first, *below = rows
    units = ["", *first[1:]] if first[:1] == ["-"] else first
    are_units = (units[:1] == [""] or len(below) > 1) and all(
        len(column.name) <= _LONGEST_UNIT
        and not _VALUE.match(column.name)
        and 2 * column.count_figures() > len(column.cells)
        for column in _read_columns(units, below)
    )
    return units if are_units else ()


def _reach_over(groups: Row, names: Row) -> list[str] | None:
    """Return the names of groups of columns as if their cells were merged; None if they are not
    needed.

    They are needed if columns of different groups have the same name.
    """
    cells = (group for group, _ in zip_longest(groups, names, fillvalue=""))
    filled: list[str] = []
    for cell in cells:
        left = filled[-1] if filled else ""
        filled.append(cell or left)
    pairs = Counter(zip_longest(filled, names))
    return filled if max(Counter(names).values()) > 1 == max(pairs.values()) else None


class _Rank(NamedTuple):
    """How well a row names columns: figures below it count most, then names, then that none is a
    date or a number.
    """

    has_figures: bool
    names: int
    has_words_only: bool


class _Column(NamedTuple):
    """The name that a row may give to a column, and the values below it that are not blank."""

    name: str
    cells: list[str]

    def count_figures(self) -> int:
        return count_matches(_VALUE, self.cells)


def _read_columns(row: Row, below: Rows) -> list[_Column]:
    """Return the name that a row gives to each column, with the values below it."""
    return [
        _Column(name, [other[place] for other in below if place < len(other) and other[place]])
        for place, name in enumerate(row)
        if name
    ]


def _find_header(rows: Rows, need_figures: bool) -> int | None:
    """Return the number of the row that names the columns; None if there is none.

    Rows with fewer cells, such as captions and groups of columns, may stand above it.
    """
    best, header = None, None
    for number, row in enumerate(rows[: min(_ROWS_ABOVE, len(rows) - 1)]):
        rank = _rank(rows, number)
        if (
            rank
            and (rank.has_figures or not need_figures)
            and (best is None or _is_better(rank, best))
        ):
            best, header = rank, number
        is_full = _count(row) >= _usual_count(rows[number + 1 : number + 1 + _SAMPLE_ROWS])
        if is_full and not _has_groups(row) and (rank is None or rank.has_words_only):
            break
        need_figures |= is_full  # below a row of groups of columns
    return header


def _is_better(rank: _Rank, best: _Rank) -> bool:
    """Return whether a row is a better header than one above it.

    More names alone decide only if that row has a single one.
    """
    return rank > best and (rank.has_figures or best.names < 2)


def _has_figures_below(rows: Rows, number: int) -> bool:
    """Return whether a row names columns, and one of the columns has figures."""
    rank = _rank(rows, number)
    return rank is not None and rank.has_figures


def _rank(rows: Rows, number: int) -> _Rank | None:
    """Return how well a row names columns; None for a record, prose, or a row with too few names.

    Args:
        rows: the rows of a table.
        number: the number of the row.
    """
    row, sample = rows[number], rows[number + 1 : number + 1 + _SAMPLE_ROWS]
    below = [
        other for other in sample if not any(_repeats(other, names) for names in rows[: number + 1])
    ]
    columns = _read_columns(row, below)
    values = [column for column in columns if _VALUE.match(column.name)]
    count, usual = _count(row), _usual_count(below)
    has_few_names = 2 * count < usual or (values and count < usual)
    if not below or has_few_names or _is_prose(row, below, columns):
        return None
    if _is_record(row, below, columns) or not all(_names_column(each, row) for each in values):
        return None
    has_figures = any(
        column.cells and 2 * column.count_figures() >= len(column.cells) for column in columns
    )
    return _Rank(has_figures, count, not values)


def _is_prose(row: Row, below: Rows, columns: Sequence[_Column]) -> bool:
    """Return whether a row and the rows below it are prose: sentences, lines of a text, or
    paragraphs side by side.
    """
    if _usual_count(below) == 1 and row[0].endswith(_SENTENCE_ENDS):
        return True
    are_sentences = all(cell.endswith(_SENTENCE_ENDS[:3]) for cell in chain(row, *below) if cell)
    return are_sentences or (len(columns) > 1 and all(map(_has_paragraphs, columns)))


def _has_paragraphs(column: _Column) -> bool:
    """Return whether a name and at least half of the values below it are longer than names of
    columns are.
    """
    long_cells = [cell for cell in column.cells if len(cell) > _LONG_NAME]
    return len(column.name) > _LONG_NAME and 2 * len(long_cells) >= len(column.cells)


def _is_record(row: Row, below: Rows, columns: Sequence[_Column]) -> bool:
    """Return whether a row looks like the rows below it, so that it is a record and no header."""
    has_value = any(column.name in column.cells or _has_code(column) for column in columns)
    return has_value or _has_label(row, below) or (len(below) > 1 and _is_written_alike(columns))


def _has_code(column: _Column) -> bool:
    """Return whether a name is a code like the codes below it.

    G5210 above G5200 and G5220 is one; MTFCC10 above them is a name.
    """
    shape = _find_shape(column.name)
    has_number = any(map(str.isdigit, column.name))
    if not shape or not has_number or {*map(_find_shape, column.cells)} != {shape}:
        return False
    prefix, *prefixes = (_NUMBER.sub("", code) for code in (column.name, *column.cells))
    return len(prefixes) == 1 or len({*prefixes}) > 1 or prefix in prefixes


def _has_label(row: Row, below: Rows) -> bool:
    """Return whether a row is a label and its value: ``From: | 1 May``, or ``IBAN | DE12 3456``
    above values of other kinds.
    """
    if len(row) != 2 or row[0].endswith(":"):
        return row[0].endswith(":")
    is_number = len(_DIGIT.findall(row[1])) > 4 and not _VALUE.match(row[1])
    return is_number or (
        row[1].casefold() not in _VALUES and len({_find_kind(other[-1]) for other in below}) > 2
    )


def _is_written_alike(columns: Sequence[_Column]) -> bool:
    """Return whether some columns are in small letters and all others are not, their names
    included.

    Then the first row is a record: oak beside Quercus.
    """
    styles = {frozenset(map(_is_lower, (column.name, *column.cells))) for column in columns}
    return styles == {frozenset({True}), frozenset({False})}


def _is_lower(cell: str) -> bool | None:
    """Return whether a cell is in small letters; None if it has no letters."""
    return cell.islower() if any(map(str.isalpha, cell)) else None


def _names_column(column: _Column, row: Row) -> bool:
    """Return whether a number or a date is the name of a column.

    It is if it is a period (2023, 1 May), or, beside words, a span (5 %, 100-499) or one of a
    series (1, 2, 3). Any figure names a column of words.
    """
    name, cells = column
    figures = column.count_figures()
    if 2 * count_matches(_PERIOD, cells) > len(cells):
        return False  # a date above dates
    if len(row) == 2 and not 1 < len(cells) == figures:
        return False  # the first of several labels and their values
    if _PERIOD.match(name) or (len(cells) > 1 and not figures):
        return True
    is_span = _SPAN.match(name) and not any(map(_SPAN.match, cells))
    has_words = any(cell and not _VALUE.match(cell) for cell in row)
    return has_words and (bool(is_span) or _is_series(row))


def _is_series(row: Row) -> bool:
    """Return whether the small numbers of a row count from 0 or 1."""
    digits = [int(cell) for cell in row if cell.isdecimal() and len(cell) < 3]
    steps = {right - left for left, right in pairwise(digits)}
    return len(digits) > 2 and digits[0] < 2 and steps == {1}


def count_matches(pattern: re.Pattern[str], cells: Iterable[str]) -> int:
    """Return how many cells begin with what a pattern matches."""
    return sum(pattern.match(cell) is not None for cell in cells)


def _find_shape(cell: str) -> str:
    """A cell with a letter for each word and a figure for each number, as codes have it:
    ``a-9``.
    """
    return _NUMBER.sub("9", _LETTERS.sub("a", cell)) if not _VALUE.match(cell) else ""


def _find_kind(cell: str) -> str:
    if _PERIOD.match(cell):
        return "period"
    if "@" in cell or "//" in cell:
        return "address"
    return "figure" if cell[:1].isdigit() or _VALUE.match(cell) else "words"


def _count(row: Row) -> int:
    """Return the number of values of a row; a blank corner above the names of rows counts, too."""
    return sum(map(bool, row)) + (len(row) > 2 and not row[0])


def _usual_count(rows: Rows) -> int:
    """Return the most frequent number of values in a row."""
    return most_frequent(Counter(sum(map(bool, row)) for row in rows))


def _has_groups(row: Row) -> bool:
    """Return whether a name covers several columns, as a year above its quarters does."""
    return any(left and left == right for left, right in pairwise(row))


def strip_row(row: Row) -> list[str]:
    """Return the cells of a row without white space at their ends, and without the blank cells at
    its end.
    """
    cells = [cell.strip() for cell in row]
    while cells and not cells[-1]:
        cells.pop()
    return cells


def format_record(pairs: Iterable[tuple[str, str]]) -> str:
    """Return names and values on one line: ``name: value``, divided by bars. Blank values are left
    out.
    """
    stripped = ((name.strip(), value) for name, value in pairs if value.strip())
    return " | ".join(fold(f"{name}: {value}" if name else value) for name, value in stripped)
