"""Passages as an answer shows them: quoted, in paragraphs, without the marks of Markdown."""

import re
from collections.abc import Sequence

from lmkrag.formats.markup import show_inline
from lmkrag.rendering.places import MARKDOWN
from lmkrag.rendering.quoting import quote_lines
from lmkrag.results import Quote, Span
from lmkrag.sentences.structure import OWN_LINE
from lmkrag.specs import CODE

# Characters, at least, of a line of a paragraph, or of an item, that the next line continues.
_WRAPPED, _LONG = 40, 80
_MARKS = re.compile(
    r"^#{1,6} +|^>(?: ?\[!\w+\]$| )|<!--.*?(?:-->|$)|^-->$"
    r"|(?<![\w*`])\*\*(?=[^\s*])|(?<=[^\s*])\*\*(?![\w*`])"
    r"|(?<=[.,;:!?”’)])\^\d+"  # a note at the foot
)
_REMAINS = re.compile(r"\A[”’»)\]*]+(?:\^\d+)?\s+")  # of a sentence before a passage
_OUTDENT = re.compile(r"^( +\S.*\n)(?![-*+•] |\d+[.)] |\s)", re.MULTILINE)
_INDENT = re.compile(r"^ +(?![-*+•] |\d+[.)] | )", re.MULTILINE)
_UNDERLINE = re.compile(r"([=~^#*+-])\1{2,}\s*")  # of a heading
_LINK = re.compile(
    r"(?<!\w)!?\[([^\[\]]+)\](?:\(<?(?:(https?://[^\s)>\[]+)|[^\s)\[]+)>?\)|\[[^\[\]]*\])"
)
_BLOCK = re.compile(r"\s*(?:[|>#]|[-*+•]\s|\(?\w{1,3}[.)]\s|\$\s|\.\.\s)|\s{4,}\S|\t")
ITEM = re.compile(r"\s*(?:[-*+•|]|\(?\w{1,3}[.)])\s|\s{4,}\S")
"""Matches a line that is an item of a list, a row, or code, at its beginning."""


def write_quotes(quotes: Sequence[Quote], spans: Sequence[Span]) -> list[str]:
    """Return the lines of quotes without marks of Markdown, each marked as quoted, and each quote
    with its number.
    """
    written: list[str] = []
    for quote in quotes:
        span = spans[quote.number - 1]
        # What stands together there is together here.
        lines = [quote.heading, ""] if quote.heading else []
        lines += [quote.header] if quote.header else []
        text = span.text[quote.start - span.start : quote.end - span.start].strip(" \r\n")
        is_marked = span.kind in MARKDOWN or span.kind == "rst"
        text = _read_marked(text, span.kind, quote.start) if is_marked else text
        lines += text.splitlines() if span.kind == CODE else _reflow(text, span.kind)
        is_code = text.endswith(("```", "~~~"))
        lines[-1:] = (
            [lines[-1], f"[{quote.number}]"] if is_code else [f"{lines[-1]} [{quote.number}]"]
        )
        written += [""] if written else []
        written += quote_lines("\n".join(lines))
    return written


def _read_marked(text: str, kind: str, start: int) -> str:
    """Markdown without lines that nobody is meant to see; reStructuredText as Markdown, in which
    only code is indented, with the visible text of roles.
    """
    from lmkrag.rendering.lines import hide_unseen, shape_rst, split_lines
    from lmkrag.rendering.markdown import ROLE

    if kind in MARKDOWN:
        return "\n".join(line.shown for line in hide_unseen(split_lines(text, start))).strip()
    parts = "\n".join(line.shown for line in shape_rst(split_lines(text, start))).split("```")
    for number in range(0, len(parts), 2):
        prose = ROLE.sub(lambda role: (role[2] or role[3] or role[4]).lstrip("~!"), parts[number])
        parts[number] = _INDENT.sub("", _OUTDENT.sub("\\1\n", prose))
    return "```".join(parts).strip()


def _reflow(text: str, kind: str) -> list[str]:
    """The lines of a text, those of a paragraph or an item joined, without the marks of
    Markdown.
    """
    lines: list[str] = []
    is_marked = kind != "text"
    before, fenced = "", False
    code: set[int] = set()  # numbers of lines
    for line in _REMAINS.sub("", text).splitlines():
        is_fence = is_marked and line.lstrip().startswith(("```", "~~~"))
        if is_fence or (before.strip() and not fenced and _UNDERLINE.fullmatch(line)):
            before, fenced = "", fenced != is_fence
            continue
        is_block = fenced or _is_block(line)
        joins = line.strip() and not is_block and not OWN_LINE.match(line)
        if joins and _goes_on(before, line, is_first=len(lines) == 1 and before != ""):
            lines[-1] += " " + line.strip()
        else:
            code |= {len(lines)} if fenced or not is_marked else set()
            lines.append(line.rstrip() if is_block else line.strip())
        before = line
    # Prose stands without marks of headings, quotations, bold type, links and comments.
    for number in {*range(len(lines))} - code:
        line = _LINK.sub(_show_link, _MARKS.sub("", lines[number]))
        lines[number] = show_inline(line) if kind in MARKDOWN else line
    shown = "\n".join(lines)
    return re.sub(r"\n{3,}", "\n\n", shown).strip("\n").split("\n")


def _show_link(link: re.Match[str]) -> str:
    """The text of a link, and its address if that is another one of the web."""
    shown, address = link[1], link[2]
    return shown if address in (None, shown) else f"{shown} ({address})"


def _is_block(line: str) -> bool:
    """Whether a line is an item, a row or code, so that it does not continue the line before it."""
    return _BLOCK.match(line) is not None or "\t" in line or " | " in line


def _goes_on(before: str, line: str, *, is_first: bool) -> bool:
    """Whether a line continues the paragraph or item before it, whose line must be long enough to
    be wrapped.
    """
    is_lower = line.lstrip()[:1].islower()
    if ITEM.match(before) and "|" not in before:
        return len(before) >= (_WRAPPED if is_lower else _LONG)
    return not _is_block(before) and (len(before.strip()) >= _WRAPPED or (is_lower and is_first))
