"""Markdown as a tree of elements whose texts know their offsets in the source.

HTML in a document stays text. markdown-it-py parses it; its tokens have line numbers, and the
offset within a line is found by searching each token's text in order.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from lmkrag.formats.markup import ENDS_LINE, REFERENCE, TAG, TEXT_ROLE, UNSEEN
from lmkrag.rendering.latex import FORMULA
from lmkrag.rendering.lines import Line
from lmkrag.rendering.tree import Node, element, text_node
from lmkrag.sentences.structure import OWN_LINE

_LINK_END = re.compile(r"\]\((?:[^()\\]|\\.|\([^()]*\))*\)|\]\[[^\]]*\]|\]")
_SAFE_LINK = re.compile(r"https?://|mailto:", re.IGNORECASE)
_KEEPS_ITS_LINE = re.compile(r"\s|[|>#]|[-*+•]\s|\(?\w{1,3}[.)]\s")
_WRAPPED = 60  # a shorter line was ended by its author
ROLE = re.compile(rf"{TEXT_ROLE}|{REFERENCE}|`([^`<]+)`__?")
# adds the tokens of what an inline rule has matched
_Push = Callable[[StateInline, "re.Match[str]"], None]
_ROLES_OF_PROSE = (
    "ref",
    "doc",
    "term",
    "any",
    "abbr",
    "dfn",
    "guilabel",
    "menuselection",
    "sup",
    "sub",
)


def parse_lines(lines: Sequence[Line], *, dialect: str) -> list[Node]:
    """Return the blocks of lines of Markdown, with their offsets.

    Args:
        lines: the lines.
        dialect: ``"markdown"`` (CommonMark with tables, strikethrough and attribute lists),
            ``"rst"`` (its roles instead of links), or ``"plain"``, with block structure only, so
            that inline markup stays text.
    """
    return _build(
        _parser(dialect).parse("\n".join(line.shown for line in lines)),
        _Blocks(lines, dialect).make,
    )


@cache
def _parser(dialect: str) -> MarkdownIt:
    """Return the parser of a dialect."""
    if dialect == "plain":
        parser = MarkdownIt("zero").enable(
            ["newline", "table", "fence", "heading", "list", "blockquote"]
        )
        parser.inline.ruler.before("text", "unseen", _make_rule(UNSEEN, _skip_unseen))
        return parser
    parser = (
        MarkdownIt("commonmark", {"html": False})
        .enable(["table", "strikethrough"])
        .disable("text_join")
    )
    if dialect == "rst":
        parser.disable(["link", "image", "lheading", "code"])
        parser.inline.ruler.before("backticks", "role", _make_rule(ROLE, _read_role))
    else:
        parser.inline.ruler.before("escape", "unseen", _make_rule(UNSEEN, _skip_unseen))
        parser.inline.ruler.before("escape", "tag", _make_rule(TAG, _skip_tag))
        parser.inline.ruler.before("escape", "formula", _make_rule(FORMULA, _read_formula))
    return parser


def _make_rule(pattern: re.Pattern[str], push: _Push) -> Callable[[StateInline, bool], bool]:
    """Return an inline rule of markdown-it-py: what a pattern matches becomes the tokens that
    ``push`` adds to its state.
    """

    def read(state: StateInline, silent: bool) -> bool:
        match = pattern.match(state.src, state.pos)
        if match is None:
            return False
        if not silent:
            push(state, match)
        state.pos = match.end()
        return True

    return read


def _read_role(state: StateInline, match: "re.Match[str]") -> None:
    """Read ``:func:`name``` and ```words <target>`_`` as the words that a reader sees."""
    role, inside = match[1] or "ref", match[2] or match[3] or match[4]
    kind = "text_special" if role.rpartition(":")[2] in _ROLES_OF_PROSE else "code_inline"
    token = state.push(kind, "code", 0)
    token.content = token.markup = inside.strip().lstrip("~!")


def _read_formula(state: StateInline, match: "re.Match[str]") -> None:
    """Keep a formula together, whose marks are none of Markdown's."""
    state.push("text", "", 0).content = match[0]


def _skip_unseen(state: StateInline, match: "re.Match[str]") -> None:
    """Leave ``{#anchor .class}`` and the like out, and the space before it."""
    state.pending = state.pending.rstrip()
    # divides the texts, whose places in the source are looked up
    state.push("unseen", "", 0)


def _skip_tag(state: StateInline, match: "re.Match[str]") -> None:
    """Leave tags of HTML out; some end a line."""
    state.push("softbreak" if ENDS_LINE.match(match[0]) else "unseen", "", 0)


def _build(tokens: Sequence[Token], make: Callable[[Token], list[Node]]) -> list[Node]:
    """Make a tree of tokens.

    Args:
        tokens: tokens of markdown-it-py.
        make: returns the nodes of a token that has no children; an empty list for a closing one.
    """
    nodes: list[Node] = []
    levels = [nodes]
    for token in tokens:
        if token.hidden:
            continue  # paragraphs of a tight list
        if token.nesting == -1:
            levels.pop()
        if token.nesting == 1:
            levels[-1].append(element(token.tag, **_attributes(token)))
            levels.append(levels[-1][-1]["children"])
        else:
            levels[-1] += make(token)
    return nodes


class _Blocks:
    """Makes the elements of blocks. State: how far each line has been searched."""

    def __init__(self, lines: Sequence[Line], dialect: str) -> None:
        self._lines = lines
        self._joins = dialect == "markdown"
        self._places: dict[int, int] = {}

    def make(self, token: Token) -> list[Node]:
        first = (token.map or [0])[0]
        if token.type == "inline":
            lines = token.content.split("\n")
            starts = [self._find(first + number, line) for number, line in enumerate(lines)]
            return _build(
                token.children or [], _Inline(token.content, lines, starts, joins=self._joins).make
            )
        if token.type in ("fence", "code_block"):
            if token.type == "fence":
                first += 1  # the code follows the line of the fence
            numbered = enumerate(token.content.splitlines(keepends=True), first)
            code = (
                text_node(line, self._find(number, line.rstrip("\r\n")))
                for number, line in numbered
            )
            return [element("pre", element("code", *code))]
        if token.type == "hr":
            return [element("hr")]
        return [text_node(token.content)] if token.content else []

    def _find(self, number: int, piece: str) -> int:
        """Return the offset of a piece of a line in the source, behind the pieces before it; -1 if
        it is not there.
        """
        if number >= len(self._lines) or self._lines[number].start < 0:
            return -1
        line = self._lines[number]
        position = line.source.find(piece, self._places.get(number, 0))
        if position < 0:
            return -1
        self._places[number] = position + len(piece)
        return line.start + position


class _Inline:
    """Makes the inline elements of a block. State: how far its content has been read."""

    def __init__(self, content: str, lines: list[str], starts: list[int], *, joins: bool) -> None:
        self._content, self._lines, self._starts, self._joins = content, lines, starts, joins
        self._borders = [0, *accumulate(len(line) + 1 for line in lines)]
        self._read = 0

    def make(self, token: Token) -> list[Node]:
        if token.type == "softbreak":
            return [self._line_break()]
        if token.type == "hardbreak":
            return [element("br")]
        if token.type == "text_special":
            return [self._text(token.content, token.markup)]
        if token.type == "link_close" and token.markup != "autolink":
            self._skip_link()
        if not token.content:
            return []
        text = self._text(token.content, token.content)
        if token.type == "code_inline":
            return [element("code", text)]
        if token.type == "image":
            self._skip_link()
            return [element("em", text)]
        return [text]

    def _skip_link(self) -> None:
        if end := _LINK_END.match(self._content, self._read):
            self._read = end.end()

    def _line_break(self) -> Node:
        """A space if the paragraph is only wrapped there, else a line break."""
        position = self._content.find("\n", self._read)
        number = bisect_right(self._borders, max(position, self._read)) - 1
        before, after = self._lines[number], self._lines[min(number + 1, len(self._lines) - 1)]
        wrapped = len(before) >= _WRAPPED or after[:1].islower()
        goes_on = not OWN_LINE.match(after) and (
            self._joins or (wrapped and not _KEEPS_ITS_LINE.match(after or " "))
        )
        start = self._starts[number]
        return text_node(" " if goes_on else "\n", start + len(before) if start >= 0 else -1)

    def _text(self, shown: str, source: str) -> Node:
        position = self._content.find(source, self._read)
        if position < 0 or not source:
            return text_node(shown)
        self._read = position + len(source)
        line = bisect_right(self._borders, position) - 1
        start = self._starts[line]
        return text_node(shown, -1 if start < 0 else start + position - self._borders[line])


def _attributes(token: Token) -> dict[str, str | int]:
    """Return the attributes of a token that are displayed: links to the web, a list's start, a
    cell's alignment.
    """
    if token.type == "link_open":
        link = str(token.attrs.get("href", ""))
        return {"href": link} if _SAFE_LINK.match(link) else {}
    if token.type == "ordered_list_open" and "start" in token.attrs:
        return {"start": int(token.attrs["start"])}
    align = str(token.attrs.get("style", "")).rpartition(":")[2]
    return {"align": align} if align in ("left", "right", "center") else {}
