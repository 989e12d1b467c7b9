"""What is kept of files that real programs write: text, headings, lists, tables and notes, by format and writer.

    python benchmarks/writers.py

One document (three headings, prose, two lists, a table, a footnote) and one table are written by pandoc, LibreOffice
and Python's libraries, as far as they are installed (Debian: pandoc, libreoffice-writer-nogui, -calc-nogui,
-impress-nogui), and read by lmkrag; tests/data/writers has the document in the form in which Word and Google Docs save
it. Prints a table for the docs: whether all of the text is there in order, how many headings and list items are told as
such, how many cells stand in their row with their column's name at hand, and whether the note is there; a dash where
the format has no such thing.
"""

import argparse
import csv
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import docx
import fpdf
import openpyxl
import pptx

from lmkrag.errors import DocumentError
from lmkrag.formats.load import load_document
from lmkrag.sentences.split import split_sentences

HEADINGS = ("Harbour handbook", "Moorings", "Fees")
PROSE = (
    "The harbour lies on the east side of the sound.",
    "Boats moor at the outer wall. The inner basin is kept free for the ferry.",
    "Fees are paid on arrival.",
)
BULLETS = ("Fenders on both sides", "Two lines ashore")
STEPS = ("Call the harbour master", "Wait for the green light")
COLUMNS = ("Zone", "Summer", "Winter")
ROWS = (("Outer wall", "14", "6"), ("Inner basin", "22", "11"), ("Slipway", "9", "4"))
NOTE = "Residents pay half."
MARKDOWN = (
    f"""# {HEADINGS[0]}

{PROSE[0]}

## {HEADINGS[1]}

{PROSE[1]}

- {BULLETS[0]}
- {BULLETS[1]}

1. {STEPS[0]}
2. {STEPS[1]}

## {HEADINGS[2]}

{PROSE[2]}[^1]

| {" | ".join(COLUMNS)} |
|---|---|---|
"""
    + "".join(f"| {' | '.join(row)} |\n" for row in ROWS)
    + f"\n[^1]: {NOTE}\n"
)

SAVED = Path(__file__).parents[1] / "tests" / "data" / "writers"
PANDOC = {"docx": "docx", "odt": "odt", "html": "html", "epub": "epub", "rtf": "rtf", "pptx": "pptx", "rst": "rst",
          "adoc": "asciidoctor", "tex": "latex", "md": "gfm", "ipynb": "ipynb"}  # fmt: skip
OF = {"document": "a text", "slides": "slides", "table": "a table"}
OFFICE = {
    "document": ("docx", "odt", "rtf", "html", "pdf"),
    "slides": ("pptx", "odp", "pdf"),
    "table": ("xlsx", "ods", "pdf"),
}


class Case(NamedTuple):
    """A file, who wrote it, and what it has: of ``document``, ``slides`` or ``table``."""

    format: str
    writer: str
    path: Path
    has: str


def write_all(folder: Path) -> Iterator[Case]:
    """Write the files with every writer that is installed."""
    source = folder / "handbook.md"
    source.write_text(MARKDOWN)
    table = folder / "fees.csv"
    with table.open("w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *ROWS])
    if shutil.which("pandoc"):
        for suffix, form in PANDOC.items():
            path = folder / "pandoc" / f"handbook.{suffix}"
            path.parent.mkdir(exist_ok=True)
            command = [
                "pandoc",
                "-s",
                "--slide-level=2",
                "-f",
                "markdown",
                "-t",
                form,
                "-o",
                str(path),
                str(source),
            ]
            subprocess.run(command, check=True, capture_output=True)
            yield Case(suffix, "pandoc", path, "slides" if suffix == "pptx" else "document")
    if shutil.which("soffice"):
        sources = {
            "document": folder / "pandoc/handbook.docx",
            "slides": folder / "pandoc/handbook.pptx",
            "table": table,
        }
        for has, source in sources.items():
            for suffix in OFFICE[has] if source.is_file() else ():
                out = folder / has
                command = [
                    "soffice",
                    "--headless",
                    "--convert-to",
                    suffix,
                    "--outdir",
                    str(out),
                    str(source),
                ]
                subprocess.run(command, check=True, capture_output=True)
                form = f"pdf of {OF[has]}" if suffix == "pdf" else suffix
                yield Case(form, "LibreOffice", out / f"{source.stem}.{suffix}", has)
    library = folder / "python"
    library.mkdir()
    for name, write, has in (
        ("handbook.docx", write_docx, "document"),
        ("fees.xlsx", write_xlsx, "table"),
        ("handbook.pptx", write_pptx, "slides"),
        ("handbook.pdf", write_pdf, "document"),
        ("fees.csv", lambda path: shutil.copy(table, path), "table"),
    ):
        write(library / name)
        yield Case(name.rpartition(".")[2], WRITERS[name.rpartition(".")[2]], library / name, has)


def saved() -> Iterator[Case]:
    """Files of the form in which programs save them that can't run here, as they document it."""
    yield Case("html", "Google Docs", SAVED / "google-docs.html", "document")
    yield Case("md", "Google Docs", SAVED / "google-docs.md", "document")
    yield Case("html", "Word", SAVED / "word.htm", "document")


WRITERS = {
    "docx": "python-docx",
    "xlsx": "openpyxl",
    "pptx": "python-pptx",
    "pdf": "fpdf2",
    "csv": "Python",
}


def write_docx(path: Path) -> None:
    """Write a Word file."""
    document = docx.Document()
    for number, (heading, prose) in enumerate(zip(HEADINGS, PROSE, strict=True)):
        document.add_heading(heading, 1 if number == 0 else 2)
        document.add_paragraph(prose)
        if number == 1:
            for item in BULLETS:
                document.add_paragraph(item, style="List Bullet")
            for item in STEPS:
                document.add_paragraph(item, style="List Number")
    table = document.add_table(rows=0, cols=3)
    for row in (COLUMNS, *ROWS):
        cells = table.add_row().cells
        for cell, value in zip(cells, row, strict=True):
            cell.text = value
    document.add_paragraph(NOTE)
    document.save(str(path))


def write_xlsx(path: Path) -> None:
    """Write a workbook."""
    book = openpyxl.Workbook()
    for row in (COLUMNS, *ROWS):
        book.active.append([int(value) if value.isdigit() else value for value in row])
    book.save(path)


def write_pptx(path: Path) -> None:
    """Write slides."""
    deck = pptx.Presentation()
    for number, (heading, prose) in enumerate(zip(HEADINGS, PROSE, strict=True)):
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text = heading
        body = slide.placeholders[1].text_frame
        body.text = prose
        for item in (*BULLETS, *STEPS) if number == 1 else ():
            body.add_paragraph().text = item
    inch = pptx.util.Inches(1)
    table = slide.shapes.add_table(4, 3, inch, 4 * inch, 6 * inch, 2 * inch).table
    for number, row in enumerate((COLUMNS, *ROWS)):
        for column, value in enumerate(row):
            table.cell(number, column).text = value
    slide.notes_slide.notes_text_frame.text = NOTE
    deck.save(str(path))


def write_pdf(path: Path) -> None:
    """Write a PDF."""
    pdf = fpdf.FPDF()
    pdf.add_page()
    for number, (heading, prose) in enumerate(zip(HEADINGS, PROSE, strict=True)):
        pdf.set_font("Helvetica", style="B", size=14)
        pdf.multi_cell(0, 10, heading, new_x="LMARGIN", new_y="NEXT")
        pdf.set_font("Helvetica", size=11)
        pdf.multi_cell(0, 6, prose, new_x="LMARGIN", new_y="NEXT")
        items = [f"- {item}" for item in BULLETS] + [
            f"{place}. {item}" for place, item in enumerate(STEPS, 1)
        ]
        for item in items if number == 1 else ():
            pdf.multi_cell(0, 6, item, new_x="LMARGIN", new_y="NEXT")
    with pdf.table() as table:
        for values in (COLUMNS, *ROWS):
            row = table.row()
            for value in values:
                row.cell(value)
    pdf.multi_cell(0, 6, NOTE, new_x="LMARGIN", new_y="NEXT")
    pdf.output(str(path))


def measure(case: Case) -> list[str]:
    """What is kept of a file: a cell of the table for each measure."""
    try:
        document = load_document(case.path, case.path.name)
    except DocumentError as error:
        return [str(error), "", "", "", ""]
    text = " ".join(document.text.split())
    sentences = split_sentences(document.text, kind=document.kind)
    read = [
        (one.kind, one.context, " ".join(document.text[one.start : one.end].split()))
        for one in sentences
    ]
    whole = list(PROSE) if case.has != "table" else [row[0] for row in ROWS]
    places = [text.find(one) for one in whole]
    in_order = all(place >= 0 for place in places) and places == sorted(places)
    headings = [
        any(kind == "heading" and heading.lower() in line.lower() for kind, _, line in read)
        for heading in HEADINGS
    ]
    headings[0] = headings[0] or document.title == HEADINGS[0]
    items = [any(item in line and not any(o in line for o in (*BULLETS, *STEPS) if o != item) for _, _, line in read)
             for item in (*BULLETS, *STEPS)]  # fmt: skip
    cells = [
        any(
            row[0] in line
            and value in line
            and name in f"{context} {line}"
            and not any(o[0] in line for o in ROWS if o != row)
            for kind, context, line in read
            if kind in ("row", "record")
        )
        for row in ROWS
        for name, value in zip(COLUMNS[1:], row[1:], strict=True)
    ]
    of_document = case.has != "table"
    return [
        "yes" if in_order else "no",
        _share(headings) if of_document else "-",
        _share(items) if of_document else "-",
        _share(cells),
        ("yes" if NOTE in text else "no") if of_document else "-",
    ]


def _share(found: list[bool]) -> str:
    return f"{sum(found)} of {len(found)}"


def main() -> None:
    """Run and print."""
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    print(
        "| format | writer | text | headings | list items | cells | note |\n|---|---|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as folder:
        for case in sorted(
            [*write_all(Path(folder)), *saved()], key=lambda case: (case.format, case.writer)
        ):
            print(f"| {case.format} | {case.writer} | {' | '.join(measure(case))} |")


if __name__ == "__main__":
    main()
