"""Files of Office as other programs write them: names of parts, damaged cells, drop caps, hidden text, dates of charts."""

import datetime
import io
import zipfile
from collections.abc import Callable

import docx
import openpyxl
import pptx
import pytest
from docx.oxml import parse_xml
from pptx.chart.data import CategoryChartData, XyChartData
from pptx.enum.chart import XL_CHART_TYPE

from lmkrag.formats.load import load_bytes, load_with_attachments
from tests.formats.files import save

WORD = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def read(data: bytes, name: str) -> str:
    return load_bytes(data, name, doc_id=name, path=name).text


def rewrite(data: bytes, rename: Callable[[str], str], change: Callable[[bytes], bytes]) -> bytes:
    """A zip archive whose parts have other names, and whose XML is changed."""
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(packed, "w") as copy:
        for name in archive.namelist():
            content = archive.read(name)
            is_xml = name.endswith((".xml", ".rels"))
            copy.writestr(rename(name), change(content) if is_xml else content)
    return packed.getvalue()


def word(*paragraphs: str) -> bytes:
    document = docx.Document()
    body = document.element.body
    for paragraph in paragraphs:
        body.insert(len(body) - 1, parse_xml(paragraph.replace(">", f" {WORD}>", 1)))
    return save(document)


def workbook() -> bytes:
    book = openpyxl.Workbook()
    rows = [("Rope", "Metres"), ("Hemp", 120), ("Nylon", 85), ("Steel", 40)]
    for row in rows:
        book.active.append(row)
    return save(book)


def slides() -> bytes:
    presentation = pptx.Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[5])
    slide.shapes.title.text = "The tow line is 90 metres long"
    return save(presentation)


FILES = {
    "a.docx": (
        word("<w:p><w:r><w:t>The tow line is 90 metres long</w:t></w:r></w:p>"),
        "90 metres",
    ),
    "a.xlsx": (workbook(), "Rope: Nylon | Metres: 85"),
    "a.pptx": (slides(), "90 metres"),
}
RENAMED = {
    "backslashes": (lambda name: name.replace("/", "\\"), lambda xml: xml),
    "backslashes-in-relations": (
        lambda name: name.replace("/", "\\"),
        lambda xml: xml.replace(b'Target="worksheets/', b'Target="worksheets\\').replace(
            b'Target="word/', b'Target="word\\'
        ),
    ),
    "capitals": (lambda name: name.title() if "/" in name else name, lambda xml: xml),
    "small-letters": (str.lower, lambda xml: xml),
    "part-names-in-capitals": (
        lambda name: name.replace("workbook", "Workbook").replace("styles", "Styles"),
        lambda xml: xml.replace(b"/workbook.xml", b"/WorkBook.xml"),
    ),
    "from-the-root": (lambda name: f"/{name}", lambda xml: xml),
    "from-here": (lambda name: f"./{name}", lambda xml: xml),
    "with-spaces": (
        lambda name: name.replace("sheet1", "sheet 1"),
        lambda xml: xml.replace(b"worksheets/sheet1.xml", b"worksheets/sheet%201.xml"),
    ),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("form", RENAMED)
def test_names_of_parts_are_compared_without_case_and_direction_of_slashes(name, form):
    data, expected = FILES[name]
    assert expected in read(rewrite(data, *RENAMED[form]), name)


@pytest.mark.parametrize(
    ("cell", "damaged"),
    [
        (b'<c r="B3" t="n"><v>85</v>', b'<c r="B3" s="" t="n"><v>85</v>'),
        (b'<c r="B3" t="n"><v>85</v>', b'<c r="B3" s="x" t="n"><v>85</v>'),
        (b'<c r="B3" t="n"><v>85</v>', b'<c r="B3" s="999" t="n"><v>85</v>'),
        (b'<c r="B3" t="n"><v>85</v>', b'<c r="B3" t="n"><v>85 m</v>'),
        (b'<c r="B3" t="n"><v>85</v>', b'<c r="B3" t="b"><v>yes</v>'),
        (b'<c r="B3" t="n"><v>85</v>', b'<c r="B3" t="s"><v>999</v>'),
        (b'<c r="B3" t="n"><v>85</v>', b'<c t="d"><v>soon</v>'),
    ],
)
def test_a_damaged_cell_leaves_the_others(cell, damaged):
    shown = read(rewrite(workbook(), str, lambda xml: xml.replace(cell, damaged)), "a.xlsx")
    assert "Rope: Hemp | Metres: 120" in shown
    assert "Rope: Steel | Metres: 40" in shown
    for value in ("85 m", "yes", "soon"):
        assert (value.encode() in damaged) == (value in shown)


FRAME = '<w:pPr><w:framePr w:dropCap="drop" w:lines="3"/></w:pPr>'


def test_a_drop_cap_belongs_to_the_paragraph_below_it():
    letter = f'<w:p>{FRAME}<w:r><w:rPr><w:position w:val="-9"/></w:rPr><w:t>L</w:t></w:r></w:p>'
    rest = "<w:p><w:r><w:t>ighthouses were lit with coal.</w:t></w:r></w:p>"
    alone = f"<w:p>{FRAME}<w:r><w:t>A</w:t></w:r></w:p>"
    spaced = '<w:p><w:r><w:t xml:space="preserve"> keeper lived there.</w:t></w:r></w:p>'
    shown = read(word(letter, rest, alone, spaced, alone), "a.docx")
    assert shown == "Lighthouses were lit with coal.\n\nA keeper lived there.\n\nA"
    rtf = rb"{\rtf1 \pard\plain \dropcapli3\dropcapt1 {\f0 L}" + b"\n{\\f0 \n"
    rtf += rb"\par }\pard\plain {\f0 ighthouses were lit.\par}}"
    assert read(rtf, "a.rtf") == "Lighthouses were lit."


@pytest.mark.parametrize(
    "hidden",
    [
        "{\\rtlch\\fcs1 \\af4 \r\n\\ltrch\\fcs0 \\v\\f4 the deposit is 700 euros. }",
        "{\r\n\\strike the deposit is 700 euros. }",
        "\\v the deposit is 700 euros. \\v0 ",
        "\\b\\strike the deposit is 700 euros. \\plain ",
    ],
)
def test_hidden_text_of_rtf_is_left_out_as_word_wraps_it(hidden):
    data = f"{{\\rtf1\\ansi\\pard The rent is 900 euros. {hidden}It is due in May.\\par}}"
    assert read(data.encode(), "a.rtf") == "The rent is 900 euros. It is due in May."


def test_line_ends_of_rtf_after_a_control_word_are_no_text():
    data = b"{\\rtf1\\ansi\\pard It is 10{\\fs20\n\\super\n6} m.\\par C:\\\\part\ns\\par}"
    assert read(data, "a.rtf") == "It is 10^6 m.\nC:\\parts"


def chart(kind, data) -> str:
    presentation = pptx.Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[6])
    slide.shapes.add_chart(kind, 0, 0, 5_000_000, 5_000_000, data)
    return read(save(presentation), "a.pptx")


def test_dates_shares_and_prices_of_charts_are_shown_as_their_formats_say():
    data = CategoryChartData(number_format="0%")
    data.categories = [datetime.date(2024, 3, 5), datetime.date(2024, 3, 6)]
    data.add_series("Level", (0.34, 0.28))
    data.add_series("Price", (1200, 8), number_format='#,##0.00" €"')
    assert chart(XL_CHART_TYPE.LINE, data).splitlines() == [
        "|  | Level | Price |",
        "| 2024-03-05 | 34% | 1,200.00 € |",
        "| 2024-03-06 | 28% | 8.00 € |",
    ]


def test_groups_of_categories_are_named_and_points_keep_their_places():
    data = CategoryChartData()
    for year, quarters in (("2024", ("Q3", "Q4")), ("2025", ("Q1",))):
        group = data.add_category(year)
        for quarter in quarters:
            group.add_sub_category(quarter)
    data.add_series("Boats", (3, 4, 5))
    assert chart(XL_CHART_TYPE.COLUMN_CLUSTERED, data).splitlines()[1:] == [
        "| 2024 Q3 | 3 |",
        "| 2024 Q4 | 4 |",
        "| 2025 Q1 | 5 |",
    ]
    points = XyChartData()
    for name, places in (("Depth", (1.5, 2)), ("Width", (1.5, 2)), ("Level", (9,))):
        series = points.add_series(name)
        for place in places:
            series.add_data_point(place, 4.2)
    assert [line for line in chart(XL_CHART_TYPE.XY_SCATTER, points).splitlines() if line] == [
        "|  | Depth | Width |",
        "| 1.5 | 4.2 | 4.2 |",
        "| 2 | 4.2 | 4.2 |",
        "|  | Level |",
        "| 9 | 4.2 |",
    ]


def test_boxes_and_lists_of_a_form_of_word_show_what_was_chosen():
    def field(content: str) -> str:
        inside = f'<w:fldChar w:fldCharType="begin"><w:ffData>{content}</w:ffData></w:fldChar>'
        return f"<w:r>{inside}</w:r>"

    ticked = field('<w:checkBox><w:default w:val="0"/><w:checked/></w:checkBox>')
    free = field('<w:checkBox><w:default w:val="0"/></w:checkBox>')
    entries = '<w:listEntry w:val="North"/><w:listEntry w:val="South"/>'
    chosen = field(f'<w:ddList><w:result w:val="1"/>{entries}</w:ddList>')

    def text(words: str) -> str:
        return f'<w:r><w:t xml:space="preserve">{words}</w:t></w:r>'

    line = f"<w:p>{ticked}{text(' Berth ')}{free}{text(' Crane, pier ')}{chosen}</w:p>"
    assert read(word(line), "a.docx") == "☒ Berth ☐ Crane, pier South"


def test_a_picture_that_cannot_be_unpacked_is_left_out_by_its_name(tmp_path):
    document = docx.Document()
    document.add_paragraph("The tow line is 90 metres long")
    data = bytearray(save(document))
    picture = b"docProps/thumbnail.jpeg"
    start = data.index(picture) + len(picture)
    data[start + 20 : start + 30] = bytes(10)
    path = tmp_path / "a.docx"
    path.write_bytes(data)
    loaded = load_with_attachments(path, "a.docx")
    assert loaded.document.text == "The tow line is 90 metres long"
    assert [part.path for part in loaded.skipped] == ["a.docx/docProps/thumbnail.jpeg"]


@pytest.mark.parametrize("state", ["hidden", "veryHidden"])
def test_a_hidden_sheet_says_so(state):
    book = openpyxl.Workbook()
    book.active.append(["Boat", "Kestrel"])
    hidden = book.create_sheet("Salaries")
    hidden.append(["Ann", 51_000])
    hidden.sheet_state = state
    text = load_bytes(save(book), "a.xlsx", doc_id="a", path="a").text
    assert text == "# Sheet\n\nBoat | Kestrel\n\n# Salaries (hidden sheet)\n\nAnn | 51000"


def test_a_hidden_slide_says_so():
    deck = pptx.Presentation()
    for title in ("Budget", "Draft"):
        slide = deck.slides.add_slide(deck.slide_layouts[5])
        slide.shapes.title.text = title
    slide.element.set("show", "0")
    text = load_bytes(save(deck), "a.pptx", doc_id="a", path="a").text
    assert text.split("\n\n") == ["# Budget", "# Draft", "(hidden slide)"]
