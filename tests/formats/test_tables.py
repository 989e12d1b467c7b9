"""Headers, captions and merged cells of tables, in every format that has tables."""

import csv
import io

import docx
import openpyxl
import pptx
import pytest
from odf import draw, table, text
from odf.opendocument import OpenDocumentPresentation, OpenDocumentSpreadsheet, OpenDocumentText

from lmkrag.formats.load import load_bytes
from tests.formats.files import save

Rows = list[list[str]]
Merged = list[tuple[int, int, int, int]]
"""Row, column, height and width of merged cells, whose value is in the first."""


def covered(merged: Merged) -> set[tuple[int, int]]:
    cells = {
        (row + i, column + j)
        for row, column, height, width in merged
        for i in range(height)
        for j in range(width)
    }
    return cells - {(row, column) for row, column, _, _ in merged}


def span(merged: Merged, row: int, column: int) -> tuple[int, int]:
    return next(
        ((height, width) for r, c, height, width in merged if (r, c) == (row, column)), (1, 1)
    )


def write_html(rows: Rows, merged: Merged) -> bytes:
    lines = []
    for i, row in enumerate(rows):
        cells = ""
        for j, value in enumerate(row):
            height, width = span(merged, i, j)
            if (i, j) not in covered(merged):
                cells += f"<td rowspan={height} colspan={width}>{value}</td>"
        lines.append(f"<tr>{cells}</tr>")
    return f"<table>{''.join(lines)}</table>".encode()


def write_docx(rows: Rows, merged: Merged) -> bytes:
    document = docx.Document()
    fill_grid(document.add_table(len(rows), len(rows[0])), rows, merged)
    return save(document)


def write_pptx(rows: Rows, merged: Merged) -> bytes:
    presentation = pptx.Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[6])
    fill_grid(slide.shapes.add_table(len(rows), len(rows[0]), 0, 0, 100, 100).table, rows, merged)
    return save(presentation)


def fill_grid(grid, rows: Rows, merged: Merged) -> None:
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            grid.cell(i, j).text = value
    for i, j, height, width in merged:
        grid.cell(i, j).merge(grid.cell(i + height - 1, j + width - 1))


def write_xlsx(rows: Rows, merged: Merged) -> bytes:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append([float(cell) if cell.isdecimal() else cell or None for cell in row])
    for i, j, height, width in merged:
        book.active.merge_cells(
            start_row=i + 1, start_column=j + 1, end_row=i + height, end_column=j + width
        )
    return save(book)


def odf_table(rows: Rows, merged: Merged) -> table.Table:
    grid = table.Table(name="Sheet")
    for i, row in enumerate(rows):
        line = table.TableRow()
        for j, value in enumerate(row):
            height, width = span(merged, i, j)
            spans = (
                {"numberrowsspanned": height, "numbercolumnsspanned": width}
                if height * width > 1
                else {}
            )
            cell = (
                table.CoveredTableCell() if (i, j) in covered(merged) else table.TableCell(**spans)
            )
            if value:
                cell.addElement(text.P(text=value))
            line.addElement(cell)
        grid.addElement(line)
    return grid


def write_odt(rows: Rows, merged: Merged) -> bytes:
    document = OpenDocumentText()
    document.text.addElement(odf_table(rows, merged))
    return save(document)


def write_ods(rows: Rows, merged: Merged) -> bytes:
    document = OpenDocumentSpreadsheet()
    document.spreadsheet.addElement(odf_table(rows, merged))
    return save(document)


def write_odp(rows: Rows, merged: Merged) -> bytes:
    document = OpenDocumentPresentation()
    slide, frame = draw.Page(masterpagename="plain"), draw.Frame()
    frame.addElement(odf_table(rows, merged))
    slide.addElement(frame)
    document.presentation.addElement(slide)
    return save(document)


def write_csv(rows: Rows, merged: Merged) -> bytes:
    assert not merged
    written = io.StringIO()
    csv.writer(written).writerows(rows)
    return written.getvalue().encode()


BARS = {
    "html": write_html,
    "docx": write_docx,
    "pptx": write_pptx,
    "odt": write_odt,
    "odp": write_odp,
}
RECORDS = {"xlsx": write_xlsx, "ods": write_ods}
WRITERS = {**BARS, **RECORDS, "csv": write_csv}


def read(suffix: str, rows: Rows, merged: Merged = []) -> list[str]:  # noqa: B006
    name = f"a.{suffix}"
    loaded = load_bytes(WRITERS[suffix](rows, merged), name, doc_id=name, path=name)
    return [line for line in loaded.text.splitlines() if line and not line.startswith("#")]


def expect(
    suffix: str, names: list[str], *records: list[str], captions: tuple[str, ...] = ()
) -> list[str]:
    if suffix in BARS:
        return [*captions, *(f"| {' | '.join(row)} |" for row in [names, *records])]
    lines = (
        [f"{name}: {value}" if name else value for name, value in zip(names, row, strict=True)]
        for row in records
    )
    return [*captions, *map(" | ".join, lines)]


@pytest.mark.parametrize("suffix", WRITERS)
@pytest.mark.parametrize(
    "names",
    [
        ["Item", "2021", "2022"],
        ["Item", "2021-01", "2021-02"],
        ["Item", "31.12.2021", "31.12.2022"],
        ["Item", "2021/22", "Q1 2023"],
        ["", "2021", "2022"],
        ["Item", "1", "2", "3"],
        ["Item", "Fee", "Fee"],
        ["Item", "Fee", ""],
    ],
    ids=str,
)
def test_a_header_may_have_periods_blanks_and_equal_names(suffix, names):
    records = [
        [item, *numbers[: len(names) - 1]]
        for item, *numbers in (["Rope", "10", "12", "7"], ["Tar", "5", "7", "9"])
    ]
    assert read(suffix, [names, *records]) == expect(suffix, names, *records)


@pytest.mark.parametrize("suffix", WRITERS)
@pytest.mark.parametrize("merged", [[], [(0, 0, 1, 3)]], ids=["", "merged"])
def test_what_stands_above_a_header_is_a_caption(suffix, merged):
    if merged and suffix == "csv":
        return
    names, record, other = (
        ["Item", "Planned", "Spent"],
        ["Lamps", "4000", "5200"],
        ["Paint", "30", "20"],
    )
    rows = [["Budget of the pier", "", ""], ["As of", "2025-03-01", ""], names, record, other]
    captions = ("Budget of the pier", "As of | 2025-03-01")
    assert read(suffix, rows, merged) == expect(suffix, names, record, other, captions=captions)


@pytest.mark.parametrize("suffix", [*BARS, *RECORDS])
def test_remarks_in_merged_cells_above_a_header_name_no_columns(suffix):
    names, record, other = (
        ["Boat", "Skipper", "Berth", "Fee"],
        ["Heron", "Ada", "3", "40"],
        ["Gannet", "Ben", "5", "55"],
    )
    rows = [
        ["this list", "", "typed in", "a hurry"],
        ["so", "do not trust it", "", "yet"],
        names,
        record,
        other,
    ]
    shown = read(suffix, rows, [(1, 1, 1, 2)])
    assert "hurry" in shown[0]
    assert "do not trust it" in shown[1]
    assert shown[2:] == expect(suffix, names, record, other)


@pytest.mark.parametrize("suffix", WRITERS)
def test_a_header_that_is_repeated_is_no_row(suffix):
    names, record, other = ["Boat", "Fee"], ["Heron", "40"], ["Gannet", "50"]
    assert read(suffix, [names, record, names, other]) == expect(suffix, names, record, other)


@pytest.mark.parametrize("suffix", [*BARS, *RECORDS])
def test_a_merged_cell_is_in_each_row_and_column_that_it_covers(suffix):
    rows = [
        ["Berth", "Season", "Fee"],
        ["North", "Summer", "40"],
        ["", "Winter", "25"],
        ["South", "9", ""],
    ]
    filled = [["North", "Summer", "40"], ["North", "Winter", "25"], ["South", "9", "9"]]
    assert read(suffix, rows, [(1, 0, 2, 1), (3, 1, 1, 2)]) == expect(suffix, rows[0], *filled)


@pytest.mark.parametrize("suffix", WRITERS)
def test_a_group_that_is_named_once_is_in_each_row_below(suffix):
    rows = [
        ["Country", "Region", "Month", "Sales"],
        ["Denmark", "North", "January", "100"],
        ["", "", "March", "90"],
        ["", "South", "January", "80"],
        ["", "", "March", "85"],
        ["Total", "", "", "355"],
        ["Iceland", "West", "January", "70"],
        ["", "", "March", "60"],
        ["", "", "", "130"],
    ]
    filled = [
        rows[1],
        ["Denmark", "North", "March", "90"],
        ["Denmark", *rows[3][1:]],
        ["Denmark", "South", "March", "85"],
        rows[5],
        rows[6],
        ["Iceland", "West", "March", "60"],
        rows[8],
    ]
    expected = expect(suffix, rows[0], *filled)
    assert read(suffix, rows) == (expected if suffix in BARS else [*map(without_blanks, expected)])


def without_blanks(line: str) -> str:
    return " | ".join(part for part in line.split(" | ") if not part.endswith(": "))


@pytest.mark.parametrize(
    "column",
    [
        ["", "Skipper", "", "", "Mate", ""],  # begins without a name
        ["x", "", "x", "", "", ""],
        ["Skipper", "Mate", "", "Cook", "Bosun", ""],
        ["$1,250.00", "", "", "$900.00", "", ""],
    ],
    ids=str,
)
def test_cells_of_a_first_column_may_be_blank(column):
    people = ["Ada", "Ben", "Cem", "Dov", "Eva", "Finn"]
    rows = [[cell, name, "7"] for cell, name in zip(column, people, strict=True)]
    shown = read("csv", [["Role", "Name", "Berth"], *rows])
    assert [line for line in shown if "Role" in line] == [
        f"Role: {cell} | Name: {name} | Berth: 7" for cell, name, _ in rows if cell
    ]


BESIDE = {
    "of different lengths": (
        "Boat,Fee,,Port,Master\nHeron,40,,Brest,Ada\nSkua,50,,Kiel,Ben\nTern,60\n",
        ["Boat: Skua | Fee: 50", "Boat: Tern | Fee: 60", "Port: Kiel | Master: Ben"],
    ),
    "with equal columns": (
        "Summer,,,Winter\nBoat,Fee,,Boat,Fee\nHeron,40,,Heron,20\nSkua,50,,Tern,30\n",
        ["Summer | Boat: Skua | Fee: 50", "Winter | Boat: Heron | Fee: 20"],
    ),
    "with titles": (
        "Fees,,,,Ports\nBoat,Fee,,,Port,Master\nHeron,40,,,Brest,Ada\nSkua,50,,,Kiel,Ben\n",
        ["Boat: Skua | Fee: 50", "Ports", "Port: Kiel | Master: Ben"],
    ),
}


@pytest.mark.parametrize("suffix", ["csv", *RECORDS])
@pytest.mark.parametrize("kind", BESIDE)
def test_tables_side_by_side_are_apart(suffix, kind):
    text, expected = BESIDE[kind]
    rows = [(line.split(",") + [""] * 6)[:6] for line in text.splitlines()]
    shown = read(suffix, rows)
    assert [line for line in shown if line in expected] == expected


@pytest.mark.parametrize(
    "text",
    [
        "Boat,Port,,Master,Berth\nHeron,Brest,,Ada,4\nSkua,Kiel,,Ben,7\n",
        "Boat,Port,,Phone,Berth\nHeron,Brest,,7100,4\nSkua,Kiel,,7200,7\nTern,Brest\n",
        "Boat,,Port,,Fee,Berth\nHeron,,Brest,,40,4\nSkua,,Kiel,,50,7\nTern,,Brest\n",
    ],
)
def test_columns_that_are_set_apart_stay_in_their_table(text):
    assert lines_of(text.encode(), "a.csv")[0].startswith("Boat: Heron | Port: Brest | ")


CARDS = [
    ["Staff", ""],
    ["", ""],
    ["Name", "Ada Quill"],
    ["Phone", "7100"],
    ["Berth", "4"],
    ["", ""],
    ["Name", "Ben Marsh"],
    ["Phone", ""],
    ["Berth", "7"],
    ["", ""],
    ["Boat", "Fee"],
    ["Heron", "40"],
    ["Skua", "50"],
]


@pytest.mark.parametrize("suffix", ["csv", *RECORDS])
def test_a_card_is_a_record(suffix):
    assert read(suffix, CARDS) == [
        "Staff",
        "Name: Ada Quill | Phone: 7100 | Berth: 4",
        "Name: Ben Marsh | Berth: 7",
        "Boat: Heron | Fee: 40",
        "Boat: Skua | Fee: 50",
    ]


def test_a_card_begins_with_its_title():
    text = "Pump 1\nMaker,Alder\nLoad,12 bar\n\nPump 2\nMaker,Birch\nLoad,8 bar\n"
    assert lines_of(text.encode(), "a.csv") == [
        *("Pump 1", "Pump 1 | Maker: Alder | Load: 12 bar"),
        *("Pump 2", "Pump 2 | Maker: Birch | Load: 8 bar"),
    ]


def test_tables_with_the_same_names_of_rows_are_no_cards():
    text = "North\nQuarter,Boats\nQ1,4\nQ2,5\n\nSouth\nQuarter,Boats\nQ1,6\nQ2,7\n"
    assert "South | Quarter: Q2 | Boats: 7" in lines_of(text.encode(), "a.csv")


@pytest.mark.parametrize("suffix", BARS)
def test_a_box_around_words_is_no_table(suffix):
    assert read(suffix, [["", "Note"], ["", "Tab out of the row."]]) == [
        "Note",
        "Tab out of the row.",
    ]
    assert read(suffix, [["Boxed | words."]]) == ["Boxed | words."]


def test_a_box_of_rtf_is_no_table():
    source = rb"{\rtf1\ansi \trowd\cellx9000\pard\intbl Boxed words.\cell\row\pard End\par}"
    assert load_bytes(source, "a.rtf", doc_id="a", path="a").text == "Boxed words.\nEnd"


@pytest.mark.parametrize("suffix", [*BARS, *RECORDS])
def test_the_names_of_columns_have_those_that_reach_over_them(suffix):
    rows = [
        ["Item", "2023", "", "2024"],
        ["", "Q1", "Q2", "Q1"],
        ["Rope", "10", "12", "14"],
        ["Tar", "1", "2", "3"],
    ]
    names = ["Item", "2023 Q1", "2023 Q2", "2024 Q1"]
    expected = expect(suffix, names, *rows[2:], captions=("Item | 2023 | 2024",))
    assert read(suffix, rows, [(0, 0, 2, 1), (0, 1, 1, 2)]) == expected


@pytest.mark.parametrize("suffix", [*BARS, *RECORDS])
def test_a_header_of_two_rows_that_is_repeated_is_no_row(suffix):
    header = [["Boat", "Summer", ""], ["", "Fee", "Deposit"]]
    rows = [*header, ["Heron", "40", "400"], *header, ["Gannet", "50", "500"]]
    merged = [(0, 0, 2, 1), (0, 1, 1, 2), (3, 0, 2, 1), (3, 1, 1, 2)]
    names = ["Boat", "Summer Fee", "Summer Deposit"]
    assert read(suffix, rows, merged) == expect(
        suffix, names, rows[2], rows[5], captions=("Boat | Summer",)
    )


def test_a_merged_cell_of_rtf_is_in_each_row_and_column_that_it_covers():
    rows = [
        (("", "Berth"), ("", "Season"), ("", "Fee")),
        ((r"\clvmgf", "North"), ("", "Summer"), ("", "40")),
        ((r"\clvmrg\clvertalt", ""), ("", "Winter"), ("", "25")),
        ((r"\clmgf", "South"), (r"\clmrg", ""), ("", "9")),
    ]
    source = ""
    for row in rows:
        borders = "".join(rf"{sign}\cellx{place}" for place, (sign, _) in enumerate(row))
        values = "".join(rf"{value}\cell " for _, value in row)
        source += rf"\trowd\trgaph70{borders}\pard\intbl {values}\row "
    assert load_bytes(
        (r"{\rtf1\ansi " + source + r"\pard End\par}").encode(), "a.rtf", doc_id="a", path="a"
    ).text == (
        "| Berth | Season | Fee |\n| North | Summer | 40 |\n| North | Winter | 25 |\n| South | South | 9 |\nEnd"
    )


@pytest.mark.parametrize("suffix", ["csv", *RECORDS])
def test_blank_rows_divide_the_tables_of_a_sheet(suffix):
    rows = [
        ["Site", "Pier"],
        ["", ""],
        ["Boat", "Fee"],
        ["Heron", "40"],
        ["Gannet", "50"],
        ["", ""],
    ]
    rows += [["Crane", "Load"], ["North", "7"], ["", ""], ["Checked in May", ""]]
    assert read(suffix, rows) == [
        *("Site | Pier", "Boat: Heron | Fee: 40", "Boat: Gannet | Fee: 50"),
        *("Crane: North | Load: 7", "Checked in May"),
    ]


@pytest.mark.parametrize(
    "rows",
    [
        [["2024-03-01", "Ida", "4"], ["2024-03-02", "Ruth", "2"]],
        [["Ida", "red"], ["Ruth", "red"], ["Bob", "blue"]],
        [["Pier", "08:05"], ["Quay", "08:10"], ["Mole", "08:20"]],
        [["Built", "2019"], ["Length", "40 m"], ["Crew", "12"]],
        [["Ada", "2021", "2022"], ["Ben", "2020", "2021"], ["Cem", "2023", "2024"]],
        [
            ["Kestrel", "Orla Finn", "red"],
            ["Heron", "Tom Ellery", "blue"],
            ["Gannet", "Ida Brandt", "green"],
        ],
        [["HX-4471", "Crane"], ["HX-4472", "Winch"]],
        [
            ["Name", "Ada Quill"],
            ["Phone", "7100"],
            ["Born", "1980-03-02"],
            ["City", "Bremen"],
            ["Mail", "a@b.org"],
        ],
    ],
    ids=str,
)
def test_a_first_row_of_values_is_no_header(rows):
    assert read("csv", rows) == [" | ".join(row) for row in rows]


@pytest.mark.parametrize(
    "names",
    [
        ["Ward", "2024-01-03 00:00", "2024-01-04 00:00"],
        ["Line", "8-9", "9-10"],
        ["Ward", "03.01.", "04.01."],
        ["Ward", "20240103", "20240104"],
        ["boat", "Fee", "Length"],
    ],
    ids=str,
)
def test_a_header_of_dates_and_hours(names):
    assert read("csv", [names, ["North", "5", "6"], ["South", "7", "8"]]) == [
        f"{names[0]}: North | {names[1]}: 5 | {names[2]}: 6",
        f"{names[0]}: South | {names[1]}: 7 | {names[2]}: 8",
    ]


def test_names_above_equal_names_reach_over_blank_cells():
    rows = [
        ["", "2023", "", "2024"],
        ["Area", "Q1", "Q2", "Q1", "Q2"],
        ["North", *"1234"],
        ["South", *"5678"],
    ]
    assert read("csv", rows)[1] == "Area: North | 2023 Q1: 1 | 2023 Q2: 2 | 2024 Q1: 3 | 2024 Q2: 4"


def test_a_repeated_header_may_be_in_capitals_and_a_table_of_words_may_follow():
    rows = [
        ["boat", "fee"],
        ["Ida", "4"],
        ["BOAT", "FEE"],
        ["Eva", "5"],
        [],
        ["Port", "Country"],
        ["Kiel", "Germany"],
    ]
    assert read("csv", [*rows, ["Brest", "France"]]) == [
        *("boat: Ida | fee: 4", "boat: Eva | fee: 5"),
        *("Port: Kiel | Country: Germany", "Port: Brest | Country: France"),
    ]


PROSE = [
    [
        "How will you do a study of the boats that may not yet be in the register of the harbour?",
        "We ask the people who sail them, in winter, when they are at home and have time for it.",
    ],
    [
        "May a fisherman who is not in the association use the slipway on the days of the fair?",
        "Yes, if he asks the harbour master at least two days before, and pays as a member does.",
    ],
    [
        "Is there a plan to open the register to boats of other harbours in the coming years?",
        "Every six months the association looks at what was asked for, and so far it was too little.",
    ],
]


@pytest.mark.parametrize("suffix", ["csv", "xlsx", "ods"])
def test_rows_of_prose_have_no_header(suffix):
    lines = read(suffix, PROSE)
    assert not any("register of the harbour?:" in line for line in lines)
    assert sum("How will you do a study" in line for line in lines) == 1


def book(*rows: tuple) -> bytes:
    workbook = openpyxl.Workbook()
    for row in rows:
        workbook.active.append(row)
    return save(workbook)


def lines_of(data: bytes, name: str) -> list[str]:
    text = load_bytes(data, name, doc_id=name, path=name).text
    return [line for line in text.split("\n") if line and not line.startswith("#")]


TWO_TABLES: list[tuple] = [("Region: North",), ("Pier", "Boats"), ("A1", 14), ("Total", 14), ()]
TWO_TABLES += [("Region: South",), ("Pier", "Boats"), ("B1", 4), ("Total", 4)]


def test_what_excel_writes_for_a_text_is_unpacked_and_marks_in_a_cell_stay():
    rows = 'Boat,Note\n"=""007""","<a href=""x"">big</a>"\nHeron,"size=""12"", color=""red"""\n'
    assert lines_of(rows.encode(), "a.csv") == [
        'Boat: 007 | Note: <a href="x">big</a>',
        'Boat: Heron | Note: size="12", color="red"',
    ]


@pytest.mark.parametrize("name", ["a.xlsx", "a.csv"])
def test_rows_of_tables_with_the_same_columns_begin_with_their_caption(name):
    rows = "\n".join(",".join(map(str, row)) for row in TWO_TABLES)
    data = book(*TWO_TABLES) if name == "a.xlsx" else rows.encode()
    assert "Region: North | Pier: Total | Boats: 14" in lines_of(data, name)
    assert "Region: South | Pier: Total | Boats: 4" in lines_of(data, name)


def test_rows_below_a_label_inside_a_table_begin_with_it():
    rows: list[tuple] = [("Pier", "Boats", "Fee"), ("North",), ("A1", 14, 3), ("Total", 14, 3)]
    rows += [("South",), ("B1", 4, 5), ("Total", 4, 5)]
    assert lines_of(book(*rows), "a.xlsx") == [
        "North",
        "North | Pier: A1 | Boats: 14 | Fee: 3",
        "North | Pier: Total | Boats: 14 | Fee: 3",
        "South",
        "South | Pier: B1 | Boats: 4 | Fee: 5",
        "South | Pier: Total | Boats: 4 | Fee: 5",
    ]


def test_one_caption_stays_above_its_table():
    assert lines_of(book(*TWO_TABLES[:4]), "a.xlsx")[1] == "Pier: A1 | Boats: 14"


def test_columns_that_are_blank_throughout_are_no_part_of_a_table():
    rows: list[tuple] = [(None, "Title:", "Arrivals"), (None, "Source:", "Harbour office"), ()]
    rows += [(None, "Code", "Pier", "Boats"), (None, "P1", "North", 143), (None, "P2", "South", 61)]
    shown = lines_of(book(*rows), "a.xlsx")
    assert shown[:3] == [
        "Title: Arrivals",
        "Source: Harbour office",
        "Code: P1 | Pier: North | Boats: 143",
    ]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (
            "Article;Price, EUR;Weight, kg\nRope;1,50;2,30\nLamp;12,80;0,75\n",
            "Article: Lamp | Price, EUR: 12,80 | Weight, kg: 0,75",
        ),
        (
            "Date;Id;Name\nApril 15, 2023;40287;Ray;\nApril 14, 2023;44413;Scott;\nApril 9, 2023;6;Rosa\n",
            "Date: April 14, 2023 | Id: 44413 | Name: Scott",
        ),
        ("Id;Sum\n1;1.204,50 EUR\n2;12,00 EUR\n", "Id: 1 | Sum: 1.204,50 EUR"),
        ("Article\tPrice\nRope\t1,50\nLamp\t12,80\n", "Article: Lamp | Price: 12,80"),
        ('Article,Price\nRope,"1,50"\nLamp,"12,80"\n', "Article: Lamp | Price: 12,80"),
        ("a,b,c,d\n1,2,3,x;y\n4,5,6,y;z\n", "a: 4 | b: 5 | c: 6 | d: y;z"),
    ],
)
def test_a_comma_inside_figures_divides_no_columns(rows, expected):
    assert expected in lines_of(rows.encode(), "a.csv")


@pytest.mark.parametrize("name", ["a.csv", "a.xlsx"])
def test_cells_that_are_pages_are_read_without_their_marks(name):
    rows = [("Id", "Body"), (1, "<p>Dues are paid in <b>May</b>.</p><p>By card</p>"), (2, "a < b")]
    table = book(*rows) if name == "a.xlsx" else "\n".join(f"{a},{b}" for a, b in rows).encode()
    assert "Id: 1 | Body: Dues are paid in May. By card" in lines_of(table, name)
