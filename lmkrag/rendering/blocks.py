"""Parse a passage or an answer into the tree of elements that is displayed."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, groupby

from lmkrag.rendering.highlighting import highlight
from lmkrag.rendering.latex import show_latex
from lmkrag.rendering.lines import Line, add_rules, hide_unseen, shape_notes, shape_rst, split_lines
from lmkrag.rendering.markdown import parse_lines
from lmkrag.rendering.places import MARKDOWN, TABLES, is_record
from lmkrag.rendering.tree import Node, element, text_node
from lmkrag.sentences.table_rows import is_header, is_tabbed, read_record, split_row

_BAR = " | "  # between the cells of a row
_BLANK = ("", -1)  # a cell that was added
_CITED = re.compile(r"\[(\d{1,4})\]")

_Cells = Sequence[tuple[str, int]]  # of a row: values with their offsets


def parse_blocks(
    text: str, *, kind: str, start: int = 0, header: str = "", name: str = ""
) -> list[Node]:
    """Parse a text into elements that know their offsets in the document.

    Args:
        text: a piece of the document.
        kind: the kind of the document, which decides the markup.
        start: offset of the piece in the document.
        header: the first row of a table that begins before the piece; empty if there is none.
        name: the name of the document's file: with one, source code is highlighted and formulas
            are shown instead of their LaTeX.

    Returns:
        The blocks, in order.
    """
    nodes = _parse(text, kind, start, header, name)
    is_latex = name.endswith((".tex", ".latex"))
    if is_latex or (name and kind == "markdown"):
        return show_latex(nodes, whole=is_latex)
    return nodes


def _parse(text: str, kind: str, start: int, header: str, name: str) -> list[Node]:
    """The blocks of a text, its LaTeX as it was written: see :func:`parse_blocks`."""
    if kind == "code":
        return [element("pre", element("code", *highlight(text, name, start)))]
    lines = split_lines(text, start)
    if kind == "rst":
        return parse_lines(list(shape_rst(lines)), dialect="rst")
    if kind in MARKDOWN:
        return parse_lines(
            list(add_rules(shape_notes(list(hide_unseen(lines))), header)), dialect="markdown"
        )
    nodes: list[Node] = []
    for shape, group in groupby(lines, key=lambda line: _find_shape(line.source, kind)):
        if shape == "record":
            nodes += _tabulate(group)
            continue
        if shape == "cells":
            nodes.append(_tabulate_cells(group))
        elif shape == "tabbed":
            nodes.append(_tabulate_tabbed(group, header))
        else:
            nodes += parse_lines(list(add_rules(group, header)), dialect="plain")
        header = ""
    return nodes


def _find_shape(line: str, kind: str) -> str:
    """Return the shape of a line of a document of a kind: ``record``, ``cells`` of a table without
    names, ``tabbed`` for cells with tabs between them, or ``text`` such as the name of a sheet.
    """
    if is_record(line):
        return "record"
    if kind in TABLES:
        return "text" if not line.strip() or line.startswith("# ") else "cells"
    return "tabbed" if is_tabbed(line) else "text"


def _make_table(rows: Iterable[_Cells], names: _Cells = ()) -> Node:
    """Return a table.

    Args:
        rows: the values of each row with their offsets; -1 for those that were added.
        names: the same of the names of its columns; empty if they have none.
    """

    def make_row(cells: _Cells, tag: str) -> Node:
        return element("tr", *(element(tag, text_node(value, start)) for value, start in cells))

    head = [element("thead", make_row(names, "th"))] if names else []
    return element("table", *head, element("tbody", *(make_row(row, "td") for row in rows)))


def _tabulate_cells(lines: Iterable[Line]) -> Node:
    """Return the table of rows without names of columns."""
    rows = []
    for line in lines:
        values = line.source.split(_BAR)
        starts = accumulate((len(value) + len(_BAR) for value in values[:-1]), initial=line.start)
        rows.append([*zip(values, starts, strict=True)])
    width = max(map(len, rows))
    return _make_table([*row, *[_BLANK] * (width - len(row))] for row in rows)


def _tabulate(records: Iterable[Line]) -> Iterator[Node]:
    """Yield tables of rows that carry their columns' names, a table for each run of the same
    columns.
    """
    rows = (list(read_record(line.source, line.start)) for line in records)
    for columns, group in groupby(rows, key=lambda cells: [column for column, _, _ in cells]):
        body = [[(value, start) for _, value, start in row] for row in group]
        yield _make_table(body, [(column, -1) for column in columns])


def _tabulate_tabbed(lines: Iterable[Line], header: str) -> Node:
    """Return the table of rows with tabs between their columns.

    A row with fewer columns is aligned to the right.
    """
    rows = [split_row(line.source, line.start) for line in lines]
    first = [(value, -1) for value, _ in split_row(header, 0)] if is_tabbed(header) else []
    width = max(map(len, [first, *rows]))
    if not first and is_header([value for value, _ in rows[0]]):
        first, rows = rows[0], rows[1:]
    names, *aligned = ([*[_BLANK] * (width - len(row)), *row] for row in [first, *rows])
    return _make_table(aligned, names if first else ())


def cite(number: int) -> Node:
    """Return the element of citation ``[number]``."""
    return element("cite", text_node(f"[{number}]"), number=number)


def link_citations(nodes: Sequence[Node], numbers: set[int]) -> list[Node]:
    """Make citations of ``[1]`` and the like in prose; code is left as it is.

    Args:
        nodes: a tree.
        numbers: the numbers of citations that exist.
    """
    linked: list[Node] = []
    for node in nodes:
        if "text" not in node:
            inside = (
                node["children"]
                if node["tag"] == "code"
                else link_citations(node["children"], numbers)
            )
            linked.append({**node, "children": inside})
            continue
        position = 0
        for match in _CITED.finditer(node["text"]):
            if int(match[1]) in numbers:
                linked += [text_node(node["text"][position : match.start()]), cite(int(match[1]))]
                position = match.end()
        linked.append(text_node(node["text"][position:]))
    return [node for node in linked if node.get("text") != ""]
