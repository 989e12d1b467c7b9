"""Exponents and numbers of notes are no digits of the word before them, and soft hyphens divide no word."""

import io

import docx
import pptx
import pytest
from docx.oxml.ns import qn
from odf import style, text
from odf.opendocument import OpenDocumentText

from lmkrag.formats.load import load_bytes

RUNS = (
    *(
        ("10", False),
        ("6", True),
        (" litres at 10", False),
        ("-4", True),
        (" bar by the 4", False),
        ("th", True),
    ),
    *(
        (" of May 1998", False),
        ("3", True),
        ("; note ", False),
        ("2", True),
        (" on the light\u00adhouse", False),
    ),
)
EXPECTED = "10^6 litres at 10^-4 bar by the 4th of May 1998^3; note 2 on the lighthouse"


def in_word(*, lifted: bool = False) -> bytes:
    document = docx.Document()
    paragraph = document.add_paragraph()
    for content, raised in RUNS:
        run = paragraph.add_run(content)
        run.font.superscript = raised and not lifted
        if lifted:
            position = run._r.get_or_add_rPr().makeelement(
                qn("w:position"), {qn("w:val"): "6" if raised else "-2"}
            )
            run._r.rPr.append(position)
    packed = io.BytesIO()
    document.save(packed)
    return packed.getvalue()


def in_slides() -> bytes:
    presentation = pptx.Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[6])
    frame = slide.shapes.add_textbox(0, 0, 100, 100).text_frame
    for content, raised in RUNS:
        run = frame.paragraphs[0].add_run()
        run.text = content
        run.font._rPr.set("baseline", "30000" if raised else "0")
    packed = io.BytesIO()
    presentation.save(packed)
    return packed.getvalue()


def in_opendocument(position: str) -> bytes:
    document = OpenDocumentText()
    raised_style = style.Style(name="T1", family="text")
    raised_style.addElement(style.TextProperties(textposition=position))
    document.automaticstyles.addElement(raised_style)
    paragraph = text.P()
    for content, raised in RUNS:
        paragraph.addElement(
            text.Span(stylename="T1", text=content) if raised else text.Span(text=content)
        )
    document.text.addElement(paragraph)
    packed = io.BytesIO()
    document.write(packed)
    return packed.getvalue()


def in_html(raised: str) -> bytes:
    return "".join(raised.format(content) if up else content for content, up in RUNS).encode()


def in_rtf(raised: str) -> bytes:
    written = "".join(raised.format(content) if up else content for content, up in RUNS)
    return ("{\\rtf1\\ansi " + written.replace("\u00ad", "\\-") + "}").encode()


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.docx", in_word()),
        ("a.docx", in_word(lifted=True)),
        ("a.pptx", in_slides()),
        ("a.odt", in_opendocument("super 58%")),
        ("a.odt", in_opendocument("33% 58%")),
        ("a.html", in_html("<sup>{}</sup>")),
        ("a.html", in_html("<sup><a href='#n'>{}</a></sup>")),
        ("a.html", in_html("<span style='font-size:0.6em; vertical-align: super'>{}</span>")),
        ("a.rtf", in_rtf("{{\\super {}}}")),
        ("a.rtf", in_rtf("{{\\super\\insrsid42 {}}}")),
        ("a.rtf", in_rtf("\\super {}\\nosupersub ")),
        ("a.rtf", in_rtf("{{\\fs16\\up8 {}}}")),
    ],
)
def test_exponents_and_numbers_of_notes(name, data):
    read = load_bytes(data, name, doc_id=name, path=name).text
    assert read == (EXPECTED if not name.endswith("rtf") else EXPECTED.replace("note 2", "note ^2"))


def test_subscripts_stay_in_the_word():
    assert (
        load_bytes(b"CO<sub>2</sub> and H<sub>2</sub>O", "a.html", doc_id="a", path="a").text
        == "CO2 and H2O"
    )
