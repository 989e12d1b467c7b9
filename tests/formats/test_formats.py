import gzip
import io
import json
import random
import struct
import time
import zipfile
from pathlib import Path

import docx
import pytest

from lmkrag.errors import DocumentError
from lmkrag.formats.base import MAX_UNPACKED
from lmkrag.formats.load import load_bytes, load_document, load_with_attachments
from lmkrag.sentences.split import split_sentences
from lmkrag.types import Skipped

NOTEBOOK = json.dumps(
    {
        "cells": [
            {
                "cell_type": "markdown",
                "id": "a",
                "metadata": {},
                "source": "# Leave\nLeave is granted.",
            }
        ],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
)


def load(data: bytes | str, name: str):
    raw = data.encode() if isinstance(data, str) else data
    return load_bytes(raw, name, doc_id=name, path=name)


def epub(chapters: list[str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(
            "META-INF/container.xml",
            '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
            '<rootfile full-path="OPS/book.opf"/></rootfiles></container>',
        )
        items = "".join(
            f'<item id="c{i}" href="text/c%20{i}.xhtml"/>' for i in range(len(chapters))
        )
        spine = "".join(f'<itemref idref="c{i}"/>' for i in reversed(range(len(chapters))))
        archive.writestr(
            "OPS/book.opf",
            '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata>'
            f"<dc:title>Tides</dc:title><dc:creator>A. Roe</dc:creator></metadata><manifest>{items}</manifest>"
            f"<spine>{spine}</spine></package>",
        )
        for i, chapter in enumerate(chapters):
            archive.writestr(
                f"OPS/text/c {i}.xhtml",
                f"<html><body><h1>{chapter}</h1><p>Text {i}.</p></body></html>",
            )
    return buffer.getvalue()


def test_the_pdf_of_the_sample_corpus(corpus):
    document = load_document(corpus / "reports" / "viaduct-inspection.pdf", "v.pdf")
    assert document.kind == "pdf"
    assert document.title == "Inspection of the Tarn Viaduct"
    assert document.meta["author"] == "Brandt and Partners"
    assert len(document.page_starts) == 3
    assert document.text[document.page_starts[1] :].startswith("Findings")
    assert document.text[document.page_starts[2] :].startswith("Recommendations and cost")


def test_the_word_file_of_the_sample_corpus(corpus):
    document = load_document(corpus / "reports" / "allotment-minutes.docx", "m.docx")
    assert document.text.startswith("# Minutes of the allotment association")
    assert "\n\n# Water\n\n" in document.text
    assert "- Compost heaps must stand" in document.text
    assert "| Rainwater tank | 24 | 3 |" in document.text
    assert document.meta["author"] == "Ruth Okafor"


def test_the_page_of_the_sample_corpus(corpus):
    document = load_document(corpus / "beekeeping.html", "b.html")
    assert document.title == "Beekeeping through the year"
    assert "track(" not in document.text
    assert "color:" not in document.text
    assert "Shop" not in document.text
    assert "## Winter\n" in document.text
    assert "- Reverse the brood boxes" in document.text
    assert "| Lime | late July | below 17.5 % |" in document.text
    assert "    # 15 % stays in the wax" in document.text


def test_markdown_is_the_file_itself(corpus):
    path = corpus / "lighthouse-handbook.md"
    document = load_document(path, "l.md")
    assert document.text == path.read_bytes().decode()
    assert document.title == "Keeper's Handbook of Skerry Light"
    assert document.meta["year"] == 1911
    assert document.meta["tags"] == ["lighthouse", "duties"]


def test_epub_follows_its_spine():
    document = load(epub(["First", "Second"]), "book.epub")
    assert document.title == "Tides"
    assert document.meta == {"author": "A. Roe"}
    assert document.text == "# Second\n\nText 1.\n\n# First\n\nText 0."


def test_notebook():
    cells = [
        {"cell_type": "markdown", "id": "a", "metadata": {}, "source": "# Title\nSome *text*."},
        {
            "cell_type": "code",
            "id": "b",
            "metadata": {},
            "source": "x = 1",
            "outputs": [],
            "execution_count": None,
        },
    ]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    document = load(json.dumps(notebook), "n.ipynb")
    assert document.text == "# Title\nSome *text*.\n\n```\nx = 1\n```"
    assert document.title == "Title"


def test_what_a_notebook_printed():
    outputs = [
        {
            "output_type": "stream",
            "name": "stdout",
            "text": "10 %\r\x1b[32m100 %\r\x1b[1mThe mean\x1b[0m is 42.7.\n",
        },
        {"output_type": "stream", "name": "stderr", "text": "Warning.\n"},
        {
            "output_type": "execute_result",
            "execution_count": 1,
            "metadata": {},
            "data": {"text/plain": "   depth\n0  4.5"},
        },
        {
            "output_type": "display_data",
            "metadata": {},
            "data": {"text/plain": "<Figure size 640x480 with 1 Axes>"},
        },
    ]
    cell = {
        "cell_type": "code",
        "id": "b",
        "metadata": {},
        "source": "mean",
        "outputs": outputs,
        "execution_count": 1,
    }
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    printed = "The mean is 42.7.\n   depth\n0  4.5"
    assert load(json.dumps(notebook), "n.ipynb").text == f"```\nmean\n```\n\n```\n{printed}\n```"


def test_a_long_line_that_a_notebook_printed_takes_no_time():
    output = {"output_type": "stream", "name": "stdout", "text": "0 " * 50_000}
    notebook = {"cells": [{"cell_type": "code", "source": "digits", "outputs": [output]}]}
    began = time.monotonic()
    assert load(json.dumps(notebook), "n.ipynb").text.startswith("```\ndigits\n```\n\n```\n0 0 ")
    assert time.monotonic() - began < 2


def test_svg_says_its_title_description_and_words():
    drawing = (
        '<svg xmlns="http://www.w3.org/2000/svg"><title>Harbour</title><g><desc>The lamp is east.</desc>'
        "<text>Quay <tspan>7</tspan></text></g><path d='M0 0'/></svg>"
    )
    document = load(drawing, "plan.svg")
    assert (document.title, document.text) == ("Harbour", "Harbour\nThe lamp is east.\nQuay 7")
    with pytest.raises(DocumentError, match="SVG without text"):
        load("<svg xmlns='http://www.w3.org/2000/svg'><path d='M0 0'/></svg>", "plan.svg")
    with pytest.raises(DocumentError, match="broken SVG"):
        load("<svg", "plan.svg")
    bomb = '<!DOCTYPE svg [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><svg><text>&b; x</text></svg>'
    assert "aaaa" not in load(bomb, "plan.svg").text


@pytest.mark.parametrize("before", ["", "\ufeff"], ids=["", "byte-order-mark"])
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("a.md", "# Pumps||Text."),
        ("a.md", "#  Pumps  ##  ||Text."),
        ("a.md", "Pumps|=====||Text."),
        ("a.rst", "Pumps|-----||Text."),
        ("a.adoc", "= Pumps||Text."),
        ("a.tex", "\\title{Pumps}||Text."),
    ],
)
def test_titles(name, lines, end, before):
    assert load(before + lines.replace("|", end), name).title == "Pumps"


@pytest.mark.parametrize("name", ["a.md", "a.rst", "a.adoc"])
@pytest.mark.parametrize("mark", ["", "# ", "= "])
def test_a_line_with_many_spaces_takes_no_time(name, mark):
    began = time.monotonic()
    assert load(f"{mark}Pumps{' ' * 19_000}and valves", name).text.endswith("valves")
    assert time.monotonic() - began < 1


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("t.csv", "name,age\nAnn,3\nBob,4\n", "name: Ann | age: 3\nname: Bob | age: 4"),
        ("t.tsv", "name\tage\nAnn\t3\n", "name: Ann | age: 3"),
        ("t.csv", 'a;b\n"x\ny";2\n', "a: x y | b: 2"),
        (
            "t.csv",
            "boat,oars\nIda,4,leaks,badly\nRuth\n",
            "boat: Ida | oars: 4 | leaks | badly\nboat: Ruth",
        ),
        (
            "t.csv",
            "2024-03-01,Ida,4\n2024-03-02,Ruth,2\n",
            "2024-03-01 | Ida | 4\n2024-03-02 | Ruth | 2",
        ),
        ("t.csv", "Ida,red\nRuth,red\n", "Ida | red\nRuth | red"),
        ("t.csv", "name,name\nIda,Ruth\n", "name: Ida | name: Ruth"),
        ("t.csv", "name,\nIda,4\n", "name: Ida | 4"),
        ("t.csv", "sep=;\r\nname;price\r\npear;3,5\r\n", "name: pear | price: 3,5"),
        (
            "t.json",
            '[{"a": 1, "b": {"c": ["x", "y"]}}, {"a": null}, "z"]',
            "a: 1 | b.c: x | b.c: y\nz",
        ),
        (
            "t.csv",
            'name,note\nIda,say \'so\'\nRuth,"the ""big"" one"\n',
            "name: Ida | note: say 'so'\nname: Ruth | note: the \"big\" one",
        ),
        (
            "t.csv",
            "name;price\nLast, First;1,5\nNext, Other;2,5\n",
            "name: Last, First | price: 1,5\nname: Next, Other | price: 2,5",
        ),
        ("t.csv", 'a, b\n1, "x, y"\n', "a: 1 | b: x, y"),
        ("t.csv", 'a,b\n1,"so \\"x\\", y"\n', 'a: 1 | b: so "x", y'),
        ("t.csv", "'a','b'\n'1','x, y'\n", "a: 1 | b: x, y"),
        ("t.csv", 'a,b\n1,"open\n2,x\n3,y\n', 'a: 1 | b: "open\na: 2 | b: x\na: 3 | b: y'),
        (
            "t.csv",
            f"a,b\n1,{'long ' * 40_000}\n2,x\n",
            f"a: 1 | b: {'long ' * 40_000}".strip() + "\na: 2 | b: x",
        ),
        ("t.json", '{"a": {"b": true}, "c": "d e"}', "a.b: true\nc: d e"),
        (
            "t.json",
            '{"k1": {"boat": "Ida", "fee": 4}, "k2": {"boat": "Ruth", "fee": 5}}',
            "k1.boat: Ida | k1.fee: 4\nk2.boat: Ruth | k2.fee: 5",
        ),
        ("t.json", '{"boat": ["Ida", "Ruth"], "fee": [4, null]}', "boat: Ida | fee: 4\nboat: Ruth"),
        (
            "t.json",
            '{"boat": {"0": "Ida", "1": "Ruth"}, "fee": {"0": 4, "1": 5}}',
            "boat: Ida | fee: 4\nboat: Ruth | fee: 5",
        ),
        (
            "t.json",
            '{"boat": {"k1": "Ida", "k2": "Ruth"}, "fee": {"k1": 4, "k2": 5.5}}',
            "k1 | boat: Ida | fee: 4\nk2 | boat: Ruth | fee: 5.5",
        ),
        (
            "t.json",
            '{"columns": ["boat", "fee"], "index": [0, 1], "data": [["Ida", 4], ["Ruth", 5]]}',
            "boat: Ida | fee: 4\nboat: Ruth | fee: 5",
        ),
        (
            "t.json",
            '[["boat", "fee"], ["Ida", 4], ["Ruth", 5]]',
            "boat: Ida | fee: 4\nboat: Ruth | fee: 5",
        ),
        ("t.json", '{"header": ["fee", "fee"], "rows": [[4, 5]]}', "fee: 4 | fee: 5"),
        ("t.json", '{"a": 1}\n{"a": 2}\n', "a: 1\na: 2"),
        (
            "t.json",
            '// of the pump\n{"bar": 12, /* at most */ "url": "http://x", // last\n}',
            "bar: 12\nurl: http://x",
        ),
        ("t.json", '{pump: "on"}', '{pump: "on"}'),
        ("t.jsonl", '["boat", "fee"]\n["Ida", 4]\n', "boat: Ida | fee: 4"),
        ("t.jsonl", '{"a": "x\u2028y"}\n{"a": "z"}\n', "a: x y\na: z"),
        ("t.jsonl", '{"a": 1}\n\n{"a": "two"}\n', "a: 1\na: two"),
        (
            "t.json",
            '{"a": {"boat": "Ida"}, "b": {"boat": "Ruth", "fee": 5}, "n": 2}',
            "a.boat: Ida\nb.boat: Ruth | b.fee: 5\nn: 2",
        ),
        (
            "t.json",
            '{"of": "2024", "boat": ["Ida", "Ruth", "Eva"], "fee": [4, 5, 6]}',
            "boat: Ida | fee: 4\nboat: Ruth | fee: 5\nboat: Eva | fee: 6\nof: 2024",
        ),
        (
            "t.json",
            '{"fields": [{"id": "boat"}, {"id": "fee"}], "records": [["Ida", 4], ["Ruth", [5, 6]]]}',
            "boat: Ida | fee: 4\nboat: Ruth | fee: [5, 6]",
        ),
        (
            "t.json",
            '[["boat", "fee"], ["Ida", 4], null, ["Ruth", 5], {"sum": 9}]',
            "boat: Ida | fee: 4\nboat: Ruth | fee: 5\nsum: 9",
        ),
        ("t.json", '{"a": "one\ntwo", "b": 2}', "a: one two\nb: 2"),
        ("t.json", 'show({"a": 1, "b": 2});', "a: 1\nb: 2"),
        ("t.jsonl", '\x1e{"a": 1}\n\x1e{"a": 2}\n{"a": 3} {"a": 4}\n', "a: 1\na: 2\na: 3\na: 4"),
        (
            "t.geojson",
            '{"features": [{"name": "Quay", "berths": 4}]}',
            "features.name: Quay | features.berths: 4",
        ),
    ],
)
def test_tables_and_json(name, data, expected):
    assert load(data, name).text == expected
    assert load("\ufeff" + data, name).text == expected  # as spreadsheets export it


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("t.eml", "From: a@b.org\nSubject: Leave\n\nLeave is granted.\n"),
        (
            "t.mbox",
            "From a@b.org Mon Jan  1 00:00:00 2024\nFrom: a@b.org\nSubject: Leave\n\nLeave is granted.\n",
        ),
        ("t.ipynb", NOTEBOOK),
        ("t.rtf", "{\\rtf1\\ansi Leave is granted.}"),
        ("t.srt", "1\n00:00:01,000 --> 00:00:02,000\nLeave is granted.\n"),
        ("t.html", "<title>Leave</title><p>Leave is granted.</p>"),
    ],
)
def test_a_byte_order_mark_makes_no_difference(name, data):
    plain, marked = load(data, name), load("\ufeff" + data, name)
    assert (marked.text, marked.title, marked.kind) == (plain.text, plain.title, plain.kind)
    assert "Leave is granted." in plain.text


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param("naïve café".encode(), "naïve café", id="utf-8"),
        pytest.param(b"\xef\xbb\xbfhello", "\ufeffhello", id="utf-8-bom-kept-so-offsets-fit"),
        pytest.param("naïve".encode("utf-16"), "naïve", id="utf-16"),
        pytest.param(b"a\r\nb\rc", "a\r\nb\rc", id="line-ends-kept"),
        pytest.param(
            "Ærø søger æbler på øen, sagde ængstelig Åse.".encode("cp1252"), None, id="cp1252"
        ),
        pytest.param(
            "é".encode() * 20 + b"\xff" + b" end", "é" * 20 + "\ufffd end", id="one-bad-byte"
        ),
        pytest.param(b"the gate is red\x1a", "the gate is red\x1a", id="control-characters"),
        pytest.param(b"one\x00two" + b" words" * 20, "one\x00two" + " words" * 20, id="nul"),
    ],
)
def test_decoding(data, expected):
    text = load(data, "a.txt").text
    if expected is None:
        assert "\ufffd" not in text
        assert "ngstelig" in text
    else:
        assert text == expected


@pytest.mark.parametrize(
    ("name", "data", "text", "reason"),
    [
        (
            "a.jsonl",
            '{"a": 1}\n{"a": \n{"a": 3}\n',
            "a: 1\na: 3",
            "left out: 1 of 3 records, the first in line 2",
        ),
        (
            "a.json",
            '[{"a": 1}, {"a": 2}, {"a": "cut o',
            "a: 1\na: 2",
            "left out: 1 of 3 records, the first in line 1",
        ),
        (
            "a.json",
            '{"b": {"c": [{"a": 1}, {"a": 2}, {"a',
            "a: 1\na: 2",
            "left out: 1 of 3 records, the first in line 1",
        ),
        (
            "a.json",
            '[{"a": 1}, {"a": oops}, {"a": 3}]',
            "a: 1\na: 3",
            "left out: 1 of 3 records, the first in line 1",
        ),
        (
            "a.json",
            '{"c": [\n{"a": 1},\n{"a" 2},\n{"a": 3}\n]}',
            "a: 1\na: 3",
            "left out: 1 of 3 records, the first in line 3",
        ),
    ],
)
def test_what_is_left_out_of_a_file_is_counted(name, data, text, reason, tmp_path):
    (tmp_path / name).write_text(data)
    document, attached, skipped = load_with_attachments(tmp_path / name, name)[:3]
    assert (document.text, attached) == (text, [])
    assert skipped == [Skipped(f"{name}/records", reason)]


TEXTS = {
    "Urlop zatwierdza kierownik portu w ciągu czternastu dni, jak każą przepisy; źródłem jest księga.": (
        "cp1250",
        "iso8859-2",
    ),
    "Отпуск утверждает начальник порта в течение четырнадцати дней. Заявление подаётся письменно.": (
        *("cp1251", "koi8-r", "cp866"),
    ),
    "休暇は港長が承認する。申請は二週間前までに書面で提出すること。": ("cp932", "euc_jp"),
    "休假由港务长批准。申请应提前两周以书面形式提交。": ("gb18030",),
    "休假由港務長批准。申請應提前兩週以書面形式提交。": ("big5",),
    "휴가는 항만장이 승인한다. 신청은 이주 전에 서면으로 제출한다.": ("cp949",),
    "Η άδεια εγκρίνεται από τον λιμενάρχη μέσα σε δεκατέσσερις ημέρες.": ("cp1253",),
    "İzin liman başkanı tarafından on dört gün içinde onaylanır.": ("cp1254",),
    "Der Urlaub wird vom Hafenmeister genehmigt, für fünf Tage – „gern“.": ("cp1252",),
    "Le congé est accordé par la capitainerie après l’accord du père, à Nîmes où ça va.": (
        "cp1252",
    ),
    "Ærø søger æbler på øen, sagde ængstelig Åse; prisen er 40 € pr. dag.": ("cp1252",),
    "Meeting minutes: the budget for 2026 is 84,000 pounds.": ("utf-16-le", "utf-16-be"),
}


@pytest.mark.parametrize(
    ("text", "encoding"), [(text, name) for text, names in TEXTS.items() for name in names]
)
def test_a_text_tells_its_encoding(text, encoding):
    text = f"{text}\n" * 6
    assert load(text.encode(encoding), "a.txt").text == text


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("text", TEXTS)
def test_utf_16_without_a_mark_is_read_in_every_script(text, encoding):
    assert load(text.encode(encoding), "a.txt").text == text


def test_iso_2022_jp_is_read():
    text = "休暇は港長が承認する。\n"
    assert load(text.encode("iso2022_jp"), "a.txt").text == text


@pytest.mark.parametrize(
    ("label", "encoding", "text"),
    [
        ("iso-8859-1", "cp1252", "The tenant’s deposit is €450"),
        ("us-ascii", "cp1252", "The tenant’s deposit is €450"),
        ("utf-8", "cp1252", "Le loyer payé par le père s’élève à 740 €"),
        ("iso-8859-1", "utf-8", "Le loyer payé s’élève à 740 €"),
        ("Shift_JIS", "cp932", "手順①バルブを閉める。25㎏～髙橋"),
        ("x-sjis", "cp932", "手順①バルブを閉める。25㎏～髙橋"),
        ("gb2312", "gb18030", "经理朱镕基、陶喆批准休假。"),
        ("euc-kr", "cp949", "똠방각하 펲시콜라"),
        ("big5", "big5hkscs", "碁盤、恒生指數"),
        ("iso-8859-9", "cp1254", "İzin “on dört” gün"),
        ("windows-1251", "cp1251", "Отпуск"),
        ("iso-2022-jp", "iso2022_jp", "休暇は港長が承認する"),
        ("utf-16", "utf-8", "für fünf"),
        ("nonsense", "utf-8", "für fünf"),
    ],
)
def test_a_page_is_read_as_browsers_do(label, encoding, text):
    for head in (
        f'<meta charset="{label}">',
        f'<meta http-equiv="Content-Type" content="text/html; charset={label}">',
    ):
        page = f"<html><head>{head}</head><body><p>{text}</p><p>End.</p></body></html>"
        assert load(page.encode(encoding), "a.html").text == f"{text}\n\nEnd."
    broken = f'<meta charset="{label}"><p>One</p>'.encode() + b"<p>\xff\xff</p><p>End.</p>"
    assert load(broken, "a.html").text.endswith("End.")


def broken_docx() -> bytes:
    buffer = io.BytesIO()
    docx.Document().save(buffer)
    data = bytearray(buffer.getvalue())
    data[200:900] = b"\0" * 700
    return bytes(data)


def bomb() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for i in range(3):
            archive.writestr(f"word/{i}", b"")
            archive.filelist[-1].file_size = (
                MAX_UNPACKED // 2
            )  # as its directory says: it is not opened
    return buffer.getvalue()


def locked_workbook() -> bytes:
    """The records of Excel 97 that begin a workbook with a password: BOF, FILEPASS."""
    begin = struct.pack("<HHHHHHII", 0x0809, 16, 0x0600, 5, 0, 0, 0, 0)
    return b"\xd0\xcf\x11\xe0" + bytes(508) + begin + struct.pack("<HH", 0x002F, 54) + bytes(54)


def locked_archive() -> bytes:
    entry = '<m:file-entry m:full-path="content.xml"><m:encryption-data m:checksum="qg"/></m:file-entry>'
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(
            "META-INF/manifest.xml", f'<m:manifest xmlns:m="urn:manifest">{entry}</m:manifest>'
        )
        archive.writestr("content.xml", random.Random(0).randbytes(200))
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.txt", b"", "empty file"),
        ("a.txt", b" \n ", "empty file"),
        ("a.txt", bytes(range(256)) * 20, "binary file, not text"),
        ("a.gif", b"GIF89a", r"unsupported format \(.gif\)$"),
        ("a.doc", b"\xd0\xcf\x11\xe0", r"unsupported format \(.doc\): save it as .docx"),
        ("a.xls", b"\xd0\xcf\x11\xe0", "broken Excel file"),
        ("a.xlsb", b"PK", "broken Excel file"),
        ("a.pdf", b"%PDF-1.4 nonsense", "broken PDF"),
        ("a.docx", b"PK nonsense", "broken Word file"),
        ("a.docx", broken_docx(), "broken Word file"),
        ("a.docx", b"\xd0\xcf\x11\xe0rest", "Word file of a version before 2007: save it as .docx"),
        (
            "a.docx",
            b"\xd0\xcf\x11\xe0" + "EncryptedPackage".encode("utf-16-le"),
            "encrypted Word file",
        ),
        (
            "a.xlsb",
            b"\xd0\xcf\x11\xe0" + "EncryptedPackage".encode("utf-16-le"),
            "encrypted Excel file",
        ),
        ("a.xls", locked_workbook(), "encrypted Excel file"),
        ("a.ods", locked_archive(), "encrypted OpenDocument file"),
        ("a.odt", locked_archive(), "encrypted OpenDocument file"),
        ("a.epub", b"nonsense", "broken EPUB file"),
        ("a.ipynb", b"{}", "broken notebook"),
        ("a.ipynb", b"[1", "broken notebook"),
        ("a.json", b"{", "broken JSON"),
        ("a.json", b"[" * 100_000, "broken JSON"),
        ("a.jsonl", b'{"a": 1\n{', "broken JSON"),
        ("a.html", b"<html><script>x</script></html>", "HTML page without text"),
    ],
)
def test_what_cannot_be_read_says_why(name, data, message):
    with pytest.raises(DocumentError, match=message):
        load(data, name)


def test_a_zip_bomb_is_refused_unopened():
    with pytest.raises(DocumentError, match="would unpack to 1536 MiB: refused"):
        load(bomb(), "bomb.docx")


def test_an_encrypted_pdf(corpus):
    from fpdf import FPDF

    pdf = FPDF()
    pdf.set_encryption(owner_password="a", user_password="b")
    pdf.add_page()
    pdf.set_font("Helvetica", size=12)
    pdf.cell(0, 10, "secret")
    with pytest.raises(DocumentError, match="encrypted PDF: it needs a password"):
        load(bytes(pdf.output()), "e.pdf")


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<ol><li>a<li>b</ol>", "1. a\n2. b"),
        ('<ol start=4><li>a<li value="9">b<li>c</ol>', "4. a\n9. b\n10. c"),
        (
            "<ol>\n<li>a\n<ul>\n<li>x\n</ul>\n<li>b<ol type=a><li>y</ol></ol>",
            "1. a\n  - x\n2. b\n  (a) y",
        ),
        (
            '<div role="navigation">m</div><div class="navheader"><p>Prev</p></div><p>a</p>',
            "a",
        ),
        (
            "<ul><li><p>a</p><p>b</p><pre>c</pre></li></ul><p>d</p>",
            "- a\n\n  b\n\n```\nc\n```\n\nd",
        ),
        ("<ul><li>a</ul><ol type=I><li>b</ol><li>c", "- a\n\n(I) b\n\n- c"),
        ('<ol start="x"><li value="many">a</ol></ol><ol><li>b</ol>', "1. a\n\n1. b"),
        ("<ul><li><p>a</p></li><li></li><li> <p> b</p></li></ul>", "- a\n\n- b"),
        ("one<br>two<br><br>three<br>", "one\ntwo\n\nthree"),
        (
            "<h2> Big <em>pumps</em>\n</h2>\n\n<p>\n red\n</p><h3></h3>end",
            "## Big pumps\n\nred\n\nend",
        ),
        ('<h2>Pumps<a class="x headerlink" href="#p">¶</a></h2>of two', "## Pumps\n\nof two"),
        ('<h2>Pumps<span class="mw-editsection">[edit]</span></h2>of two', "## Pumps\n\nof two"),
        ("<p>so&shy;lid, ze&#8203;ro", "solid, zero"),
        (
            "<pre>\n  def f():\n\n      return <b>1</b>\n</pre>x",
            "```\n  def f():\n\n      return 1\n```\n\nx",
        ),
        ("<pre></pre>x", "x"),
        (
            "<html><body><p>One.</body></html><html><body><p>Two.</body></html>Three.",
            "One.\n\nTwo.\n\nThree.",
        ),
        ("<p>One." + "<b>" * 3_000 + "Two." + "</b>" * 3_000 + "<p>Three.", "One. Two.\n\nThree."),
        ("<p>It costs <s>30</s><del>35</del> 40 euros.", "It costs 40 euros."),
        (
            "<style>.c3{font-size:6pt;vertical-align:super}</style><p>10<span class=c3>6</span>",
            "10^6",
        ),
        ("<p>1<sup>1</sup>/<sub>2</sub> of 10<sup> 6</sup>", "1 1/2 of 10^6"),
        ("<dl><dt>Term<dd>Meaning<dt>B<dd>C</dl>", "Term\n  Meaning\n\nB\n  C"),
        (
            "<dl><dt>-q</dt><dd><p>Quiet.</p><p>Not a word:</p><pre>a\n  b</pre><ul><li>c</ul></dd></dl>d",
            "-q\n  Quiet.\n\n  Not a word:\n\n```\na\n  b\n```\n\n  - c\n\nd",
        ),
        (
            "<dl><dt>Boat</dt><dd><dl><dt>Deck</dt><dd>Above. </dd></dl></dd></dl>",
            "Boat\n  Deck\n    Above.",
        ),
        (
            '<div class="TOC"><dl><dt>1. <a href="a.html">Who? Me</a></dt><dd><dl><dt><a href="b">B</a></dl></dd></dl></div>',
            "1. [Who? Me](a.html)\n  - [B](b)",
        ),
        ('<ul><li><a href="#b">B</a><li><a href="c.html">C</a></ul>', "- [B](#b)\n- C"),
        (
            "<p>So <math><semantics><msup><mi>c</mi><mn>2</mn></msup>"
            '<annotation encoding="application/x-tex">c^{2}</annotation></semantics></math> holds.',
            "So c^{2} holds.",
        ),
        (
            "<math><mi>v</mi><mo>=</mo><mfrac><mi>s</mi><mrow><mi>t</mi><mo>+</mo><mn>1</mn></mrow></mfrac></math>",
            "v = s/(t+1)",
        ),
        (
            "<math><msqrt><msubsup><mi>a</mi><mi>i</mi><mn>2</mn></msubsup></msqrt></math>.",
            "√(a_i^2).",
        ),
        (
            '<span class="katex"><span class="katex-mathml"><math><mi>E</mi></math></span>'
            '<span class="katex-html" aria-hidden="true">E</span></span>',
            "E",
        ),
        ("<math>" + "<msup>" * 2_000 + "<mi>x</mi></math> is x", "x is x"),
        ("<video>can't play</video><canvas>old</canvas>x", "x"),
    ],
)
def test_blocks_of_html(html, expected):
    assert load(html, "a.html").text == expected


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (
            "<tr><th>A<br>x</th><th>B</th></tr>\n<tr><td><p>1</p><p>2</p></td><td>3</td></tr>",
            "| A x | B |\n| 1 2 | 3 |",
        ),
        ("<caption>Keys</caption><tr><td>a<td>b", "Keys\n\n| a | b |"),
        (
            "<tr><td rowspan=2>a<td rowspan=3>b<td>c<tr><td>d<tr><td>e<td>f",
            "|  |  |  |\n| a | b | c |\n| a | b | d |\n| e | b | f |",
        ),
        (
            "<tr><td rowspan=2 colspan=2>a<td>b<tr><td>c<tr><td colspan=3>d",
            "|  |  |  |\n| a | a | b |\n| a | a | c |\n| d |",
        ),
        ("<tr><td rowspan=0>a<td>b<tr><td>c<tr><td>d", "|  |  |\n| a | b |\n| a | c |\n| a | d |"),
        ("<tr><td rowspan='2 '>a<td>b<tr><td>c", "|  |  |\n| a | b |\n| a | c |"),
        ("<tr><td rowspan=99999999>a<td colspan=x>b<tr><td>", "|  |  |\n| a | b |\n| a |  |"),
        ("<tr><td><pre>x\ny</pre><td><ul><li>p<li>q</ul>", "| x y | - p - q |"),
        ("<tr><td></td><td> </td></tr><tr><td>a<td>b", "| a | b |"),
        ("<tr><td>one</td></tr><tr><td>column", "one\n\ncolumn"),
        ("<tr><td><h1>Page</h1>x</td><td>menu</td></tr>", "# Page\n\nx\n\nmenu"),
        (
            f"<tr><td>{'long ' * 300}</td><td>menu</td></tr>",
            f"{'long ' * 300}".strip() + "\n\nmenu",
        ),
        ("<tr><td>x<table><tr><td>a<td>b</table></td><td>menu</td></tr>", "x\n\n| a | b |\n\nmenu"),
        (
            "<tr><td rowspan=2><img src=n.png><th>Note</th></tr><tr><td>Tab out of the row.</td></tr>",
            "Note\n\nTab out of the row.",
        ),
    ],
)
def test_tables_of_html(rows, expected):
    assert load(f"<table>{rows}</table>", "a.html").text == expected
    assert (
        load(f"Before<table>{rows}</table>after", "a.html").text == f"Before\n\n{expected}\n\nafter"
    )


def test_deeply_nested_html():
    assert load("<div>" * 200 + "deep" + "</div>" * 200, "deep.html").text == "deep"
    assert load("<div>" * 50_000 + "deep" + "</div>" * 50_000, "deep.html").text == "deep"
    with pytest.raises(
        DocumentError, match="nested too deeply"
    ):  # than libxml2 follows: refused, not read in part
        load("before" + "<ul>" * 50_000 + "deep", "deep.html")


@pytest.mark.parametrize("name", ["a.py", "b.rs", "Makefile"])
def test_source_code_is_the_file_itself(name):
    text = "def f():\n\treturn 1\n\n\n# café\nclass A:\n    pass\n"
    document = load(text, name)
    assert (document.kind, document.text) == ("code", text)
    sentences = split_sentences(text, kind=document.kind)
    assert {s.kind for s in sentences} == {"code"}


def xlsx_bomb(tmp_path) -> bytes:
    """A workbook whose one shared string stands in thousands of cells."""
    import openpyxl

    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet()
    for _ in range(2):
        sheet.append(["x" * 3_000] * 500)
    book.save(tmp_path / "bomb.xlsx")
    return (tmp_path / "bomb.xlsx").read_bytes()


def csv_bomb(_) -> bytes:
    """Names of columns that are repeated beside each of many short values."""
    names = ",".join(f"{'n' * 900}{number}" for number in range(40))
    return (names + "\n" + "1," * 39 + "1\n").encode() + ("1," * 39 + "1\n").encode() * 800


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("bomb.xlsx", xlsx_bomb),
        ("bomb.csv", csv_bomb),
        ("bomb.txt.gz", lambda _: gzip.compress(b"The gate is red. " * 1_000_000)),
    ],
)
def test_a_file_that_would_hold_far_more_text_than_it_has_bytes_is_refused(tmp_path, name, make):
    (tmp_path / name).write_bytes(make(tmp_path))
    with pytest.raises(
        DocumentError, match=r"holds more than [\d,]+ characters, out of [\d,]+ bytes: refused"
    ):
        load_document(tmp_path / name, name)


def test_compressed_text_of_an_ordinary_kind_is_read(tmp_path):
    text = "".join(
        f"2024-01-15 08:{number % 60:02} INFO request {number} was answered\n"
        for number in range(100_000)
    )
    (tmp_path / "log.gz").write_bytes(gzip.compress(text.encode()))
    assert load_document(tmp_path / "log.gz", "log.gz").text == text


@pytest.mark.parametrize(
    ("text", "title", "meta"),
    [
        (
            "PEP: 8\nTitle: Style Guide\nAuthor: Ann,\n  Bob\n\nAbstract\n========\n\nText.\n",
            "Style Guide",
            "Ann, Bob",
        ),
        (
            ":author: Ann\n:status: draft\n\nTides\n=====\n\nText.\n\nEbb\n---\n\nMore.\n",
            "Tides",
            "Ann",
        ),
        ("=====\nTides\n=====\n\nEbb\n===\n\nText.\n\nFlood\n=====\n\nMore.\n", "Tides", None),
        ("Abstract\n========\n\nText.\n\nMotivation\n==========\n\nMore.\n", "notes", None),
        ("Note: this is prose\nthat goes on.\n\nTides\n-----\n", "Tides", None),
    ],
)
def test_titles_and_fields_of_rst(tmp_path, text, title, meta):
    (tmp_path / "notes.rst").write_text(text)
    document = load_document(tmp_path / "notes.rst", "notes.rst")
    assert (document.title, document.meta.get("author")) == (title, meta)


@pytest.mark.parametrize("name", ["google-docs.html", "google-docs.md", "word.htm"])
def test_files_as_word_and_google_docs_save_them(name):
    document = load_document(Path(__file__).parents[1] / "data" / "writers" / name, name)
    sentences = split_sentences(document.text, kind=document.kind)
    found = [
        (one.kind, document.text[one.start : one.end].strip(" #*-\n").partition("**")[0])
        for one in sentences
    ]
    headings = [text for kind, text in found if kind == "heading"]
    assert headings == ["Harbour handbook", "Moorings", "Fees"]
    items = [
        text for _, text in found if text.startswith(("Fenders", "Two lines", "1. Call", "2. Wait"))
    ]
    assert items == [
        "Fenders on both sides",
        "Two lines ashore",
        "1. Call the harbour master",
        "2. Wait for the green light",
    ]
    assert "| Slipway | 9 | 4 |" in document.text and "Residents pay half." in document.text
