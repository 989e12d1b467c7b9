"""Does `ask` answer what people ask about their own files: commands, codes, tables, figures, and what is not there?

    python benchmarks/asking.py [CORPUS...] [--work DIR] [--failures]

Writes files as people have them (documentation, notes, minutes, a manual; a CSV of 5,000 rows, a workbook, a web page,
a Word file and filings in PDF, made here from a fixed seed), asks the questions of `asking/questions.tsv` and of the
tables, and prints by kind, in %: the answer is in the first passage of `search`, in its first three, in what `ask`
quotes; short answers that are shown, and the right ones among these; and of the questions that nothing answers, those
that `ask` refuses or says the documents may not answer.

Each CORPUS is a folder with `files`, and `questions.jsonl` with a regular expression for the
passages that answer and for short answers, and the sentence that answers where that is known;
`asking/corpora.toml` says what each is for. For corpora it prints instead how far what is said can
be trusted (`trust.py`): how often short answers, marked sentences and answers called strong are
right, what is called weak, the time of `ask` beside that of a search, and how well the confidence
separates (AUROC) and is calibrated, with the constants in use and fitted with each corpus left out.
`--failures` prints what is said wrongly. Indexes are kept in DIR. `confidence.py` fits the constants.
"""

import argparse
import random
import shutil
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import docx
import fpdf
import openpyxl
from trust import ask_corpus, print_corpora, print_faults

from lmkrag import Answer, Engine, Span

FOLDER = Path(__file__).with_name("asking")
NONE = "none"


class Question(NamedTuple):
    """A question, its kind, and what an answer has to contain; nothing for one that nothing answers."""

    kind: str
    text: str
    answer: str


def write_stock(folder: Path, chance: random.Random) -> list[Question]:
    """Write a CSV of 5,000 parts."""
    kinds = [
        "bolt",
        "nut",
        "washer",
        "bearing",
        "seal",
        "hinge",
        "bracket",
        "valve",
        "spring",
        "gasket",
    ]
    rows = {}
    while len(rows) < 5_000:
        code = f"{chance.choice('ABCDEFGHKLMNPRSTVWX')}-{chance.randrange(1, 2_000)}"
        name = f"{chance.choice(kinds)} {chance.choice(['steel', 'brass', 'nylon', 'zinc'])} {chance.randrange(2, 90)} mm"
        rows[code] = (
            name,
            chance.randrange(0, 3_000),
            f"{chance.randrange(5, 9_000) / 100:.2f}",
            f"Bay {chance.randrange(1, 60)}",
        )
    with (folder / "stock.csv").open("w") as file:
        file.write("part,description,in stock,price,location\n")
        file.writelines(f"{code},{','.join(map(str, values))}\n" for code, values in rows.items())
    questions = []
    for number, code in enumerate(chance.sample(sorted(rows), 40)):
        name, stock, price, bay = rows[code]
        text, answer = [
            (f"how many {code} are in stock?", str(stock)),
            (f"what is the price of {code}?", price),
            (f"where is part {code}?", bay),
            (f"what is {code}?", name),
            (f"how much does {code} cost?", price),
        ][number % 5]
        questions.append(Question("csv", text, answer))
    absent = [
        code
        for code in (f"Q-{chance.randrange(2_000, 9_000)}" for _ in range(30))
        if code not in rows
    ][:8]
    return questions + [Question(NONE, f"how many {code} are in stock?", "") for code in absent]


def write_rota(folder: Path, chance: random.Random) -> list[Question]:
    """Write a workbook of two sheets."""
    names = [
        "Amara",
        "Boris",
        "Chidi",
        "Dana",
        "Elif",
        "Farid",
        "Greta",
        "Hugo",
        "Imani",
        "Jonas",
        "Keiko",
        "Liam",
    ]
    book = openpyxl.Workbook()
    rota, rooms = book.active, book.create_sheet("Rooms")
    rota.title = "Rota"
    rota.append(["Name", "Team", "Extension", "Start"])
    rooms.append(["Room", "Seats", "Floor", "Projector"])
    questions = []
    for name in names:
        team, extension = chance.choice(["Sales", "Care", "Labs"]), chance.randrange(1_000, 9_999)
        start = f"{chance.randrange(6, 12)}:{chance.choice(['00', '15', '30'])}"
        rota.append([name, team, extension, start])
        questions.append(
            chance.choice(
                [
                    Question("workbook", f"what is {name}'s extension?", str(extension)),
                    Question("workbook", f"in which team is {name}?", team),
                    Question("workbook", f"what is the start of {name}?", start),
                ]
            )
        )
    for number in range(1, 13):
        seats, floor = chance.randrange(4, 90), chance.randrange(1, 6)
        rooms.append([f"R{number:02}", seats, floor, chance.choice(["yes", "no"])])
        questions.append(Question("workbook", f"how many seats has room R{number:02}?", str(seats)))
    book.save(folder / "office.xlsx")
    return [
        *questions,
        Question(NONE, "what is Olga's extension?", ""),
        Question(NONE, "how many seats has room R31?", ""),
    ]


def write_fares(folder: Path, chance: random.Random) -> list[Question]:
    """Write a web page with fares and a Word file with a crew list."""
    rows, questions = [], []
    for zone in "ABCDEFGH":
        adult, child = (
            f"{chance.randrange(150, 900) / 100:.2f}",
            f"{chance.randrange(80, 149) / 100:.2f}",
        )
        rows.append(f"<tr><td>{zone}{zone}</td><td>{adult}</td><td>{child}</td></tr>")
        ticket, fare = chance.choice([("adult", adult), ("child", child)])
        questions.append(Question("html", f"what is the {ticket} fare in zone {zone}{zone}?", fare))
    head = "<h1>Fares of the harbour bus</h1><p>Valid from May.</p><table>"
    head += "<tr><th>Zone</th><th>Adult</th><th>Child</th></tr>"
    (folder / "fares.html").write_text(f"{head}{''.join(rows)}</table>")
    document = docx.Document()
    document.add_heading("Crew of the Marigold")
    people = ["Ola Brandt", "Pim Vos", "Ravi Nair", "Sara Lund", "Tess Moran", "Udo Kern"]
    table = document.add_table(rows=1, cols=3)
    for cell, text in zip(table.rows[0].cells, ["Name", "Rank", "Cabin"], strict=True):
        cell.text = text
    for person in people:
        rank, cabin = (
            chance.choice(["mate", "cook", "engineer", "deckhand"]),
            f"C{chance.randrange(10, 99)}",
        )
        for cell, text in zip(table.add_row().cells, [person, rank, cabin], strict=True):
            cell.text = text
        questions.append(Question("word", f"which cabin has {person}?", cabin))
    document.save(folder / "crew.docx")
    return [
        *questions,
        Question(NONE, "which cabin has Vera Holm?", ""),
        Question(NONE, "what is the fare in zone QQ?", ""),
    ]


def write_filings(folder: Path, chance: random.Random) -> list[Question]:
    """Write the annual reports of three companies as PDF, all alike."""
    questions = []
    lines = ["Revenue", "Operating profit", "Net income", "Capital expenditure", "Long-term debt"]
    for company in ("Alder Foods", "Borealis Shipping", "Cobalt Mining"):
        pdf = fpdf.FPDF()
        pdf.add_page()
        pdf.set_font("Helvetica", size=11)
        chair = chance.choice(["A. Quist", "B. Rahn", "C. Sato"])
        text = f"{company} plc\nAnnual report 2023\n\nThe board is chaired by {chair}. "
        text += f"{company} employs {chance.randrange(200, 9_000):,} people in {chance.randrange(3, 30)} countries.\n\n"
        pdf.multi_cell(0, 6, text + "Key figures, in millions of euros")
        pdf.ln(4)
        values = {line: [f"{chance.randrange(100, 9_999):,}" for _ in range(2)] for line in lines}
        with pdf.table() as table:
            for row in [["", "2023", "2022"], *([line, *values[line]] for line in lines)]:
                cells = table.row()
                for value in row:
                    cells.cell(value)
        pdf.output(str(folder / f"{company.split()[0].lower()}-2023.pdf"))
        for line in lines:
            year = chance.randrange(2)
            questions.append(
                Question(
                    "filing",
                    f"what was the {line.lower()} of {company} in {2023 - year}?",
                    values[line][year],
                )
            )
    return [*questions, Question(NONE, "what was the revenue of Dorado Energy in 2023?", "")]


def write_all(folder: Path, chance: random.Random) -> list[Question]:
    """Write all files; return all questions."""
    rows = [line.split("\t") for line in (FOLDER / "questions.tsv").read_text("utf-8").splitlines()]
    questions = [Question(*row) for row in rows]
    for file in FOLDER.iterdir():
        if file.suffix != ".tsv":
            shutil.copy(file, folder)
    for write in (write_stock, write_rota, write_fares, write_filings):
        questions += write(folder, chance)
    return questions


def ask_all(folder: Path, questions: list[Question]) -> tuple[list[list[Span]], list[Answer]]:
    """Index the folder, search and ask."""
    with tempfile.TemporaryDirectory() as work, Engine.open(work, create=True) as engine:
        engine.add(folder)
        results = [engine.search(question.text, top_k=3) for question in questions]
        answers = [engine.ask(question.text) for question in questions]
    return results, answers


def holds(text: str, answer: str) -> bool:
    """Return whether a text has the answer, white space aside."""
    return " ".join(answer.split()).lower() in " ".join(text.split()).lower()


def is_shown_right(answer: Answer, expected: str) -> bool:
    """Return whether a short answer says what is expected, or a part of it that is not less than half."""
    return any(
        holds(short.text, expected)
        or (holds(expected, short.text) and 2 * len(short.text) >= len(expected))
        for short in answer.short
    )


def quoted(answer: Answer) -> str:
    """Return the text and the quotations of an answer."""
    return (
        "\n".join([answer.text, *(citation.quote for citation in answer.citations)])
        if answer.found
        else ""
    )


def main() -> None:
    """Write, ask, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", nargs="*", type=Path)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--failures", action="store_true")
    options = parser.parse_args()
    if options.corpora:
        with tempfile.TemporaryDirectory() as temporary:
            work = options.work or Path(temporary)
            folders = [
                corpus for corpus in options.corpora if (corpus / "questions.jsonl").exists()
            ]
            outcomes = [outcome for folder in folders for outcome in ask_corpus(folder, work)]
        print_corpora(outcomes)
        if options.failures:
            print_faults(outcomes)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        questions = write_all(folder, random.Random(17))
        results, answers = ask_all(folder, questions)
    by_kind: dict[str, list[list[bool]]] = defaultdict(list)
    refused, shown, right = [], 0, 0
    for question, spans, answer in zip(questions, results, answers, strict=True):
        if question.kind == NONE:
            refused.append(not answer.found)
            if options.failures and answer.found:
                print(f"NOT REFUSED {question.text} {answer.confidence:.2f}: {answer.text[:150]!r}")
            continue
        first = [holds(f"{span.header}\n{span.text}", question.answer) for span in spans]
        is_right = holds(quoted(answer), question.answer)
        by_kind[question.kind].append(
            [first[0] if first else False, any(first), is_right, not answer.found]
        )
        if answer.short:
            shown += 1
            right += is_shown_right(answer, question.answer)
            if options.failures and not is_shown_right(answer, question.answer):
                print(
                    f"SHORT {question.text} {[short.text for short in answer.short]}, not {question.answer!r}"
                )
        if options.failures and not is_right:
            print(
                f"{question.kind}: {question.text} ({question.answer}) {answer.confidence:.2f}: {answer.text[:150]!r}"
            )
    print(
        "| kind | questions | first passage | first three | ask right | refused or unsure |\n|---|---|---|---|---|---|"
    )
    every = [row for kind in by_kind.values() for row in kind]
    for kind, values in [*by_kind.items(), ("all", every)]:
        cells = " | ".join(
            f"{100 * sum(column) / len(values):.1f}" for column in zip(*values, strict=True)
        )
        print(f"| {kind} | {len(values)} | {cells} |")
    print(
        f"\nshort answers shown: {100 * shown / len(every):.1f} %, right: {100 * right / max(1, shown):.1f} % of them"
    )
    print(
        f"{len(refused)} questions that nothing answers, refused or unsure: {100 * sum(refused) / len(refused):.1f} %"
    )


if __name__ == "__main__":
    main()
