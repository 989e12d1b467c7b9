"""Does a search find the right page of the right annual report among many that are alike?

    python benchmarks/filings.py [--failures]
    python benchmarks/filings.py --folder DIR --questions FILE

Writes the annual reports of ten companies for three years as PDF, from a fixed seed: prose that all share, statements
with a column a year, notes. Asks 150 questions about figures, ratios and facts, and prints, in %: a page that answers
is the first result, among the first five and ten; the report of the year asked for is the first result, and among ten.
A page answers if the figure asked for stands on it, in any report: those of later years repeat it. Of questions about
figures also: how often `ask` shows a short answer, and whether it is right.

Of PDFs of your own, FILE has a line a question: the question, the file's name and its pages, separated by tabs; pages
are separated by commas.
"""

import argparse
import contextlib
import random
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import fpdf
import numpy as np

from lmkrag import Engine, Span

COMPANIES = {
    "Alder Foods Group": ("packaged foods", ("Bakery", "Dairy", "Frozen")),
    "Borealis Shipping": ("container shipping", ("Atlantic", "Baltic", "Terminals")),
    "Cobalt Ridge Mining": ("metals mining", ("Copper", "Nickel", "Smelting")),
    "Dunmore Instruments": ("measuring instruments", ("Laboratory", "Industrial", "Service")),
    "Eastwick Retail": ("department stores", ("Stores", "Online", "Wholesale")),
    "Fennel Health": ("hospital supplies", ("Devices", "Diagnostics", "Pharmacy")),
    "Granite State Power": ("electric power", ("Generation", "Networks", "Retail supply")),
    "Hollis Paper": ("paper and board", ("Packaging", "Tissue", "Forestry")),
    "Ironbridge Systems": ("business software", ("Licences", "Subscriptions", "Consulting")),
    "Juniper Coast Airlines": ("passenger flights", ("Domestic", "International", "Cargo")),
}
YEARS = (2021, 2022, 2023)
STATEMENTS = {
    "Consolidated statements of income": (
        ("Net sales", 4_000, 9_000),
        ("Cost of sales", 2_000, 3_500),
        ("Selling, general and administrative expenses", 500, 900),
        ("Research and development", 50, 300),
        ("Operating income", 300, 900),
        ("Interest expense", 20, 90),
        ("Income before income taxes", 250, 800),
        ("Provision for income taxes", 50, 200),
        ("Net income", 200, 600),
    ),
    "Consolidated balance sheets": (
        ("Cash and cash equivalents", 200, 900),
        ("Accounts receivable, net", 300, 900),
        ("Inventories", 300, 900),
        ("Total current assets", 1_200, 2_500),
        ("Property, plant and equipment, net", 2_000, 5_000),
        ("Goodwill", 400, 1_500),
        ("Total assets", 5_000, 9_000),
        ("Accounts payable", 200, 700),
        ("Long-term debt", 800, 2_500),
        ("Total liabilities", 2_500, 4_500),
        ("Total shareholders' equity", 2_000, 4_000),
    ),
    "Consolidated statements of cash flows": (
        ("Depreciation and amortization", 150, 500),
        ("Share-based compensation", 20, 120),
        ("Net cash provided by operating activities", 500, 1_200),
        ("Capital expenditures", 150, 700),
        ("Acquisitions, net of cash acquired", 10, 400),
        ("Net cash used in investing activities", 200, 900),
        ("Dividends paid", 50, 250),
        ("Repurchases of common stock", 50, 400),
        ("Net cash used in financing activities", 100, 700),
    ),
}
QUESTIONS = {
    "Net sales": (
        "What were {company}'s net sales in {year}?",
        "How much did {company} sell in {year}?",
    ),
    "Research and development": (
        "How much did {company} spend on research and development in {year}?",
    ),
    "Operating income": ("What was the operating income of {company} for {year}?",),
    "Interest expense": ("What interest expense did {company} report in {year}?",),
    "Net income": (
        "What was {company}'s net income in {year}?",
        "What did {company} earn after tax in {year}?",
    ),
    "Cash and cash equivalents": ("How much cash did {company} hold at the end of {year}?",),
    "Inventories": ("What were the inventories of {company} at the end of {year}?",),
    "Total assets": ("What were the total assets of {company} at year end {year}?",),
    "Long-term debt": ("How much long-term debt did {company} have at the end of {year}?",),
    "Depreciation and amortization": (
        "What was {company}'s depreciation and amortization in {year}?",
    ),
    "Net cash provided by operating activities": (
        "What was {company}'s operating cash flow in {year}?",
    ),
    "Capital expenditures": (
        "What was the capital expenditure of {company} in {year}?",
        "What was {company}'s FY{year} capex?",
    ),
    "Dividends paid": ("How much did {company} pay in dividends in {year}?",),
    "Repurchases of common stock": (
        "What did {company} spend on buying back its own shares in {year}?",
    ),
}
PROSE = {
    "Risk factors": (
        "Our capital expenditures may not bring the returns that we expect, and we may be unable to finance them.",
        "A rise in interest rates would increase our interest expense and could lower our net income.",
        "Demand for {trade} depends on the economy, and net sales fall when customers postpone their purchases.",
        "We may be unable to pay dividends or to repurchase common stock at the level of past years.",
        "Our long-term debt contains covenants that limit acquisitions and further borrowing.",
        "If goodwill is impaired, operating income and total assets would be reduced.",
        "Currency movements affect the value of inventories and of accounts receivable abroad.",
        "A failure of our information systems could interrupt operations for days.",
        "Changes in tax law could raise our provision for income taxes.",
    ),
    "Liquidity and capital resources": (
        "Our principal sources of liquidity are cash and cash equivalents and cash flows from operating activities.",
        "Capital expenditures are planned by segment and approved by the board each autumn.",
        "We believe that operating cash flows will meet our needs for dividends, repurchases and capital expenditures.",
        "Long-term debt matures over the next ten years, and no covenant restricts the payment of dividends today.",
        "Cash used in investing activities consists of capital expenditures and acquisitions.",
        "We review the level of inventories and receivables every month.",
    ),
    "Summary of significant accounting policies": (
        "Revenue is recognized when control of goods or services passes to the customer.",
        "Inventories are stated at the lower of cost and net realizable value.",
        "Depreciation is computed by the straight-line method over the useful lives of the assets.",
        "Research and development costs are expensed as incurred.",
        "Cash equivalents are highly liquid investments with maturities of three months or less.",
        "Goodwill is tested for impairment each year in the fourth quarter.",
        "Share-based compensation is measured at the fair value of awards on the grant date.",
        "Operating leases are recognized on the balance sheet as assets and liabilities.",
    ),
    "Legal proceedings": (
        "We are party to claims that arise in the ordinary course of business, none of which we expect to be material.",
        "The company has accrued amounts for matters in which a loss is probable and can be estimated.",
    ),
}
REASONS = (
    "higher prices",
    "new customers abroad",
    "an acquisition",
    "a mild winter",
    "a weaker currency",
    "new stores",
)


class Question(NamedTuple):
    """A question; the files and pages that answer it; the file that it is about; the figure asked for, if it is one."""

    kind: str
    text: str
    pages: frozenset[tuple[str, int]]
    file: str
    value: str = ""


class Figures:
    """All figures of a company, of its years and the two before the first."""

    def __init__(self, name: str, chance: random.Random) -> None:
        self.name, self.chance = name, chance
        self.trade, self.segments = COMPANIES[name]
        years = range(YEARS[0] - 2, YEARS[-1] + 1)
        lines = [line for lines in STATEMENTS.values() for line in lines]
        self.values = {
            line: {year: chance.randrange(low, high) for year in years} for line, low, high in lines
        }
        self.by_segment = {
            segment: {year: chance.randrange(500, 3_000) for year in years}
            for segment in self.segments
        }
        self.employees = {year: chance.randrange(800, 40_000) for year in years}
        self.reason = {year: chance.choice(REASONS) for year in years}

    def margin(self, year: int) -> str:
        return (
            f"{100 * self.values['Operating income'][year] / self.values['Net sales'][year]:.1f}%"
        )

    def file(self, year: int) -> str:
        return f"{'_'.join(self.name.split()[:2])}_{year}_10K.pdf".upper().replace(
            "10K.PDF", "10K.pdf"
        )


class Report:
    """The annual report of a company: a PDF, and the pages on which each fact stands."""

    def __init__(self, company: Figures, year: int) -> None:
        self.company, self.year, self.chance = company, year, company.chance
        self.facts: dict[tuple[str, int], set[int]] = defaultdict(set)
        self._pdf = fpdf.FPDF(format="letter")
        self._write()

    def save(self, folder: Path) -> None:
        self._pdf.output(str(folder / self.company.file(self.year)))

    def _write(self) -> None:
        company, year = self.company, self.year
        self._page(
            "",
            [
                f"FORM 10-K\nANNUAL REPORT\nFor the fiscal year ended December 31, {year}\n\n{company.name}, Inc."
            ],
        )
        self._page("Item 1. Business", self._say_business())
        for _ in range(2):
            self._page("Item 1A. Risk factors", self._fill("Risk factors", 16))
        self._page("Item 3. Legal proceedings", self._fill("Legal proceedings", 4))
        self._page("Item 7. Management's discussion and analysis", self._discuss())
        self._table(
            "Results by segment", "in millions", company.by_segment, (year, year - 1, year - 2)
        )
        self._page(
            "Liquidity and capital resources", self._fill("Liquidity and capital resources", 14)
        )
        for title, lines in STATEMENTS.items():
            count = 2 if "balance" in title else 3
            rows = {line: company.values[line] for line, *_ in lines}
            self._table(
                f"{company.name}, Inc.\n{title}",
                "(in millions)",
                rows,
                tuple(year - n for n in range(count)),
            )
        for number in range(1, 4):
            self._page(
                f"Note {number}. Accounting policies",
                self._fill("Summary of significant accounting policies", 16),
            )

    def _say_business(self) -> list[str]:
        company, year = self.company, self.year
        self._know("employees", year)
        return [
            f"{company.name} is a leading company in {company.trade}. It reports three segments: "
            f"{', '.join(company.segments)}.",
            f"As of December 31, {year}, we had {company.employees[year]:,} employees in our three segments.",
            *self._fill("Risk factors", 5),
        ]

    def _discuss(self) -> list[str]:
        company, year = self.company, self.year
        for fact in ("margin", "Net sales"):
            self._know(fact, year)
            self._know(fact, year - 1)
        self._know("reason", year)
        sales = company.values["Net sales"]
        way = "rose" if sales[year] > sales[year - 1] else "fell"
        return [
            f"Net sales {way} to ${sales[year]:,} million in {year} from ${sales[year - 1]:,} million in {year - 1}, "
            f"mainly because of {company.reason[year]}.",
            f"Operating margin was {company.margin(year)} in {year}, compared with {company.margin(year - 1)} in "
            f"{year - 1}.",
            *self._fill("Liquidity and capital resources", 8),
        ]

    def _fill(self, section: str, count: int) -> list[str]:
        sentences = [
            self.chance.choice(PROSE[section]).format(trade=self.company.trade, year=self.year)
            for _ in range(count)
        ]
        return [" ".join(sentences[place : place + 4]) for place in range(0, count, 4)]

    def _know(self, fact: str, year: int) -> None:
        """Remember that a fact stands on the page that comes next."""
        self.facts[fact, year].add(self._pdf.pages_count + 1)

    def _page(self, heading: str, paragraphs: Sequence[str]) -> None:
        self._pdf.add_page()
        self._pdf.set_font("Helvetica", style="B", size=12)
        if heading:
            self._pdf.multi_cell(0, 6, heading, new_x="LMARGIN", new_y="NEXT")
            self._pdf.ln(3)
        self._pdf.set_font("Helvetica", size=10)
        for paragraph in paragraphs:
            self._pdf.multi_cell(0, 5, paragraph, new_x="LMARGIN", new_y="NEXT")
            self._pdf.ln(3)
        self._pdf.set_y(-20)
        self._pdf.cell(0, 5, str(self._pdf.page_no()), align="C")

    def _table(
        self, heading: str, unit: str, rows: Mapping[str, Mapping[int, int]], years: Sequence[int]
    ) -> None:
        """A statement as reports have it: names to the left, a column a year, no rules."""
        for name in rows:
            for year in years:
                self._know(name, year)
        pdf = self._pdf
        pdf.add_page()
        pdf.set_font("Helvetica", style="B", size=12)
        pdf.multi_cell(0, 6, heading, align="C", new_x="LMARGIN", new_y="NEXT")
        pdf.set_font("Helvetica", size=10)
        pdf.multi_cell(0, 6, unit, align="C", new_x="LMARGIN", new_y="NEXT")
        pdf.cell(100, 6, "Years ended December 31,")
        for year in years:
            pdf.cell(28, 6, str(year), align="R")
        pdf.ln(8)
        for number, (name, values) in enumerate(rows.items()):
            pdf.cell(100, 6, name)
            for year in years:
                paid = any(
                    word in name
                    for word in ("expenditures", "paid", "Repurchases", "Acquisitions", "used in")
                )
                value = f"({values[year]:,})" if paid else f"{values[year]:,}"
                pdf.cell(28, 6, f"$ {value}" if number == 0 else value, align="R")
            pdf.ln(6)


def write_reports(folder: Path) -> list[Question]:
    """Write all reports; return the questions."""
    chance = random.Random(21)
    pages: dict[tuple[str, str, int], set[tuple[str, int]]] = defaultdict(set)
    companies = [Figures(name, chance) for name in COMPANIES]
    for company in companies:
        for year in YEARS:
            report = Report(company, year)
            report.save(folder)
            for (fact, fact_year), numbers in report.facts.items():
                pages[company.name, fact, fact_year] |= {
                    (company.file(year), number) for number in numbers
                }

    def ask(
        kind: str, text: str, company: Figures, fact: str, year: int, also: int | None = None
    ) -> Question:
        places = pages[company.name, fact, year]
        if also is not None:
            places = places & pages[company.name, fact, also]
        words = {"company": company.name, "year": year, "also": also}
        file = company.file(max(year, also or year))
        figures = company.values | company.by_segment
        value = f"{figures[fact][year]:,}" if kind in ("figure", "segment") else ""
        return Question(kind, text.format(**words), frozenset(places), file, value)

    questions = []
    for company in companies:
        for line in chance.sample(sorted(QUESTIONS), 9):
            questions.append(
                ask("figure", chance.choice(QUESTIONS[line]), company, line, chance.choice(YEARS))
            )
        segment = chance.choice(company.segments)
        text = f"How much did the {segment} segment of {{company}} bring in during {{year}}?"
        questions.append(ask("segment", text, company, segment, chance.choice(YEARS)))
        for text in (
            "Was the operating margin of {company} higher in {also} or in {year}?",
            "How did {company}'s operating margin change from {year} to {also}?",
        ):
            year = chance.choice(YEARS[:-1])
            questions.append(ask("ratio", text, company, "margin", year, year + 1))
        year = chance.choice(YEARS)
        questions += [
            ask(
                "fact",
                "How many people did {company} employ at the end of {year}?",
                company,
                "employees",
                year,
            ),
            ask("fact", "Why did {company}'s net sales change in {year}?", company, "reason", year),
            ask(
                "fact",
                "What drove the sales of {company} in {year}?",
                company,
                "reason",
                chance.choice(YEARS),
            ),
        ]
    return questions


def read_questions(path: Path) -> list[Question]:
    """Read the questions about PDFs of one's own."""
    questions = []
    for line in path.read_text("utf-8").splitlines():
        text, file, pages = line.split("\t")
        numbers = [int(number) for number in pages.split(",")]
        questions.append(
            Question("all", text, frozenset((file, number) for number in numbers), file)
        )
    return questions


def measure(question: Question, spans: Sequence[Span]) -> list[bool]:
    """Return whether a right page is first, in the first five and ten, and the right report first and in ten."""
    right = [(span.doc_id, span.page) in question.pages for span in spans]
    named = [span.doc_id == question.file for span in spans]
    return [any(right[:1]), any(right[:5]), any(right[:10]), any(named[:1]), any(named[:10])]


@contextlib.contextmanager
def prepare(options: argparse.Namespace) -> Iterator[tuple[Path, list[Question]]]:
    """Yield the folder of the PDFs and the questions."""
    if options.folder:
        yield options.folder, read_questions(options.questions)
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder), write_reports(Path(folder))


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, help="PDFs of your own")
    parser.add_argument("--questions", type=Path, help="about them")
    parser.add_argument(
        "--failures", action="store_true", help="print the questions whose first result is wrong"
    )
    options = parser.parse_args()
    with (
        prepare(options) as (folder, questions),
        tempfile.TemporaryDirectory() as work,
        Engine.open(work, create=True) as engine,
    ):
        report = engine.add(folder)
        print(f"{report.added} files, {report.sentences:,} sentences, {len(questions)} questions\n")
        results = [engine.search(question.text, top_k=10) for question in questions]
        answers = [
            (question, engine.ask(question.text)) for question in questions if question.value
        ]
    rows = np.array(
        [measure(question, spans) for question, spans in zip(questions, results, strict=True)]
    )
    kinds = np.array([question.kind for question in questions])
    print(f"{'':10s} page first   five    ten   report first    ten")
    for kind in [*dict.fromkeys(kinds), "all"]:
        chosen = rows[(kinds == kind) | (kind == "all")]
        first, five, ten, report_first, report_ten = 100 * chosen.mean(0)
        print(
            f"{kind:10s} {first:10.1f} {five:6.1f} {ten:6.1f} {report_first:14.1f} {report_ten:6.1f}   ({len(chosen)})"
        )
    if answers:
        short = [(question, answer.short[0].text) for question, answer in answers if answer.short]
        wrong = [
            (question, text) for question, text in short if question.value != text.strip("$ ()")
        ]
        shown, right = 100 * len(short) / len(answers), 100 - 100 * len(wrong) / len(short)
        print(f"\nshort answers to figures: shown {shown:.1f} %, right {right:.1f} % of them")
        if options.failures:
            print(
                *(f"{question.text} {text}, not {question.value}" for question, text in wrong),
                sep="\n",
            )
    if options.failures:
        for question, spans, row in zip(questions, results, rows, strict=True):
            if not row[0]:
                print(f"\n{question.text}\n  wanted {sorted(question.pages)}")
                for span in spans[:3]:
                    print(f"  {span.doc_id} p. {span.page}: {' '.join(span.text.split())[:150]}")


if __name__ == "__main__":
    main()
