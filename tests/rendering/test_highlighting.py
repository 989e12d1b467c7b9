"""Source code is divided into what its pieces are; nothing of it is lost or moved."""

import pytest

from lmkrag.rendering.highlighting import highlight
from lmkrag.rendering.tree import Node

PYTHON = 'def trim(lamp):\r\n\t# the wick\n    return "bright", 7\n'


def texts(nodes: list[Node]) -> list[Node]:
    return [node if "text" in node else node["children"][0] for node in nodes]


def test_the_pieces_of_python():
    pieces = [
        (node["attributes"]["token"], node["children"][0]["text"])
        for node in highlight(PYTHON, "src/wick.py", 0)
        if "tag" in node
    ]
    assert pieces == [
        ("keyword", "def"),
        ("name", "trim"),
        ("comment", "# the wick"),
        ("keyword", "return"),
        ("string", '"bright"'),
        ("number", "7"),
    ]


@pytest.mark.parametrize("name", ["a/wick.py", "wick.rs", "Makefile", "wick.unknown", ""])
def test_nothing_is_lost_or_moved(name):
    document = "🜁 = 1\n" + PYTHON
    start = 100
    pieces = texts(highlight(document, name, start))
    assert "".join(piece["text"] for piece in pieces) == document
    for piece in pieces:
        place = piece["start"] - start
        assert document[place : place + len(piece["text"])] == piece["text"]


def test_what_no_one_reads_is_not_highlighted():
    line = "x=1;" * 2_000
    assert [node["text"] for node in highlight(line, "min.js", 0)] == [line]
