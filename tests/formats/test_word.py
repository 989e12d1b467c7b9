"""What Word shows of a document and python-docx leaves out: wrapped text, boxes, notes, numbers."""

import io

import docx
import pytest
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.opc.packuri import PackURI
from docx.opc.part import Part
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls

from lmkrag.formats.load import load_bytes
from lmkrag.formats.word_numbers import format_ordinal


def element(xml: str):
    """An element of Word's; ``xml`` is its inside, the outermost tag first."""
    name, _, rest = xml.partition(">")
    return parse_xml(f"{name} {nsdecls('w')}>{rest}")


def run(text: str) -> str:
    return f"<w:r><w:t>{text}</w:t></w:r>"


def paragraph(text: str) -> str:
    return f"<w:p>{run(text)}</w:p>"


def read(document) -> str:
    return load(document).text


def load(document):
    buffer = io.BytesIO()
    document.save(buffer)
    return load_bytes(buffer.getvalue(), "a.docx", doc_id="a", path="a.docx")


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        (f'<w:ins w:id="1">{run("gladly ")}</w:ins>', "We gladly agree."),
        ('<w:del w:id="1"><w:r><w:delText>never </w:delText></w:r></w:del>', "We agree."),
        (f'<w:moveFrom w:id="1">{run("never ")}</w:moveFrom>', "We agree."),
        (f'<w:moveTo w:id="1">{run("now ")}</w:moveTo>', "We now agree."),
        (f"<w:sdt><w:sdtContent>{run('both ')}</w:sdtContent></w:sdt>", "We both agree."),
        (f"<w:smartTag>{run('all ')}</w:smartTag>", "We all agree."),
        (f'<w:fldSimple w:instr="DATE">{run("hereby ")}</w:fldSimple>', "We hereby agree."),
        ("<w:r><w:instrText>PAGE </w:instrText></w:r>", "We agree."),
    ],
)
def test_what_is_inside_a_paragraph(inside, expected):
    document = docx.Document()
    one = document.add_paragraph("We ")
    one._p.append(element(inside))
    one.add_run("agree.")
    assert read(document) == expected


def test_blocks_inside_others_keep_their_place():
    document = docx.Document()
    document.add_paragraph("Before.")
    body = document.element.body
    for block in (
        f"<w:sdt><w:sdtContent>{paragraph('Inside.')}</w:sdtContent></w:sdt>",
        paragraph("After."),
    ):
        body.insert(len(body) - 1, element(block))
    assert read(document) == "Before.\n\nInside.\n\nAfter."


@pytest.mark.parametrize("fallback", [False, True], ids=["once", "with its fallback"])
def test_a_text_box_follows_its_paragraph(fallback):
    box = f"<w:pict><w:txbxContent>{paragraph('In a box.')}</w:txbxContent></w:pict>"
    if fallback:
        names = 'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
        box = f"<mc:AlternateContent {names}><mc:Choice>{box}</mc:Choice><mc:Fallback>{box}</mc:Fallback>"
        box += "</mc:AlternateContent>"
    document = docx.Document()
    document.add_paragraph("See the box.")._p.append(element(f"<w:r>{box}</w:r>"))
    assert read(document) == "See the box.\n\nIn a box."


def test_tables():
    document = docx.Document()
    table = document.add_table(3, 3)
    for number, cell in enumerate(cell for row in table.rows for cell in row.cells):
        cell.text = f"c{number}"
    table.cell(0, 0).merge(table.cell(0, 1)).text = "wide"
    table.cell(1, 2).merge(table.cell(2, 2)).text = "tall"
    table.cell(1, 1).add_table(1, 1).cell(0, 0).text = "nested"
    row = element(
        f"<w:sdt><w:sdtContent><w:tr><w:tc>{paragraph('wrapped')}</w:tc></w:tr></w:sdtContent></w:sdt>"
    )
    table._tbl.append(row)
    assert (
        read(document)
        == "| wide | wide | c2 |\n| c3 | c4 nested | tall |\n| c6 | c7 | tall |\n| wrapped |"
    )


def test_notes_follow_their_paragraph():
    document = docx.Document()
    for kind, tag, notes in (
        (RELATIONSHIP_TYPE.FOOTNOTES, "footnote", {"5": "The first.", "2": "The second."}),
        (RELATIONSHIP_TYPE.ENDNOTES, "endnote", {"2": "At the end."}),
    ):
        inside = "".join(
            f'<w:{tag} w:id="{key}">{paragraph(text)}</w:{tag}>' for key, text in notes.items()
        )
        xml = f"<w:{tag}s {nsdecls('w')}>{inside}</w:{tag}s>"
        part = Part(
            PackURI(f"/word/{tag}s.xml"), "application/xml", xml.encode(), document.part.package
        )
        document.part.relate_to(part, kind)
    first = document.add_paragraph("Leave is granted")
    first._p.append(element('<w:r><w:footnoteReference w:id="5"/></w:r>'))
    first.add_run(" by the master.")
    cell = document.add_table(1, 1).cell(0, 0)
    cell.text = "Days"
    for tag in ("footnote", "endnote"):
        cell.paragraphs[0]._p.append(element(f'<w:r><w:{tag}Reference w:id="2"/></w:r>'))
    assert read(document).split("\n\n") == [
        "Leave is granted by the master.",
        "[^1]: The first.",
        "Days",
        "[^2]: The second.",
        "[^i]: At the end.",
    ]


def numbered(levels: str, *, start: int = 0):
    """A document whose numbering has a list, 77, of these levels, and another, 78, that begins it anew."""
    document = docx.Document()
    numbering = document.part.numbering_part.element
    numbering.append(element(f'<w:abstractNum w:abstractNumId="77">{levels}</w:abstractNum>'))
    numbering.append(element('<w:num w:numId="77"><w:abstractNumId w:val="77"/></w:num>'))
    again = f'<w:lvlOverride w:ilvl="0"><w:startOverride w:val="{start or 1}"/></w:lvlOverride>'
    numbering.append(element(f'<w:num w:numId="78"><w:abstractNumId w:val="77"/>{again}</w:num>'))
    return document


def level(depth: int, text: str, kind: str = "decimal", more: str = "", start: int = 1) -> str:
    return (
        f'<w:lvl w:ilvl="{depth}"><w:start w:val="{start}"/><w:numFmt w:val="{kind}"/>{more}<w:lvlText w:val="{text}"/>'
        "</w:lvl>"
    )


def add(document, text: str, depth: int, number: int = 77, style: str | None = None) -> None:
    properties = document.add_paragraph(text, style)._p.get_or_add_pPr()
    properties.append(
        element(f'<w:numPr><w:ilvl w:val="{depth}"/><w:numId w:val="{number}"/></w:numPr>')
    )


def test_clauses_have_the_numbers_that_word_shows():
    document = numbered(
        level(0, "Article %1", "upperRoman")
        + level(1, "%1.%2", more="<w:isLgl/>")
        + level(2, "(%3)", "lowerLetter")
    )
    for text, depth in (
        ("Leave", 0),
        ("Days.", 1),
        ("Paid.", 2),
        ("Unpaid.", 2),
        ("Relief.", 1),
        ("Sick.", 2),
        ("", 1),
    ):
        add(document, text, depth)
    add(document, "Pay", 0, style="Heading 1")
    add(document, "Monthly.", 1)
    add(document, "Anew.", 0, number=78)
    assert read(document).split("\n\n") == [
        "Article I Leave",
        "1.1 Days.",
        "(a) Paid.",
        "(b) Unpaid.",
        "1.2 Relief.",
        "(a) Sick.",
        "# Article II Pay",
        "2.1 Monthly.",
        "Article I Anew.",
    ]


def test_numbers_of_a_style_and_where_a_list_starts():
    document = numbered(
        level(0, "%1.", start=3) + level(1, "%1.%2", more='<w:pStyle w:val="Heading2"/>'), start=9
    )
    style = document.styles["Heading 2"].element.get_or_add_pPr()
    style.append(element('<w:numPr><w:numId w:val="77"/></w:numPr>'))
    add(document, "First.", 0)
    document.add_paragraph("Notice", "Heading 2")
    add(document, "Not this one", 0, number=0, style="Heading 2")
    add(document, "Anew.", 0, number=78)
    assert read(document).split("\n\n") == [
        "3. First.",
        "## 3.1 Notice",
        "## Not this one",
        "9. Anew.",
    ]


def test_bullets_and_what_can_not_be_counted():
    document = numbered(level(0, "", "bullet") + level(1, "%1.%2", "chicago"))
    for depth in (0, 1, 5):
        add(document, "x", depth)
    add(document, "y", 0, number=1234)
    assert read(document).split("\n\n") == ["- x", "1.1 x", "x", "y"]


def test_a_circle_of_styles_ends():
    document = docx.Document()
    for name, base in (("A", "B"), ("B", "A")):
        inside = f'<w:name w:val="{name}"/><w:basedOn w:val="{base}"/>'
        xml = f'<w:style w:type="paragraph" w:styleId="{name}">{inside}</w:style>'
        document.styles.element.append(element(xml))
    document.add_paragraph("Text.", "A")
    assert read(document) == "Text."


def test_the_title_of_a_document_without_properties():
    document = docx.Document()
    document.add_heading("Handbook", 0)
    assert load(document).title == "Handbook"
    document.core_properties.title = "Official handbook"
    assert load(document).title == "Official handbook"


@pytest.mark.parametrize(
    ("kind", "count", "expected"),
    [
        ("lowerRoman", 1994, "mcmxciv"),
        ("upperLetter", 27, "AA"),
        ("decimalZero", 7, "07"),
        ("none", 3, ""),
        ("lowerRoman", 0, "0"),
        ("lowerLetter", 10**9, "l" * 10),
        ("ordinal", 3, "3"),
    ],
)
def test_counting(kind, count, expected):
    assert format_ordinal(count, kind) == expected
