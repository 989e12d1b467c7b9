"""The text of PDFs as programs write them: lines, divided words, exponents, forms, notes, fonts without a map."""

import time

import pytest
from fpdf import FPDF

from lmkrag.errors import DocumentError
from lmkrag.formats.load import load_with_attachments
from lmkrag.formats.pdf import find_rectangles, read
from lmkrag.formats.running_lines import blank_running_lines


def write(
    *lines: str, annotations: str = "", catalog: str = "", objects: str = "", pages: int = 1
) -> bytes:
    """A PDF of equal pages of 400 by 300 points; ``lines`` are operators of a text in Helvetica of 12 points.

    Objects 1 to 4 are the catalog, the pages, the font and the text; ``objects`` begin with 100.
    """
    stream = "BT /F1 12 Tf\n" + "\n".join(lines) + "\nET"
    page = (
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 400 300] /Contents 4 0 R "
        f"/Resources << /Font << /F1 3 0 R >> >> /Annots [{annotations}] >>"
    )
    kids = " ".join(f"{10 + number} 0 R" for number in range(pages))
    parts = [
        f"1 0 obj << /Type /Catalog /Pages 2 0 R {catalog} >> endobj",
        f"2 0 obj << /Type /Pages /Kids [{kids}] /Count {pages} >> endobj",
        "3 0 obj << /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >> endobj",
        f"4 0 obj << /Length {len(stream)} >> stream\n{stream}\nendstream endobj",
        *(f"{10 + number} 0 obj {page} endobj" for number in range(pages)),
        objects,
    ]
    return ("%PDF-1.7\n" + "\n".join(parts) + "\ntrailer << /Root 1 0 R >>\n%%EOF").encode(
        "latin-1"
    )


def at(x: float, y: float, text: str, size: float = 12) -> str:
    return f"/F1 {size} Tf 1 0 0 1 {x} {y} Tm ({text}) Tj"


def text_of(data: bytes) -> str:
    return read(data, "x.pdf").text


def test_a_long_number_is_read_at_once():
    lines = ["The parcel is kept in the office.", f"{'123456' * 6} -", "It weighs four kilograms."]
    data = write(
        *(
            at(20, 260 - 30 * number, line, (11, 14, 11)[number])
            for number, line in enumerate(lines)
        )
    )
    began = time.process_time()
    assert lines[1] in text_of(data)
    assert time.process_time() - began < 2.0


def test_ligatures_and_quotes_of_old_fonts_of_tex_are_read_as_letters():
    old, cork = (
        r"The e\013ect of the \014le",
        r"A \020\034rst\021 in\035uence is di\036cult to stave o\033",
    )
    page = write(at(20, 260, old), at(20, 230, cork))
    assert text_of(page) == "The effect of the file\nA “first” influence is difficult to stave off"


DIVIDED = [
    "The skipper sailed the ketch across the har-",
    "bour and moored at the weather-",
    "worn quay, where the sea-",
    "wall ends. A self-",
    "taught mate, post GX-",
    "4471, rowed to the storm-",
    "proof hut. Any storm bends proof iron. Call 555-",
    "0199.",
]


def test_words_divided_at_the_ends_of_lines_are_whole():
    data = write(*(at(20, 280 - 14 * number, line) for number, line in enumerate(DIVIDED)))
    text = text_of(data)
    assert text.splitlines()[:3] == [
        "The skipper sailed the ketch across the harbour",
        "and moored at the weatherworn",
        "quay, where the seawall",
    ]
    for compound in ("self-taught", "GX-4471", "storm-proof", "555-0199"):
        assert compound in text
    start = text.index("harbour")
    above, below = find_rectangles(
        data, 1, start, start + len("harbour")
    )  # as it stands on the page, on two lines
    assert above[0] > 0.5 and above[3] <= below[1] + 0.02 and below[0] < 0.06 and below[2] < 0.2


def test_single_characters_stand_apart_from_the_word_before_them():
    rows = [("Quay", "Berths"), ("Pier 1", "6"), ("Pier 2", "8"), ("200.01", "1")]
    shown = [
        at(x, 280 - 14 * n, cell)
        for n, row in enumerate(rows)
        for x, cell in zip((20, 120), row, strict=True)
    ]
    assert text_of(write(*shown)).splitlines() == [
        "Quay Berths",
        "Pier 1 6",
        "Pier 2 8",
        "200.01 1",
    ]


@pytest.mark.parametrize(("cosine", "sine"), [(1, 0), (0, 1), (0, -1)])
def test_turned_lines_stay_lines(cosine, sine):
    rows = [("Pay", "Sum"), ("Ada", "7"), ("Ben", "9"), ("Lena Voss", "12.50")]
    shown = [
        f"{cosine} {sine} {-sine} {cosine} {200 + x * cosine + y * sine} {150 + x * sine - y * cosine} Tm ({cell}) Tj"
        for y, row in zip((0, 14, 28, 42), rows, strict=True)
        for x, cell in zip((0, 80), row, strict=True)
    ]
    assert text_of(write(*shown)).splitlines() == ["Pay Sum", "Ada 7", "Ben 9", "Lena Voss 12.50"]


def test_exponents_and_numbers_of_notes_are_no_digits_of_the_number_before_them():
    data = write(
        at(20, 280, "The tank holds 10"), "/F1 7 Tf 5 Ts (6) Tj /F1 12 Tf 0 Ts ( litres at 10) Tj",
        "/F1 7 Tf 5 Ts (-4) Tj /F1 12 Tf 0 Ts ( bar, as in 1998) Tj /F1 7 Tf 5 Ts (3) Tj /F1 12 Tf 0 Ts (.) Tj",
        at(20, 260, "CO"), "/F1 7 Tf -3 Ts (2) Tj /F1 12 Tf 0 Ts ( is vented by 12 valves.) Tj",
    )  # fmt: skip
    assert (
        text_of(data)
        == "The tank holds 10^6 litres at 10^-4 bar, as in 1998^3.\nCO2 is vented by 12 valves."
    )


def test_larger_and_bold_lines_are_headings():
    pdf = FPDF(unit="pt", format=(400, 400))
    pdf.set_margin(20)
    pdf.add_page()
    prose = "The ferry leaves at seven in the morning. Dogs travel free, and bicycles cost a pound."
    for size, style, line in (
        (18, "", "Timetable of the ferry and of the\nboat to the outer islands"),
        (10, "", prose),
        (10, "B", "4. Scheduling and reserving"),
        (10, "", prose),
        (10, "B", "Figure 3: the pier"),
        (10, "B", "www.example.org"),
        (
            10,
            "B",
            "What is bold throughout and goes on over\na line, as a warning does. It is no heading.",
        ),
        (10, "", prose),
        (7, "", "Ruth Okafor"),
    ):
        pdf.set_font("helvetica", style, size)
        pdf.multi_cell(0, size * 1.2, line, new_x="LMARGIN", new_y="NEXT")
    data = bytes(pdf.output())
    text = text_of(data)
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        "## Timetable of the ferry and of the boat to the outer islands",
        "## 4. Scheduling and reserving",
    ]
    start = text.index("reserving")
    ((left, top, right, bottom),) = find_rectangles(data, 1, start, start + len("reserving"))
    assert (left, right) == (
        pytest.approx(0.25, abs=0.03),
        pytest.approx(0.37, abs=0.03),
    ) and bottom - top < 0.04


def test_what_heads_nothing_is_no_heading():
    pdf = FPDF(unit="pt", format=(400, 400))
    pdf.set_margin(20)
    pdf.add_page()
    prose = "The ferry leaves at seven in the morning. Dogs travel free, and bicycles cost a pound."
    for size, style, line in (
        (10, "", prose),
        (11, "", "3 Fares and refunds"),
        (10, "", prose),
        (10, "B", "September 3, 2010"),
        (10, "", prose),
        (10, "B", "Note"),
        (10, "", prose),
        (10, "B", "The berths of the"),
        (10, "", prose),
        (10, "B", "A.2 Tables"),
        (10, "", prose),
        (10, "B", "Table A.2"),
        (10, "", prose),
        (10, "B", "Of piers and berths 65"),
        (10, "", "Of lamps and buoys 66"),
    ):
        pdf.set_font("helvetica", style, size)
        pdf.multi_cell(0, size * 1.2, line, new_x="LMARGIN", new_y="NEXT")
    text = text_of(bytes(pdf.output()))
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        "## 3 Fares and refunds",
        "## A.2 Tables",
    ]


def test_a_bold_cell_or_a_name_beside_a_picture_is_no_heading():
    pdf = FPDF(unit="pt", format=(400, 400))
    pdf.add_page()
    pdf.set_font("Helvetica", size=10)
    pdf.text(
        20,
        40,
        "These are the parts of the boat that the yard has looked at this year, each with its state.",
    )
    for place, name in ((60, "Remarks"), (160, "Ruth Okafor")):
        pdf.set_font("Helvetica", style="B", size=12)
        pdf.text(300, place, name)
        pdf.set_font("Helvetica", size=10)
        for number, part in enumerate(["Keel", "Mast", "Rudder"], 1):
            pdf.text(20, place + 15 * number, part)
    assert "#" not in text_of(bytes(pdf.output()))


def test_headers_that_repeat_a_title_are_blanked_and_the_title_is_not():
    prose = [f"The ferry of pier {number} leaves at seven.\n" for number in range(8)]
    pages = [
        "".join([title, *prose[:4], "## Remark\n", *prose[4:]])
        for title in ["## Ferries\n", *["Ferries\n"] * 3]
    ]
    blanked = blank_running_lines(pages)
    assert [len(page) for page in blanked] == [len(page) for page in pages]
    assert [page.split("\n")[0].strip() for page in blanked] == ["## Ferries", "", "", ""]
    assert all(
        "   Remark\n" in page for page in blanked
    )  # it comes again too often to say something


FORM = """100 0 obj << /Type /Annot /Subtype /Widget /FT /Tx /T (ship) /V (Grey Heron) /Rect [120 275 300 292] >> endobj
101 0 obj << /Type /Annot /Subtype /Widget /FT /Tx /T (far) /TU (Home port) /V (Skerry) /Rect [20 20 300 40] >> endobj
102 0 obj << /Type /Annot /Subtype /Widget /FT /Btn /T (yes) /V /On /AS /On /Rect [20 250 30 260]
  /AP << /N << /On 110 0 R /Off 110 0 R >> >> >> endobj
103 0 obj << /Type /Annot /Subtype /Widget /FT /Btn /T (no) /V /Off /AS /Off /Rect [120 250 130 260]
  /AP << /N << /On 110 0 R /Off 110 0 R >> >> >> endobj
104 0 obj << /Type /Annot /Subtype /Widget /FT /Tx /Ff 8192 /T (pass) /V (secret) /Rect [120 220 300 240] >> endobj
110 0 obj << /Type /XObject /Subtype /Form /BBox [0 0 10 10] /Length 0 >> stream\n\nendstream endobj
"""


def test_values_of_forms_stand_after_their_labels():
    fields = " ".join(f"{number} 0 R" for number in range(100, 105))
    data = write(
        at(20, 280, "Name of the ship:"), at(34, 252, "insured"), at(134, 252, "uninsured"), at(20, 224, "Password:"),
        annotations=fields, catalog=f"/AcroForm << /Fields [{fields}] >>", objects=FORM,
    )  # fmt: skip
    text = text_of(data)
    assert text.splitlines() == [
        "Name of the ship: Grey Heron",
        "[x] insured uninsured",
        "Password:",
        "Home port: Skerry",
    ]
    start = text.index("Grey")
    ((left, *_),) = find_rectangles(data, 1, start, start + 10)
    assert left == pytest.approx(0.3, abs=0.01)


def test_notes_on_a_page_follow_its_text():
    notes = (
        "100 0 obj << /Type /Annot /Subtype /Text /Contents (It is\\r cracked.) /Rect [200 200 220 220] >> endobj"
        "\n101 0 obj << /Type /Annot /Subtype /Text /F 2 /Contents (Not shown.) /Rect [200 100 220 120] >> endobj"
    )
    data = write(at(20, 280, "Plan of the pier."), annotations="100 0 R 101 0 R", objects=notes)
    text = text_of(data)
    assert text == "Plan of the pier.\n\nIt is cracked."
    ((left, top, *_),) = find_rectangles(data, 1, text.index("cracked"), text.index("cracked") + 7)
    assert (left, top) == (pytest.approx(0.5, abs=0.01), pytest.approx(80 / 300, abs=0.01))


def test_files_attached_to_a_pdf_are_documents(tmp_path):
    attached = (
        "100 0 obj << /Type /Filespec /F (tides.txt) /UF (tides.txt) /EF << /F 101 0 R >> >> endobj\n"
        "101 0 obj << /Type /EmbeddedFile /Length 22 >> stream\nHigh water is at four.\nendstream endobj\n"
        "102 0 obj << /Type /Filespec /F (elsewhere.txt) >> endobj"
    )
    names = "/Names << /EmbeddedFiles << /Names [(elsewhere.txt) 102 0 R (tides.txt) 100 0 R] >> >>"
    (tmp_path / "plan.pdf").write_bytes(
        write(at(20, 280, "Plan of the pier."), catalog=names, objects=attached)
    )
    loaded = load_with_attachments(tmp_path / "plan.pdf", "plan.pdf")
    assert [(one.doc_id, one.text) for one in loaded.attached] == [
        ("plan.pdf/tides.txt", "High water is at four.")
    ]
    assert [(one.path, one.reason) for one in loaded.skipped] == [
        ("plan.pdf/elsewhere.txt", "empty file")
    ]


ARABIC = """100 0 obj << /Type /Font /Subtype /Type1 /BaseFont /Helvetica /ToUnicode 101 0 R >> endobj
101 0 obj << /Length {length} >> stream
{cmap}
endstream endobj
"""
CMAP = """/CIDInit /ProcSet findresource begin begincmap
1 begincodespacerange <00> <FF> endcodespacerange
4 beginbfchar
<41> <064406230627>
<42> <06440623>
<43> <062C0631>
<44> <0629>
endbfchar endcmap end"""


def test_lam_alef_in_a_run_from_right_to_left():
    data = write(
        "/F1 12 Tf 1 0 0 1 20 280 Tm (DCB) Tj",
        objects=ARABIC.format(length=len(CMAP), cmap=CMAP),
    ).replace(b"/F1 3 0 R", b"/F1 100 0 R")
    assert "\u0644\u0623" in text_of(data) and "\u0623\u0644" not in text_of(data)


def test_a_text_layer_without_characters_is_said(monkeypatch):
    words = (
        "the crane was moved along the outer quay before winter and the berths behind it were dredged "
        * 4
    )
    codes = str.maketrans({chr(code): chr(code - 29) for code in range(ord("a"), ord("z") + 1)})
    shown = [words[start : start + 60] for start in range(0, len(words), 60)]
    lines = [at(20, 290 - 12 * number, line, 8) for number, line in enumerate(shown)]
    assert "crane" in text_of(write(*lines))
    escaped = [
        line.translate(codes).replace("\\", "").replace("(", "").replace(")", "") for line in shown
    ]
    garbage = write(*(at(20, 290 - 12 * number, line, 8) for number, line in enumerate(escaped)))
    monkeypatch.setattr("lmkrag.formats.pdf.is_installed", lambda: True)
    loaded = read(garbage, "x.pdf")
    assert (loaded.text, loaded.scanned) == ("", (1,))
    monkeypatch.setattr("lmkrag.formats.pdf.is_installed", lambda: False)
    with pytest.raises(
        DocumentError, match=r"1 page with an unreadable text layer: pip install 'lmkrag\[ocr\]'"
    ):
        read(garbage, "x.pdf")


def test_divided_words_take_no_time():
    lines = [f"{'ledger and timber ' * 4}har-\\nbour".split("\\n") for _ in range(100)]
    flat = [part for line in lines for part in line]
    data = write(
        *(at(20, 298 - 1.4 * number, line, 1) for number, line in enumerate(flat)), pages=10
    )
    began = time.process_time()
    assert text_of(data).count("harbour") >= 900  # lines that all pages share are left out
    assert (
        time.process_time() - began
    ) / 10 < 0.1  # some 0.01 on an idle core; 0.7 where it is quadratic


def test_bold_names_of_columns_are_no_heading():
    pdf = FPDF()
    pdf.add_page()
    pdf.set_font("Helvetica", style="B", size=10)
    pdf.text(20, 20, "Field")
    pdf.text(90, 20, "Description")
    pdf.set_font("Helvetica", size=10)
    for number, name in enumerate(["Berth", "Season", "Deposit"]):
        pdf.text(
            20,
            30 + 6 * number,
            f"{name} is what the harbour asks for in writing, in each of the forms.",
        )
    assert "#" not in text_of(bytes(pdf.output()))


@pytest.mark.parametrize("gap", [70, 100, 130, 180, 300])
def test_words_of_a_tight_line_stay_apart(gap):
    words = ["The", "harbour", "office", "is", "open", "on", "weekdays"]
    line = f" -{gap} ".join(f"({word})" for word in words)
    assert text_of(write(f"1 0 0 1 20 280 Tm [{line}] TJ")) == " ".join(words)


@pytest.mark.parametrize("spacing", ["0.8 Tc", "0.8 Tc 80 Tz", "-0.3 Tc"])
def test_letters_of_a_spaced_word_stay_together(spacing):
    assert (
        text_of(write(f"{spacing} 1 0 0 1 20 280 Tm (Harbourmastership) Tj")) == "Harbourmastership"
    )


def test_lines_with_the_number_of_their_page_are_footers():
    titles = ["Boats", "Boats", "Nets", "Nets", "Tides", "Ropes"]
    bodies = [f"{title}\nTwo.\nThree.\nIn 1964 it held {9 * len(title)}" for title in titles]
    footers = [
        f"{number} Chapter 3: {title}" if number % 2 else f"1.{number}. {title} {number}"
        for number, title in enumerate(titles, 11)
    ]
    pages = [f"{body}\n{footer}" for body, footer in zip(bodies, footers, strict=True)]
    assert [page.rstrip() for page in blank_running_lines(pages)] == bodies


def test_text_that_ends_with_the_number_of_its_page_stays():
    ends = [
        "The chart ends at pier 1",
        "see the second pre-2",
        "Section 3.",
        "a b 4",
        "\t0\t5",
        "= 6",
    ]
    bodies = [f"Of {end}\nTwo.\nThree.\nFour.\n{end}" for end in ends]
    pages = [f"{body}\n{number}" for number, body in enumerate(bodies, 1)]
    assert [page.rstrip() for page in blank_running_lines(pages)] == bodies


def test_numbered_headings_that_come_again_on_pages_are_headers():
    titles = ["1. Boats", "2. Nets", "3. Tides"]
    pages = [
        f"{title}\n{'## ' if page == 0 else 'Of '}{title}\nOne.\nTwo.\nThree.\nFour {page} of {title}."
        for title in titles
        for page in range(4)
    ]
    pages += ["4. Yes\nOne.\nTwo.\nThree.\n9 end"] * 3
    blanked = [page.splitlines() for page in blank_running_lines(pages)]
    assert [lines[0].strip() for lines in blanked] == [""] * 12 + ["4. Yes"] * 3
    assert [lines[1:] for lines in blanked] == [page.splitlines()[1:] for page in pages]
