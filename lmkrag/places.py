"""Where a result is, in words that people find it by: a line, a page, a row, or a paragraph under a heading."""

import re
from textwrap import wrap
from typing import TYPE_CHECKING
from urllib.parse import quote, urldefrag

if TYPE_CHECKING:
    from lmkrag.types import Span

LINED = frozenset({"text", "markdown", "rst", "code"})
"""Kinds of documents whose text is the file itself, so that its lines are the file's."""

TABLES = frozenset({"csv", "ods", "xlsx"})
"""Kinds of documents whose lines are rows of a table."""

_UNITS = {**dict.fromkeys(TABLES, "row"), "json": "record", "rtf": "paragraph", "subtitles": "subtitle"}
"""What a line of a document is, by its kind; in documents of other kinds blank lines divide paragraphs."""

_PAGES = {"odp": "slide", "pptx": "slide"}
_LONGEST = 60  # characters of a heading, and of the words that a page is opened at
_MARK = re.compile(r"^(?:#+|[>*+-]|\d+[.)])\s+")
_RECORD = re.compile(r"(?:[^|:\n]{1,60}: [^|\n]*(?: \| |$))+")


def find_place(span: "Span", start: int, end: int) -> str:
    """Return where characters ``[start, end)`` of a document are, which are in a span of it.

    ``notes.md:12``, ``report.pdf, page 3``, ``stock.xlsx, Sheet1, row 7``, ``rules.docx, Leave, paragraph 2``.
    """
    before = span.text[: start - span.start]
    if span.line is not None:
        return f"{span.doc_id}:{span.line + before.count(chr(10))}"
    if span.page is not None:
        return f"{span.doc_id}, {_PAGES.get(span.kind, 'page')} {span.page}"
    if span.paragraph is None:
        return f"{span.doc_id}:{start}-{end}"
    heading = "".join(span.headings[-1:])
    head, found, rest = before.rpartition(heading) if heading else ("", "", before)
    if found and not head.rpartition("\n")[2].strip("# "):  # the span begins before its heading
        number = number_paragraph(rest, line_at(span.text, start - span.start), span.kind)
    else:
        number = span.paragraph + count_paragraphs(before, span.kind)
    under = [heading] if 0 < len(heading) <= _LONGEST else []
    return ", ".join([span.doc_id, *under, f"{_UNITS.get(span.kind, 'paragraph')} {number}"])


def find_url(span: "Span") -> str:
    """Return the address of the page that a span is of, as its metadata have it; empty without one.

    A web page is opened at the words of the best hit (a text fragment, https://wicg.github.io/scroll-to-text-fragment/),
    a PDF at its page.
    """
    url = span.meta.get("url")
    if not isinstance(url, str) or not url.startswith(("http://", "https://")) or not url.isprintable():
        return ""
    if span.kind == "pdf" and span.page:
        return f"{url}#page={span.page}"
    if span.kind == "html" and span.hits:
        line = _MARK.sub("", best_sentence(span).partition("\n")[0])
        words = next(iter(wrap(line, _LONGEST, break_long_words=False, break_on_hyphens=False)), "")
        if 0 < len(words) <= _LONGEST and "|" not in words:  # the cells of a row are no running text there
            return f"{urldefrag(url).url}#:~:text={quote(words, safe='').replace('-', '%2D')}"
    return url


def best_sentence(span: "Span") -> str:
    """Return the sentence that led to a span; empty where it lies outside."""
    hit = span.hits[0]
    return span.text[max(0, hit.start - span.start) : max(0, hit.end - span.start)].strip()


def number_paragraph(before: str, line: str, kind: str) -> int:
    """Return the number of a paragraph under its heading, or of the row of a table, counted from 1.

    Args:
        before: the text between the heading and the paragraph.
        line: a line of the paragraph; where it has the names of the table's columns, these were the first row.
        kind: of the document.
    """
    return 1 + count_paragraphs(before, kind) + (kind in TABLES and is_record(line))


def is_record(line: str) -> bool:
    """Return whether a line is a row whose values have their columns' names with them."""
    return " | " in line and _RECORD.fullmatch(line.strip()) is not None


def line_at(text: str, position: int) -> str:
    """Return the line of a text that a character is in."""
    start, end = text.rfind("\n", 0, position) + 1, text.find("\n", position)
    return text[start : end if end >= 0 else len(text)]


def count_paragraphs(text: str, kind: str) -> int:
    """Return how many paragraphs of a text end before its end, or rows in a table."""
    border = "\n" if kind in _UNITS else "\n\n"
    return sum(1 for part in text.split(border)[:-1] if part.strip())
