"""The addresses of links are kept in every format: beside words that stand alone, else in a line."""

import docx
import fpdf
import openpyxl
import pptx
import pytest
from docx.oxml import parse_xml
from odf.opendocument import OpenDocumentText
from odf.text import A, H, P

from lmkrag import Engine
from tests.formats.files import read, save

ADDRESS = "https://pay.example.org/dues"
TOLD = f"Pay the dues at this page: {ADDRESS}"
R = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def run(text: str) -> str:
    return f'<w:r><w:t xml:space="preserve">{text}</w:t></w:r>'


def write_docx(*, as_field: bool) -> bytes:
    document = docx.Document()
    key = document.part.relate_to(ADDRESS, f"{R}/hyperlink", is_external=True)
    link = f'<w:hyperlink r:id="{key}">{run("this ")}{run("page")}</w:hyperlink>'
    if as_field:
        begin, end = (
            f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>' for kind in ("begin", "end")
        )
        code = f'<w:r><w:instrText> HYPERLINK "{ADDRESS}" </w:instrText></w:r>'
        link = f"{begin}{code}{run('this page')}{end}"
    text = f"{run('It is new. Pay the dues at ')}{link}{run(' by May.')}"
    document.element.body.insert(0, parse_xml(f'<w:p xmlns:w="{W}" xmlns:r="{R}">{text}</w:p>'))
    document.add_heading("Boats", 1)
    return save(document)


def write_odt() -> bytes:
    document = OpenDocumentText()
    paragraph = P(text="It is new. Pay the dues at ")
    paragraph.addElement(A(href=ADDRESS, text="this page"))
    paragraph.addText(" by May.")
    document.text.addElement(paragraph)
    document.text.addElement(H(outlinelevel=1, text="Boats"))
    return save(document)


def write_pdf() -> bytes:
    document = fpdf.FPDF()
    document.add_page()
    document.set_font("helvetica", size=12)
    document.write(text="It is new. Pay the dues at ")
    document.write(text="this page", link=ADDRESS)
    document.write(text=" by May.")
    return bytes(document.output())


HTML = (
    f"<p>It is new. Pay the dues at <a href='{ADDRESS}'>this <b>page</b></a> by May.</p>"
    f"<p>Again at <a href='{ADDRESS}'>this page</a>, <a href='#top'>above</a>, "
    "<a href='a.html'>there</a>.</p><h2>Boats</h2><p>They are green.</p>"
)


@pytest.mark.parametrize(
    ("name", "data", "before_heading"),
    [
        ("a.html", HTML, True),
        ("a.docx", write_docx(as_field=False), True),
        ("a.docx", write_docx(as_field=True), True),
        ("a.odt", write_odt(), True),
        ("a.pdf", write_pdf(), False),
    ],
)
def test_the_address_of_a_link_in_a_sentence_is_a_line_of_its_section(name, data, before_heading):
    text = read(data, name)
    assert "It is new. Pay the dues at this page by May." in text
    assert text.count(ADDRESS) == 1
    assert TOLD in text.split("\n")
    assert not before_heading or text.index(TOLD) < text.index("# Boats")


def write_xlsx() -> bytes:
    book = openpyxl.Workbook()
    for row in (("Supplier", "Page"), ("Hawser", "list"), ("Skerry", "list")):
        book.active.append(row)
    book.active["B2"].hyperlink = "https://hawser.example/list"
    book.active["B3"].hyperlink = "https://skerry.example/list"
    return save(book)


def write_pptx() -> bytes:
    slides = pptx.Presentation()
    slide = slides.slides.add_slide(slides.slide_layouts[6])
    paragraph = slide.shapes.add_textbox(0, 0, 9, 9).text_frame.paragraphs[0]
    for text in ("the ", "list"):
        part = paragraph.add_run()
        part.text, part.hyperlink.address = text, "https://hawser.example/list"
    shape = slide.shapes.add_shape(1, 0, 0, 100, 100)
    shape.text_frame.text = "Order form"
    shape.click_action.hyperlink.address = "https://hawser.example/order"
    return save(slides)


TABLE = "<tr><th>Supplier<th>Page<tr><td>Hawser<td><a href='https://hawser.example/list'>list</a>"
ITEMS = "<ul><li><a href='https://hawser.example/list'>list</a><li>two</ul>"
BOOKMARKS = "<DL><DT><A HREF='https://hawser.example/list' TAGS='rope,hr'>list</A><DD>of ropes</DL>"
RTF = (
    r'{\rtf1 the {\field{\*\fldinst{HYPERLINK "https://hawser.example/list"}}'
    r"{\fldrslt {\ul list}}} now.\par\b Next year.\par}"
)


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("a.html", f"<table>{TABLE}</table>", "| Hawser | list (https://hawser.example/list) |"),
        ("a.html", ITEMS, "- list (https://hawser.example/list)"),
        ("a.html", BOOKMARKS, "list (https://hawser.example/list; rope, hr)\n  of ropes"),
        ("a.xlsx", write_xlsx(), "Supplier: Hawser | Page: list (https://hawser.example/list)"),
        ("a.xlsx", write_xlsx(), "Supplier: Skerry | Page: list (https://skerry.example/list)"),
        ("a.pptx", write_pptx(), "the list (https://hawser.example/list)"),
        ("a.pptx", write_pptx(), "Order form (https://hawser.example/order)"),
        ("a.rtf", RTF, "the list (https://hawser.example/list) now.\nNext year."),
    ],
)
def test_words_that_stand_alone_have_their_address_beside_them(name, data, expected):
    assert expected in read(data, name)


@pytest.mark.parametrize(
    "link",
    [
        "<a href='https://www.hawser.example/'>hawser.example</a>",
        "<a href='javascript:go()'>go</a>",
        "<footer><a href='https://hawser.example/'>about us</a></footer>",
        f"<a href='https://hawser.example/?{'x' * 400}'>a newsletter</a>",
    ],
)
def test_addresses_that_say_nothing_are_left_out(link):
    assert "https" not in read(f"<p>We sell rope, see {link} for it.</p>", "a.html")


def test_a_question_finds_an_address(tmp_path):
    (tmp_path / "dues.html").write_text(f"<h1>Dues</h1>{HTML}")
    (tmp_path / "suppliers.xlsx").write_bytes(write_xlsx())
    with Engine.open(tmp_path / "index", create=True, encoder="landmark-mini") as engine:
        engine.add(tmp_path)
        assert ADDRESS in engine.ask("Where do I pay the dues?").text
        assert "https://skerry.example/list" in engine.ask("What is the page of Skerry?").text


def test_a_line_of_a_link_begins_behind_the_link_before():
    links = "".join(
        f'{word} <a href="https://{word}.example.org/x">page {word}</a>, '
        for word in ("pay", "ask")
    )
    text = read(f"<p>On Sundays {links} or wait.</p><p>Bo</p>".encode(), "a.html")
    assert text.split("\n\n") == [
        "On Sundays pay page pay, ask page ask, or wait.",
        "Bo",
        "On Sundays pay page pay: https://pay.example.org/x\nask page ask: https://ask.example.org/x",
    ]
