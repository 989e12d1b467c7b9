"""Markdown as a tree: every text knows where it stands in the source."""

from hypothesis import given
from hypothesis import strategies as st

from lmkrag.formats.markup import show_inline
from lmkrag.rendering.blocks import parse_blocks


def parse_markdown(text: str) -> list:
    return parse_blocks(text, kind="markdown")


def texts(nodes) -> list:
    found = []
    for node in nodes:
        found += [node] if "text" in node else texts(node["children"])
    return found


def tags(nodes) -> set:
    found = set()
    for node in nodes:
        if "tag" in node:
            found |= {node["tag"]} | tags(node["children"])
    return found


SAMPLE = """---
title: A note
---
# Head *with* emphasis

- one **two** &amp; \\* `co de`
  more [a link](https://a.example/a "a") a tail <https://q.example> ![alt](u.png)

> quoted
> twice 🜁 quoted

| a | b |
|---|--:|
| cell a | a cell |

```py
x = 1
```

<script>alert(1)</script>
"""


def test_texts_stand_where_they_say():
    found = texts(parse_markdown(SAMPLE))
    placed = [node for node in found if node["start"] >= 0]
    for node in placed:
        source = SAMPLE[node["start"] : node["start"] + len(node["text"])]
        assert source == node["text"] or node["text"] in "&* "
    shown = "".join(node["text"] for node in placed)
    for piece in (
        "with",
        "two",
        "co de",
        "a link",
        " a tail ",
        "twice 🜁 quoted",
        "cell a",
        "a cell",
        "x = 1",
    ):
        assert piece in shown
    tail = next(node for node in placed if node["text"] == " a tail ")
    assert SAMPLE[: tail["start"]].endswith('"a")')


def test_elements_and_html():
    blocks = parse_markdown(SAMPLE)
    assert {
        "h1",
        "em",
        "strong",
        "ul",
        "li",
        "code",
        "a",
        "blockquote",
        "table",
        "td",
        "pre",
    } <= tags(blocks)
    assert "script" not in tags(blocks)
    assert any("<script>" in node["text"] for node in texts(blocks))
    assert blocks[0]["tag"] == "h1"  # front matter is not shown


def test_tags_of_html_are_not_shown():
    shown = "".join(
        node["text"] for node in texts(parse_markdown("Press <kbd>F1</kbd> in `<kbd>`."))
    )
    assert shown == "Press F1 in <kbd>."


def test_items_of_a_list_in_a_cell_are_apart():
    cell = "<ul><li>free berth</li><li>two keys</li></ul>"
    shown = texts(parse_markdown(f"| Boat | Perks |\n|---|---|\n| Tern | {cell} |\n"))
    assert "free berth two keys" in "".join(node["text"] for node in shown)
    assert show_inline(cell).split() == ["free", "berth", "two", "keys"]


def test_links_lead_to_the_web_only():
    (paragraph,) = parse_markdown(
        "[a](javascript:alert(1)) [b](data:text/html,x) [c](https://c.example) [d](/api/x)"
    )
    links = [node["attributes"] for node in paragraph["children"] if node.get("tag") == "a"]
    assert [link.get("href") for link in links if link] == ["https://c.example"]


@given(st.text(alphabet="ab *_`[]()#>-|\\&;\n\r\t1.~🜁<>\"'", max_size=120))
def test_any_text(source):
    for node in texts(parse_markdown(source)):
        start = node["start"]
        assert -1 <= start <= len(source)
        if start >= 0 and "\\" not in source and "&" not in source:
            written = source[start : start + len(node["text"])]
            assert " ".join(written.split()) == " ".join(node["text"].split())


def test_an_endless_front_matter_takes_no_time():
    parse_markdown("---\r\n" + "a: b\r\n" * 20_000)
