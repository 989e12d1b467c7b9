"""What a model reads of a passage: its place, its text, and its rows with the names of columns.

A row without its header says nothing, and alike documents differ by their titles and dates alone.
"""

from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import NamedTuple

import numpy as np

from lmkrag.language.terms import split_words
from lmkrag.reranker.base import PlacedText
from lmkrag.results import Span
from lmkrag.sentences.table_rows import is_header, is_row, is_rule, is_tabbed, split_row
from lmkrag.types.arrays import Ids

_BETWEEN = " | "  # cells of a row


class PassageInput(NamedTuple):
    """A passage as it is read.

    ``origins`` ``[characters + 1]`` has the place in the span's text of each character that is
    read, and of the end.
    """

    passage: PlacedText
    origins: Ids

    def locate(self, start: int, end: int) -> tuple[int, int]:
        """Return the characters of the passage's text that are characters ``[start, end)`` of the
        span.
        """
        first, stop = np.searchsorted(self.origins, [start, end])
        return int(first), int(stop)


class _Piece(NamedTuple):
    """Text that is read, and the place in the span's text where it stands.

    ``is_copy``: it stands there character by character; else all of it stands at ``start``.
    """

    text: str
    start: int
    is_copy: bool = True


def prepare_passage(span: Span) -> PassageInput:
    r"""Return a passage as it is read.

    >>> table = "| Boat | Seats |\n|---|---|\n| Swift | 9 |"
    >>> span = Span("a.md", "a.md", 0, len(table), table, 1.0, title="Boats")
    >>> prepare_passage(span).passage
    PlacedText(place='Boats > a', text='Boat | Seats\nBoat: Swift | Seats: 9')
    """
    pieces = list(_write_lines(span.text, span.header))
    origins = [_find_origins(piece) for piece in pieces]
    return PassageInput(
        PlacedText(find_place(span), "".join(piece.text for piece in pieces)),
        np.concatenate([*origins, [len(span.text)]]).astype(np.int64),
    )


def _find_origins(piece: _Piece) -> Ids:
    """Where each character of a piece stands in the span's text."""
    if piece.is_copy:
        return np.arange(piece.start, piece.start + len(piece.text))
    return np.full(len(piece.text), piece.start)


def prepare_unchanged(span: Span) -> PassageInput:
    """Return a passage with its title, its text unchanged."""
    return PassageInput(PlacedText(span.title, span.text), np.arange(len(span.text) + 1))


def find_place(span: Span) -> str:
    """Return what tells a passage's document and section from others, outermost first.

    The title; the file's name and a mail's sender, where the title has not their words; the
    headings. All of it is known while passages are ranked, so none is read again for an answer.
    """
    name = PurePath(span.doc_id).stem
    parts = [span.title]
    for part in (name, str(span.meta.get("from") or "")):
        if not set(split_words(part)) <= set(split_words(" ".join(parts))):
            parts.append(part)
    return " > ".join(dict.fromkeys(part for part in (*parts, *span.headings) if part))


def _write_lines(text: str, header: str) -> Iterator[_Piece]:
    """The lines of a text; rows below a header with the names of its columns, rules left out."""
    names = [value for value, _ in split_row(header, 0)] if is_row(header) else []
    start = 0
    for line in text.splitlines(keepends=True):
        if not is_row(line):
            names = names if is_rule(line) else []
            yield _Piece(line, start)
        elif not is_rule(line):
            row = line.rstrip("\r\n")
            cells = split_row(row, start)
            values = [value for value, _ in cells]
            begins = is_header(values) if is_tabbed(line) else not names
            yield from _write_row([""] * len(cells) if begins else names, cells)
            yield _Piece(line[len(row) :], start + len(row))
            names = values if begins else names
        start += len(line)


def _write_row(names: Sequence[str], cells: Sequence[tuple[str, int]]) -> Iterator[_Piece]:
    """The cells of a row, each with the name of its column where the row has as many as names."""
    labels = names if len(names) == len(cells) else [""] * len(cells)
    for number, (label, (value, start)) in enumerate(zip(labels, cells, strict=True)):
        if number:
            yield _Piece(_BETWEEN, start, is_copy=False)
        if label:
            yield _Piece(f"{label}: ", start, is_copy=False)
        yield _Piece(value, start)
