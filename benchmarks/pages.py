"""How long do pages of PDFs take: from the file to its text, and to an index with their tables and without?

    OMP_NUM_THREADS=1 python benchmarks/pages.py [FILE.pdf...] [--pages 60] [--rounds 3]

Without files, a text and a report full of tables are written from a fixed seed. Prints CPU milliseconds a page until
the text is there, and how many times as long a text with tables takes to be indexed as the same words with a space in
place of each tab, which are rows no longer; medians of the rounds, which take turns.
"""

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import fpdf

from lmkrag import Document, Engine, LandmarkEncoder
from lmkrag.formats import pdf

WORDS = [
    "crane",
    "harbour",
    "pilot",
    "ferry",
    "quay",
    "winter",
    "budget",
    "report",
    "storm",
    "light",
]
ROWS, LINES = 45, 38  # of a page


def write(pages: int, *, has_tables: bool) -> bytes:
    """Write a report: pages of prose, or of tables of four columns under a heading."""
    chance = random.Random(7)
    file = fpdf.FPDF()
    for page in range(1, pages + 1):
        file.add_page()
        file.set_font("Helvetica", style="B", size=14)
        file.cell(
            0,
            10,
            f"{page} {chance.choice(WORDS).title()} of the year",
            new_x="LMARGIN",
            new_y="NEXT",
        )
        file.set_font("Helvetica", size=10)
        if not has_tables:
            lines = (" ".join(chance.choices(WORDS, k=12)).capitalize() + "." for _ in range(LINES))
            file.multi_cell(0, 5.5, " ".join(lines), new_x="LMARGIN", new_y="NEXT")
        for row in range(ROWS if has_tables else 0):
            label = " ".join(chance.choices(WORDS, k=2)).capitalize()
            for cell in (
                ("Position", "2022", "2023", "2024") if row == 0 else (label, *_figures(chance))
            ):
                file.cell(45, 5.5, cell)
            file.ln()
    return bytes(file.output())


def _figures(chance: random.Random) -> Iterator[str]:
    return (f"{chance.randrange(100_000):,}" for _ in range(3))


def read(data: bytes) -> tuple[float, int, str]:
    """The CPU seconds that a file takes to be read, its pages and its text."""
    began = time.process_time()
    loaded = pdf.read(data, "a.pdf")
    return time.process_time() - began, len(loaded.page_starts), loaded.text


def index(text: str, encoder: LandmarkEncoder) -> float:
    """The CPU seconds that a text takes to be indexed."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Engine.open(folder, create=True, encoder=encoder) as engine,
    ):
        began = time.process_time()
        engine.add(Document("a.pdf", "a.pdf", text, kind="pdf"))
        return time.process_time() - began


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--pages", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    files = {path.name: path.read_bytes() for path in options.files}
    files = files or {
        name: write(options.pages, has_tables=name == "tables") for name in ("prose", "tables")
    }
    encoder = LandmarkEncoder.load()
    print(
        "| file | pages | ms a page | rows | times as long as without tables |\n|---|---|---|---|---|"
    )
    for name, data in files.items():
        seconds, pages, text = min(read(data) for _ in range(options.rounds))
        rows = sum("\t" in line for line in text.split("\n"))
        ratios = [
            index(text, encoder) / index(text.replace("\t", " "), encoder)
            for _ in range(options.rounds if rows else 0)
        ]
        ratio = f"{statistics.median(ratios):.2f}" if ratios else "-"
        print(
            f"| {name} | {pages} | {1000 * seconds / max(1, pages):.1f} | {rows} | {ratio} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
