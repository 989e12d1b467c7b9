"""Tables of PDFs: lines of words at a distance become rows with tabs, and rows are read with caption and columns."""

import pytest
from fpdf import FPDF

from lmkrag import Engine
from lmkrag.formats.pdf import find_rectangles, read
from lmkrag.sentences.split import split_sentences

HEADING = "Tarn Ferries\nStatement of cash flows\n(in thousands)"
ROWS = [
    ("Years ended May 31,", "2022", "2021", "2020"),
    ("Fares", "$ 1,203", "$ 988", "$ 870"),
    ("Operating activities:",),
    ("Fuel and oil", "(410)", "(380)", "0"),
    ("Repairs of the hull", "(95.5)", "(80.0)", "(71.2)"),
]
PROSE = (
    "In 2022 the ferry carried 1,203 people and 410 cars across the sound in 988 crossings. "
    "The hull was repaired in 2021 for 80 crowns and in 2020 for 71 crowns, as in the years before. "
) * 3


def write(folder, name="ferries.pdf", *, rows=ROWS, heading=HEADING, prose=PROSE, width=25):
    pdf = FPDF()
    pdf.add_page()
    pdf.set_font("Helvetica", size=10)
    pdf.multi_cell(0, 5, prose, align="J", new_x="LMARGIN", new_y="NEXT")
    pdf.add_page()
    pdf.multi_cell(0, 5, heading, new_x="LMARGIN", new_y="NEXT")
    for label, *values in rows:
        pdf.cell(80, 6, label)
        for value in values:
            pdf.cell(width, 6, value, align="R")
        pdf.ln(6)
    path = folder / name
    pdf.output(str(path))
    return path


def lines(path):
    return read(path.read_bytes(), path.name).text.splitlines()


def test_columns_are_divided_by_tabs(tmp_path):
    found = lines(write(tmp_path))
    assert found[-5:] == [
        "Years ended May 31,\t2022\t2021\t2020",
        "Fares\t$ 1,203\t$ 988\t$ 870",
        "Operating activities:",
        "Fuel and oil\t(410)\t(380)\t0",
        "Repairs of the hull\t(95.5)\t(80.0)\t(71.2)",
    ]
    assert "\t" not in "\n".join(found[:-5])  # justified prose with many numbers


@pytest.mark.parametrize(
    "rows",
    [
        [
            ("Fares", "1,203"),
            ("Fuel", "410"),
            ("Repairs", "95"),
        ],  # one column of amounts: as it was
        [("Fares", "1,203", "988", "870")],  # a single row
    ],
)
def test_what_is_no_table_stays(tmp_path, rows):
    assert "\t" not in "\n".join(lines(write(tmp_path, rows=rows)))


def test_single_characters_that_pdfium_joins_to_the_words_before_them(tmp_path):
    found = lines(
        write(
            tmp_path,
            rows=[("Zone", "Adult", "Child"), ("Outer wall", "14", "6"), ("Slipway", "9", "4")],
        )
    )
    assert found[-3:] == ["Zone\tAdult\tChild", "Outer wall\t14\t6", "Slipway\t9\t4"]


def test_years_alone_stand_above_the_amounts(tmp_path):
    found = lines(
        write(
            tmp_path, rows=[("", "2022", "2021"), ("Fares", "1,203", "8"), ("Fuel", "410", "380")]
        )
    )
    assert found[-3:] == ["\t2022\t2021", "Fares\t1,203\t8", "Fuel\t410\t380"]


def test_a_cell_is_found_on_the_page(tmp_path):
    data = write(tmp_path).read_bytes()
    loaded = read(data, "")
    page = loaded.text[loaded.page_starts[1] :]
    start = page.index("(380)")
    ((left, top, right, bottom),) = find_rectangles(data, 2, start, start + 5)
    ((before, *_),) = find_rectangles(data, 2, page.index("(410)"), page.index("(410)") + 5)
    assert 0.5 < before < left < right < 0.8 and 0 < bottom - top < 0.05


def test_rows_are_read_with_caption_and_columns(tmp_path):
    text = read(write(tmp_path).read_bytes(), "").text
    found = {text[one.start : one.end].strip(): one for one in split_sentences(text, kind="pdf")}
    caption = (
        "Tarn Ferries Statement of cash flows (in thousands) Years ended May 31, 2022 2021 2020"
    )
    assert found[ROWS[1][0] + "\t$ 1,203\t$ 988\t$ 870"].context == caption
    assert found["Fuel and oil\t(410)\t(380)\t0"].context == f"{caption} Operating activities"
    assert found["Years ended May 31,\t2022\t2021\t2020"].context == ""
    assert (
        found["Tarn Ferries"].kind
        == found["Statement of cash flows\n(in thousands)"].kind
        == "heading"
    )


def test_a_table_goes_on_over_a_page():
    text = "Fares by zone\nZone\tAdult\tChild\nA\t2.40\t1.20\n\n17\n\nZone\tAdult\tChild\nB\t3.10\t1.50\n"
    rows = [one for one in split_sentences(text) if one.kind == "row" and one.context]
    assert [one.read(text).strip() for one in rows] == [
        "Fares by zone Zone Adult Child: A\t2.40\t1.20",
        "Zone Adult Child: B\t3.10\t1.50",
    ]


def test_the_captions_of_tables_on_pages_that_follow_are_headings():
    columns = "(in thousands)\nYears\t2022\t2021\n"
    text = f"Income\n{columns}Fares\t9\t8\n\nCash flows\n{columns}Fuel\t4\t3\n"
    found = [
        text[one.start : one.end].split("\n")[0]
        for one in split_sentences(text)
        if one.kind == "heading"
    ]
    assert found == ["Income", "Cash flows"]
    assert [one.context for one in split_sentences(text) if one.context] == [
        "Income (in thousands) Years 2022 2021",
        "Cash flows (in thousands) Years 2022 2021",
    ]


def test_rows_of_markdown_are_read_with_their_columns():
    text = "# Fares\n\n| Zone | Adult |\n|---|---|\n| A | 2.40 |\n| B | 3.10 |\n\n| Bike | 1 |\n|---|---|\n| Dog | 0 |\n"
    found = [one.read(text).strip() for one in split_sentences(text) if one.context]
    assert found == [
        "Fares Zone Adult: | A | 2.40 |",
        "Fares Zone Adult: | B | 3.10 |",
        "Bike 1: | Dog | 0 |",
    ]


def test_headers_and_footers_of_most_pages_are_left_out(tmp_path):
    pdf = FPDF()
    pdf.set_font("Helvetica", size=10)
    for number in range(1, 7):
        pdf.add_page()
        side = "Rules of the harbour" if number % 2 else "Skerry Harbour Trust"
        for line in (
            side,
            f"Rule {number} is about rope number {7 * number}.",
            "It is kept dry.",
            f"Page {number} of 6",
        ):
            pdf.cell(0, 8, line, new_x="LMARGIN", new_y="NEXT")
    path = tmp_path / "rules.pdf"
    pdf.output(str(path))
    loaded = read(path.read_bytes(), path.name)
    assert (
        loaded.text.split()
        == " ".join(
            f"Rule {n} is about rope number {7 * n}. It is kept dry." for n in range(1, 7)
        ).split()
    )
    start = loaded.text.index("kept", loaded.page_starts[3])
    ((_, top, _, _),) = find_rectangles(
        path.read_bytes(), 4, *(start + n - loaded.page_starts[3] for n in (0, 4))
    )
    assert 0.08 < top < 0.2  # the third line


SIMPLE = """
==========  =====  =====
Zone        Adult  Child
==========  =====  =====
Outer wall  2.40   1.20
Slipway     3.10   1.50
==========  =====  =====

They are paid ashore.
"""
GRID = """
+------------+-------+-------+
| Zone       | Adult | Child |
+============+=======+=======+
| Outer wall | 2.40  | 1.20  |
+------------+-------+-------+
"""
LATEX = r"""
\begin{tabular}{lrr}
Zone & Adult & Child \\
Outer wall & 2.40 & 1.20 \\
\end{tabular}
"""


@pytest.mark.parametrize("text", [SIMPLE, GRID, LATEX])
def test_rows_of_other_tables_are_read_with_their_columns(text):
    sentences = split_sentences(text)
    assert "".join(text[one.start : one.end] for one in sentences) == text
    (row,) = (one for one in sentences if "Outer wall" in text[one.start : one.end])
    assert row.kind == "row" and {"Zone", "Adult", "Child"} <= set(
        row.context.replace("|", " ").split()
    )
    assert "paid ashore" not in "".join(
        text[one.start : one.end] for one in sentences if one.kind == "row"
    )


@pytest.fixture(scope="module")
def statements(encoder, tmp_path_factory):
    """Two tables whose rows are alike: only their captions and columns tell them apart."""
    folder = tmp_path_factory.mktemp("statements")
    for place, (name, year) in enumerate((("Skerry", 2021), ("Hallow", 2019))):
        for part, factor in (("Harbour dues", 1), ("Ferry tickets", 3)):
            columns = ("Years ended May 31,", str(year), str(year - 1), str(year - 2))
            months = ("January", "February", "March", "April")
            values = [
                (month, *(f"{factor * (100 * place + 7 * n + k):,}" for k in range(3)))
                for n, month in enumerate(months)
            ]
            heading = f"{name}\n{part} by month"
            write(
                folder,
                f"{name}-{part.split()[0]}.pdf",
                rows=[columns, *values],
                heading=heading,
                prose="Accounts.",
            )
    with Engine.open(folder / "index", create=True, encoder=encoder) as engine:
        engine.add(folder, exclude=["index"])
        yield engine


def test_the_row_of_the_right_table_is_found(statements):
    (span, *_) = statements.search(
        "What did ferry tickets bring in during March at Hallow in 2018?"
    )
    assert span.doc_id == "Hallow-Ferry.pdf"
    hit = span.hits[0]
    assert statements.read(span.doc_id, hit.start, hit.end).startswith("March\t")
    assert span.headings == ("Ferry tickets by month",)
    assert "2018" in span.header or "2018" in span.text


def test_a_row_of_a_pdf_is_shown_with_its_header(statements):
    answer = statements.ask("What were the harbour dues of Skerry for February 2020?")
    assert [short.text for short in answer.short] in (["8"], [])
    quoted = [line for line in answer.text.splitlines() if line.startswith(">")]
    assert any(line.startswith("> Years ended May 31,\t2021\t2020\t2019") for line in quoted)


def test_why_a_number_changed_is_no_cell(statements):
    assert statements.ask("Why did the harbour dues of Skerry change in February 2020?").short == ()


def test_two_tables_side_by_side_give_no_wrong_cell(tmp_path, encoder):
    pdf = FPDF(orientation="landscape")
    pdf.add_page()
    pdf.set_font("Helvetica", size=10)
    for values in (
        ("", "2022", "2021", "", "2022", "2021"),
        ("Fares", "1,203", "988", "Fuel", "410", "380"),
        ("Freight", "77", "65", "Repairs", "95", "80"),
    ):
        for number, value in enumerate(values):
            pdf.cell(60 if number % 3 == 0 else 22, 6, value, align="L" if number % 3 == 0 else "R")
        pdf.ln(6)
    pdf.output(str(tmp_path / "accounts.pdf"))
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        engine.add(tmp_path / "accounts.pdf")
        for question, right in (
            ("What was spent on fuel in 2022?", "410"),
            ("What were the fares in 2021?", "988"),
        ):
            assert {short.text for short in engine.ask(question).short} <= {right}
