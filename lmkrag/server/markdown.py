"""Markdown as a tree of elements whose texts know where they stand in the source.

The page makes elements and text nodes of it, and marks ranges of the source in them; HTML in a document stays text.
Parsed by markdown-it-py; its tokens have lines, the place within them is found by reading each token's text in order.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

Node = dict[str, Any]
"""``{"tag", "attributes", "children"}`` of an element, ``{"text", "start"}`` of text; ``start`` is -1 where unknown."""

_LINK_END = re.compile(r"\]\((?:[^()\\]|\\.|\([^()]*\))*\)|\]\[[^\]]*\]|\]")
_FRONT_MATTER = re.compile(r"---[^\S\r\n]*(?>\r\n|\r|\n)(?:[^\r\n]*(?>\r\n|\r|\n))*?---[^\S\r\n]*(?:(?>\r\n|\r|\n)|\Z)")
_SAFE_LINK = re.compile(r"https?://|mailto:", re.IGNORECASE)


def parse_markdown(text: str) -> list[Node]:
    """Return the blocks of a Markdown document (CommonMark, with tables and strikethrough)."""
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("text_join")
    front_matter = _FRONT_MATTER.match(text)
    if front_matter is None:
        return _Blocks(text).build(parser.parse(text))
    kept = front_matter[0]
    blank = "\n" * len(re.findall(r"\r\n|\r|\n", kept))  # so that lines keep their numbers
    return [
        _element("pre", children=[{"text": kept, "start": 0}]),
        *_Blocks(text).build(parser.parse(blank + text[len(kept) :])),
    ]


class _Builder:
    """Makes a tree of tokens that open, close or stand alone."""

    def build(self, tokens: Sequence[Token]) -> list[Node]:
        root: Node = {"tag": "", "children": []}
        open_nodes = [root]
        for token in tokens:
            children = open_nodes[-1]["children"]
            if token.nesting == 1:
                children.append(_element(token.tag, attributes=_attributes(token)))
                open_nodes.append(children[-1])
            elif token.nesting == -1:
                open_nodes.pop()
                self.close(token)
            else:
                children += self.make(token)
        nodes: list[Node] = root["children"]
        return nodes

    def make(self, token: Token) -> list[Node]:
        """Return the nodes of a token that stands alone."""
        raise NotImplementedError

    def close(self, token: Token) -> None:
        """Note that an element ends."""


class _Blocks(_Builder):
    """The blocks of a document. State: how far each line's text has been found."""

    def __init__(self, text: str) -> None:
        # markdown-it's line ends are those of CommonMark
        self._lines = re.split(r"\r\n|\r|\n", text)
        self._starts = [0, *(match.end() for match in re.finditer(r"\r\n|\r|\n", text))]
        self._found: dict[int, int] = {}

    def make(self, token: Token) -> list[Node]:
        if token.type == "inline":
            return self._inline(token)
        if token.type in ("fence", "code_block"):
            return [_element("pre", children=[_element("code", children=self._code(token))])]
        if token.type == "hr":
            return [_element("hr")]
        return [{"text": token.content, "start": -1}] if token.content else []

    def _code(self, token: Token) -> list[Node]:
        first = (token.map or [0])[0] + (token.type == "fence")
        lines = token.content.splitlines(keepends=True)
        return [
            {"text": line, "start": self._find(first + number, line.rstrip("\r\n"))}
            for number, line in enumerate(lines)
        ]

    def _inline(self, token: Token) -> list[Node]:
        first = (token.map or [0])[0]
        lines = token.content.split("\n")
        starts = [self._find(first + number, line) for number, line in enumerate(lines)]
        return _Inline(token.content, lines, starts).build(token.children or [])

    def _find(self, line: int, piece: str) -> int:
        """Where a piece of a line stands in the source, behind what was found in the line before; -1 if nowhere."""
        if line >= len(self._lines):
            return -1
        place = self._lines[line].find(piece, self._found.get(line, 0))
        if place < 0:
            return -1
        self._found[line] = place + len(piece)
        return self._starts[line] + place


class _Inline(_Builder):
    """What stands within a block. State: how far its content has been read."""

    def __init__(self, content: str, lines: list[str], starts: list[int]) -> None:
        self._content, self._starts = content, starts
        self._borders = [0, *accumulate(len(line) + 1 for line in lines)]
        self._read = 0

    def make(self, token: Token) -> list[Node]:
        if token.type == "softbreak":
            return [{"text": "\n", "start": -1}]
        if token.type == "hardbreak":
            return [_element("br")]
        if token.type == "text_special":
            return [self._text(token.content, token.markup)]
        if not token.content:
            return []
        text = self._text(token.content, token.content)
        if token.type == "code_inline":
            return [_element("code", children=[text])]
        if token.type == "image":
            self._skip_link()
            return [_element("em", children=[text])]
        return [text]

    def close(self, token: Token) -> None:
        if token.type == "link_close" and token.markup != "autolink":
            self._skip_link()

    def _skip_link(self) -> None:
        end = _LINK_END.match(self._content, self._read)
        if end:
            self._read = end.end()

    def _text(self, shown: str, source: str) -> Node:
        place = self._content.find(source, self._read)
        if place < 0 or not source:
            return {"text": shown, "start": -1}
        self._read = place + len(source)
        line = bisect_right(self._borders, place) - 1
        start = self._starts[line]
        return {"text": shown, "start": -1 if start < 0 else start + place - self._borders[line]}


def _element(tag: str, *, children: list[Node] | None = None, attributes: dict[str, str | int] | None = None) -> Node:
    return {"tag": tag, "attributes": attributes or {}, "children": children or []}


def _attributes(token: Token) -> dict[str, str | int]:
    """What the page may know of a token: links to the web, where a list begins, how a cell is aligned."""
    if token.type == "link_open":
        link = str(token.attrs.get("href", ""))
        return {"href": link} if _SAFE_LINK.match(link) else {}
    if token.type == "ordered_list_open" and "start" in token.attrs:
        return {"start": int(token.attrs["start"])}
    align = str(token.attrs.get("style", "")).rpartition(":")[2]
    return {"align": align} if align in ("left", "right", "center") else {}
