"""Count places in a document by its kind: lines, rows, or paragraphs under a heading."""

import re

from lmkrag.specs import CHAT

LINED = frozenset({"text", "markdown", "rst", "code"})
"""Kinds of documents whose text is the file itself, so that its lines are the file's."""

MARKDOWN = frozenset({"markdown", CHAT})
"""Kinds of documents whose text is Markdown."""

TABLES = frozenset({"csv", "ods", "xlsx"})  # kinds of documents whose lines are rows of a table
UNITS = {
    **dict.fromkeys(TABLES, "row"),
    "contacts": "contact",
    "json": "record",
    "rtf": "paragraph",
    "sql": "record",
    "subtitles": "subtitle",
}
"""Names of a line of a document, by its kind; in documents of other kinds blank lines divide
paragraphs.
"""

_REWRITTEN = (".json", ".jsonl", ".ndjson", ".srt", ".vtt")  # whose text is not the file itself
_RECORD = re.compile(r"(?:[^|:\n]{1,60}: [^|\n]*(?: \| |$))+")


def has_lines(kind: str, doc_id: str) -> bool:
    """Return whether the lines of a document, by its kind and name, are those of its file."""
    return kind in LINED or (kind == CHAT and not doc_id.lower().endswith(_REWRITTEN))


def number_paragraph(before: str, line: str, kind: str) -> int:
    """Return the number, from 1, of a paragraph or row; a row of names of columns is not counted.

    Args:
        before: the text from the heading to the paragraph.
        line: the line that the paragraph begins with.
        kind: the kind of the document.
    """
    number = 1 + count_paragraphs(before, kind)
    return number + 1 if kind in TABLES and is_record(line) else number


def is_record(line: str) -> bool:
    """Return whether a line is a row of a table whose values stand beside the names of their
    columns.
    """
    return " | " in line and _RECORD.fullmatch(line.strip()) is not None


def line_at(text: str, position: int) -> str:
    """Return the line of a text that the character at ``position`` is in."""
    start, end = text.rfind("\n", 0, position) + 1, text.find("\n", position)
    return text[start : end if end >= 0 else len(text)]


def count_paragraphs(text: str, kind: str) -> int:
    """Return the number of paragraphs, or rows of a table, that end before the end of a text."""
    border = "\n" if kind in UNITS else "\n\n"
    return sum(1 for part in text.split(border)[:-1] if part.strip())
