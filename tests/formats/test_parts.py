"""A part of a file that can't be read is left out and named; the others stay, in every format with parts."""

import io
import json
import zipfile
from email.message import EmailMessage
from pathlib import Path

import docx
import openpyxl
import pptx
import pytest
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE

from lmkrag import Engine
from lmkrag.errors import DocumentError
from lmkrag.formats.load import load_with_attachments
from lmkrag.formats.scans import fill_scans
from lmkrag.types import Document
from tests.formats.files import save

DEEP = "<ul>" * 100_000 + "the lamp" + "</ul>" * 100_000


def change(data: bytes, **parts: bytes) -> bytes:
    """A zip archive in which each part whose name ends in a word of ours has other content."""
    changed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            other = [content for word, content in parts.items() if name.endswith(f"{word}.xml")]
            new.writestr(name, other[0] if other else old.read(name))
    return changed.getvalue()


def deck() -> pptx.presentation.Presentation:
    """Three slides with a title each, and notes."""
    made = pptx.Presentation()
    for number, title in enumerate(("First", "Second", "Third"), 1):
        slide = made.slides.add_slide(made.slide_layouts[5])
        slide.shapes.title.text = title
        slide.notes_slide.notes_text_frame.text = f"note {number}"
    return made


def without_notes_body() -> bytes:
    made = deck()
    frame = made.slides[1].notes_slide.notes_placeholder
    frame.element.getparent().remove(frame.element)
    return save(made)


def with_chart() -> bytes:
    made, values = deck(), CategoryChartData()
    values.categories = ["North"]
    values.add_series("Boats", (3,))
    frame = made.slides[1].shapes.add_chart(XL_CHART_TYPE.PIE, 0, 0, 100, 100, values)
    frame.name = "Boats"
    return change(
        save(made),
        **{frame.chart.part.partname.rpartition("/")[2].removesuffix(".xml"): b"<c:chartSpace"},
    )


def workbook(*names: str) -> bytes:
    made = openpyxl.Workbook()
    made.remove(made.active)
    for name in names:
        made.create_sheet(name).append([f"the lamp of {name}"])
    return save(made)


def with_comments() -> bytes:
    made = openpyxl.Workbook()
    made.active["A1"] = "the lamp"
    made.active["A1"].comment = openpyxl.comments.Comment("lit", "Ada")
    return change(save(made), comment1=b"<comments")


def word() -> bytes:
    made = docx.Document()
    made.add_paragraph("the gate is red")
    made.sections[0].header.paragraphs[0].text = "Contract"
    return save(made)


def open_document(body: str, kind: str) -> bytes:
    spaces = " ".join(
        f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{space}:1.0"'
        for name, space in {
            "office": "office",
            "table": "table",
            "text": "text",
            "draw": "drawing",
        }.items()
    )
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        content = f"<office:document-content {spaces}><office:body><office:{kind}>{body}</office:{kind}></office:body>"
        archive.writestr("content.xml", f"{content}</office:document-content>")
    return packed.getvalue()


def sheet(name: str, repeated: int = 1) -> str:
    text = f"<text:p>lamp of {name}</text:p>"
    cell = f'<table:table-cell table:number-columns-repeated="{repeated}">{text}</table:table-cell>'
    row = f'<table:table-row table:number-rows-repeated="{repeated}">{cell}</table:table-row>'
    return f'<table:table table:name="{name}">{row}</table:table>'


def book() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("META-INF/container.xml", "<c><rootfile full-path='p.opf'/></c>")
        items = "".join(
            f"<item id='{n}' href='c{n}.html' media-type='text/html'/>" for n in (1, 2, 3, 4)
        )
        archive.writestr(
            "p.opf", f"<p>{items}{''.join(f'<itemref idref={n!r}/>' for n in '1234')}</p>"
        )
        for number, page in {1: "<p>First</p>", 2: DEEP, 4: "<p>Fourth</p>"}.items():
            archive.writestr(f"c{number}.html", page)
    return packed.getvalue()


def mail(subject: str = "Lamps") -> EmailMessage:
    made = EmailMessage()
    made["Subject"], made["From"] = subject, "ada@example.org"
    made.set_content("The lamp is lit.")
    made.add_attachment(DEEP, subtype="html", disposition="inline")
    made.add_attachment(b"a,b\n1,2\n", maintype="text", subtype="csv", filename="oil.csv")
    return made


def mailbox() -> bytes:
    other = EmailMessage()
    other["Subject"], other["From"] = "Gates", "ada@example.org"
    other.set_content(DEEP, subtype="html")
    mails = (mail("One"), other, mail("Three"))
    return b"\n\n".join(
        b"From a@b.org Mon Jan  1 00:00:00 2024\n" + made.as_bytes() for made in mails
    )


def notebook() -> bytes:
    cells = [
        {"cell_type": "markdown", "source": "First"},
        {"cell_type": "heading", "level": "x", "source": "Second"},
    ]
    return json.dumps({"cells": [*cells, {"cell_type": "markdown", "source": "Third"}]}).encode()


def pages() -> bytes:
    """A PDF of three pages, the second of which is no page."""
    content = b"BT /A 12 Tf 10 10 Td (the lamp) Tj ET"
    font = b"/Resources<</Font<</A<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>"
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]/Contents 6 0 R%s>>" % font
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R 4 0 R 5 0 R]/Count 3>>",
        page,
        b"[(no page)]",
        page,
        b"<</Length %d>>stream\n%s\nendstream" % (len(content), content),
    ]
    body = b"".join(b"%d 0 obj%s endobj\n" % each for each in enumerate(objects, 1))
    return b"%PDF-1.4\n" + body + b"trailer<</Root 1 0 R>>\n%%EOF"


SHEETS_2003 = """<Workbook xmlns="urn:schemas-microsoft-com:office:spreadsheet"
 xmlns:ss="urn:schemas-microsoft-com:office:spreadsheet">%s</Workbook>"""
SHEET_2003 = '<Worksheet ss:Name="%s"><Table><Row>%s</Row></Table></Worksheet>'
CELL_2003 = "<Cell ss:MergeAcross='999'><Data>lamp</Data></Cell>"


@pytest.mark.parametrize(
    ("name", "data", "kept", "left_out"),
    [
        ("notes.pptx", without_notes_body, ["First", "note 1", "Second", "Third", "note 3"], {}),
        (
            "chart.pptx",
            with_chart,
            ["First", "Second", "note 2", "Third"],
            {"ppt/charts/chart": "broken"},
        ),
        (
            "slide.pptx",
            lambda: change(save(deck()), slide2=b"<p:sld"),
            ["First", "note 1", "Third", "note 3"],
            {"ppt/slides/slide2.xml": "broken (XMLSyntaxError)", "slide 2": "broken (KeyError)"},
        ),
        (
            "sheet.xlsx",
            lambda: change(workbook("One", "Two", "Three"), sheet2=b"<worksheet><sheetData><row"),
            ["# One\n\nthe lamp of One", "# Three\n\nthe lamp of Three"],
            {"sheet Two": "broken (ParseError)"},
        ),
        (
            "comments.xlsx",
            with_comments,
            ["the lamp"],
            {"comments of sheet Sheet": "broken (XMLSyntaxError)"},
        ),
        (
            "header.docx",
            lambda: change(word(), header1=b"<w:hdr"),
            ["the gate is red"],
            {"word/header1.xml": "broken"},
        ),
        (
            "sheets.ods",
            lambda: open_document(
                sheet("One") + sheet("Two", 10_000) + sheet("Three"), "spreadsheet"
            ),
            ["lamp of One", "lamp of Three"],
            {
                "sheet Two": "a table that repeats its cells for more than 30,000,000 characters: refused"
            },
        ),
        (
            "sheets.xls",
            lambda: (
                SHEETS_2003
                % "".join(
                    SHEET_2003 % each
                    for each in (
                        ("One", CELL_2003),
                        ("Two", CELL_2003 * 9_000),
                        ("Three", CELL_2003),
                    )
                )
            ).encode(),
            ["# One", "# Three"],
            {"sheet Two": "a table that repeats"},
        ),
        (
            "chapters.epub",
            book,
            ["First\n\nFourth"],
            {
                "chapter c2.html": "HTML that is nested too deeply",
                "chapter c3.html": "not in the file",
            },
        ),
        (
            "part.eml",
            lambda: mail().as_bytes(),
            ["The lamp is lit."],
            {"part 2 of Lamps": "HTML that is nested too deeply"},
        ),
        (
            "mails.mbox",
            mailbox,
            ["# One", "# Three"],
            {"message 2": "HTML", "part 2 of One": "HTML", "part 2 of Three": "HTML"},
        ),
        ("cells.ipynb", notebook, ["First\n\nThird"], {"cell 2": "broken (ValueError)"}),
        ("pages.pdf", pages, ["the lamp\n\n\n\nthe lamp"], {"page 2": "broken (PdfiumError)"}),
    ],
)
def test_a_part_that_fails_is_left_out_by_name(tmp_path, name, data, kept, left_out):
    path = tmp_path / name
    path.write_bytes(data())
    loaded = load_with_attachments(path, name)
    assert [text for text in kept if text not in loaded.document.text] == []
    named = {skipped.path.removeprefix(f"{name}/"): skipped.reason for skipped in loaded.skipped}
    assert len(named) == len(left_out)
    for part, why in left_out.items():
        assert any(
            found.startswith(part) and said.startswith(f"left out: {why}")
            for found, said in named.items()
        ), named


def test_an_attachment_is_read_beside_a_part_that_fails(tmp_path):
    (tmp_path / "a.eml").write_bytes(mail().as_bytes())
    (attached,) = load_with_attachments(tmp_path / "a.eml", "a.eml").attached
    assert (attached.doc_id, attached.text) == ("a.eml/oil.csv", "a: 1 | b: 2")


def test_parts_of_an_attachment_are_named_below_it(tmp_path):
    outer = EmailMessage()
    outer["Subject"] = "Outer"
    outer.set_content("See the notebook.")
    outer.add_attachment(notebook(), maintype="application", subtype="json", filename="cells.ipynb")
    (tmp_path / "a.eml").write_bytes(outer.as_bytes())
    (skipped,) = load_with_attachments(tmp_path / "a.eml", "a.eml").skipped
    assert (skipped.path, skipped.reason) == (
        "a.eml/cells.ipynb/cell 2",
        "left out: broken (ValueError)",
    )


def test_a_file_whose_parts_all_fail_is_broken(tmp_path):
    (tmp_path / "a.xlsx").write_bytes(change(workbook("One"), sheet1=b"<worksheet><sheetData><row"))
    with pytest.raises(
        DocumentError, match=r"broken Excel file \(sheet One: broken \(ParseError\)\)"
    ):
        load_with_attachments(tmp_path / "a.xlsx", "a.xlsx")


def test_many_parts_that_fail_are_counted(tmp_path):
    cells = [
        {"cell_type": "markdown", "source": "First"},
        *[{"cell_type": "heading", "level": "x"}] * 50,
    ]
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": cells}))
    *named, last = load_with_attachments(tmp_path / "a.ipynb", "a.ipynb").skipped
    assert [skipped.path for skipped in named] == [
        f"a.ipynb/cell {number}" for number in range(2, 22)
    ]
    assert (last.path, last.reason) == ("a.ipynb/...", "left out: 30 parts more")


def test_a_page_that_ocr_can_not_read_is_left_out():
    def read(number: int) -> dict:
        if number == 2:
            raise DocumentError("broken picture (truncated)")
        return {"text": f"page {number}", "confidence": 0.9}

    document = Document(
        "a.tif",
        text="\n\n\n\n",
        kind="image",
        page_starts=(0, 2, 4),
        meta={"scanned_pages": [1, 2, 3]},
    )
    filled, left_out = fill_scans(document, read)
    assert (filled.text, left_out) == (
        "page 1\n\n\n\npage 3",
        {"page 2": "broken picture (truncated)"},
    )


def test_the_report_names_what_is_left_out(lmkrag, tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.ipynb").write_bytes(notebook())
    for _ in range(2):  # also where the file has not changed
        result = lmkrag("index", tmp_path / "docs", "--index", tmp_path / "index")
        assert result.returncode == 0
        assert "a.ipynb/cell 2: left out: broken (ValueError)" in result.stderr
    with Engine.open(Path(tmp_path / "index")) as engine:
        assert engine.read("a.ipynb") == "First\n\nThird"
