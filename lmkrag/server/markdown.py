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


class _Blocks:
    """Makes a tree of tokens. State: how far each line's text has been found."""

    def __init__(self, text: str) -> None:
        # markdown-it's line ends are those of CommonMark
        self._lines = re.split(r"\r\n|\r|\n", text)
        ends = [match.end() for match in re.finditer(r"\r\n|\r|\n", text)]
        self._starts = [0, *ends]
        self._found: dict[int, int] = {}

    def build(self, tokens: Sequence[Token]) -> list[Node]:
        root: Node = {"tag": "", "children": []}
        open_nodes = [root]
        for token in tokens:
            children = open_nodes[-1]["children"]
            if token.nesting == 1:
                node = _element(token.tag, attributes=_attributes(token))
                children.append(node)
                open_nodes.append(node)
            elif token.nesting == -1:
                open_nodes.pop()
            elif token.type == "inline":
                children += self._inline(token)
            elif token.type in ("fence", "code_block"):
                children.append(_element("pre", children=[_element("code", children=self._code(token))]))
            elif token.type == "hr":
                children.append(_element("hr"))
            elif token.content:
                children.append({"text": token.content, "start": -1})
        blocks: list[Node] = root["children"]
        return blocks

    def _code(self, token: Token) -> list[Node]:
        first = (token.map or [0])[0] + (token.type == "fence")
        lines = token.content.splitlines(keepends=True)
        return [
            {"text": line, "start": self._find(first + number, line.rstrip("\r\n"))}
            for number, line in enumerate(lines)
        ]

    def _find(self, line: int, piece: str) -> int:
        """Where a piece of a line stands in the source, behind what was found in the line before; -1 if nowhere."""
        if line >= len(self._lines):
            return -1
        place = self._lines[line].find(piece, self._found.get(line, 0))
        if place < 0:
            return -1
        self._found[line] = place + len(piece)
        return self._starts[line] + place

    def _inline(self, token: Token) -> list[Node]:
        first = (token.map or [0])[0]
        lines = token.content.split("\n")
        starts = [self._find(first + number, line) for number, line in enumerate(lines)]
        return _Inline(token.content, lines, starts).build(token.children or [])


class _Inline:
    """Makes a tree of the tokens within a block. State: how far its content has been read."""

    def __init__(self, content: str, lines: list[str], starts: list[int]) -> None:
        self._content, self._starts = content, starts
        self._borders = [0, *accumulate(len(line) + 1 for line in lines)]
        self._read = 0

    def build(self, tokens: Sequence[Token]) -> list[Node]:
        root: Node = {"tag": "", "children": []}
        open_nodes = [root]
        for token in tokens:
            children = open_nodes[-1]["children"]
            if token.nesting == 1:
                node = _element(token.tag, attributes=_attributes(token))
                children.append(node)
                open_nodes.append(node)
            elif token.nesting == -1:
                open_nodes.pop()
                if token.type == "link_close" and token.markup != "autolink":
                    self._skip_link()
            elif token.type == "softbreak":
                children.append({"text": "\n", "start": -1})
            elif token.type == "hardbreak":
                children.append(_element("br"))
            elif token.type == "image":
                children.append(_element("em", children=[self._text(token.content, token.content)]))
                self._skip_link()
            elif token.type == "code_inline":
                children.append(_element("code", children=[self._text(token.content, token.content)]))
            elif token.type == "text_special":
                children.append(self._text(token.content, token.markup))
            elif token.content:
                children.append(self._text(token.content, token.content))
        nodes: list[Node] = root["children"]
        return nodes

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
