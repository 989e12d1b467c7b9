"""What pages hide, styles that name headings, labels above tables, and numbers beside items."""

import fpdf
import pytest

from lmkrag.formats.load import load_bytes


def load(data: bytes | str, name: str):
    return load_bytes(
        data if isinstance(data, bytes) else data.encode(), name, doc_id=name, path=name
    )


@pytest.mark.parametrize(
    ("hidden", "text"),
    [
        (
            '<p hidden>The fee is 9.</p><p style="display: none">Or 8.</p><b style="VISIBILITY:hidden">Or 7.</b>',
            "",
        ),
        ('<i aria-hidden="true">close_icon</i><span aria-hidden="true">40</span>', ""),
        (
            '<table><tr><th>Boat</th><th style="display:none">Key</th></tr><tr><td>Heron</td></tr></table>',
            "Boat Heron",
        ),
        ('<div id="more" hidden>Dogs pay 2.</div><a href="#more">More</a>', "Dogs pay 2. More"),
        (
            '<button aria-controls="p">Dogs</button><div id="p" style="display:none">pay 2.</div>',
            "Dogs pay 2.",
        ),
        ('<div role="tabpanel" hidden>Dogs pay 2.</div>', "Dogs pay 2."),
        ('<div class="accordion"><div style="display:none">Dogs pay 2.</div></div>', "Dogs pay 2."),
        ('<div hidden="until-found">Dogs pay 2.</div>', "Dogs pay 2."),
        ("<details><summary>Dogs</summary>pay 2.</details>", "Dogs pay 2."),
        ('<div aria-hidden="true">Dogs pay 2.</div>', "Dogs pay 2."),
        ('<div style="display:none">' + "Dogs pay 2. " * 9 + "</div>", "Dogs pay 2. " * 9),
    ],
)
def test_what_a_page_hides_is_no_text_but_what_a_click_shows_is(hidden, text):
    page = f"<body><p>The gate opens at nine, every day.</p>{hidden} after</body>"
    shown = load(page, "a.html").text.replace("|", " ")
    assert " ".join(shown.split()) == " ".join(
        f"The gate opens at nine, every day. {text} after".split()
    )


def test_a_page_that_is_shown_by_a_script_is_read():
    assert load(
        '<body style="display:none"><p>The gate opens at nine.</p></body>', "a.html"
    ).text == ("The gate opens at nine.")


@pytest.mark.parametrize(
    "told",
    [
        '<meta name="date" content="2020-01-01"><meta property="article:published_time" content="2025-03-04T10:00Z">',
        '<meta name="date" content="2025-03-04">',
        '<meta name="DC.date" content="2025-03-04">',
    ],
)
def test_author_and_date_of_a_page(told):
    page = load(
        f'<head><meta name="author" content="Ida Brandt">{told}</head><body>The gate.</body>',
        "a.html",
    )
    assert dict(page.meta) == {"author": "Ida Brandt", "date": "2025-03-04"}


@pytest.mark.parametrize("date", ["2013-12-23", "2013-01-27"])
def test_a_page_may_have_the_date_of_the_template_of_an_office_library(date):
    page = load(f'<head><meta name="date" content="{date}"></head><body>The gate.</body>', "a.html")
    assert dict(page.meta) == {"date": date}


STYLES = (
    r"{\stylesheet{\s0 Normal;}{\s1\sbasedon0\b heading 1;}{\s2\sbasedon0 Heading 2;}{\s3 Quote;}}"
)


def test_headings_of_rtf_by_the_names_of_their_styles():
    text = r"\pard\plain \s1\ql{Harbour}\par \pard\plain \s3 Text.\par\pard\s2 Fees\par \pard\plain \s0 Paid.\par"
    assert (
        load(r"{\rtf1\ansi " + STYLES + text + "}", "a.rtf").text
        == "# Harbour\nText.\n## Fees\nPaid."
    )


def test_bullets_and_numbers_of_wordpad():
    items = r"\pard{\pntext\f1\'B7\tab}{\*\pn\pnlvlblt}\fi-360 Dogs\par {\pntext\f0 2.\tab}Cats\par"
    assert load(r"{\rtf1\ansi\ansicpg1252 " + items + "}", "a.rtf").text == "·\tDogs\n2.\tCats"


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (
            "Account:;DE12 34\n\nFrom:;01.03.2025\nTo:;31.03.2025\n\nDay;Text;Amount\n03.03.2025;Rent;-86,00\n",
            "Account: DE12 34\nFrom: 01.03.2025\nTo: 31.03.2025\nDay: 03.03.2025 | Text: Rent | Amount: -86,00",
        ),
        (
            "Item;5%;10%\nRope;14;16\nTar;9;10\n",
            "Item: Rope | 5%: 14 | 10%: 16\nItem: Tar | 5%: 9 | 10%: 10",
        ),
        (
            "Pieces;1-99;100-499\nRope;14;16\nTar;9;10\n",
            "Pieces: Rope | 1-99: 14 | 100-499: 16\nPieces: Tar | 1-99: 9 | 100-499: 10",
        ),
        ("Rope;5%;6%\nTar;7%;8%\n", "Rope | 5% | 6%\nTar | 7% | 8%"),
    ],
)
def test_labels_above_a_table_and_columns_of_shares_and_ranges(rows, text):
    assert load(rows, "a.csv").text == text


def test_a_number_beside_an_item_of_a_pdf_has_a_space():
    pdf = fpdf.FPDF()
    pdf.set_font("Helvetica", size=12)
    pdf.add_page()
    for y, number, item in ((20, "1.", "Call the master"), (30, "2.", "Wait there")):
        pdf.text(20, y, number)
        pdf.text(20 + pdf.get_string_width(number) + 0.9, y, item)
    assert load(bytes(pdf.output()), "a.pdf").text == "1. Call the master\n2. Wait there"


@pytest.mark.parametrize(
    ("html", "lines"),
    [
        ("<center>Fee: 45</center>per night", ["Fee: 45", "per night"]),
        ("<menu><li>Home<li>Dues</menu>", ["- Home", "- Dues"]),
        (
            "<style>.l{display:block}</style><i class=l>Quay</i><b class=l>Pier</b>",
            ["Quay", "Pier"],
        ),
        ("<span style='display: flex'>Quay</span><span>Pier</span>", ["Quay", "Pier"]),
        ("<p><span class=tag>office</span><span class=tag>coffee</span>", ["office coffee"]),
        ("<p><a href=/a>Boats</a><a href=/b>Piers</a>", ["Boats Piers"]),
        ("<label>Pilot</label><output>Tom</output>", ["Pilot Tom"]),
        ("<x-card>Dues</x-card><x-card>Fees</x-card>", ["Dues Fees"]),
        (
            "<div role=list><div role=listitem>Oak</div><div role=listitem>Elm</div></div>",
            ["- Oak", "- Elm"],
        ),
        (
            "<div role=table><div role=row><span role=columnheader>Pier</span>"
            "<span role=columnheader>Depth</span></div><div role=row><span role=cell>North</span>"
            "<span role=cell>7.5</span></div></div>",
            ["| Pier | Depth |", "| North | 7.5 |"],
        ),
        ("<div role=heading aria-level=3>Dues</div>They rise.", ["### Dues", "They rise."]),
        (
            "<td><b class='tag tag-blue'>office</b><b class='tag tag-red'>coffee</b>",
            ["office coffee"],
        ),
        ("<div style='display:grid'><span>Fee</span><span>45</span></div>", ["Fee 45"]),
        (
            "<style>.p{display:inline-flex}</style><p class=p><i>Fee</i><b>45</b></p>",
            ["Fee 45"],
        ),
        ("<div class='flex gap-2'><i>Fee</i><b>45</b></div>", ["Fee 45"]),
        # parts of one word, and code
        ("<p><span class=c1>Har</span><span class='c1 c2'>bour</span>", ["Harbour"]),
        ("<p><span class=c1>Har</span><span class=c2>bour</span>", ["Harbour"]),
        ("<p><b>H</b><span>arbour</span>", ["Harbour"]),
        ("<p><code><span class=n>os</span><span class=n>path</span></code>", ["ospath"]),
    ],
)
def test_words_of_different_boxes_are_apart(html, lines):
    text = load_bytes(html.encode(), "a.html", doc_id="a", path="a").text
    shown = [line for line in text.split("\n") if line]
    assert shown == lines
