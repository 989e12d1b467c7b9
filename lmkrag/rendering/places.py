"""Count places in a document by its kind: lines, rows, or paragraphs under a heading."""

import re

LINED = frozenset({"text", "markdown", "rst", "code"})
"""Kinds of documents whose text is the file itself, so that its lines are the file's."""

TABLES = frozenset({"csv", "ods", "xlsx"})  # kinds of documents whose lines are rows of a table
UNITS = {
    **dict.fromkeys(TABLES, "row"),
    "json": "record",
    "rtf": "paragraph",
    "subtitles": "subtitle",
}
"""Names of a line of a document, by its kind; in documents of other kinds blank lines divide
paragraphs.
"""

_RECORD = re.compile(r"(?:[^|:\n]{1,60}: [^|\n]*(?: \| |$))+")


def number_paragraph(before: str, line: str, kind: str) -> int:
    """Return the number, from 1, of a paragraph or row after the text ``before``, a row of names
    not counted.
    """
    number = 1 + count_paragraphs(before, kind)
    return number + 1 if kind in TABLES and is_record(line) else number


def is_record(line: str) -> bool:
    """Return whether a line is a row whose values have their columns' names with them."""
    return " | " in line and _RECORD.fullmatch(line.strip()) is not None


def line_at(text: str, position: int) -> str:
    """Return the line of a text that a character is in."""
    start, end = text.rfind("\n", 0, position) + 1, text.find("\n", position)
    return text[start : end if end >= 0 else len(text)]


def count_paragraphs(text: str, kind: str) -> int:
    """Return how many paragraphs of a text end before its end, or rows in a table."""
    border = "\n" if kind in UNITS else "\n\n"
    return sum(1 for part in text.split(border)[:-1] if part.strip())
