"""Tables of HTML in Markdown, and of lists in reStructuredText, as rows between bars."""

import re

from lmkrag.formats.base import fold
from lmkrag.formats.tabular import bar_lines

_AROUND = r"(?:html|body|div|center)"  # tags that a line may have beside those of a table
_TABLE = re.compile(
    r"^ {0,3}(?P<fence>```+|~~~+).*?(?:^ {0,3}(?P=fence)|\Z)|`[^`\n]+`"  # code stays
    rf"|(?P<table>(?:<{_AROUND}\b[^<>]*+>\s*+){{0,4}}"
    r"<(?P<tag>table|dl)\b(?:(?!<(?P=tag)\b).)*?</(?P=tag)>"
    rf"(?:\s*+</{_AROUND}>){{0,4}})",
    re.MULTILINE | re.DOTALL | re.IGNORECASE,
)
_LIST_TABLE = re.compile(
    r"^(?P<indent>[ \t]*)\.\. (?:list-table|flat-table)::[ \t]*(?P<title>.*)\n"
    r"(?P<body>(?:(?P=indent)[ \t]+\S.*\n|[ \t]*\n)+)",
    re.MULTILINE,
)
_MAY_BE_TABLE = re.compile("<(?:table|dl)", re.IGNORECASE)
_OPTION = re.compile(r"\s*:[\w-]+:")
_CELL = re.compile(r"^[ \t]*(\*[ \t]+)?-(?:[ \t]+|$)", re.MULTILINE)


def show_tables(text: str, kind: str) -> str:
    """Return a text of marked kind with its tables of HTML or of lists as rows between bars.

    The lines below a table keep their numbers unless its rows need more lines than it has.

    Args:
        text: the text.
        kind: the kind of its document; texts of most kinds stay as they are.
    """
    if kind in ("markdown", "notebook", "text") and _MAY_BE_TABLE.search(text):
        return _TABLE.sub(_show_html, text)
    return _LIST_TABLE.sub(_show_list, text) if kind == "rst" and "-table::" in text else text


def _show_html(match: re.Match[str]) -> str:
    from lmkrag.formats.html import extract

    shown = extract(match["table"].encode()) if match["table"] else ""
    if "\n|" not in shown and match["tag"] != "dl":  # code, or a table that lays out a page
        return match[0]
    first = match.string.rfind("\n", 0, match.start()) + 1  # of its line
    before = match.string[first : match.start()].strip()
    after = match.string[match.end() : match.end() + 1].strip()
    gaps = ("\n\n" if beside else "" for beside in (before, after))
    return _fill(add_rule(shown), match[0]).join(gaps)


def _show_list(match: re.Match[str]) -> str:
    lines = match["body"].split("\n")
    items = "\n".join(line for line in lines if not _OPTION.match(line))
    rows: list[list[str]] = []
    _, *parts = _CELL.split(items)
    for begins_row, value in zip(parts[::2], parts[1::2], strict=True):
        if begins_row or not rows:
            rows.append([])
        rows[-1].append(fold(value))
    if not rows:
        return match[0]
    return _fill(
        "\n".join([match["title"], "", add_rule("\n".join(bar_lines(rows))), ""]), match[0]
    )


def add_rule(shown: str) -> str:
    """Return rows with a rule below their header, as Markdown has it."""
    return re.sub(r"^(\|.*\|)\n(?=\|)", _add_dashes, shown, count=1, flags=re.MULTILINE)


def _add_dashes(header: re.Match[str]) -> str:
    return f"{header[0]}{'| --- ' * (header[1].count(' | ') + 1)}|\n"


def _fill(shown: str, source: str) -> str:
    """Return what is shown in place of some lines, with as many lines."""
    return shown + "\n" * max(0, source.count("\n") - shown.count("\n"))
