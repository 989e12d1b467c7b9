"""Look a value up in a table: the row by the exact words of the question, the column by its header.

Rules of headers know English question words (``how many``, ``how much``, ``when``, ``where``, ``who``); without them a
header must share a word with the question.
"""

import re
from collections.abc import Iterator, Sequence
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
    """A value of a table that answers a question, its row, and the header of the table as it is written."""

    short: ShortAnswer
    row: Citation
    header: str


class _Row(NamedTuple):
    """A row: its span's number from 1, where it is in the span, (column, value, its start) of its cells, its header."""

    number: int
    start: int
    end: int
    cells: list[tuple[str, str, int]]
    header: str = ""


def find_cell(question: str, spans: Sequence[Span]) -> Cell | None:
    """Return the cell that answers a question, if a single row has its exact words and a single column is asked for.

    Args:
        question: in words.
        spans: best first.
    """
    if not has_short_answer(question):
        return None
    question_words = _hash(question)
    codes, keys = find_exact_words(question), find_keys(question)
    demanded = [key for key in keys if key in codes or any(map(str.isdigit, key))]
    contexts = [" ".join([span.doc_id, span.title, *span.headings, span.header]) for span in spans]
    around = list(map(_hash, contexts))
    best: list[tuple[tuple[int, int], _Row, int | None]] = []
    for row in (row for number, span in enumerate(spans, 1) for row in _read_rows(number, span)):
        if not all(any(holds(value, key) or holds(column, key) for column, value, _ in row.cells) for key in demanded):
            continue
        near = " ".join([contexts[row.number - 1], *(f"{column} {value}" for column, value, _ in row.cells)])
        if not all(holds(near, key) for key in keys):
            continue
        named = {cell for cell, (_, value, _) in enumerate(row.cells) if _is_named(question, value, question_words)}
        if named:
            words = set().union(*(_hash(row.cells[cell][1]) for cell in named))
            weight = len(words & question_words), len(around[row.number - 1] & question_words)
            best.append((weight, row, _find_column(question, question_words - words, row, named)))
    top = max((weight for weight, _, _ in best), default=None)
    rows = [(row, cell) for weight, row, cell in best if weight == top]
    if not rows or any(cell is None for _, cell in rows):
        return None
    if len({row.cells[cell or 0][1].casefold() for row, cell in rows}) != 1:
        return None
    row, cell = rows[0]
    return _to_cell(row, cell or 0, spans[row.number - 1])


def _hash(text: str) -> set[int]:
    """The words of a text that are no stop words."""
    return set(hash_words(" ".join(drop_stop_words(split_words(text)))).tolist())


def _is_named(question: str, value: str, question_words: set[int]) -> bool:
    """Whether a question names a cell: all of its words, and codes as they are written."""
    words = drop_stop_words(split_words(value))
    if not words or len(value) > 80:
        return False
    codes = find_exact_words(value)
    if codes or value.strip().isdigit():
        return holds(question, value.strip()) or any(holds(question, code) for code in codes)
    return _hash(value) <= question_words


def _find_column(question: str, question_words: set[int], row: _Row, named: set[int]) -> int | None:
    """The one column that a question asks for, beside those whose cells it names.

    A header that is a function word (``For`` and ``Against``) is asked for by this word where no other header is.
    """
    others = [cell for cell, (column, value, _) in enumerate(row.cells) if cell not in named and value and column]
    shares = {cell: len(words & question_words) / len(words) for cell in others if (words := _hash(row.cells[cell][0]))}
    top = max(shares.values(), default=0.0)
    if top > 0:
        meant = [cell for cell, share in shares.items() if share == top]
        return meant[0] if len(meant) == 1 else None
    asked = set(split_words(question))
    lowered = f" {' '.join(question.lower().split())} "
    headers = {cell: set(split_words(row.cells[cell][0])) for cell in others}
    meant = [cell for cell in others if cell not in shares and headers[cell] <= asked]
    for phrase, names in _ASKED.items():
        if not meant and f" {phrase} " in lowered:
            meant = [cell for cell in others if headers[cell] & set(names)]
    if not meant and len(row.cells) == 2:
        meant = others
    return meant[0] if len(meant) == 1 else None


def _read_rows(number: int, span: Span) -> Iterator[_Row]:
    """The rows of the tables in a span.

    The first row of a table is its header; in one with tabs, any row without numbers but years, whose columns are those
    to the right.
    """
    header, line_of_header = (
        [value for value, _ in split_row(span.header, 0)] if is_row(span.header) else [],
        span.header,
    )
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
            yield _Row(number, *line.span(), list(read_record(text, line.start())))
            header = []
        elif not is_rule(text):
            header = []


def _to_cell(row: _Row, cell: int, span: Span) -> Cell | None:
    _, value, start = row.cells[cell]
    if not value or len(value) > ANSWERS.max_cell_chars:
        return None
    text = span.text[row.start : row.end]
    begin = span.start + row.start + len(text) - len(text.lstrip())
    citation = Citation(row.number, span, text.strip(), begin, begin + len(text.strip()))
    short = ShortAnswer(row.number, value, span.start + start, span.start + start + len(value))
    return Cell(short, citation, row.header.strip(" \r\n"))
