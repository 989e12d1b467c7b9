"""Files in forms that other programs write and ours do not: odd headers, marks, symbols, boxes and charsets."""

import datetime
import io
import json
import re
import zipfile

import docx
import fpdf
import openpyxl
import pptx
import pytest
from docx.oxml import parse_xml
from odf.opendocument import OpenDocumentSpreadsheet, OpenDocumentText
from odf.style import Style, TextProperties
from odf.table import Table, TableCell, TableRow
from odf.text import H, List, ListItem, P, Span

from lmkrag.errors import DocumentError
from lmkrag.formats.load import load_bytes
from lmkrag.formats.text import decode
from lmkrag.sentences.split import split_sentences
from tests.formats.files import read, save

WORD = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def word(*blocks: str) -> str:
    """The text of a Word file with these elements as its body."""
    document = docx.Document()
    body = document.element.body
    for block in blocks:
        body.insert(len(body) - 1, parse_xml(block.replace(">", f" {WORD}>", 1)))
    return read(save(document), "a.docx")


def run(text: str, properties: str = "") -> str:
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def row(*cells: tuple[str, str], properties: str = "") -> str:
    columns = (
        f"<w:tc><w:tcPr>{extra}</w:tcPr><w:p>{run(text)}</w:p></w:tc>" for text, extra in cells
    )
    return f"<w:tr><w:trPr>{properties}</w:trPr>{''.join(columns)}</w:tr>"


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (
            "Item,Weight\n,kg\nRope,4\nTar,5\n",
            "Item: Rope | Weight kg: 4\nItem: Tar | Weight kg: 5",
        ),
        (
            "Time,Depth\ns,m\n0,1.5\n1,2.0\n",
            "Time s: 0 | Depth m: 1.5\nTime s: 1 | Depth m: 2.0",
        ),
        (
            "Item,Load\n-,[t]\nNorth,4\nSouth,5\n",
            "Item: North | Load [t]: 4\nItem: South | Load [t]: 5",
        ),
        (
            "Day,101,102\nMon,Ida,Bo\nTue,free,Ida\n",
            "Day: Mon | 101: Ida | 102: Bo\nDay: Tue | 101: free | 102: Ida",
        ),
        (
            "Port,2022,2023\nKiel,3,4\nPort (continued),2022,2023\nBrest,5,6\nNote: no winter.\n",
            "Port: Kiel | 2022: 3 | 2023: 4\nPort: Brest | 2022: 5 | 2023: 6\nNote: no winter.",
        ),
        ("id,fee\n\n1,40\n\n2,50\n", "id: 1 | fee: 40\nid: 2 | fee: 50"),
        ("id,fee\n\n1,40\n2,50\n", "id: 1 | fee: 40\nid: 2 | fee: 50"),
        (
            "Who pays?,The owner.\nWhen?,In May.\nWhere?,At the pier.\n",
            "Who pays? | The owner.\nWhen? | In May.\nWhere? | At the pier.",
        ),
        (
            "Owner,Orla\nLength,12 m\nBuilt,1988\nHull,red\n",
            "Owner | Orla\nLength | 12 m\nBuilt | 1988\nHull | red",
        ),
        ("1,2,3\n4,5,6\n", "1 | 2 | 3\n4 | 5 | 6"),
        ('id,code\n1,="00123"\n2,="00456"\n', "id: 1 | code: 00123\nid: 2 | code: 00456"),
    ],
)
def test_headers_and_rows_of_tables(rows, expected):
    assert read(rows, "a.csv") == expected


def test_values_of_a_workbook_as_they_are_shown():
    book = openpyxl.Workbook()
    cells = [
        (datetime.date(2024, 3, 1), "mmm-yy", "2024-03"),
        (datetime.date(2024, 3, 1), "yyyy", "2024"),
        (datetime.datetime(2024, 3, 1, 7, 30, 5), "yyyy-mm-dd hh:mm:ss", "2024-03-01 07:30:05"),
        (datetime.time(7, 30), "hh:mm", "07:30"),
        ("Caf_x00E9_", "General", "Café"),
    ]
    book.active.append(["Kind", "Value"])
    for number, (value, number_format, _) in enumerate(cells, 2):
        book.active.append([f"k{number}", value])
        book.active.cell(number, 2).number_format = number_format
    expected = [
        f"Kind: k{number} | Value: {shown}" for number, (_, _, shown) in enumerate(cells, 2)
    ]
    assert read(save(book), "a.xlsx").splitlines()[2:] == expected


def test_tables_that_are_called_workbooks():
    assert (
        read("Item\t2023\nRope\t12\nTar\t7\n", "a.xls")
        == "Item: Rope | 2023: 12\nItem: Tar | 2023: 7"
    )
    names = 'xmlns="urn:schemas-microsoft-com:office:spreadsheet" xmlns:ss="urn:schemas-microsoft-com:office:spreadsheet"'
    cells = [
        '<Cell ss:MergeDown="1"><Data>North</Data></Cell><Cell><Data>Summer</Data></Cell><Cell><Data>40</Data></Cell>',
        '<Cell ss:Index="2"><Data>Winter</Data></Cell><Cell><Data>25</Data></Cell>',
        '<Cell><Data>South</Data></Cell><Cell ss:Index="3"><Data>20</Data></Cell>',
    ]
    rows = "".join(f"<Row>{row}</Row>" for row in cells)
    page = f"<?xml version='1.0'?><Workbook {names}><Worksheet ss:Name='Fees'><Table>{rows}</Table></Worksheet></Workbook>"
    expected = ["# Fees", "", "North | Summer | 40", "North | Winter | 25", "South | 20"]
    assert read(page, "a.xls").splitlines() == expected


def test_runs_of_word_that_are_hidden_or_struck_through_or_symbols():
    symbols = (
        '<w:r><w:sym w:font="Symbol" w:char="F06D"/></w:r>',
        '<w:r><w:sym w:font="Wingdings" w:char="F0FE"/></w:r>',
    )
    struck = run("30 ", "<w:strike/>"), run("x ", "<w:vanish/>"), run("40", '<w:strike w:val="0"/>')
    assert word(f"<w:p>{run('Fee ')}{''.join(struck)}</w:p>") == "Fee 40"
    assert word(f"<w:p>{symbols[1]}{run(' 5 ')}{symbols[0]}{run('m')}</w:p>") == "☑ 5 μm"


def test_rows_of_word_that_begin_further_right_or_have_old_merged_cells():
    rows = [
        row(("Berth", ""), ("Season", ""), ("Fee", "")),
        row(("North", '<w:vMerge w:val="restart"/>'), ("Summer", ""), ("40", "")),
        row(("Winter", ""), ("25", ""), properties='<w:gridBefore w:val="1"/>'),
        row(("All", '<w:hMerge w:val="restart"/>'), ("", "<w:hMerge/>"), ("65", "")),
        row(("South", '<w:gridSpan w:val="2.0"/>'), ("9", "")),
        row(("Gone", ""), ("x", ""), ("1", ""), properties='<w:del w:id="3" w:author="b"/>'),
    ]
    assert word(f"<w:tbl>{''.join(rows)}</w:tbl>").splitlines() == [
        *("| Berth | Season | Fee |", "| North | Summer | 40 |", "|  | Winter | 25 |"),
        *("| All | All | 65 |", "| South | South | 9 |"),
    ]
    assert word(f"<w:tbl>{row(('a | b', ''), ('1', ''))}</w:tbl>") == r"| a \| b | 1 |"


def test_headings_of_word_by_level_and_by_the_style_that_theirs_is_made_from():
    document = docx.Document()
    style = document.styles.add_style("Kapitel", 1)
    style.base_style = document.styles["Heading 2"]
    document.add_paragraph("Dues", style="Kapitel").add_run().add_break()
    document.paragraphs[0].add_run("and fees")
    level = f'<w:outlineLvl {WORD} w:val="2"/>'
    document.add_paragraph("Berths").paragraph_format.element.get_or_add_pPr().append(
        parse_xml(level)
    )
    assert read(save(document), "a.docx") == "## Dues and fees\n\n### Berths"


def test_struck_text_of_slides_is_left_out():
    presentation = pptx.Presentation()
    box = presentation.slides.add_slide(presentation.slide_layouts[6]).shapes.add_textbox(
        0, 0, 100, 100
    )
    for text, strike in (("Fee ", None), ("30 ", "sngStrike"), ("40", "noStrike")):
        added = box.text_frame.paragraphs[0].add_run()
        added.text = text
        if strike:
            added.font._element.set("strike", strike)
    assert read(save(presentation), "a.pptx") == "Fee 40"


def test_lists_and_spans_of_opendocument():
    document = OpenDocumentText()
    for name, properties in (
        ("sup", {"textposition": "super 58%"}),
        ("del", {"textlinethroughstyle": "solid"}),
    ):
        style = Style(name=name, family="text")
        style.addElement(TextProperties(**properties))
        document.styles.addElement(style)
    paragraph, raised = P(text="10"), Span(stylename="sup")
    raised.addElement(Span(text="-4"))
    paragraph.addElement(raised)
    paragraph.addText(" m, ")
    paragraph.addElement(Span(stylename="del", text="old "))
    paragraph.addText("new")
    document.text.addElement(paragraph)
    items = List()
    for part in (H(outlinelevel=2, text="Dues"), P(text="Ropes")):
        item = ListItem()
        item.addElement(part)
        items.addElement(item)
    document.text.addElement(items)
    assert read(save(document), "a.odt") == "10^-4 m, new\n\n## Dues\n- Ropes"


def test_values_of_an_opendocument_workbook():
    document, table = OpenDocumentSpreadsheet(), Table(name="Fees")
    cells = [
        ("Day", {}),
        ("Jan 24", {"valuetype": "date", "datevalue": "2024-01-01"}),
        ("5. Jan 24", {"valuetype": "date", "datevalue": "2024-01-05"}),
        ("###", {"valuetype": "float", "value": "1234.5"}),
        ("", {"valuetype": "string", "stringvalue": "shown", "formula": "of:=[.A1]"}),
    ]
    line = TableRow()
    for text, attributes in cells:
        cell = TableCell(**attributes)
        cell.addElement(P(text=text))
        line.addElement(cell)
    table.addElement(line)
    document.spreadsheet.addElement(table)
    assert (
        read(save(document), "a.ods").splitlines()[-1]
        == "Day | 2024-01 | 2024-01-05 | 1234.5 | shown"
    )


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (rb"old {\strike 30} 40 {\b\v hidden}{\deleted gone}{\strike0 kept}", "old  40 kept"),
        (rb"{\pard\s1\outlinelevel0\b Fees\par}{\pard Text.\par}", "# Fees\nText."),
        (
            rb"{\shp{\*\shpinst{\sp{\sn a}{\sv 1}}{\shptxt In a box\par}}{\shprslt twice}}Text",
            "In a box\n\n Text",
        ),
        (rb"5\u-10187?\u-8704? \u-3987 ?m", "5𝘀 μm"),
        ("Причал".encode("cp1251"), "Причал"),
        (
            rb"\trowd\cellx1\cellx2\intbl Boat\cell Size\cell\row\trowd\cellx1\cellx2\intbl Ida\cell"
            rb"\itap2 12\nestcell 4\nestcell{\*\nesttableprops\trowd\cellx5\nestrow}\itap1\cell\row\pard\par",
            "| Boat | Size |\n| Ida | 12 4 |",
        ),
    ],
)
def test_what_rtf_hides_marks_and_nests(source, expected):
    text = read(rb"{\rtf1\ansi\ansicpg1251\deff0{\fonttbl{\f0 Arial;}}" + source + b"}", "a.rtf")
    assert [line.strip() for line in text.splitlines()] == [
        line.strip() for line in expected.splitlines()
    ]


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<h1>Fees<br>and dues</h1>", "# Fees and dues"),
        ("<p>Café<a epub:type='noteref'>1</a> <a role='doc-noteref'>2</a>", "Café^1 2"),
        ("<form><button>Send</button><textarea>Hello</textarea></form>", "Send\n\nHello"),
    ],
)
def test_parts_of_pages(page, expected):
    assert read(f"<html><body>{page}</body></html>", "a.html") == expected


def test_words_of_a_drawing_that_stand_apart():
    words = (
        "<text>Pier <tspan x='1'>North</tspan><tspan x='9'>South</tspan> H<tspan>2</tspan>O</text>"
    )
    assert (
        read(f"<svg xmlns='http://www.w3.org/2000/svg'>{words}</svg>", "a.svg")
        == "Pier North South H2O"
    )


def epub(files: dict[str, str], spine: str) -> bytes:
    packed = io.BytesIO()
    items = "<item id='a' href='Text\\A.xhtml' media-type='application/xhtml+xml'/>"
    items += "<item id='b' href='b.xhtml#x' media-type='application/xhtml+xml'/>"
    package = f"<package><manifest>{items}</manifest><spine>{spine}</spine></package>"
    with zipfile.ZipFile(packed, "w") as archive:
        for name, text in {"book.opf": package, **files}.items():
            archive.writestr(name, text)
    return packed.getvalue()


def test_odd_addresses_in_an_epub_and_a_protected_one():
    spine = "<itemref idref='a'/><itemref idref='b' linear='no'/>"
    files = {
        "Text/A.xhtml": "<html><body>One</body></html>",
        "b.xhtml": "<html><body>Two</body></html>",
    }
    assert read(epub(files, spine), "a.epub") == "One\n\nTwo"
    with pytest.raises(DocumentError, match="encrypted EPUB file"):
        read(epub({"META-INF/encryption.xml": "<encryption/>"}, spine), "a.epub")


def test_captions_that_roll_say_each_line_once():
    cues = [
        "00:00:00.160 --> 00:00:02.389 align:start\n \nhello<00:00:00.400><c> and</c><00:00:00.560><c> welcome</c>",
        "00:00:02.389 --> 00:00:02.399 align:start\nhello and welcome\n ",
        "00:00:02.399 --> 00:00:04.000 align:start\nhello and welcome\nto<00:00:02.600><c> the</c> pier &amp; quay",
    ]
    text = "WEBVTT\nKind: captions\n\n" + "\n\n".join(cues)
    assert read(text, "a.vtt") == "[00:00:00] hello and welcome\n[00:00:02] to the pier & quay"
    assert (
        read("00:01.000 --> 00:02.000\n42\n\n00:03.000 --> 00:04.000\nNo.\n", "a.srt")
        == "[00:00:01] 42\n[00:00:03] No."
    )


def test_a_notebook_of_version_3_and_cells_that_are_none():
    outputs = [
        {"output_type": "pyout", "text": ["4", "2"]},
        {"output_type": "pyerr", "ename": "E", "evalue": "\x1b[31mv"},
    ]
    cells = [
        {"cell_type": "heading", "level": 2, "source": "Fees"},
        {"cell_type": "code", "input": "f()", "outputs": outputs},
    ]
    old = {"nbformat": 3, "worksheets": [{"cells": cells}]}
    assert read(json.dumps(old), "a.ipynb") == "## Fees\n\n```\nf()\n```\n\n```\n4\n2\nE: v\n```"
    odd = {
        "cells": [
            None,
            {"cell_type": "markdown", "source": None},
            {"cell_type": "markdown", "source": ["The ", "fee"]},
        ]
    }
    assert read(json.dumps(odd), "a.ipynb") == "The \nfee"


def test_a_list_of_records_in_a_list_has_a_line_a_record():
    records = [{"page": 1}, [{"port": "Kiel", "fee": 40}, {"port": "Brest", "fee": 35}]]
    assert (
        read(json.dumps(records), "a.json")
        == "page: 1\nport: Kiel | fee: 40\nport: Brest | fee: 35"
    )


def test_records_in_a_record_begin_with_what_names_it():
    items = [
        {"part": "hinge", "count": 2},
        {"part": "seal", "count": 5, "sizes": [{"name": "mm", "value": 4}]},
    ]
    orders = [
        {"id": 7, "ship": {"name": "Tern"}, "items": items, "total": 90},
        {"id": 8, "items": items[:1]},
    ]
    assert read(json.dumps(orders), "a.json").splitlines() == [
        "id: 7 | ship.name: Tern | total: 90",
        "id: 7 | ship.name: Tern | items.part: hinge | items.count: 2",
        "id: 7 | ship.name: Tern | items.part: seal | items.count: 5 | items.sizes.name: mm | items.sizes.value: 4",
        "id: 8 | items.part: hinge | items.count: 2",
    ]


def test_pairs_of_names_and_values_stay_in_their_record():
    tags = [{"Name": "role", "Value": "web"}, {"Name": "owner", "Value": "Maud"}]
    host = {"id": "h1", "tags": tags, "ports": [80]}
    shown = "id: h1 | tags.Name: role | tags.Value: web | tags.Name: owner | tags.Value: Maud | ports: 80"
    assert read(json.dumps([host]), "a.json") == shown


def test_events_that_come_again_or_not_at_all():
    event = (
        "SUMMARY:Crane",
        "DTSTART:20250512T090000",
        "RRULE:FREQ=WEEKLY",
        "STATUS:CANCELLED",
        "CLASS:PUBLIC",
    )
    text = "\n".join(["BEGIN:VCALENDAR", "BEGIN:VEVENT", *event, "END:VEVENT", "END:VCALENDAR"])
    expected = [
        "## Crane, 2025-05-12",
        "",
        "Start: 2025-05-12 09:00",
        "Repeats: FREQ=WEEKLY",
        "Status: cancelled",
    ]
    assert read(text, "a.ics").splitlines() == expected


TEXTS = {
    "Poplatek za loď činí čtyřicet korun. Přístav je otevřen každý den kromě neděle.": "cp1250 iso8859-2 cp852",
    "A kikötői díj negyven euró. Az őrség éjjel is szolgálatot teljesít, kérjük, jelezze.": "cp1250 iso8859-2",
    "Prieplauka uždaryta remontui iki gegužės dvyliktos. Mokestis už kiekvieną laivą.": "cp1257",
    "Причал закрыт на ремонт до двенадцатого мая. Сбор составляет сорок евро.": "iso8859-5 mac_cyrillic",
    "الرصيف مغلق للإصلاح حتى الثاني عشر من مايو. الرسوم أربعون يورو لكل قارب.": "iso8859-6",
    "Die Prüfung der Krane findet statt. Für größere Boote gelten höhere Gebühren.": "mac_roman cp850",
    "부두는 오월 십이일까지 수리를 위해 폐쇄됩니다.": "iso2022_kr",
    "Füße": "cp1252",
    "20 °C": "cp1252",
    "“Fee” 5 €": "cp1252",
}


@pytest.mark.parametrize(
    ("text", "encoding"), [(text, name) for text, names in TEXTS.items() for name in names.split()]
)
def test_texts_of_old_programs_tell_their_encoding(text, encoding):
    assert read(text.encode(encoding), "a.txt") == text


NAMES = {
    "Name;Straße;Ort;Betrag\nJörg Müller;Hauptstraße 5;München;1.200,50 €\nZoë Gruß;Gäßchen 1;Köln;7,00 €\n": (
        "cp1252"
    ),
    "Prénom;Métier;Ville;Montant\nZoé;Ingénieur;Orléans;12,50 €\nFrançois;Pêcheur;Besançon;7,00 €\nThérèse;Élève;Nîmes;3,00 €\n": (
        "cp1252 mac_roman"
    ),
    "Città;Quantità;Novità\nForlì;Proprietà;perché\nCefalù;Validità;così\n": "cp1252",
    "Jörg Müller;Köln\nKäthe Weiß;Düsseldorf\nBjörn Grün;Würzburg\n": "cp437 cp850",
    "Имя;Город\nАнна Ёлкина;Тверь\nИгорь Жуков;Уфа\n": "cp1251 koi8-r cp866",
}


@pytest.mark.parametrize(
    ("text", "encoding"), [(text, name) for text, names in NAMES.items() for name in names.split()]
)
def test_a_list_of_names_tells_its_encoding(text, encoding):
    assert decode(text.encode(encoding)) == text


@pytest.mark.parametrize(
    "title", ["untitled", "(anonymous)", "Microsoft Word - fees.docx", "PowerPoint Presentation"]
)
def test_a_pdf_that_begins_with_a_power_and_has_a_title_of_its_program(title):
    page = fpdf.FPDF()
    page.set_title(title)
    page.add_page()
    page.set_font("Helvetica", size=14)
    for text, place in (("10", "LINE"), ("6", "SUP"), (" litres of the e-", "LINE")):
        page.char_vpos = place
        page.write(10, text)
    page.ln()
    page.write(10, "mail are there.")
    found = load_bytes(bytes(page.output()), "fees.pdf", doc_id="fees.pdf", path="fees.pdf")
    assert (found.title, found.text.split("\n")[0]) == ("fees", "10^6 litres of the e-mail")


def test_a_table_without_names_of_columns_says_so():
    rows = "<tr><td>Status:<td>Base<tr><td>Module:<td>authz_user_module"
    text = read(f"<table>{rows}</table>", "a.html")
    assert text == "|  |  |\n| Status: | Base |\n| Module: | authz_user_module |"
    assert [sentence.context for sentence in split_sentences(text)] == ["", "", ""]
    named = split_sentences("| Name | Value |\n| --- | --- |\n| Status | Base |\n")
    assert [sentence.context for sentence in named] == ["", "", "Name Value"]


def test_office_files_without_properties_have_no_date_nor_author(tmp_path):
    document = docx.Document()
    document.add_paragraph("The gate is green.")
    presentation = pptx.Presentation()
    presentation.slides.add_slide(presentation.slide_layouts[6]).shapes.add_textbox(
        0, 0, 9, 9
    ).text_frame.text = "Gate"
    for name, made in (("a.docx", document), ("a.pptx", presentation)):
        made.core_properties.author = "python-docx"
        made.save(tmp_path / name)
        loaded = load_bytes((tmp_path / name).read_bytes(), name, doc_id=name, path=name)
        assert (loaded.title, dict(loaded.meta)) == ("a" if name == "a.docx" else loaded.title, {})
        rewritten = io.BytesIO()
        with zipfile.ZipFile(tmp_path / name) as archive, zipfile.ZipFile(rewritten, "w") as copy:
            for part in archive.namelist():
                content = archive.read(part)
                if part == "_rels/.rels":
                    content = re.sub(rb"<Relationship [^>]*core-properties[^>]*/>", b"", content)
                if part != "docProps/core.xml":
                    copy.writestr(part, content)
        loaded = load_bytes(rewritten.getvalue(), name, doc_id=name, path=name)
        assert (loaded.title, dict(loaded.meta)) == ("a", {})


@pytest.mark.parametrize("name", ["a.md", "a.Rmd", "a.ipynb"])
def test_a_comment_in_code_is_no_title(name):
    text = "```bash\n# delete everything\nrm -r x\n```\n"
    cells = [{"cell_type": "code", "source": "# delete everything\nrm -r x", "outputs": []}]
    data = (
        json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}) if name == "a.ipynb" else text
    )
    assert load_bytes(data.encode(), name, doc_id=name, path=name).title == "a"
    if name != "a.ipynb":
        assert (
            load_bytes(f"{text}# Cleaning\n".encode(), name, doc_id=name, path=name).title
            == "Cleaning"
        )


def test_a_line_above_a_table_is_no_part_of_its_rows_where_a_blank_row_divides_them():
    text = "Exported by: Ann\nDate: 2026-03-01\n\nName;Fee\nKestrel;40\nTern;55\n\nTotal;95\n"
    assert read(text, "a.csv").splitlines()[2:] == [
        "Name: Kestrel | Fee: 40",
        "Name: Tern | Fee: 55",
        "Name: Total | Fee: 95",
    ]


def test_a_sentence_that_runs_over_cues_is_one_line():
    spoken = [
        "<v Ann>The rent for the boathouse will</v>",
        "<v Ann>go up to",
        "<v Ann>700 pounds in October.</v>",
        "<v Ann>And the fee for the</v>",
        "<v Ben>Who says so?</v>",
    ]
    cues = [f"00:0{i}.000 --> 00:0{i}.900\n{words}" for i, words in enumerate(spoken, 1)]
    assert read("WEBVTT\n\n" + "\n\n".join(cues), "a.vtt").splitlines() == [
        "[00:00:01] Ann: The rent for the boathouse will go up to 700 pounds in October.",
        "[00:00:04] Ann: And the fee for the",
        "[00:00:05] Ben: Who says so?",
    ]


def test_captions_without_punctuation_keep_their_cues():
    cues = [f"00:0{i}.000 --> 00:0{i}.900\nso this is cue {i}" for i in (1, 2)]
    expected = "[00:00:01] so this is cue 1\n[00:00:02] so this is cue 2"
    assert read("WEBVTT\n\n" + "\n\n".join(cues), "a.vtt") == expected


def test_subtitles_whose_times_have_single_digits():
    assert (
        read("WEBVTT\n\n0:0:0.0 --> 0:0:3.540\n<v Jane>Good morning.\n", "a.vtt")
        == "[00:00:00] Jane: Good morning."
    )


def test_names_of_columns_that_end_in_digits():
    rows = "STATE10,CODE10,AREA10\n27,G5200,71\n28,G5200,32\n"
    assert read(rows, "a.csv").split("\n")[0] == "STATE10: 27 | CODE10: G5200 | AREA10: 71"
    assert (
        read("A-3,bolts,40\nB-7,nuts,12\nC-9,pins,7\n", "a.csv").split("\n")[0]
        == "A-3 | bolts | 40"
    )


def test_pieces_of_a_wide_record_end_between_values_and_have_its_name():
    values = " | ".join(
        f"column {number}: value{'. St. Lucia' * (number == 59)} {number}" for number in range(60)
    )
    sentences = split_sentences(f"name: Aruba | {values}", kind="csv")
    assert len(sentences) > 1
    assert [sentence.context for sentence in sentences[1:]] == ["name: Aruba"] * (
        len(sentences) - 1
    )
    text = f"name: Aruba | {values}"
    assert all(text[sentence.start :].startswith("column") for sentence in sentences[1:])


def test_outlines_of_a_map_are_left_out():
    outline = {"type": "Polygon", "coordinates": [[[1.5, 2.5], [3.5, 4.5], [1.5, 2.5]]]}
    point = {"type": "Point", "coordinates": [7.5, 8.5]}
    features = [
        {"type": "Feature", "geometry": shape, "properties": {"name": name}}
        for shape, name in ((outline, "Bay"), (point, "Pier"))
    ]
    text = read(json.dumps({"type": "FeatureCollection", "features": features}), "a.geojson")
    assert "1.5" not in text and "name: Bay" in text and "coordinates: 7.5" in text


def test_times_of_a_calendar_have_their_zone():
    event = "SUMMARY:Choir\nDTSTART:20250707T080000Z\nDTEND;TZID=America/New_York:20250707T093000\nEXDATE:20250714T080000Z"
    text = read(f"BEGIN:VCALENDAR\nBEGIN:VEVENT\n{event}\nEND:VEVENT\nEND:VCALENDAR\n", "a.ics")
    times = "Start: 2025-07-07 08:00 UTC\nEnd: 2025-07-07 09:30 America/New_York\nNot on: 2025-07-14 08:00 UTC"
    assert text == f"## Choir, 2025-07-07\n\n{times}"


@pytest.mark.parametrize(
    "line",
    ["Copyright © 2019 Foo Inc.", "Acme®", "Foo™ is ours", "plus ± 5", "¡Hola! ¿qué", "5×5 ÷ 2"],
)
def test_a_western_sign_alone_is_no_other_script(line):
    assert read(line.encode("cp1252"), "a.txt") == line


def test_a_formula_that_is_a_picture_is_read_by_its_description():
    assert (
        read('<p>Where <img class="math" alt="a = b"> holds.</p>', "a.html") == "Where a = b holds."
    )


def test_blocks_of_asciidoc_are_no_headings():
    blocks = (
        "[source,sh]\n----\nchoco install ruby\n----\n\n[NOTE]\n====\nUse it with care.\n====\n"
    )
    text = f"= Pumps\n\nInstalling\n----------\n\n{blocks}\n== Cleaning\n\nOil it.\n"
    kinds = [(text[s.start : s.end].strip(), s.kind) for s in split_sentences(text)]
    assert [body for body, kind in kinds if kind == "heading"] == [
        "= Pumps",
        "Installing\n----------",
        "== Cleaning",
    ]
    assert any("choco" in body for body, kind in kinds if kind == "code")


def test_numbered_sections_with_a_full_stop_or_before_a_list():
    section = "4. Conveying Verbatim Copies.\n\nYou may convey copies of the source code as you receive it.\n\n"
    text = f"{section}2.1. General rules\n\n1. Each decision is made by one person.\n2. Each person may delegate.\n"
    headings = [text[s.start : s.end].strip() for s in split_sentences(text) if s.kind == "heading"]
    assert headings == ["4. Conveying Verbatim Copies.", "2.1. General rules"]


BOOKINGS = "Date;Payee;Amount\n2024-01-03;Bakery;-4,50\n2024-01-04;Rent;-900,00\n"
BOOKED = "Date: 2024-01-03 | Payee: Bakery | Amount: -4,50\nDate: 2024-01-04 | Payee: Rent | Amount: -900,00"


@pytest.mark.parametrize(
    ("above", "expected"),
    [
        (
            "Account;DE12 3456 7890\nOwner;Mira Holm\n\n",
            "Account | DE12 3456 7890\nOwner | Mira Holm",
        ),
        (
            "Account;DE12 3456 7890;\nOwner;Mira Holm;\n;;\n",
            "Account | DE12 3456 7890\nOwner | Mira Holm",
        ),
        (
            "Statement\n\nOwner;Mira Holm\nBranch;Kiel\n\n",
            "Statement\nOwner | Mira Holm\nBranch | Kiel",
        ),
        (
            "IBAN;DE12 3456 7890\nPeriod;2024-01-01 - 2024-01-31\n\n",
            "IBAN | DE12 3456 7890\nPeriod | 2024-01-01 - 2024-01-31",
        ),
        (
            "City;People\nKiel;246000\nBonn;330000\n\n",
            "City: Kiel | People: 246000\nCity: Bonn | People: 330000",
        ),
        (
            "Item;Sales 2023-2024\nRope;4\nTar;5\n\n",
            "Item: Rope | Sales 2023-2024: 4\nItem: Tar | Sales 2023-2024: 5",
        ),
    ],
    ids=["code", "padded", "words", "period", "table", "years"],
)
def test_labels_and_values_above_a_table_of_more_columns_are_no_table(above, expected):
    assert read(above + BOOKINGS, "a.csv") == f"{expected}\n{BOOKED}"
    workbook = openpyxl.Workbook()
    for line in (above + BOOKINGS).splitlines():
        workbook.active.append([cell or None for cell in line.split(";")])
    assert expected in read(save(workbook), "a.xlsx")
