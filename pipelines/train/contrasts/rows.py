"""A cell of a table by the name of its row, or the name by the cell, beside other rows."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lmkrag.evaluation.dataset import load_dataset
from pipelines.train.contrasts.passages import Contrast, name_document, shared_names
from pipelines.train.mined import ANSWERS, NO_ANSWER, Passage, make_negative

SETS = {"aws_headings": 700, "eips": 200, "tatqa_text": 500, "rfcs": 100}
_BLOCK = re.compile(r"(?:^[^\n|]*\|[^\n]*\n?){4,}", re.MULTILINE)
_BORDER = re.compile(r"[-: ]*")
_ASKED = 3  # rows of a table, at most
_HEADER, _CELL, _SHORT_CELL = 60, 80, 40  # characters, at most
_NEAR = 3  # other rows, those of alike names first

Row = Sequence[str]


class Table(NamedTuple):
    """A table: the document it is of, the names of its columns, and its rows."""

    place: str
    head: Row
    body: Sequence[Row]

    @property
    def hint(self) -> str:
        """What the table is about."""
        return f"{self.place} | columns: {', '.join(self.head)}"

    def write(self, row: Row, skip: int = -1) -> str:
        """Return a row as lmkrag writes it, without a column."""
        cells = enumerate(zip(self.head, row, strict=True))
        return " | ".join(f"{name}: {cell}" for at, (name, cell) in cells if at != skip) + "\n"

    def count(self, column: int, cell: str) -> int:
        """Return how many rows have a cell."""
        return [row[column] for row in self.body].count(cell)


def ask_rows(name: str, data: Path, count: int, rng: np.random.Generator) -> Iterator[Contrast]:
    """Yield questions about cells of the tables of a set."""
    made = 0
    for document in load_dataset(data / name).documents:
        for block in _BLOCK.finditer(document.text):
            table = _read_table(name_document(document), block[0])
            if made >= count or table is None:
                continue
            for _ in range(min(_ASKED, len(table.body) // 2)):
                row = table.body[int(rng.integers(len(table.body)))]
                column = int(rng.integers(1, len(table.head)))
                is_short = 0 < len(row[column]) <= _CELL and len(row[0]) <= _CELL
                if is_short and table.count(0, row[0]) == 1:
                    made += 1
                    key = f"{name}/row/{document.doc_id}/{block.start()}/{made}"
                    yield from _ask_row(key, table, row, column, rng)


def _read_table(place: str, text: str) -> Table | None:
    """Return the table that some lines are, or None without names of columns or with few rows."""
    lines = [line.strip().strip("|").split("|") for line in text.splitlines()]
    rows = [[cell.strip(" `*") for cell in cells] for cells in lines]
    header, *body = [row for row in rows if not all(map(_BORDER.fullmatch, row))]
    body = [row for row in body if len(row) == len(header) and row[0]]
    is_named = len(header) > 1 and all(header[1:]) and max(map(len, header)) <= _HEADER
    if not is_named or len(body) < 3:
        return None
    return Table(place, [header[0] or "Item", *header[1:]], body)


def _ask_row(
    key: str, table: Table, row: Row, column: int, rng: np.random.Generator
) -> Iterator[Contrast]:
    """Yield the question for a cell, and that for the row's name where no other has the cell."""
    place, head = table.place, table.head
    others = [each for each in table.body if each[0] != row[0]]
    near = sorted(others, key=lambda other: -_alike(other[0], row[0]))[:_NEAR]
    texts = [table.write(other) for other in near]
    at = int(rng.integers(0, len(near) + 1))
    own = table.write(row)
    wrong = make_negative(place, texts)
    single = [make_negative(place, [text]) for text in texts[:2]]
    without = [make_negative(place, [table.write(row, column)])] if len(head) > 2 else []

    def answer(name: str, cell: str, start: int) -> Passage:
        end = start + len(cell)
        if rng.random() >= 0.5:
            return Passage(place, (own,), (ANSWERS,), (0, start, end))
        lines, labels = texts.copy(), [NO_ANSWER] * len(texts)
        lines.insert(at, own)
        labels.insert(at, ANSWERS)
        return Passage(place, tuple(lines), tuple(labels), (at, start, end))

    cell = row[column]
    start = own.index(f"{head[column]}: {cell}") + len(head[column]) + 2
    passages = (answer(head[column], cell, start), wrong, *without, *single)
    yield Contrast(key, f"{head[column]} of {row[0]}", passages, table.hint)
    is_only = table.count(column, cell) == 1 and len(cell) < _SHORT_CELL
    if is_only and rng.random() < 0.5:
        passages = (answer(head[0], row[0], len(head[0]) + 2), wrong, *single)
        question = f"which {head[0]} has {head[column]} {cell}?"
        yield Contrast(f"{key}/value", question, passages, table.hint)


def _alike(one: str, other: str) -> int:
    """Return how alike two names are: by their words, and by their first letters."""
    return shared_names(one, other) + (one[:2] == other[:2])
