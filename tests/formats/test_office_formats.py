"""Workbooks, slides, OpenDocument, RTF, mail, subtitles and gzipped text, made by the formats' own tools."""

import base64
import datetime
import gzip
import io
import json
import mailbox
import re
import struct
import sys
import zipfile
from email.message import EmailMessage

import docx
import openpyxl
import pptx
import pysubs2
import pytest
import xlwt
from docx.oxml import parse_xml
from odf import dc, draw, meta, office, table, text
from odf import presentation as odp
from odf.namespaces import PRESENTATIONNS
from odf.opendocument import OpenDocumentPresentation, OpenDocumentSpreadsheet, OpenDocumentText
from openpyxl.cell.rich_text import CellRichText, TextBlock
from openpyxl.cell.text import InlineFont
from pptx.chart.data import CategoryChartData, XyChartData
from pptx.chart.xmlwriter import ChartXmlWriter
from pptx.enum.chart import XL_CHART_TYPE
from pptx.opc.package import Part
from pptx.opc.packuri import PackURI

from lmkrag.errors import DocumentError
from lmkrag.formats import mail
from lmkrag.formats.isolated import IsolatedLoader
from lmkrag.formats.load import check_file, load_bytes
from lmkrag.sentences.split import split_sentences

OFFICE = "http://schemas.openxmlformats.org"


def load(data: bytes, name: str):
    return load_bytes(data, name, doc_id=name, path=name)


def workbook() -> bytes:
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Valves"
    sheet.append(["Code", "Pressure", "Checked", "Note"])
    for number in range(1001, 1041):
        sheet.append(
            [f"VX-{number}", number / 100, datetime.datetime(2024, 5, number % 28 + 1), None]
        )
    other = book.create_sheet("Prices")
    other.append(["Part", "Euro"])
    other.append(["Lamp", 12.0])
    book.create_sheet("Empty")
    book.properties.title, book.properties.creator = "Stock", "A. Roe"
    packed = io.BytesIO()
    book.save(packed)
    return packed.getvalue()


def slides() -> bytes:
    presentation = pptx.Presentation()
    for title, body in (("Ferry", "Leaves at seven\nDogs travel free"), ("Prices", "")):
        slide = presentation.slides.add_slide(presentation.slide_layouts[1])
        slide.shapes.title.text = title
        slide.placeholders[1].text = body
    shape = slide.shapes.add_table(2, 2, 0, 0, 100, 100)
    for place, value in (((0, 0), "Who"), ((0, 1), "Pays"), ((1, 0), "Child"), ((1, 1), "2")):
        shape.table.cell(*place).text = value
    slide.notes_slide.notes_text_frame.text = "Say that prams are free."
    presentation.core_properties.title = "The ferry"
    packed = io.BytesIO()
    presentation.save(packed)
    return packed.getvalue()


def opendocument() -> bytes:
    document = OpenDocumentText()
    title = dc.Title()
    title.addText("Rules")
    document.meta.addElement(title)
    creator = dc.Creator()
    creator.addText("B. Poe")
    document.meta.addElement(creator)
    assert meta
    document.text.addElement(text.H(outlinelevel=2, text="The gate"))
    document.text.addElement(text.P(text="The gate is closed at nine."))
    items = text.List()
    for value in ("Red key", "Green key"):
        item = text.ListItem()
        item.addElement(text.P(text=value))
        items.addElement(item)
    document.text.addElement(items)
    grid = table.Table()
    for cells in (("Day", "Hour"), ("Monday", "8")):
        row = table.TableRow()
        for value in cells:
            cell = table.TableCell()
            cell.addElement(text.P(text=value))
            row.addElement(cell)
        grid.addElement(row)
    document.text.addElement(grid)
    packed = io.BytesIO()
    document.write(packed)
    return packed.getvalue()


def message(subject: str = "Leave in May") -> EmailMessage:
    made = EmailMessage()
    made["From"], made["To"] = "Ruth Okafor <ruth@example.org>", "all@example.org"
    made["Date"] = "Wed, 01 May 2024 10:00:00 +0000"
    made["Subject"] = subject
    made.set_content("Leave is granted for May.\n\nAsk me for June, ü 日本.")
    made.add_alternative("<p>Leave is granted for <b>May</b>.</p>", subtype="html")
    made.add_attachment(
        b"Code,Days\nA-1,12\nB-2,9\n", maintype="text", subtype="csv", filename="days.csv"
    )
    made.add_attachment(b"\x89PNG....", maintype="image", subtype="png", filename="photo.png")
    return made


def test_workbook():
    found = load(workbook(), "stock.xlsx")
    assert (found.kind, found.title, found.meta["author"]) == ("xlsx", "Stock", "A. Roe")
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\d", found.meta["date"]
    )  # openpyxl writes when it saved the file
    assert found.text.startswith(
        "# Valves\n\nCode: VX-1001 | Pressure: 10.01 | Checked: 2024-05-22\n"
    )
    assert "# Prices\n\nPart: Lamp | Euro: 12" in found.text
    assert "Empty" not in found.text
    units = [
        found.text[s.start : s.end].strip() for s in split_sentences(found.text, kind=found.kind)
    ]
    assert len(units) == 40 + 1 + 2
    assert "Code: VX-1007 | Pressure: 10.07 | Checked: 2024-05-28" in units


@pytest.mark.parametrize(
    ("value", "number_format", "expected"),
    [
        (0.07, "0.0%;[Red]-0.0%", "7%"),
        (0.125, "0%", "12.5%"),
        (3, '0" of 100%"', "3 of 100%"),
        (1234, "00000", "01234"),
        (123456789, "000-00-0000", "123-45-6789"),
        (1234567.5, "#,##0.00", "1,234,567.50"),
        (1234.5, '#,##0.00 "€"', "1,234.50 €"),
        (-1234.5, "_-[$€-407] * #,##0.00_-;[Red]-#,##0.00", "-€ 1,234.50"),
        (40, '"$"0.00', "$40.00"),
        (-1234.5, "$#,##0.00_);($#,##0.00)", "-$1,234.50"),
        (12.125, "0.00", "12.125"),
        (7, '0" kg"', "7 kg"),
        (datetime.timedelta(hours=30, minutes=5), "[h]:mm", "30:05"),
        (datetime.timedelta(minutes=5, seconds=7), "[hh]:mm:ss", "0:05:07"),
        (0.1 + 0.2, "General", "0.3"),
        (1e20, "General", "1e+20"),
        (123456789012345, "0", "123456789012345"),
        (True, "General", "True"),
        (0, '"Yes";"Yes";"No"', "No"),
        (12, '[>10]"high "0;"low "0', "12"),
        (10**17, "0", "100000000000000000"),
        ("8%", "General", "8%"),
        (datetime.datetime(2024, 5, 1, 7, 30), "yyyy-mm-dd", "2024-05-01 07:30"),
    ],
)
def test_values_of_a_workbook(value, number_format, expected):
    book = openpyxl.Workbook()
    book.active.append([value])
    book.active["A1"].number_format = number_format
    packed = io.BytesIO()
    book.save(packed)
    assert load(packed.getvalue(), "a.xlsx").text == f"# Sheet\n\n{expected}"


def old_workbook() -> bytes:
    book = xlwt.Workbook()
    sheet = book.add_sheet("Fees")
    sheet.write_merge(0, 0, 0, 3, "Fees of the pier")
    for column, name in enumerate(["Berth", "Season", "Fee", "Since"]):
        sheet.write(1, column, name)
    sheet.write_merge(2, 3, 0, 0, "North")
    for row, (season, fee) in enumerate([("Summer", 40), ("Winter", 25.5)], 2):
        sheet.write(row, 1, season)
        sheet.write(row, 2, fee)
        sheet.write(row, 3, datetime.date(2024, 5, row), xlwt.easyxf(num_format_str="d/m/yy"))
    book.add_sheet("Empty")
    packed = io.BytesIO()
    book.save(packed)
    return packed.getvalue()


def binary_workbook(rows) -> bytes:
    """A workbook with one sheet in the records of BIFF12 ([MS-XLSB])."""

    def record(number, data=b""):
        kind, size = ([n] if n < 128 else [n & 127 | 128, n >> 7] for n in (number, len(data)))
        return bytes([*kind, *size]) + data

    def string(text):
        return struct.pack("<I", len(text)) + text.encode("utf-16-le")

    cells = b""
    for row, values in enumerate(rows):
        cells += record(0, struct.pack("<IIH3xI2I", row, 0, 300, 1, 0, len(values) - 1))
        for column, value in enumerate(values):
            kind, data = (
                (6, string(value)) if isinstance(value, str) else (5, struct.pack("<d", value))
            )
            cells += record(kind, struct.pack("<II", column, 0) + data) if value != "" else b""
    size = struct.pack("<4I", 0, len(rows) - 1, 0, len(rows[-1]) - 1)
    sheet = record(129) + record(148, size) + record(145) + cells + record(146) + record(130)
    name = record(156, struct.pack("<II", 0, 1) + string("rId1") + string("Fees"))
    package, office = (
        "http://schemas.openxmlformats.org/package/2006",
        "http://schemas.openxmlformats.org/officeDocument",
    )
    relation = f'<Relationship Id="rId1" Type="{office}/2006/relationships/%s" Target="%s"/>'
    relations = f'<Relationships xmlns="{package}/relationships">{relation}</Relationships>'
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("[Content_Types].xml", f'<Types xmlns="{package}/content-types"/>')
        archive.writestr("_rels/.rels", relations % ("officeDocument", "xl/workbook.bin"))
        archive.writestr(
            "xl/workbook.bin", record(131) + record(143) + name + record(144) + record(132)
        )
        archive.writestr(
            "xl/_rels/workbook.bin.rels", relations % ("worksheet", "worksheets/sheet1.bin")
        )
        archive.writestr("xl/worksheets/sheet1.bin", sheet)
    return packed.getvalue()


def test_binary_workbooks():
    rows = [
        ["Fees of the pier"],
        ["Berth", "Season", "Fee"],
        ["North", "Summer", 40.0],
        ["South", "", 25.5],
    ]
    assert load(binary_workbook(rows), "fees.xlsb").text.splitlines() == [
        *("# Fees", "", "Fees of the pier"),
        "Berth: North | Season: Summer | Fee: 40",
        "Berth: South | Fee: 25.5",
    ]


def test_old_workbooks(monkeypatch, tmp_path):
    found = load(old_workbook(), "fees.xls")
    assert found.text.splitlines() == [
        *("# Fees", "", "Fees of the pier"),
        "Berth: North | Season: Summer | Fee: 40 | Since: 2024-05-02",
        "Berth: North | Season: Winter | Fee: 25.5 | Since: 2024-05-03",
    ]
    (tmp_path / "fees.xls").write_bytes(old_workbook())
    check_file(tmp_path / "fees.xls")
    page = b"<html><table><tr><th>Boat<th>Fee<tr><td>Heron<td>40<tr><td>Gannet<td>50</table></html>"
    assert load(page, "fees.xls").text == "| Boat | Fee |\n| Heron | 40 |\n| Gannet | 50 |"
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(
        DocumentError, match=r"^old Excel file: pip install 'lmkrag\[xls\]' reads it$"
    ) as raised:
        check_file(tmp_path / "fees.xls")
    assert not raised.value.lasting


def test_slides():
    found = load(slides(), "ferry.pptx")
    assert (found.kind, found.title, len(found.page_starts)) == ("pptx", "The ferry", 2)
    assert found.text.startswith("# Ferry\n\n- Leaves at seven\n- Dogs travel free")
    second = found.text[found.page_starts[1] :]
    assert (
        second.startswith("# Prices")
        and "| Child | 2 |" in second
        and second.endswith("Say that prams are free.")
    )


def test_a_chart_is_a_table_of_its_values():
    presentation = pptx.Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[6])
    values = CategoryChartData()
    values.categories = ["May", "June"]
    values.add_series("Adults", (12345678, 3.5))
    values.add_series("Dogs", (None, 7))
    chart = slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, 0, 0, 100, 100, values).chart
    chart.has_title = True
    chart.chart_title.text_frame.text = "Passengers"
    points = XyChartData()
    points.add_series("Points").add_data_point(1, 2)
    slide.shapes.add_chart(XL_CHART_TYPE.XY_SCATTER, 0, 0, 100, 100, points)
    other = slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, 0, 0, 100, 100, values).chart
    other.plots[0]._element.tag = other.plots[0]._element.tag.replace("barChart", "bar3DChart")
    packed = io.BytesIO()
    presentation.save(packed)
    found = load(packed.getvalue(), "ferry.pptx").text
    table = "|  | Adults | Dogs |\n| May | 12345678 |  |\n| June | 3.5 | 7 |"
    assert found == f"Passengers\n\n{table}\n\n|  | Points |\n| 1 | 2 |\n\n{table}"


def test_a_chart_of_a_word_file_follows_its_paragraph():
    values = CategoryChartData()
    values.categories = ["May"]
    values.add_series("Adults", (5,))
    document = docx.Document()
    document.add_paragraph("Passengers fell.")
    content = (
        ChartXmlWriter(XL_CHART_TYPE.COLUMN_CLUSTERED, values)
        .xml.replace("barChart", "bar3DChart")
        .encode()
    )
    chart = docx.opc.part.Part(
        docx.opc.packuri.PackURI("/word/charts/chart1.xml"), "application/xml", content
    )
    key = document.part.relate_to(chart, f"{OFFICE}/officeDocument/2006/relationships/chart")
    run = document.paragraphs[0].add_run()._r
    run.append(
        docx.oxml.parse_xml(
            f'<w:drawing xmlns:w="{OFFICE}/wordprocessingml/2006/main" xmlns:c="{OFFICE}/drawingml/2006/chart"'
            f' xmlns:r="{OFFICE}/officeDocument/2006/relationships"><c:chart r:id="{key}"/></w:drawing>'
        )
    )
    packed = io.BytesIO()
    document.save(packed)
    assert (
        load(packed.getvalue(), "boats.docx").text
        == "Passengers fell.\n\n|  | Adults |\n| May | 5 |"
    )


def test_opendocument():
    found = load(opendocument(), "rules.odt")
    assert (found.kind, found.title, found.meta) == ("odt", "Rules", {"author": "B. Poe"})
    assert found.text == (
        "## The gate\n\nThe gate is closed at nine.\n\n- Red key\n- Green key\n\n| Day | Hour |\n| Monday | 8 |"
    )


def test_an_opendocument_workbook_has_a_line_a_row():
    document = OpenDocumentSpreadsheet()
    sheet = table.Table(name="Stock")
    rows = [("Part", "Price", "Since"), ("B-7", "12.50", "2024-05-01"), ("B-12", "3.00", "")]
    for cells in rows:
        row = table.TableRow(numberrowsrepeated=2 if cells[0] == "B-12" else 1)
        for value in cells:
            dated = (
                {"valuetype": "date", "datevalue": f"{value}T00:00:00"}
                if value.startswith("2024")
                else {}
            )
            cell = table.TableCell(**dated)
            cell.addElement(text.P(text="5/1/24" if dated else value))
            row.addElement(cell)
        row.addElement(table.TableCell(numbercolumnsrepeated=16_381))
        sheet.addElement(row)
    empty = table.TableRow(numberrowsrepeated=1_048_572)
    empty.addElement(table.TableCell(numbercolumnsrepeated=16_384))
    sheet.addElement(empty)
    document.spreadsheet.addElement(sheet)
    document.spreadsheet.addElement(table.Table(name="Nothing"))
    packed = io.BytesIO()
    document.write(packed)
    found = load(packed.getvalue(), "stock.ods")
    assert found.kind == "ods"
    assert found.text.splitlines() == [
        *("# Stock", ""),
        "Part: B-7 | Price: 12.50 | Since: 2024-05-01",
        *("Part: B-12 | Price: 3.00", "Part: B-12 | Price: 3.00"),
    ]


def test_values_of_an_opendocument_workbook_that_has_no_text():
    document, sheet, row = OpenDocumentSpreadsheet(), table.Table(name="Sum"), table.TableRow()
    row.addElement(table.TableCell(valuetype="float", value="60"))
    row.addElement(table.TableCell(formula="of:=[.A1]*1.2"))
    sheet.addElement(row)
    document.spreadsheet.addElement(sheet)
    packed = io.BytesIO()
    document.write(packed)
    assert load(packed.getvalue(), "a.ods").text == "# Sum\n\n60 | =[.A1]*1.2 (not computed)"


def test_an_opendocument_presentation_has_a_page_a_slide():
    document = OpenDocumentPresentation()
    for title, lines, note in (
        ("The ferry", ["It leaves at nine.", "Dogs are free."], "Say it twice."),
        ("", [], ""),
    ):
        slide = draw.Page(masterpagename="plain")
        frame = draw.Frame()
        frame.setAttrNS(PRESENTATIONNS, "class", "title")
        box = draw.TextBox()
        box.addElement(text.P(text=title))
        frame.addElement(box)
        slide.addElement(frame)
        frame, box = draw.Frame(), draw.TextBox()
        for line in lines:
            box.addElement(text.P(text=line))
        frame.addElement(box)
        slide.addElement(frame)
        notes, frame, box = odp.Notes(), draw.Frame(), draw.TextBox()
        box.addElement(text.P(text=note))
        frame.addElement(box)
        notes.addElement(frame)
        slide.addElement(notes)
        document.presentation.addElement(slide)
    packed = io.BytesIO()
    document.write(packed)
    found = load(packed.getvalue(), "ferry.odp")
    assert (found.kind, len(found.page_starts)) == ("odp", 2)
    assert (
        found.text.strip() == "# The ferry\n\nIt leaves at nine.\n\nDogs are free.\n\nSay it twice."
    )


def anchored() -> bytes:
    """An OpenDocument text whose paragraphs, items and cells have notes, boxes and comments."""
    document = OpenDocumentText()

    def paragraph(before: str, thing, after: str = "") -> text.P:
        made = text.P(text=before)
        made.addElement(thing)
        made.addText(after)
        return made

    note = text.Note(noteclass="footnote")
    note.addElement(text.NoteCitation(text="1"))
    body = text.NoteBody()
    body.addElement(text.P(text="Except in May."))
    note.addElement(body)
    document.text.addElement(paragraph("Leave is granted", note, " by the master."))
    item = text.ListItem()
    box = draw.TextBox()
    box.addElement(text.P(text="In a box."))
    frame = draw.Frame()
    frame.addElement(box)
    item.addElement(paragraph("See the", frame, " box."))
    keys = text.List()
    keys.addElement(item)
    document.text.addElement(keys)
    cell = table.TableCell()
    comment = office.Annotation()
    comment.addElement(text.P(text="Is this so?"))
    cell.addElement(paragraph("Nine", comment))
    cell.addElement(text.P(text="or ten"))
    row = table.TableRow()
    row.addElement(cell)
    grid = table.Table()
    grid.addElement(row)
    document.text.addElement(grid)
    packed = io.BytesIO()
    document.write(packed)
    return packed.getvalue()


def test_what_is_anchored_in_a_paragraph_of_an_opendocument_follows_it():
    assert load(anchored(), "rules.odt").text.split("\n\n") == [
        "Leave is granted by the master.",
        "[^1]: Except in May.",
        "- See the box.",
        "In a box.",
        "Nine or ten",
        "[Is this so?]",
    ]


def test_equations_of_an_opendocument_are_where_they_stand():
    document = OpenDocumentText()
    equation = draw.Frame()
    equation.addElement(draw.Object(href="./Object 1"))
    paragraph = text.P(text="The energy is ")
    paragraph.addElement(equation)
    paragraph.addText(" at rest.")
    document.text.addElement(paragraph)
    packed = io.BytesIO()
    document.write(packed)
    with zipfile.ZipFile(packed, "a") as archive:
        typed = '<annotation encoding="StarMath 5.0">E = m c^2</annotation>'
        parts = f"<semantics><mrow><mi>E</mi></mrow>{typed}</semantics>"
        archive.writestr(
            "Object 1/content.xml",
            f'<math xmlns="http://www.w3.org/1998/Math/MathML">{parts}</math>',
        )
    assert load(packed.getvalue(), "energy.odt").text == "The energy is E = m c^2 at rest."


def test_rtf():
    data = rb"{\rtf1\ansi\ansicpg1252{\info{\title House rules}}The gate is {\b closed} at nine, caf\'e9 too.\par Next.}"
    found = load(data, "rules.rtf")
    assert (found.kind, found.title) == ("rtf", "House rules")
    assert found.text == "The gate is closed at nine, café too.\nNext."


MATH = f"{OFFICE}/officeDocument/2006/math"
EQUATION = (
    f'<m:oMath xmlns:m="{MATH}"><m:r><m:t>A=</m:t></m:r><m:sSup><m:e><m:r><m:t>r</m:t></m:r></m:e>'
    "<m:sup><m:r><m:t>2</m:t></m:r></m:sup></m:sSup></m:oMath>"
)


def test_equations_of_word():
    document = docx.Document()
    paragraph = document.add_paragraph("The area is ")
    paragraph._p.append(parse_xml(EQUATION))
    paragraph.add_run(" here.")
    packed = io.BytesIO()
    document.save(packed)
    assert load(packed.getvalue(), "area.docx").text == "The area is A=r^2 here."


def test_equations_and_smartart_of_powerpoint():
    presentation = pptx.Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[5])
    slide.shapes.title.text = "Harbour"
    names = " ".join(
        f'xmlns:{key}="http://schemas.openxmlformats.org/{path}"'
        for key, path in (
            ("mc", "markup-compatibility/2006"), ("p", "presentationml/2006/main"), ("a", "drawingml/2006/main"),
            ("dgm", "drawingml/2006/diagram"), ("r", "officeDocument/2006/relationships"),
        )
    )  # fmt: skip
    tree = slide.shapes._spTree
    shape = f"<p:sp><p:txBody><a:p><a:r><a:t>Area: </a:t></a:r>{EQUATION}</a:p></p:txBody></p:sp>"
    tree.append(
        parse_xml(
            f"<mc:AlternateContent {names}><mc:Choice>{shape}</mc:Choice></mc:AlternateContent>"
        )
    )
    points = "".join(
        f"<dgm:pt><dgm:t><a:p><a:r><a:t>{text}</a:t></a:r></a:p></dgm:t></dgm:pt>"
        for text in ("Call the keeper", "Moor")
    )
    data = f"<dgm:dataModel {names}><dgm:ptLst>{points}</dgm:ptLst></dgm:dataModel>".encode()
    part = Part(PackURI("/ppt/diagrams/data1.xml"), "application/xml", slide.part.package, data)
    key = slide.part.relate_to(
        part, "http://schemas.openxmlformats.org/officeDocument/2006/relationships/diagramData"
    )
    tree.append(
        parse_xml(
            f"<p:graphicFrame {names}><p:nvGraphicFramePr><p:cNvPr id='9' name='Steps'/><p:cNvGraphicFramePr/><p:nvPr/>"
            "</p:nvGraphicFramePr><p:xfrm/><a:graphic><a:graphicData "
            f"uri='http://schemas.openxmlformats.org/drawingml/2006/diagram'><dgm:relIds r:dm='{key}'/>"
            "</a:graphicData></a:graphic></p:graphicFrame>"
        )
    )
    packed = io.BytesIO()
    presentation.save(packed)
    expected = "# Harbour\n\n- Call the keeper\n- Moor\n\nArea: A=r^2"
    assert load(packed.getvalue(), "harbour.pptx").text == expected


def test_rows_and_footnotes_of_rtf():
    data = (
        rb"{\rtf1\ansi Fees are due.{\super 1}{\*\footnote Residents pay half.}\par "
        rb"\trowd\intbl Zone\par\cell Fee\par\cell\row \trowd\intbl Slipway\cell 9\cell\row }"
    )
    found = load(data, "fees.rtf").text
    assert "Residents pay half." in found
    assert found.splitlines()[1:] == ["| Zone | Fee |", "| Slipway | 9 |"]


def test_mail():
    found = load(message().as_bytes(), "leave.eml")
    assert (found.kind, found.title) == ("mail", "Leave in May")
    assert found.meta == {"author": "Ruth Okafor <ruth@example.org>", "date": "2024-05-01"}
    assert "From: Ruth Okafor <ruth@example.org>\nTo: all@example.org\n" in found.text
    assert "Ask me for June, ü 日本." in found.text
    assert (
        "Subject: Leave in May\nAttachments: days.csv, photo.png\n\nLeave is granted" in found.text
    )
    assert "A-1" not in found.text
    assert "base64" not in found.text.lower()
    units = [found.text[s.start : s.end].strip() for s in split_sentences(found.text)]
    assert "Subject: Leave in May" in units


def test_mail_in_html_only_and_a_mail_in_a_mail():
    made = EmailMessage()
    made["Subject"] = "Page"
    made.set_content("<h1>Hours</h1><p>Open at nine.</p>", subtype="html")
    made.add_attachment(message("Inner"))
    found = load(made.as_bytes(), "page.eml")
    assert "# Hours\n\nOpen at nine." in found.text
    assert "# Inner\n\n" in found.text and "Leave is granted for May." in found.text


def test_mailbox(tmp_path):
    box = mailbox.mbox(tmp_path / "box.mbox")
    for subject in ("One", "Two"):
        box.add(message(subject))
    box.close()
    found = load((tmp_path / "box.mbox").read_bytes(), "box.mbox")
    assert found.text.startswith("# One\n\nFrom: Ruth Okafor")
    assert found.text.count("Leave is granted for May.") == 2 and "\n\n# Two\n\n" in found.text


@pytest.mark.parametrize(
    ("line", "begins"),
    [
        ("From ada@example.org Mon Jan  1 12:00:00 2024", True),
        ("From - Mon Jan  1 12:00:00 2024", True),
        ("From Mon, 1 Jan 2024 12:00", True),
        ("From the quay on Monday at 9:30", False),
        ("From a Mon Jan 1", False),
        ("From aMon Jan 1 12:00", False),
    ],
)
def test_what_begins_a_mail_in_a_mailbox(line, begins):
    first = "From a Tue Jan  2 12:00:00 2024\nSubject: One\n\nThe gate is red."
    mails = f"{first}\n{line}\nSubject: Two\n\nThe lamp is lit."
    assert ("# Two" in load(mails.encode(), "a.mbox").text) is begins


def multipart(subtype: str, *parts: tuple[str, bytes]) -> bytes:
    """A mail whose parts have some headers and some bytes."""
    body = b"".join(b"--zz\n" + head.encode() + b"\n\n" + data + b"\n" for head, data in parts)
    return (
        f"Subject: Rota\nContent-Type: multipart/{subtype}; boundary=zz\n\n".encode()
        + body
        + b"--zz--\n"
    )


PLAIN, PAGE = "Content-Type: text/plain; charset=utf-8", "Content-Type: text/html; charset=utf-8"
EVENT = b"BEGIN:VEVENT\nSUMMARY:Crane\n  check\nDTSTART;TZID=UTC:20250512T090000\nDTEND:20250513\nUID:7\nEND:VEVENT"
WHOLE = b"<p>The order comes on 9 May.</p><p>It weighs 3 kg.</p>"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (
            multipart("mixed", (PLAIN, b"One."), (PAGE, b"<p>Two.</p>"), (PLAIN, b"Three.")),
            "One.\n\nTwo.\n\nThree.",
        ),
        (
            multipart("alternative", (PLAIN, b" \n"), (PAGE, WHOLE)),
            "The order comes on 9 May.\n\nIt weighs 3 kg.",
        ),
        (
            multipart("alternative", (PLAIN, b"In HTML."), (PAGE, WHOLE)),
            "The order comes on 9 May.\n\nIt weighs 3 kg.",
        ),
        (
            multipart(
                "alternative",
                (
                    PLAIN,
                    b"Your program does not show mails in HTML. Please open this one in a browser.",
                ),
                (PAGE, WHOLE),
            ),
            "The order comes on 9 May.\n\nIt weighs 3 kg.",
        ),
        (
            multipart(
                "alternative",
                (PLAIN, b"The order comes on 9 May and weighs 3 kg."),
                (PAGE, b"<a href=x>View in browser</a>"),
            ),
            "The order comes on 9 May and weighs 3 kg.",
        ),
        (
            multipart("alternative", (PLAIN, b"It comes on 9 May."), (PAGE, WHOLE)),
            "It comes on 9 May.",
        ),
        (
            multipart(
                "alternative", (PLAIN, b"Please come."), ("Content-Type: text/calendar", EVENT)
            ),
            "Please come.\n\n## Crane check, 2025-05-12\n\nStart: 2025-05-12 09:00 UTC\nEnd: 2025-05-13",
        ),
        (
            multipart(
                "mixed",
                (
                    "Content-Type: message/rfc822\nContent-Transfer-Encoding: base64",
                    base64.b64encode(b"Subject: Inner\n\nThe crane is checked."),
                ),
            ),
            "# Inner\n\nSubject: Inner\n\nThe crane is checked.",
        ),
        (
            b"Subject: Rota\nContent-Type: text/plain; format=flowed\n"
            b"\nThe watch \nbegins \n at six.\n> Who \n> is it?\n-- \nAda",
            "The watch begins at six.\n> Who is it?\n-- \nAda",
        ),
        (
            b"Subject: Rota\nContent-Type: text/plain; format=flowed; delsp=yes\n\nin the mor \nning",
            "in the morning",
        ),
        (
            b"Subject: Rota\nContent-Type: text/plain; charset=iso-8859-1\n\n740 \x80 \x96 f\xfcnf",
            "740 € – fünf",
        ),
        (
            multipart(
                "signed",
                (PLAIN, b"The fee is 40."),
                (
                    "Content-Type: application/pkcs7-signature; name=smime.p7s\nContent-Transfer-Encoding: base64",
                    b"MIIG",
                ),
            ),
            "The fee is 40.",
        ),
        (b"Subject: Rota\n\n740 \x80 f\xfcr f\xfcnf Tage", "740 € für fünf Tage"),
        (
            b"Subject: Rota\nContent-Type: text/plain; charset=iso-2022-jp\n\n\x1b$B5Y2K\x1b(B",
            "休暇",
        ),
        (
            b"Subject: Rota\nContent-Type: text/html\n\n<meta charset=koi8-r><p>\xef\xd4\xd0\xd5\xd3\xcb</p>",
            "Отпуск",
        ),
        (b"Subject: Rota\nContent-Type: multipart/mixed\n\nThe fee is 40.", "The fee is 40."),
        (
            b"\n>From ada Mon Mar  3 10:00:00 2025\nSubject: Rota\nContent-Type: text/html\n\n<p>40</p>",
            "40",
        ),
        (
            multipart(
                "mixed",
                (
                    "Content-Type: message/rfc822\nContent-Transfer-Encoding: quoted-printable",
                    b"Subject: Inner\nContent-Type: text/plain; charset=3Dutf-8\n\nDer Kran wird gepr=C3=BCft.",
                ),
            ),
            "# Inner\n\nSubject: Inner\n\nDer Kran wird geprüft.",
        ),
    ],
    ids=range(18),
)
def test_the_parts_of_a_mail(data, text):
    assert load(data, "a.eml").text == f"Subject: Rota\n\n{text}"


def test_a_calendar_has_a_section_an_event():
    found = load(
        b"BEGIN:VCALENDAR\n"
        + EVENT
        + b"\n"
        + EVENT.replace(b"Crane", b"Pump")
        + b"\nEND:VCALENDAR",
        "a.ics",
    )
    dates = "Start: 2025-05-12 09:00 UTC\nEnd: 2025-05-13"
    assert found.text == "\n\n".join(
        f"## {part} check, 2025-05-12\n\n{dates}" for part in ("Crane", "Pump")
    )


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252"])
def test_headers_of_a_mail_that_are_not_ascii(encoding):
    head = "From: Jörg Köhler <joerg@example.org>\nSubject: Grüße für Jürgen\n\nText.".encode(
        encoding
    )
    found = load(head, "a.eml")
    assert found.title == "Grüße für Jürgen"
    assert found.text == "From: Jörg Köhler <joerg@example.org>\nSubject: Grüße für Jürgen\n\nText."


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (
            "=?iso-8859-1?Q?M=FCller_?= =?utf-8?B?w7xiZXI=?= =?gb2312?B?1uzpRrv5?=",
            "Müller über朱镕基",
        ),
        ("=?utf-8?B?5a6J5Ys=?=\n =?utf-8?B?lQ==?=", "安動"),
        ("Ada " * 2_000, "Ada " * 1_999 + "Ada"),
    ],
    ids=["an encoding as browsers read it", "a character in two words", "long"],
)
def test_words_in_a_header(written, read):
    assert load(f"Subject: {written}\n\nThe gate is red.".encode(), "a.eml").title == read


def test_mail_without_a_suffix_and_lines_that_begin_with_from(tmp_path):
    mails = (
        b"From - Mon Mar  3 10:00:00 2025\nFrom: a@b.org\nTo: c@b.org\nSubject: One\n"
        b"\n>From here\nFrom there it is 9:30.\n\n"
        b"From - Mon Mar  3 10:00:00 2025\nFrom: a@b.org\nSubject: Two\n\nBye.\n"
    )
    (tmp_path / "Inbox").write_bytes(mails)
    (tmp_path / "1741.M5P6.host:2,S").write_bytes(
        mails.partition(b"\n")[2].partition(b"\n\nFrom - ")[0]
    )
    (tmp_path / "Notes").write_text("From: the harbour\n\nIt is closed.")
    with IsolatedLoader() as loader:
        box, mail_file, notes = (
            loader.load(tmp_path / name, name) for name in ("Inbox", "1741.M5P6.host:2,S", "Notes")
        )
    assert "From here\nFrom there it is 9:30.\n\n# Two\n\nFrom: a@b.org" in box.text
    assert (mail_file.kind, mail_file.title) == ("mail", "One")
    assert (notes.kind, notes.text) == ("text", "From: the harbour\n\nIt is closed.")


def test_lines_of_a_mail_that_look_like_postmarks():
    mails = b"From ada Mon Mar  3 10:00:00 2025\nSubject: One\n\nFrom the quay at 9:30:\nGate: it is red.\n"
    assert (
        load(mails, "a.mbox").text
        == "# One\n\nSubject: One\n\nFrom the quay at 9:30:\nGate: it is red."
    )
    assert load(b"From: a@b.org\nTo: c@b.org\nSubject: One\n\nBye.", "a.mbox").title == "One"


def test_a_calendar_says_who_comes_and_what_is_due_but_not_its_alarms():
    calendar = """BEGIN:VTIMEZONE
DTSTART:19701025T030000
END:VTIMEZONE
BEGIN:VEVENT
ORGANIZER;CN="Quill, Ada":mailto:ada@example.org
ATTENDEE:MAILTO:ben@example.org
SUMMARY;ENCODING=QUOTED-PRINTABLE;X-P="a:b":Pr=C3=BCfung
BEGIN:VALARM
DESCRIPTION:Reminder
END:VALARM
END:VEVENT
BEGIN:VTODO
DUE:20250601
END:VTODO"""
    people = "Organizer: Quill, Ada <ada@example.org>\nAttendee: ben@example.org"
    assert load(calendar.encode(), "a.ics").text == f"## Prüfung\n\n{people}\n\nDue: 2025-06-01"


@pytest.mark.parametrize(
    "page",
    [
        "<h1>Gate</h1>",
        "Content-Type: application/xhtml+xml\n\n<html xmlns='http://www.w3.org/1999/xhtml'><h1>Gate</h1></html>",
        "Content-Type: text/plain\n\n# Gate",
    ],
)
def test_a_saved_page_of_another_type(page):
    assert load(page.encode(), "a.mht").text == "# Gate"


def test_mail_of_apple_and_a_page_that_a_browser_saved():
    body = b"Subject: One\n\nBye."
    assert (
        load(b"%d\n%s<plist>1</plist>" % (len(body), body), "1.emlx").text == "Subject: One\n\nBye."
    )
    page = load(
        multipart(
            "related",
            (PAGE, "<h1>Café</h1><p>It is open.</p>".encode()),
            ("Content-Type: image/png", b"x"),
        ),
        "a.mht",
    )
    assert (page.text, page.title, page.kind) == ("# Café\n\nIt is open.", "Rota", "html")


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_cues_of_webvtt_have_identifiers_and_voices(end):
    lines = [
        "WEBVTT",
        "",
        "1",
        "00:00:01.000 --> 00:00:02.000",
        "<v Bob Roe>Is it <i>nine</i>?</v>",
        "No, ten.",
        "",
        "8a1f-3/12-0",
        "00:00:03.000 --> 00:00:04.000 align:start",
        "<v.loud Ann>Yes.",
    ]
    found = load(end.join(lines).encode(), "talk.vtt")
    assert found.text == "[00:00:01] Bob Roe: Is it nine? No, ten.\n[00:00:03] Ann: Yes."


@pytest.mark.parametrize("suffix", ["srt", "vtt"])
def test_subtitles(suffix):
    cues = pysubs2.SSAFile()
    cues.append(
        pysubs2.SSAEvent(
            start=1_000, end=2_000, text="The gate is {\\i1}green{\\i0}.\\NIt is closed."
        )
    )
    cues.append(pysubs2.SSAEvent(start=3_661_000, end=3_662_000, text="Goodbye."))
    found = load(cues.to_string(suffix).encode(), f"talk.{suffix}")
    assert found.kind == "subtitles"
    assert found.text == "[00:00:01] The gate is green. It is closed.\n[01:01:01] Goodbye."
    assert len(split_sentences(found.text, kind=found.kind)) == 2


def test_gzipped_text():
    found = load(gzip.compress(b"# Gate\n\nThe gate is green.\n"), "gate.md.gz")
    assert (found.kind, found.title) == ("gz", "Gate")
    assert found.text == "# Gate\n\nThe gate is green.\n"


def test_gzipped_tables_are_tables():
    found = load(gzip.compress(b"boat,fee\nHeron,40\nGannet,50\n"), "fees.csv.gz")
    assert (found.kind, found.text) == ("csv", "boat: Heron | fee: 40\nboat: Gannet | fee: 50")


@pytest.mark.parametrize(
    ("data", "name", "reason"),
    [
        (workbook()[:900], "x.xlsx", "broken Excel file"),
        (b"PK\x03\x04 nothing", "x.xlsx", "broken Excel file"),
        (slides()[:2_000], "x.pptx", "broken PowerPoint file"),
        (workbook(), "x.pptx", "broken PowerPoint file"),
        (opendocument()[:500], "x.odt", "broken OpenDocument file"),
        (
            b"\xd0\xcf\x11\xe0 old",
            "x.xlsx",
            "Excel file of a version before 2007: save it as .xlsx",
        ),
        (b"plain text", "x.rtf", "content is not RTF"),
        (b"no cues at all", "x.srt", "subtitles"),
        (b"no messages at all", "x.mbox", "not a mailbox"),
        (gzip.compress(b"x" * 100)[:-20], "x.txt.gz", "broken gzip file"),
        (gzip.compress(b"x"), "x.tar.gz", "an archive inside an archive"),
        (gzip.compress(bytes(range(256)) * 50), "x.gz", "binary|not text"),
    ],
    ids=range(12),  # gzip writes the time into what it makes
)
def test_broken_files(data, name, reason):
    with pytest.raises(DocumentError, match=reason):
        load(data, name)


def test_a_bomb(monkeypatch):
    from lmkrag.formats import text

    monkeypatch.setattr(text, "_MOST_UNPACKED", 1 << 20)
    with pytest.raises(DocumentError, match="unpacks to more than 1 MiB"):
        load(gzip.compress(b"x" * (2 << 20)), "x.txt.gz")
    monkeypatch.setattr(mail, "_MOST_MESSAGES", 0)
    with pytest.raises(DocumentError, match="split it"):
        load(b"From a Wed May  1 10:00:00 2024\nSubject: x\n\ntext\n", "x.mbox")


def test_in_the_limited_process(tmp_path):
    (tmp_path / "stock.xlsx").write_bytes(workbook())
    (tmp_path / "bad.pptx").write_bytes(b"not at all")
    with IsolatedLoader() as loader:
        assert loader.load(tmp_path / "stock.xlsx", "stock.xlsx").kind == "xlsx"
        with pytest.raises(DocumentError, match="content is not PPTX"):
            loader.load(tmp_path / "bad.pptx", "bad.pptx")


LOG = """2024-05-01 12:00:03 INFO started
2024-05-01 12:00:04 ERROR no route to host
  Traceback (most recent call last):
    File "x.py", line 1
2024-05-01 12:00:09 INFO stopped
"""


def test_log_lines_are_units():
    units = [LOG[s.start : s.end] for s in split_sentences(LOG)]
    assert len(units) == 3
    assert units[1].startswith("2024-05-01 12:00:04 ERROR") and 'File "x.py"' in units[1]
    web = '10.0.0.1 - - [01/May/2024:12:00:00] "GET /" 200\n10.0.0.2 - - [01/May/2024:12:00:01] "GET /x" 404\n'
    assert len(split_sentences(web)) == 2
    syslog = "May  1 12:00:00 host sshd[1]: accepted\nMay  1 12:00:09 host sshd[1]: closed\n"
    assert len(split_sentences(syslog)) == 2


def test_json_objects_are_units():
    keepers = [{"name": "Ann", "years": 3}, {"name": "Bob", "years": 5}]
    data = json.dumps({"site": "rock", "keepers": keepers, "crew": {"boats": [1, 2]}})
    found = load(data.encode(), "x.json")
    assert found.text.splitlines() == [
        "site: rock",
        "keepers.name: Ann | keepers.years: 3",
        "keepers.name: Bob | keepers.years: 5",
        "crew.boats: 1 | crew.boats: 2",
    ]
    assert len(split_sentences(found.text, kind="json")) == 4


def test_a_row_is_found_alone(encoder, tmp_path):
    from lmkrag import Engine

    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "stock.xlsx").write_bytes(workbook())
    rows = "Code,Meaning\n" + "".join(
        f"E{number},fault {number} of the pump\n" for number in range(40)
    )
    (tmp_path / "folder" / "codes.csv").write_text(rows)
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        engine.add(tmp_path / "folder")
        found = engine.search("Code: E17", top_k=1)[0]
        assert found.text == "Code: E17 | Meaning: fault 17 of the pump"
        assert found.header == ""
        for number in (1007, 1020, 1033):
            (row,) = engine.search(f"VX-{number}", top_k=1)
            assert row.text.startswith(f"Code: VX-{number} |")
        assert engine.search("Prices of parts", filter="kind=xlsx", top_k=1)[0].text
        assert not engine.verify()


def repack(data: bytes, change) -> bytes:
    """A package whose parts went through a function of their names and contents."""
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(packed, "w") as copy:
        for entry in archive.namelist():
            copy.writestr(entry, change(entry, archive.read(entry)))
    return packed.getvalue()


def word() -> bytes:
    document = docx.Document()
    document.add_heading("The ferry", 1)
    document.add_paragraph("It leaves at nine.")
    packed = io.BytesIO()
    document.save(packed)
    return packed.getvalue()


WORD, SLIDES, BOOK = (
    f"application/vnd.openxmlformats-officedocument.{name}.main+xml"
    for name in ("wordprocessingml.document", "presentationml.presentation", "spreadsheetml.sheet")
)


@pytest.mark.parametrize(
    ("made", "plain", "variant", "suffix"),
    [
        (word, WORD, "application/vnd.ms-word.document.macroEnabled.main+xml", "docm"),
        (word, WORD, WORD.replace("document.main", "template.main"), "dotx"),
        (word, WORD, "application/vnd.ms-word.template.macroEnabledTemplate.main+xml", "dotm"),
        (
            slides,
            SLIDES,
            "application/vnd.ms-powerpoint.presentation.macroEnabled.main+xml",
            "pptm",
        ),
        (slides, SLIDES, SLIDES.replace("presentation.main", "slideshow.main"), "ppsx"),
        (slides, SLIDES, "application/vnd.ms-powerpoint.slideshow.macroEnabled.main+xml", "ppsm"),
        (slides, SLIDES, SLIDES.replace("presentation.main", "template.main"), "potx"),
        (slides, SLIDES, "application/vnd.ms-powerpoint.template.macroEnabled.main+xml", "potm"),
        (workbook, BOOK, "application/vnd.ms-excel.sheet.macroEnabled.main+xml", "xlsm"),
        (workbook, BOOK, BOOK.replace("sheet.main", "template.main"), "xltx"),
        (workbook, BOOK, "application/vnd.ms-excel.template.macroEnabled.main+xml", "xltm"),
    ],
)
def test_files_with_macros_templates_and_shows_are_read_as_plain_ones_are(
    made, plain, variant, suffix, tmp_path
):
    data = made()
    changed = repack(data, lambda _, part: part.replace(plain.encode(), variant.encode()))
    assert changed.count(variant.encode()) == 1
    (tmp_path / f"a.{suffix}").write_bytes(changed)
    with IsolatedLoader() as loader:
        found = loader.load(tmp_path / f"a.{suffix}", "a")
    name = {word: "a.docx", slides: "a.pptx", workbook: "a.xlsx"}[made]
    assert (found.text, found.kind) == (load(data, name).text, load(data, name).kind)


@pytest.mark.parametrize(
    ("made", "name"), [(word, "a.docx"), (slides, "a.pptx"), (workbook, "a.xlsx")]
)
def test_strict_open_xml_is_read(made, name):
    def make_strict(_: str, part: bytes) -> bytes:
        for kind in (
            b"officeDocument",
            b"wordprocessingml",
            b"presentationml",
            b"spreadsheetml",
            b"drawingml",
        ):
            part = part.replace(
                b"http://schemas.openxmlformats.org/" + kind + b"/2006/",
                b"http://purl.oclc.org/ooxml/" + kind + b"/",
            )
        return part

    strict = repack(made(), make_strict)
    assert load(strict, name).text == load(made(), name).text


def test_a_workbook_of_a_report_generator():
    book = openpyxl.Workbook()
    sheet = book.active
    for row in (["Item", "Net", "Gross"], ["Rope", 100, "=B2*1.2"], ["Tar", 50, "=B3*1.2"]):
        sheet.append(row)
    sheet["A2"].comment = openpyxl.comments.Comment("Made of hemp", "Ann")
    packed = io.BytesIO()
    book.save(packed)
    data = repack(
        packed.getvalue(),
        lambda _, part: part.replace(b'<dimension ref="A1:C3"', b'<dimension ref="A1"'),
    )
    assert data.count(b'ref="A1:C3"') == 0
    assert load(data, "a.xlsx").text.splitlines()[2:] == [
        "Item: Rope | Net: 100 | Gross: =B2*1.2 (not computed)",
        "Item: Tar | Net: 50 | Gross: =B3*1.2 (not computed)",
        "Rope: Made of hemp",
    ]


@pytest.mark.parametrize(
    ("part", "old", "new"),
    [
        ("xl/styles.xml", b"<fills", b"<fills><fill><oops/></fill></fills><fonts"),
        ("xl/styles.xml", b'formatCode="0.0%"', b'formatCode="0.0%" numFmtId="many"'),
        ("docProps/core.xml", b"Z</dcterms:modified>", b"Z yesterday</dcterms:modified>"),
    ],
)
def test_a_workbook_whose_styles_or_properties_are_broken(part, old, new):
    data = repack(
        workbook(), lambda name, content: content.replace(old, new) if name == part else content
    )
    assert "Code: VX-1001 | Pressure: 10.01" in load(data, "a.xlsx").text


def test_texts_formulas_and_charts_of_a_workbook():
    book = openpyxl.Workbook()
    raised = TextBlock(InlineFont(vertAlign="superscript"), "6")
    book.active.append(["Tank", "Full"])
    book.active.append([CellRichText("10", raised, " litres"), '=B1>0&"x"'])
    book.create_chartsheet("Chart")
    packed = io.BytesIO()
    book.save(packed)
    assert (
        load(packed.getvalue(), "a.xlsx").text
        == '# Sheet\n\nTank: 10^6 litres | Full: =B1>0&"x" (not computed)'
    )


@pytest.mark.parametrize(
    ("made", "name"), [(word, "a.docx"), (workbook, "a.xlsx"), (slides, "a.pptx")]
)
@pytest.mark.parametrize("target", ["../NULL", "media/gone.png"])
def test_parts_that_are_named_and_not_there(made, name, target):
    relation = f'<Relationship Id="rId99" Type="{OFFICE}/officeDocument/2006/relationships/image" Target="{target}"/>'
    plain = made()
    broken = repack(
        plain,
        lambda _, part: part.replace(b"</Relationships>", f"{relation}</Relationships>".encode()),
    )
    assert load(broken, name).text == load(plain, name).text


def test_templates_and_flat_files_of_opendocument():
    document = OpenDocumentText()
    document.text.addElement(text.P(text="The gate is red."))
    packed = io.BytesIO()
    document.write(packed)
    assert load(packed.getvalue(), "a.ott").text == "The gate is red."
    assert load(document.xml(), "a.fodt").text == "The gate is red."
    broken = repack(
        packed.getvalue(),
        lambda name, part: b"<oops" if name in ("meta.xml", "styles.xml") else part,
    )
    assert load(broken, "a.odt").text == "The gate is red."
