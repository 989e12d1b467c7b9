"""Mark-up that no reader of a text is meant to see: attributes, fences, shortcodes, targets,
comments.
"""

import re
from collections.abc import Sequence
from html import unescape

MOST_MATTER = 30  # lines of the front matter of a slide
UNSEEN = re.compile(
    r"[ \t]{0,4}(?:\{\s*[:#.][^{}\n]*\}"  # {#id .class} of Pandoc, {: .class} of kramdown
    r"|\{\{[<%][^\n]{0,300}?[>%]\}\}"  # a shortcode of Quarto and Hugo
    r"|\\(?:index|label)\{[^{}\n]*\})"  # of LaTeX
)
"""Mark-up within a line."""

# Tags before which a line ends. A list in a cell of a table has no other division.
ENDS_LINE = re.compile(r"<(?:br|/li|/p|/div)\b", re.IGNORECASE)
TAG = re.compile(
    r"</?(?:a|abbr|b|br|center|cite|code|del|details|div|em|figcaption|figure|font|hr|i|img|ins|kbd"
    r"|li|mark|p|picture|s|samp|section|small|source|span|strong|sub|summary|sup|u|ul|var|video|wbr)"
    r"(?:\s[^<>\n]*+)?/?>",
    re.IGNORECASE,
)
"""A tag of HTML in Markdown. Others, such as ``<file>``, are what an author writes for a value."""

CODE_DIRECTIVES = (
    *("code", "code-block", "sourcecode", "parsed-literal", "prompt", "doctest"),
    *("testcode", "testoutput", "ipython", "jupyter-execute"),
)
"""Directives of reStructuredText and Sphinx whose text is code."""

TEXT_ROLE = r":([\w:+.-]{1,60}):`([^`<]*[^`<\s])\s*(?:<[^`>]*>)?`"
"""Interpreted text of reStructuredText: its role, and the words that a reader sees."""

REFERENCE = r"`([^`<]*[^`<\s])\s*<[^`>]*>`__?"
"""A link of reStructuredText: the words that a reader sees."""

UNSEEN_LINE = re.compile(
    r"\s*+(?::{3,}+[ \t]*+(?:\{[^\n]*\}|[\w.-]+(?:[ \t]*\{[^\n]*\})?)?[ \t:]*"  # a fence: ::: note
    r"|\([\w.:-]+\)="  # a target of MyST
    r"|\.\.[ \t]+(?:_[^:\n]*:|(?:seealso|toctree|contents)::"
    r"|(?:index|only|highlight|currentmodule"
    r"|setting|signal|reqmeta|templatetag|templatefilter|fieldlookup)::[^\n]*)"  # above a heading
    r"|<!--(?:(?!-->)[^\n])*-->|(?:%|//)(?:[ \t%][^\n]*)?"  # comments
    rf"|\+\+\+(?:[ \t]*\{{[^\n]*)?|(?:{UNSEEN.pattern})+)\s*"
    r"| {0,2}(?:</?[A-Za-z][\w.-]*+(?:\s[^<>\n]*+)?>[ \t]*+)+\s*"  # tags
)
"""A line of marked text that has nothing else, to be matched in full."""

_COMMENT_ENDS = {"<!--": "-->", "////": "////"}
# a comment, or a picture, with what is indented below it
_RST_COMMENT = re.compile(r"\.\.(?:[ \t]+(?:image::[^\n]*|(?![|\[_])(?:(?!::)[^\n])*))?$")

_ADMONITION = re.compile(
    r"\A\s*+:{3,}[ \t]*+[\w-]++[ \t]*+\[?"
)  # before the title of an admonition
_INLINE = re.compile(
    rf"{TEXT_ROLE}|(?<!`){REFERENCE}"
    r"|(?<!`)(`++[^`\n]++`++)"  # code, in which nothing else is mark-up
    r"|(?<!\w)!?\[([^\[\]\n]+)\](?:\([^()\s]*\)|\[[^\[\]\n]*\])"  # links of Markdown
    r"|\\([!-/:-@\[-`{-~])"
    r"|(?P<entity>&(?:#\d{1,7}|#x[\da-f]{1,6}|[a-z][a-z\d]{1,30});)"
    rf"|(?P<tag>{TAG.pattern})|{UNSEEN.pattern}",
    re.IGNORECASE,
)
_KEY = re.compile(r"[\w-]+:(?:\s|$)|\s+\S|-\s|#")
RULE = re.compile(r"\s?---\s*$")
"""A line before or after front matter."""


class UnseenLines:
    """Finds the lines of one marked text that nobody is meant to see.

    State: the mark that closes a comment of several lines, and whether one of reStructuredText is
    open, which ends with its indentation.
    """

    def __init__(self) -> None:
        self._closing = ""
        self._is_indented = False

    def has(self, line: str) -> bool:
        """Return whether the next line, which is not blank, is mark-up or of a comment."""
        words = line.strip()
        self._is_indented = self._is_indented and line[0].isspace()
        if self._closing:
            self._closing = "" if self._closing in words else self._closing
            return True
        if self._is_indented or UNSEEN_LINE.fullmatch(line):
            return True
        self._is_indented = _RST_COMMENT.match(line.rstrip()) is not None
        closing = _COMMENT_ENDS.get(words[:4], "")
        if closing and closing not in words[4:]:
            self._closing = closing
        return self._is_indented or bool(self._closing)


def without_comments(text: str) -> str:
    """Return a marked text without the lines that nobody is meant to see."""
    unseen = UnseenLines()
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if line.isspace() or not unseen.has(line))


def measure_matter(lines: Sequence[str]) -> int:
    """Return how many of the first lines are a slide's front matter: keys between rules."""
    if RULE.match(lines[0]) is None:
        return 0
    for number, line in enumerate(lines[1:MOST_MATTER], 1):
        if RULE.match(line):
            return number + 1 if number > 1 else 0
        if _KEY.match(line) is None:
            return 0
    return 0


def is_admonition(line: str) -> bool:
    """Return whether a line opens or closes an admonition: ``:::note``."""
    return line.lstrip().startswith(":::")


def show_admonition(line: str) -> str:
    """Return the title in the first line of an admonition, in bold.

    >>> show_admonition(":::note[Tides]")
    '**Tides**'
    """
    title = "" if UNSEEN_LINE.fullmatch(line) else _ADMONITION.sub("", line).strip().rstrip("]:")
    return f"**{title}**" if title else ""


def show_inline(text: str) -> str:
    r"""Return what a reader sees of a line of Markdown or reStructuredText: the words of its links
    and roles, and none of its mark-up but that of code and emphasis.

    >>> show_inline(r"2 \* 3 [tides](tides.md) &mdash; press <kbd>F1</kbd> in `a[0](\*)`")
    '2 * 3 tides — press F1 in `a[0](\\*)`'
    """
    return _INLINE.sub(_show_mark, text)


def _show_mark(match: re.Match[str]) -> str:
    """What a reader sees of a mark."""
    if match[1]:  # a role
        return match[2].lstrip("~!")
    if match["entity"]:
        return unescape(match[0])
    if match["tag"]:
        return " " if ENDS_LINE.match(match[0]) else ""
    return match[match.lastindex] if match.lastindex else ""
