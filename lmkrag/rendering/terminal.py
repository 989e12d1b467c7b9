"""Render a tree for a terminal, with rich."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from lmkrag.rendering.quoting import MARK
from lmkrag.rendering.tree import Node, text_node

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.table import Table
    from rich.text import Text

_STYLES = {
    "strong": "bold",
    "em": "italic",
    "code": "cyan",
    "s": "strike",
    "cite": "bold",
    "th": "bold",
}
_WIDEST = 10_000  # characters of a line that no table fills
_NARROW = 24  # characters of a column in which sentences are hard to read
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_BLOCKS = (*_HEADINGS, "p", "blockquote", "hr", "ul", "ol", "pre", "table")  # of an item


def to_terminal(
    nodes: Sequence[Node], marks: Mapping[str, str], clean: Callable[[str], str]
) -> "Iterator[RenderableType]":
    """Yield the parts of a tree in rich's styles, with empty lines between blocks.

    Args:
        nodes: the tree.
        marks: a style for each kind of mark, such as ``found``.
        clean: makes a line safe for a terminal.
    """
    return _Printer(marks, clean).blocks(nodes)


class Marked:
    """Renders a part with a mark before every line, also before lines that begin where a long one
    is wrapped.
    """

    def __init__(self, part: "RenderableType", mark: str, following: str | None = None) -> None:
        """Take a part and its marks.

        Args:
            part: anything that rich renders.
            mark: the mark of the first line.
            following: the mark of the following lines; None for the same.
        """
        self._part, self._mark = part, mark
        self._following = mark if following is None else following

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        """Yield the lines: see https://rich.readthedocs.io/en/stable/protocol.html."""
        from rich.segment import Segment
        from rich.style import Style

        width = options.max_width - max(len(self._mark), len(self._following))
        mark = self._mark
        for line in Segment.split_lines(
            console.render(self._part, options.update(width=max(1, width)))
        ):
            yield Segment(mark if line else mark.rstrip(), Style(dim=True))
            yield from line
            yield Segment.line()
            mark = self._following


class _Fitting:
    """Renders a table; where it is too wide, each row as lines with the names of the columns."""

    def __init__(self, table: "Table", cells: "Sequence[Sequence[Text]]") -> None:
        self._table, self._cells = table, cells

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        from rich.text import Text

        needed = console.measure(self._table, options=options.update(width=_WIDEST)).maximum
        has_narrow_columns = options.max_width < _NARROW * len(self._table.columns)
        if needed <= options.max_width or not has_narrow_columns:
            yield self._table
            return
        names, *rows = self._cells
        for number, row in enumerate(rows):
            if number:
                yield ""
            for name, cell in zip(names, row, strict=False):
                yield Text.assemble(name, ": ", cell) if name.plain else cell


class _Printer:
    """Renders blocks, with a style for each kind of mark."""

    def __init__(self, marks: Mapping[str, str], clean: Callable[[str], str]) -> None:
        self._marks, self._clean = marks, clean

    def blocks(self, nodes: Sequence[Node]) -> "Iterator[RenderableType]":
        for before, node in zip([None, *nodes], nodes, strict=False):
            if before is not None and before.get("tag") not in _HEADINGS:
                yield ""
            yield from self.block(node)

    def block(self, node: Node) -> "Iterator[RenderableType]":
        from rich.padding import Padding

        tag = node.get("tag")
        if tag == "pre":
            yield Padding(self._inline([node], no_wrap=True), (0, 0, 0, 2), expand=False)
        elif tag == "table":
            yield self._table(node)
        elif tag in ("ul", "ol"):
            for number, item in enumerate(node["children"], node["attributes"].get("start", 1)):
                yield from self._item(item, "-" if tag == "ul" else f"{number}.")
        elif tag == "blockquote":
            yield from (Marked(part, MARK) for part in self.blocks(node["children"]))
        elif tag == "hr":
            yield ""
        else:
            yield self._inline([node], style="bold" if tag in _HEADINGS else "")

    def _item(self, item: Node, bullet: str) -> "Iterator[RenderableType]":
        mark, following = f" {bullet} ", " " * (len(bullet) + 2)
        inside = item["children"] or [text_node("")]
        for is_block, group in groupby(inside, key=lambda child: child.get("tag") in _BLOCKS):
            nodes = list(group)
            for part in self.blocks(nodes) if is_block else [self._inline(nodes)]:
                yield Marked(part, mark, following)
                mark = following

    def _table(self, node: Node) -> "RenderableType":
        from rich import box
        from rich.table import Table

        rows = [row for part in node["children"] for row in part["children"]]
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
        cells = [[self._inline(cell["children"]) for cell in row["children"]] for row in rows]
        for name in cells[0] if cells else ():
            table.add_column(name, overflow="fold")
        for row in cells[1:]:
            table.add_row(*row)
        return _Fitting(table, cells)

    def _inline(self, nodes: Sequence[Node], *, style: str = "", no_wrap: bool = False) -> "Text":
        from rich.text import Text

        shown = Text(no_wrap=no_wrap)
        for text, styles in self._pieces(nodes, (style,)):
            lines = text.expandtabs(4).split("\n")
            shown.append("\n".join(map(self._clean, lines)), style=" ".join(styles))
        shown.rstrip()
        return shown

    def _pieces(
        self, nodes: Sequence[Node], styles: tuple[str, ...]
    ) -> Iterator[tuple[str, tuple[str, ...]]]:
        for node in nodes:
            if "text" in node:
                yield node["text"], styles
                continue
            own = [_STYLES.get(node["tag"], "")]
            if node["tag"] == "br":
                yield "\n", styles
            elif node["tag"] == "mark":
                own = [self._marks.get(kind, "") for kind in node["attributes"]["kind"].split()]
            yield from self._pieces(node["children"], (*styles, *own))
