"""Files that were written to be slow to read: time grows with their size, and not with its square."""

import io
import time
import zipfile
from contextlib import suppress

import docx
import openpyxl
import pytest
from docx.oxml.ns import qn

from lmkrag.errors import DocumentError
from lmkrag.formats.load import check_file, is_plain, load_bytes
from lmkrag.sentences.split import split_sentences

SIZE = 300_000  # bytes; by the square of the size each took more than ten seconds
SECONDS = 4.0


@pytest.mark.parametrize(
    ("name", "before", "repeated", "after"),
    [
        ("open.json", "", "[", ""),
        ("objects.json", "", '{"a":', ""),
        ("closed.json", "[" * (SIZE // 2), "]", ""),
        ("lines.jsonl", "", "[[[[\n", ""),
        ("comments.json", "", "/* ", ""),
        ("unseparated.json", "", "[1,{x,", ""),
        ("options.ics", "BEGIN:VEVENT\nSUMMARY;", "a=b", ""),
        ("long.rtf", "{\\rtf1 ", "\\par The gate is red.", "}"),
        ("raised.rtf", "{\\rtf1 ", "\\super", "}"),
        ("line.rtf", "{\\rtf1 ", "|", "}"),
        ("subject.eml", "Subject: ", "gate ", "\n\nThe gate is red."),
        ("words.eml", "Subject: ", "=?utf-8?q?gate?= ", "\n\nThe gate is red."),
        ("people.eml", "To: ", '"Ada, ', "\n\nThe gate is red."),
        ("braces.srt", "00:00:01,000 --> 00:00:02,000\n", "{\\", ""),
        ("voices.vtt", "00:00:01.000 --> 00:00:02.000\n", "<v ", ""),
        ("times.srt", "", "1\n00:00:01,000 -->\n", ""),
        ("groups.rtf", "{\\rtf1 ", "{\\b\\i\\v", "}"),
        (
            "parts.eml",
            "Subject: x\nContent-Type: multipart/mixed; boundary=b\n\n",
            "--b\nContent-Type: a/b\n\nx\n",
            "",
        ),
        ("keys.md", "---\n", "? ", "\n---\n"),
        ("type.eml", "Content-Type: text/plain; ", "a=b; ", "\n\nThe gate is red."),
        ("notes", "From a ", "Mon Jan  1 1:11 ", ""),
        ("notes.mbox", "From a ", "Mon Jan  1 1:11 ", "\nSubject: x\n\nThe gate is red."),
    ],
)
def test_time_grows_with_size(name, before, repeated, after):
    data = (before + repeated * (SIZE // len(repeated)) + after).encode()
    started = time.process_time()
    with suppress(DocumentError):  # of what has no text
        found = load_bytes(data, name, doc_id=name, path=name)
        split_sentences(found.text, kind=found.kind)
    assert time.process_time() - started < SECONDS


@pytest.mark.parametrize(
    "repeated", [b"Mon Jan  1 1:11 ", b"a: b\n", b"From: a\n", b"\t", b"a:\n\t", b"From From "]
)
def test_a_guess_of_a_format_costs_less_than_reading_the_file(repeated, tmp_path):
    path = tmp_path / "notes"
    path.write_bytes((b"From a " + repeated * SIZE)[:SIZE])
    began = time.process_time()
    for _ in range(10):
        is_plain(path)
        check_file(path)
    assert time.process_time() - began < 1.0


FLAT = (
    '<office:document xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"'
    ' xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0"'
    ' xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"><office:body><office:{kind}>'
    '<table:table table:name="x">{rows}</table:table></office:{kind}></office:body></office:document>'
)
ROW = '<table:table-row table:number-rows-repeated="{rows}">{cells}</table:table-row>'
CELL = '<table:table-cell table:number-{what}="{count}"><text:p>{text}</text:p></table:table-cell>'
EXCEL_2003 = (
    '<Workbook xmlns="urn:schemas-microsoft-com:office:spreadsheet" xmlns:ss="urn:schemas-microsoft-com:office:'
    'spreadsheet"><Worksheet ss:Name="x"><Table>{rows}</Table></Worksheet></Workbook>'
)


def repeat(rows: int, what: str, count: int, text: str = "x") -> str:
    return ROW.format(rows=rows, cells=CELL.format(what=what, count=count, text=text))


def merged_cells() -> bytes:
    """A workbook whose cells are merged a thousand times over."""
    book = openpyxl.Workbook()
    for _ in range(1_000):
        book.active.append(["x", "y"])
    packed, changed = io.BytesIO(), io.BytesIO()
    book.save(packed)
    with zipfile.ZipFile(packed) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            part = old.read(name)
            merged = b'<mergeCell ref="A1:XFD1048576"/>' * 1_000
            new.writestr(
                name,
                part.replace(b"</sheetData>", b"</sheetData><mergeCells>%s</mergeCells>" % merged),
            )
    return changed.getvalue()


def spanned_cells() -> bytes:
    """A Word file of wide cells."""
    document = docx.Document()
    table = document.add_table(20_000, 1)
    for cell in table._tbl.iter(qn("w:tcW")):
        span = cell.makeelement(qn("w:gridSpan"), {qn("w:val"): "999999999"})
        cell.addnext(span)
    for row in table._tbl.tr_lst:
        row.tc_lst[0].p_lst[0].add_r().text = "x"
    packed = io.BytesIO()
    document.save(packed)
    return packed.getvalue()


@pytest.mark.parametrize(
    ("name", "data"),
    [
        (
            "all.fods",
            FLAT.format(kind="spreadsheet", rows=repeat(10_000, "columns-repeated", 10_000)),
        ),
        (
            "rows.fods",
            FLAT.format(
                kind="spreadsheet", rows=repeat(10_000, "columns-repeated", 1, "x" * 100_000)
            ),
        ),
        (
            "columns.fods",
            FLAT.format(kind="spreadsheet", rows=repeat(1, "columns-repeated", 10_000) * 2_000),
        ),
        (
            "blank.fods",
            FLAT.format(
                kind="spreadsheet", rows=repeat(10_000, "columns-repeated", 9_999, "") * 1_000
            ),
        ),
        (
            "covered.fods",
            FLAT.format(kind="spreadsheet", rows=repeat(1, "columns-spanned", 999_999) * 20_000),
        ),
        ("text.fodt", FLAT.format(kind="text", rows=repeat(10_000, "columns-repeated", 10_000))),
        (
            "across.xls",
            EXCEL_2003.format(
                rows="<Row><Cell ss:MergeAcross='999999'><Data>x</Data></Cell></Row>" * 20_000
            ),
        ),
        (
            "places.xls",
            EXCEL_2003.format(
                rows="<Row><Cell ss:Index='999999'><Data>x</Data></Cell></Row>" * 20_000
            ),
        ),
        ("merged.xlsx", merged_cells),
        ("spanned.docx", spanned_cells),
    ],
)
def test_cells_that_stand_for_many_cost_little(name, data):
    data = data() if callable(data) else data.encode()
    began = time.process_time()
    with pytest.raises(DocumentError, match=r"a table that repeats its cells|file without text"):
        load_bytes(data, name, doc_id=name, path=name)
    assert time.process_time() - began < SECONDS


def test_cells_may_stand_for_some():
    rows = repeat(1_000, "columns-repeated", 100, "red")
    text = load_bytes(
        FLAT.format(kind="spreadsheet", rows=rows).encode(), "a.fods", doc_id="a", path="a"
    ).text
    assert text.count("red") == 100_000
