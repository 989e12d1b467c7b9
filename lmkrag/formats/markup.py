"""Mark-up that no reader of a text is meant to see: attributes, fences, shortcodes, targets,
comments.
"""

import re
from collections.abc import Sequence

MOST_MATTER = 30  # lines of the front matter of a slide
UNSEEN = re.compile(
    r"[ \t]{0,4}(?:\{\s*[:#.][^{}\n]*\}"  # {#id .class} of Pandoc, {: .class} of kramdown
    r"|\{\{[<%][^\n]{0,300}?[>%]\}\}"  # a shortcode of Quarto and Hugo
    r"|\\(?:index|label)\{[^{}\n]*\})"  # of LaTeX
)
"""Mark-up within a line."""

UNSEEN_LINE = re.compile(
    r"\s*+(?::{3,}+[ \t]*+(?:\{[^\n]*\}|[\w.-]+(?:[ \t]*\{[^\n]*\})?)?[ \t:]*"  # a fence: ::: note
    r"|\([\w.:-]+\)="  # a target of MyST
    r"|\.\.[ \t]+(?:_[^:\n]*:|(?:seealso|toctree|contents)::|(?:index|only|highlight)::[^\n]*)"
    r"|<!--(?:(?!-->)[^\n])*-->|(?:%|//)(?:[ \t%][^\n]*)?"  # comments
    rf"|\+\+\+(?:[ \t]*\{{[^\n]*)?|(?:{UNSEEN.pattern})+)\s*"
)
"""A line of marked text that has nothing else, to be matched in full."""

_COMMENT_ENDS = {"<!--": "-->", "////": "////"}
_RST_COMMENT = re.compile(r"\.\.(?:[ \t]+(?![|\[_])(?:(?!::)[^\n])*)?$")

_ADMONITION = re.compile(
    r"\A\s*+:{3,}[ \t]*+[\w-]++[ \t]*+\[?"
)  # before the title of an admonition
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_KEY = re.compile(r"[\w-]+:(?:\s|$)|\s+\S|-\s|#")
_RULE = re.compile(r"\s?---\s*$")


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
    if _RULE.match(lines[0]) is None:
        return 0
    for number, line in enumerate(lines[1:MOST_MATTER], 1):
        if _RULE.match(line):
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


def unescape(text: str) -> str:
    r"""Return Markdown without the backslashes before its signs: ``2 \* 3`` is ``2 * 3``."""
    return _ESCAPE.sub(r"\1", text)
