"""What is shown of a passage: its form, its marks, and nothing that could do harm."""

import io
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from lmkrag.cli.output import one_line
from lmkrag.rendering.blocks import parse_blocks
from lmkrag.rendering.terminal import to_terminal
from lmkrag.rendering.tree import mark_nodes, to_html
from lmkrag.results import Answer, Citation, Quote, ShortAnswer, Span


def outline(nodes) -> list:
    """The tree without attributes and places: (tag, inside) and texts."""
    return [
        node["text"] if "text" in node else (node["tag"], *outline(node["children"]))
        for node in nodes
    ]


def plain(nodes) -> str:
    return "".join(node["text"] if "text" in node else plain(node["children"]) for node in nodes)


def texts(nodes) -> list:
    return [
        one for node in nodes for one in ([node] if "text" in node else texts(node["children"]))
    ]


def on_terminal(nodes, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system="standard")
    for part in to_terminal(nodes, {"found": "bold", "word": "underline"}, one_line):
        console.print(part)
    return console.file.getvalue()  # type: ignore[attr-defined]


RST = """:Author: Ann

Install
=======

.. _install:

Run :ref:`the setup <setup>` with ``pip``:

.. code-block:: console
   :linenos:

   $ pip install tern
     --user

Or by hand::

   make

.. note:: Not on Sundays.
   Really.

===== =====
 a     b
===== =====
"""


def test_rst_shows_code_headings_and_roles():
    blocks = parse_blocks(RST, kind="rst")
    assert [node["tag"] for node in blocks] == ["p", "h2", "p", "pre", "p", "pre", "p", "pre"]
    assert outline(blocks)[2] == ("p", "Run ", "the setup", " with ", ("code", "pip"), ":")
    assert plain([blocks[3]]) == "$ pip install tern\n  --user\n"
    assert plain([blocks[4]]) == "Or by hand:"
    assert plain([blocks[6]]) == "Note Not on Sundays.\nReally."
    shown = plain(blocks)
    assert not any(raw in shown for raw in ("..", "::", ":ref:", "_install", "linenos"))


def test_rows_without_their_header_get_it():
    rows = "| B-7 | 12 |\n| B-8 | 3 |\n"
    (table,) = parse_blocks(rows, kind="markdown", start=100, header="| code | stock |")
    head, body = table["children"]
    assert plain([head]) == "codestock"
    assert [outline([row])[0] for row in body["children"]] == [
        ("tr", ("td", "B-7"), ("td", "12")),
        ("tr", ("td", "B-8"), ("td", "3")),
    ]
    assert texts([body])[1]["start"] == 100 + rows.index("12")
    assert texts([head])[0]["start"] == -1


def test_records_of_csv_and_workbooks_are_a_table():
    text = "code: B-7 | stock: 12\ncode: B-12 | stock: 5: six"
    (table,) = parse_blocks(text, kind="csv", start=7)
    assert outline([table])[0][1] == ("thead", ("tr", ("th", "code"), ("th", "stock")))
    values = [node for node in texts([table]) if node["start"] >= 0]
    assert [node["text"] for node in values] == ["B-7", "12", "B-12", "5: six"]
    assert all(text[node["start"] - 7 :].startswith(node["text"]) for node in values)


@pytest.mark.parametrize("kind", ["xlsx", "ods", "csv"])
def test_rows_without_names_of_columns_keep_their_own_numbers(kind):
    text = "# Plan\n\n1. | Light the lamp | Keeper\n2. | Trim the wick\n6. | Count: the oil | Master\n# tanks\n7. Close"
    nodes = parse_blocks(text, kind=kind, start=9)
    assert [node["tag"] for node in nodes] == ["h1", "table", "h1", "table"]
    assert outline(nodes)[1] == (
        "table",
        (
            "tbody",
            ("tr", ("td", "1."), ("td", "Light the lamp"), ("td", "Keeper")),
            ("tr", ("td", "2."), ("td", "Trim the wick"), ("td", "")),
            ("tr", ("td", "6."), ("td", "Count: the oil"), ("td", "Master")),
        ),
    )
    assert plain(nodes[3:]) == "7. Close"
    assert all(text[node["start"] - 9 :].startswith(node["text"]) for node in texts(nodes))
    html = to_html(nodes)
    assert "<li>" not in html and " | " not in html


def test_rows_with_tabs_are_a_table_whose_columns_are_to_the_right():
    text = "Cash flows\n\t2022\t2021\nFares\t1,203\t988\n\nTotals follow."
    head = ("thead", ("tr", ("th", ""), ("th", "2022"), ("th", "2021")))
    row = ("tr", ("td", "Fares"), ("td", "1,203"), ("td", "988"))
    table = ("table", head, ("tbody", row))
    assert outline(parse_blocks(text, kind="pdf")) == [
        ("p", "Cash flows"),
        table,
        ("p", "Totals follow."),
    ]
    cut_off = parse_blocks("Fares\t1,203\t988", kind="pdf", header="\t2022\t2021")
    assert outline(cut_off) == [table]
    assert [text["start"] for text in texts(cut_off)][-3:] == [0, 6, 12]


def test_words_of_other_formats_stand_as_they_are():
    text = "Use a*b*c and __init__ of <b> & x_y.\n\n- one\n- two\n\n# Head\n"
    blocks = parse_blocks(text, kind="html")
    assert outline(blocks)[0] == ("p", "Use a*b*c and __init__ of <b> & x_y.")
    assert [node["tag"] for node in blocks] == ["p", "ul", "h1"]


def test_wrapped_lines_are_joined_and_short_ones_kept():
    wrapped = (
        "A line that was wrapped by hand at some sixty characters or so,\nand goes on.\nA new one."
    )
    assert plain(parse_blocks(wrapped, kind="pdf")).count("\n") == 1
    assert plain(parse_blocks(wrapped, kind="markdown")).count("\n") == 0


@pytest.mark.parametrize("kind", ["text", "mail", "markdown"])
def test_lines_with_labels_or_times_are_no_wrapped_prose(kind):
    text = (
        "Present: H. Quill (chair of the committee), Mrs Tanaka, Mr Olufsen\nApologies: Mr Bruns\n"
        "[12/03/2025, 10:31] Mira: the boat leaves from the north pier today\n2025-03-12 10:32 - Jon: no"
    )
    assert plain(parse_blocks(text, kind=kind)).count("\n") == 3


def test_notes_attributes_and_front_matter_are_not_shown_raw():
    text = '---\ntitle: x\n---\n## Setup {#setup .big}\n\n!!! tip "Hurry"\n    Be quick.\n'
    assert outline(parse_blocks(text, kind="markdown")) == [
        ("h2", "Setup"),
        ("p", ("strong", "Hurry")),
        ("p", "Be quick."),
    ]


@pytest.mark.parametrize(
    ("kind", "start", "text"),
    [
        ("text", 0, "---\nMinutes of May.\nThe bridge is painted green.\n---\nThe end."),
        ("code", 0, "---\nname: bridge\n---\ncolour: green\n"),
        ("markdown", 0, "---\n\nThe bridge is painted green.\n\n---\n\nThe end.\n"),
        ("markdown", 900, "---\n\nThe bridge: green.\n\n---\n\nThe end.\n"),
    ],
)
def test_text_between_rules_is_shown(kind, start, text):
    shown = " ".join(node["text"] for node in texts(parse_blocks(text, kind=kind, start=start)))
    assert shown.replace("---", "").split() == text.replace("---", "").split()


def test_properties_that_can_be_quoted_are_shown_at_their_places():
    text = "---\ntitle: Tides\nauthor: Jane Roe\ntags:\n  - bay\n  - moon\nlayout: page\n---\n# Tides\n"
    nodes = parse_blocks(text, kind="markdown")
    assert [node["tag"] for node in nodes] == ["p", "p", "ul", "h1"]
    assert plain(nodes) == "author: Jane Roetags:baymoonTides"
    assert all(text[node["start"] :].startswith(node["text"]) for node in texts(nodes))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("markdown", "!!! tip" + " " * 60_000 + "x"),
        ("rst", "`a" + " " * 60_000 + "b"),
        ("rst", ":a" * 30_000),
    ],
    ids=["note", "role", "colons"],
)
def test_long_lines_take_no_time(kind, text):
    began = time.monotonic()
    assert plain(parse_blocks(text, kind=kind)).startswith(text[:2])
    assert time.monotonic() - began < 2


@pytest.mark.parametrize(("kind", "mark"), [("markdown", "!!! tip"), ("rst", ".. note::")])
def test_blocks_are_nested_without_end(kind, mark):
    text = "\n".join(" " * depth + mark for depth in range(1_000))
    assert plain(parse_blocks(text, kind=kind)).lower().count(mark.split()[1].strip(":")) >= 100


def test_marks_cut_texts_where_they_begin_and_end():
    nodes = mark_nodes(
        parse_blocks("One two three.", kind="text", start=10), [(14, 17, "found"), (16, 23, "word")]
    )
    marked = [
        (node["attributes"]["kind"], plain([node]))
        for node in nodes[0]["children"]
        if "tag" in node
    ]
    assert marked == [("found", "tw"), ("found word", "o"), ("word", " three")]


def test_html_is_safe_and_a_terminal_gets_no_control_codes():
    hostile = "<script>alert(1)</script> [x](javascript:alert(1)) \x1b[31m red \u202e rtl\n"
    for kind in ("markdown", "rst", "html", "code"):
        blocks = parse_blocks(hostile, kind=kind)
        html = to_html(blocks)
        assert "<script" not in html and "href" not in html
        assert "\x1b[31m" not in on_terminal(blocks) and "\u202e" not in on_terminal(blocks)


def test_a_terminal_wraps_prose_and_draws_tables():
    text = (
        "word " * 30
        + "\n\n```\nx = 1\n```\n\n| code | stock |\n|---|---|\n| B-7 | 12 |\n\n1. first\n2. second\n"
    )
    shown = on_terminal(parse_blocks(text, kind="markdown"), width=40)
    lines = shown.splitlines()
    assert max(len(line) for line in lines if "\x1b" not in line) <= 40
    assert any("B-7" in line and "12" in line and "|" not in line for line in lines)
    assert "\x1b[2m 2. \x1b[0msecond" in shown and "```" not in shown


def span(text: str, kind: str = "markdown", start: int = 0) -> Span:
    return Span("a.md", "a.md", start, start + len(text), text, 1.0, kind=kind)


def test_an_answer_shows_its_quotes_with_marks_and_citations():
    found = span("Take care. The boat leaves at seven. Dogs are free.", start=50)
    quoted = Citation(1, found, "The boat leaves at seven.", 61, 86)
    answer = Answer(
        "seven\n\n...", (quoted,), (found,), "extractive", True, short=(ShortAnswer(1, "seven", 80, 85),),
        quotes=(Quote(1, 50, 50 + len(found.text), heading="Boats"),),
    )  # fmt: skip
    blocks = answer.to_blocks()
    assert outline(blocks)[0] == ("p", ("strong", "seven"))
    (tag, heading, passage), (_, shown) = outline(blocks)[1], blocks[1]["children"]
    assert (tag, heading) == ("blockquote", ("h4", "Boats"))
    assert passage == (
        "p", "Take care. ", ("mark", "The boat leaves at "), ("mark", "seven"), ("mark", "."), " Dogs are free.",
        " ", ("cite", "[1]"),
    )  # fmt: skip
    assert [
        node["attributes"]["kind"] for node in shown["children"] if node.get("tag") == "mark"
    ] == [
        "quoted",
        "quoted short",
        "quoted",
    ]


def test_a_short_answer_is_rendered():
    found = span("Run `lmkrag index` or **wait**. A*b is less.")
    shorts = (ShortAnswer(1, "`lmkrag index` or **wait**", 4, 30),)
    answer = Answer(
        f"{shorts[0].text}\n\n...",
        (),
        (found,),
        "extractive",
        True,
        short=shorts,
        quotes=(Quote(1, 0, 31),),
    )
    paragraph = outline(answer.to_blocks())[0]
    assert paragraph == (
        "p",
        ("strong", ("code", "lmkrag index"), " or ", ("strong", "wait")),
    )


def test_citations_of_a_language_model_are_linked_but_not_in_code():
    found = span("x")
    said = "It is **so** [1], see `rows[1]` and [7]."
    answer = Answer(said, (Citation(1, found, "x", 0, 1),), (found,), "openai", True)
    (paragraph,) = answer.to_blocks()
    assert outline([paragraph])[0] == (
        "p", "It is ", ("strong", "so"), " ", ("cite", "[1]"), ", see ", ("code", "rows[1]"), " and [7].",
    )  # fmt: skip


ANYTHING = st.text(alphabet='ab *_`[]{}()#>-|\\&;:.\n\r\t 1=~🜁<!"', max_size=150)


@pytest.mark.parametrize("kind", ["markdown", "rst", "html", "csv", "xlsx", "code"])
@given(text=ANYTHING)
def test_places_are_exact_for_any_text(kind, text):
    start = 1_000
    for node in texts(parse_blocks(text, kind=kind, start=start, header="| a | b |")):
        if node["start"] >= 0 and "\\" not in text and "&" not in text:
            written = text[node["start"] - start :][: len(node["text"])]
            assert " ".join(written.split()) == " ".join(node["text"].split())


def test_spaces_that_do_not_break_are_printed_as_they_are():
    assert one_line("2\u00a0480 and 3\u202f175") == "2\u00a0480 and 3\u202f175"
    assert one_line("a\nb\x1b\u2028") == "a\\nb\\x1b\\u2028"


@pytest.mark.parametrize("columns", [3, 4])
def test_wide_rows_are_readable_in_80_columns(columns):
    names = ["Boat", "Harbour", "Skipper and crew", "What the inspection found"]
    cells = ["Heron", "North quay of Skerrymouth", "Margaret Fairweather-Atkinson, two hands"]
    cells.append("The anchor chain has worn links and must be replaced before October")
    lines = [names[-columns:], ["---"] * columns, cells[-columns:]]
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    shown = on_terminal(parse_blocks(text, kind="markdown"))
    printed = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert "…" not in printed
    if columns == 4:
        assert "Skipper and crew: Margaret Fairweather-Atkinson, two hands" in printed
    else:
        assert "Skipper and crew" in printed.splitlines()[0]


def test_an_item_of_a_list_goes_on_below_its_words():
    text = "- The crank is turned by two keepers.\n\n3. Nobody counts the turns aloud.\n"
    printed = on_terminal(parse_blocks(text, kind="markdown"), width=24)
    lines = [re.sub(r"\x1b\[\d*m", "", line).rstrip() for line in printed.splitlines()]
    assert [line for line in lines if line] == [
        " - The crank is turned",
        "   by two keepers.",
        " 3. Nobody counts the",
        "    turns aloud.",
    ]


def test_the_blocks_of_an_item_begin_lines_of_their_own():
    text = (
        "1. Turn the crank forty times.\n\n   Never let go.\n\n2. Close it.\n\n   > Said the keeper.\n\n"
        "   - inside\n\n* # Hatch\n  The second.\n* ```\n  x = 1\n  ```\n*\n"
    )
    printed = on_terminal(parse_blocks(text, kind="markdown"))
    assert [re.sub(r"\x1b\[\d*m", "", line).rstrip() for line in printed.splitlines()] == [
        " 1. Turn the crank forty times.",
        "",
        "    Never let go.",
        " 2. Close it.",
        "",
        "    > Said the keeper.",
        "",
        "     - inside",
        "",
        " - Hatch",
        "   The second.",
        " -   x = 1",
        " -",
    ]
