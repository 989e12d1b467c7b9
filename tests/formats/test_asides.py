"""What stands beside the text: headers, footers, comments, ruby; chapters of odd EPUBs, and what notebooks show."""

import io
import json
import zipfile

import docx
import pytest
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls
from odf import dc, draw, office, style, table, text
from odf.opendocument import OpenDocumentSpreadsheet, OpenDocumentText

from lmkrag.formats.load import load_bytes
from lmkrag.sentences.split import split_sentences


def read(data: bytes, name: str) -> str:
    return load_bytes(data, name, doc_id=name, path=name).text


def test_headers_footers_and_comments_of_word():
    document = docx.Document()
    paragraph = document.add_paragraph("Rope is delivered each month.")
    document.add_comment(paragraph.runs, text="Legal wants weeks", author="Kim")
    for number in range(2):
        section = document.sections[-1]
        section.header.is_linked_to_previous = section.footer.is_linked_to_previous = False
        section.header.paragraphs[0].text = "Contract HX-4471"
        section.footer.paragraphs[0].text = f"Page {number + 1} of 2"
        document.add_section()
    document.sections[-1].footer.is_linked_to_previous = False
    document.sections[-1].footer.paragraphs[0].text = "Valid until May 2027"
    packed = io.BytesIO()
    document.save(packed)
    assert read(packed.getvalue(), "a.docx").split("\n\n") == [
        "Contract HX-4471",
        "Valid until May 2027",
        "Rope is delivered each month.",
        "[Kim: Legal wants weeks]",
    ]


def test_headers_footers_and_comments_of_opendocument():
    document = OpenDocumentText()
    paragraph = text.P(text="Rope is delivered")
    comment = office.Annotation()
    comment.addElement(dc.Creator(text="Kim"))
    comment.addElement(text.P(text="Legal wants weeks"))
    paragraph.addElement(comment)
    paragraph.addText(" each month.")
    document.text.addElement(paragraph)
    layout = style.PageLayout(name="L")
    document.automaticstyles.addElement(layout)
    for name in ("Standard", "Right"):
        master = style.MasterPage(name=name, pagelayoutname=layout)
        for margin, content in (
            (style.Header(), "Contract HX-4471"),
            (style.Footer(), "Seite 1 von 2"),
        ):
            margin.addElement(text.P(text=content))
            master.addElement(margin)
        document.masterstyles.addElement(master)
    packed = io.BytesIO()
    document.write(packed)
    assert read(packed.getvalue(), "a.odt").split("\n\n") == [
        "Contract HX-4471",
        "Rope is delivered each month.",
        "[Kim: Legal wants weeks]",
    ]


def test_comments_and_boxes_of_an_opendocument_workbook_follow_its_rows():
    document = OpenDocumentSpreadsheet()
    sheet, row, cell, shapes = (
        table.Table(name="Stock"),
        table.TableRow(),
        table.TableCell(),
        table.Shapes(),
    )
    comment, frame, box = office.Annotation(), draw.Frame(), draw.TextBox()
    comment.addElement(text.P(text="Counted twice"))
    box.addElement(text.P(text="Closed in May"))
    frame.addElement(box)
    shapes.addElement(frame)
    cell.addElement(comment)
    cell.addElement(text.P(text="Rope"))
    row.addElement(cell)
    sheet.addElement(shapes)
    sheet.addElement(row)
    document.spreadsheet.addElement(sheet)
    packed = io.BytesIO()
    document.write(packed)
    assert (
        read(packed.getvalue(), "a.ods") == "# Stock\n\nRope\nClosed in May\nRope: [Counted twice]"
    )


def test_headers_footers_and_comments_of_rtf():
    data = (
        rb"{\rtf1\ansi\headery720 {\header\pard {\b Contract} HX-4471 \{draft\}\par}{\footer\pard Page \chpgn\par}"
        rb"\pard Rope is delivered{\*\annotation{\*\atndate 1}\pard\plain Legal wants weeks} each month.\par"
        rb"\sect{\header\pard {\b Contract} HX-4471 \{draft\}\par}\pard It is dry.\par}"
    )
    assert [line for line in read(data, "a.rtf").split("\n") if line] == [
        "Contract HX-4471 {draft}",
        "Rope is delivered [Legal wants weeks] each month.",
        "It is dry.",
    ]


def test_ruby_is_read_as_its_base_text():
    html = "<p><ruby>港<rp>(</rp><rt>みなと</rt><rp>)</rp></ruby>は広い。</p>"
    assert read(html.encode(), "a.html") == "港は広い。"
    document = docx.Document()
    above, below = (f"<w:r><w:t>{part}</w:t></w:r>" for part in ("みなと", "港"))
    ruby = (
        "<w:r {0}><w:ruby><w:rt>"
        + above
        + "</w:rt><w:rubyBase>"
        + below
        + "</w:rubyBase></w:ruby></w:r>"
    )
    paragraph = document.add_paragraph()
    paragraph._p.append(parse_xml(ruby.format(nsdecls("w"))))
    paragraph.add_run("は広い。")
    packed = io.BytesIO()
    document.save(packed)
    assert read(packed.getvalue(), "a.docx") == "港は広い。"
    document = OpenDocumentText()
    paragraph = text.P()
    ruby = text.Ruby()
    ruby.addElement(text.RubyBase(text="港"))
    ruby.addElement(text.RubyText(text="みなと"))
    paragraph.addElement(ruby)
    paragraph.addText("は広い。")
    document.text.addElement(paragraph)
    packed = io.BytesIO()
    document.write(packed)
    assert read(packed.getvalue(), "a.odt") == "港は広い。"


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(
            ("META-INF/Container.XML", "OPS/Book.opf", "OPS/Text/One.xhtml"), id="case of names"
        ),
        pytest.param((None, "OPS/book.opf", "OPS/text/one.xhtml"), id="no container"),
    ],
)
@pytest.mark.parametrize(
    "spine", ['<spine><itemref idref="b"/><itemref idref="a"/></spine>', "<spine/>", ""]
)
def test_chapters_of_odd_epubs(files, spine):
    container, package, chapter = files
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        if container:
            archive.writestr(
                container,
                '<container><rootfiles><rootfile full-path="OPS/book.opf"/></rootfiles></container>',
            )
        kind = 'media-type="application/xhtml+xml"'
        items = f'<item id="a" href="text/one.xhtml" {kind}/><item id="b" href="text/two.xhtml" {kind}/>'
        items += '<item id="c" href="style.css" media-type="text/css"/>'
        archive.writestr(package, f"<package><manifest>{items}</manifest>{spine}</package>")
        archive.writestr(chapter, "<html><body><p>First.</p></body></html>")
        archive.writestr(
            chapter.replace("One", "Two").replace("one", "two"),
            "<html><body><p>Second.</p></body></html>",
        )
    expected = ["Second.", "First."] if "itemref" in spine else ["First.", "Second."]
    assert read(packed.getvalue(), "a.epub").split("\n\n") == expected


def test_markdown_html_and_errors_that_a_notebook_shows():
    shown = [
        {
            "text/markdown": "**Accuracy** is 91 %",
            "text/plain": "<IPython.core.display.Markdown object>",
        },
        {
            "text/html": "<table><tr><th>fold<th>loss<tr><td>1<td>0.4</table>",
            "text/plain": "   fold",
        },
        {"text/html": "<script>draw()</script>", "text/plain": "<Figure size 1x1>"},
        {"text/latex": "$E=mc^2$", "text/plain": "<IPython.core.display.Math object>"},
    ]
    outputs = [{"output_type": "display_data", "metadata": {}, "data": data} for data in shown]
    outputs.append(
        {
            "output_type": "stream",
            "name": "stdout",
            "text": " 50%|x| 1\r100%|x| 2\n\x1b[31mLow\x1b[0m oil\n",
        }
    )
    outputs.append(
        {
            "output_type": "error",
            "ename": "ValueError",
            "evalue": "singular",
            "traceback": ["\x1b[0m..."],
        }
    )
    cell = {
        "cell_type": "code",
        "metadata": {},
        "source": "show()",
        "outputs": outputs,
        "execution_count": 1,
    }
    notebook = json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 4})
    assert read(notebook.encode(), "a.ipynb").split("\n\n") == [
        "```\nshow()\n```",
        "**Accuracy** is 91 %",
        "| fold | loss |\n| 1 | 0.4 |",
        "```\n$E=mc^2$\n100%|x| 2\nLow oil\nValueError: singular\n```",
    ]


@pytest.mark.parametrize(
    "leader", [" - - - - - - ", " . . . . . . ", "........", " ______ ", "………"]
)
def test_leaders_keep_label_and_value_together(leader):
    lines = [
        f"Tar{leader}4 barrels\n",
        f"Rope of hemp{leader}12 coils\n",
        f"Nails{leader}Sold out\n",
    ]
    text = "".join(lines)
    assert [text[one.start : one.end] for one in split_sentences(text)] == lines
