"""Look a value up in a table: the row by the exact words of the question, the column by its header.

Rules of headers know English question words (``how many``, ``how much``, ``when``, ``where``, ``who``); without them a
header must share a word with the question.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from lmkrag.index.words.exact import find_exact_words, find_keys, holds
from lmkrag.index.words.terms import drop_stop_words, hash_words, split_words
from lmkrag.places import is_record
from lmkrag.readers.short_answers import has_short_answer
from lmkrag.readers.weights import ANSWERS
from lmkrag.results import Citation, ShortAnswer, Span
from lmkrag.sentences.table_rows import is_header, is_row, is_rule, is_tabbed, read_record, split_row

_LINE = re.compile(r"[^\n]+")
_ASKED = {
    "how many": ("number", "count", "quantity", "qty", "amount", "stock", "total", "units", "pieces"),
    "how much": ("price", "cost", "fee", "fare", "amount", "rate", "rent", "total", "charge", "salary"),
    "cost": ("price", "fee", "fare", "rate", "rent", "charge"),
    "when": ("date", "time", "day", "month", "year", "hours", "due", "departure", "opens"),
    "where": ("place", "location", "room", "shelf", "site", "address", "bay", "lane", "city"),
    "who": ("name", "person", "owner", "contact", "keeper", "manager", "responsible", "author", "by"),
    "what time": ("time", "departure", "arrival", "opens", "closes"),
}
"""Headers that a question means without naming them."""


class Cell(NamedTuple):
    """A value of a table that answers a question, and its row."""

    short: ShortAnswer
    row: Citation
    header: str


class _Row(NamedTuple):
    """A row: its span's number from 1, where it is in the span, and (column, value, its start) of its cells."""

    number: int
    start: int
    end: int
    cells: list[tuple[str, str, int]]
    header: str


def find_cell(question: str, spans: Sequence[Span], numbers: Collection[int] = ()) -> Cell | None:
    """Return the cell that answers a question, if a single row has its exact words and a single column is asked for.

    Args:
        question: in words.
        spans: best first.
        numbers: of the spans to look in, from 1; of all of them without any.
    """
    if not has_short_answer(question):
        return None
    numbers = numbers or range(1, len(spans) + 1)
    rows = [row for number in numbers for row in _read_rows(number, spans[number - 1])]
    question_words = set(hash_words(" ".join(drop_stop_words(split_words(question)))).tolist())
    functions = set(hash_words(question).tolist()) - question_words
    codes = find_exact_words(question)
    demanded = [key for key in find_keys(question) if key in codes or any(map(str.isdigit, key))]
    around = [set(hash_words(" ".join([one.title, *one.headings, one.header])).tolist()) for one in spans]
    best: list[tuple[tuple[int, int], _Row, set[int]]] = []
    for row in rows:
        if not all(any(holds(value, key) or holds(column, key) for column, value, _ in row.cells) for key in demanded):
            continue
        named = {cell for cell, (_, value, _) in enumerate(row.cells) if _is_named(question, value, question_words)}
        words = {word for cell in named for word in hash_words(row.cells[cell][1]).tolist()}
        if named:
            weight = len(words & question_words), len(around[row.number - 1] & question_words)
            best.append((weight, row, named))
    if not best:
        return None
    top = max(weight for weight, _, _ in best)
    chosen = [(row, named) for weight, row, named in best if weight == top]
    found = [
        (row, cell)
        for row, named in chosen
        if (cell := _find_column(question, question_words, functions, row, named)) is not None
    ]
    values = {row.cells[cell][1].casefold() for row, cell in found}
    if len(found) != len(chosen) or len(values) != 1:
        return None
    row, cell = found[0]
    return _to_cell(row, cell, spans[row.number - 1])


def _is_named(question: str, value: str, question_words: set[int]) -> bool:
    """Whether a question names a cell: all of its words, and codes as they are written."""
    words = drop_stop_words(split_words(value))
    if not words or len(value) > 80:
        return False
    codes = find_exact_words(value)
    if codes or value.strip().isdigit():
        return holds(question, value.strip()) or any(holds(question, code) for code in codes)
    return set(hash_words(" ".join(words)).tolist()) <= question_words


def _find_column(
    question: str, question_words: set[int], functions: set[int], row: _Row, named: set[int]
) -> int | None:
    """The one column that a question asks for, beside those whose cells it names.

    A header that is a function word (``For`` and ``Against``) is asked for by this word where no other header is.
    """
    used = {word for cell in named for word in hash_words(row.cells[cell][1]).tolist()}
    shares: list[tuple[float, int]] = []
    for cell, (column, value, _) in enumerate(row.cells):
        words = set(hash_words(" ".join(drop_stop_words(split_words(column)) or split_words(column))).tolist())
        if cell not in named and value and words:
            shares.append((len(words & (question_words - used)) / len(words), cell))
    shares.sort(reverse=True)
    if shares and shares[0][0] > 0 and (len(shares) == 1 or shares[1][0] < shares[0][0]):
        return shares[0][1]
    if shares and shares[0][0] > 0:
        return None
    lowered = f" {' '.join(question.lower().split())} "
    named_by_function = [cell for _, cell in shares if set(hash_words(row.cells[cell][0]).tolist()) <= functions]
    if len(named_by_function) == 1:
        return named_by_function[0]
    for phrase, headers in _ASKED.items():
        if f" {phrase} " in lowered:
            meant = [cell for _, cell in shares if set(split_words(row.cells[cell][0])) & set(headers)]
            if len(meant) == 1:
                return meant[0]
    others = [cell for _, cell in shares]
    return others[0] if len(others) == 1 and len(row.cells) == 2 else None


def _read_rows(number: int, span: Span) -> Iterator[_Row]:
    """The rows of the tables in a span.

    The first row of a table is its header; in one with tabs, any row without numbers but years, whose columns are those
    to the right.
    """
    header: list[str] = []
    line_of_header = ""
    if is_row(span.header):
        header, line_of_header = [value for value, _ in split_row(span.header, 0)], span.header
    for line in _LINE.finditer(span.text):
        text = line[0]
        if is_row(text):
            cells = split_row(text, line.start())
            values = [value for value, _ in cells]
            if is_rule(text):
                continue
            if is_header(values) if is_tabbed(text) else not header:
                header, line_of_header = values, text
                continue
            names = ["", *header] if is_tabbed(text) and len(cells) == len(header) + 1 else header
            if len(cells) == len(names):
                named = [(column, value, start) for column, (value, start) in zip(names, cells, strict=True)]
                yield _Row(number, *line.span(), named, line_of_header)
        elif is_record(text):
            yield _Row(number, *line.span(), list(read_record(text, line.start())), "")
            header, line_of_header = [], ""
        elif not is_rule(text):
            header, line_of_header = [], ""


def _to_cell(row: _Row, cell: int, span: Span) -> Cell | None:
    _, value, start = row.cells[cell]
    if not value or len(value) > ANSWERS.max_cell_chars:
        return None
    text = span.text[row.start : row.end]
    begin = span.start + row.start + len(text) - len(text.lstrip())
    citation = Citation(row.number, span, text.strip(), begin, begin + len(text.strip()))
    return Cell(
        ShortAnswer(row.number, value, span.start + start, span.start + start + len(value)), citation, row.header
    )
