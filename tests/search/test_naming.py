"""The documents that a question names, among many that are alike."""

import pytest

from lmkrag import Document, Engine

TENANTS = {
    "Aurora Fisheries": ("boathouse", 1450, 3),
    "Bright Kayak School": ("old ticket office", 980, 2),
    "Calder Diving": ("loft", 1720, 6),
    "Dunlin Ceramics": ("workshop", 640, 4),
    "Eider Smokehouse": ("kiosk", 2100, 12),
}


LEASE = """LEASE

between the co-operative (the landlord) and {name} (the tenant)

1. Premises
The landlord lets to the tenant the {place} with everything in it.

2. Rent
The rent is {rent} crowns a month and is due on the third working day.

3. Notice
Either side may give notice of {months} months to the end of a quarter. Notice must be given in writing.

4. Repairs
The landlord pays for repairs of the roof, the tenant for all others.
"""


@pytest.fixture(scope="module")
def leases(encoder, tmp_path_factory):
    documents = [
        Document(
            name.lower().replace(" ", "-"),
            "",
            LEASE.format(name=name, place=place, rent=rent, months=months),
        )
        for name, (place, rent, months) in TENANTS.items()
    ]
    with Engine.open(
        tmp_path_factory.mktemp("leases") / "index", create=True, encoder=encoder, rerank=False
    ) as engine:
        engine.add(documents)
        yield engine


def named(engine, question, **options):
    """The documents whose scores are not lowered because the question names others."""
    found = engine.search(question, level="document", top_k=20, explain=True, **options)
    factors = {
        span.doc_id: {factor.name: factor.value for factor in span.explanation.factors}
        for span in found
    }
    return {name for name, each in factors.items() if each.get("named documents", 1.0) > 0.99}


@pytest.mark.parametrize("name", TENANTS)
def test_the_right_one_is_searched(leases, name):
    question = f"Consider the lease with {name}: how much notice must be given?"
    spans = leases.search(question, top_k=3)
    assert spans[0].doc_id == name.lower().replace(" ", "-")
    assert f"notice of {TENANTS[name][2]} months" in " ".join(
        span.text for span in spans if span.doc_id == spans[0].doc_id
    )


def test_the_named_document_is_preferred_whatever_is_asked(leases):
    assert named(leases, "What notice must Calder Diving give?") == {"calder-diving"}
    assert named(leases, "What is the rent of Calder's loft?") == {"calder-diving"}


def test_two_names_mean_both(leases):
    question = "Do Calder Diving and Dunlin Ceramics pay the same?"
    assert named(leases, question) == {"calder-diving", "dunlin-ceramics"}


def test_a_question_that_names_none_prefers_none(leases):
    assert len(named(leases, "How much notice must be given?")) == len(TENANTS)
    assert leases.search("What is a bowline?", explain=True)


def test_only_documents_that_may_be_found_are_named(leases):
    others = {"doc_id": ["aurora-fisheries", "dunlin-ceramics"]}
    assert named(leases, "What rent does Calder Diving pay?", filter=others) == {
        "aurora-fisheries",
        "dunlin-ceramics",
    }
    assert named(leases, "What rent does Dunlin Ceramics pay?", filter=others) == {
        "dunlin-ceramics"
    }


REPORT = """# Annual report {year}

{name}, annual report for the year ended December 31, {year}.

## Overview

The company sells its products in fourteen countries. Costs of materials rose.

## Income taxes

{taxes}
"""
COMPARED = (
    "In FY{year} the effective tax rate was {rate} %, compared to {before} % in the year before. How "
    "the rates compare depends on the mix of earnings."
)


@pytest.fixture(scope="module")
def reports(encoder, tmp_path_factory):
    companies = ("Corvid Foods", "Ullin Textiles", "Merrow Paper", "Brandt Marine", "Pell Cables")
    documents = []
    for number, (company, year) in enumerate((c, y) for c in companies for y in (2021, 2022)):
        taxes = COMPARED.format(year=year, rate=11 + number, before=21 + number)
        if company == "Brandt Marine":
            taxes = f"Our rate of tax was {number} % because of losses; it had been {number + 5} %."
        text = REPORT.format(name=company, year=year, taxes=taxes)
        documents.append(Document(f"{company.split()[0]}-{year}.md", "", text))
    with Engine.open(
        tmp_path_factory.mktemp("reports") / "index", create=True, encoder=encoder
    ) as engine:
        engine.add(documents)
        yield engine


@pytest.mark.parametrize("year", [2021, 2022])
def test_a_company_with_several_reports_is_meant_in_the_year_that_is_asked_for(reports, year):
    question = f"How does Brandt's effective tax rate in FY{year} compare to the year before?"
    (first,) = reports.search(question, top_k=1)
    assert first.doc_id == f"Brandt-{year}.md"
    assert "rate of tax was" in first.text
    cited = {citation.span.doc_id for citation in reports.ask(question).citations}
    assert {doc_id.split("-")[0] for doc_id in cited} == {"Brandt"}


def test_a_date_of_the_question_is_read_in_the_place_of_a_passage(encoder, tmp_path):
    days = {"2025-04-09": "raise the berth fee", "2025-06-13": "replace the harbour lights"}
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        engine.add(
            Document(
                f"{day}.md",
                f"{day}.md",
                f"# Harbour committee\n\nPresent: Cai Mor, Dee Hart, Eli Voss\n\n## Decisions\n\nIt was "
                f"agreed to {decision}. Eli Voss will see to it before the next meeting.\n",
            )
            for day, decision in days.items()
        )
        for written, day in (("9 April", "2025-04-09"), ("13 June", "2025-06-13")):
            (first, *_) = engine.search(f"what did the committee decide on {written}?", top_k=1)
            assert first.doc_id == f"{day}.md"
            assert days[day] in first.text


def test_another_document_is_meant_after_all(leases):
    spans = leases.search(
        "What may the landlord of the boathouse ask for repairs of the roof?", top_k=3
    )
    assert any("repairs of the roof" in span.text for span in spans)


PILOTS = """name,age,home
Ida Rehn,41,Visby
Olle Bark,29,Fårö
Maj Lund,63,Burgsvik
"""


@pytest.fixture(scope="module")
def tables(encoder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    (folder / "pilots.csv").write_text(PILOTS)
    goats = [
        f"{2 + number % 3} years old,{4 + number / 10:.1f},{name}"
        for number, name in enumerate("ABCDEFGHIJ")
    ]
    (folder / "goats.csv").write_text("age,fat of the milk,herd\n" + "\n".join(goats))
    years = [
        (place, year) for place in ("Visby", "Burgsvik", "Ronehamn") for year in range(1981, 1993)
    ]
    rows = [f"{place},{year},{mm}" for mm, (place, year) in enumerate(years)]
    (folder / "measured.csv").write_text("\n".join(["place,year,rain", *rows]))
    columns = [f"rainfall {year}" for year in (1990, 1991, 1992)]
    (folder / "rainfall-of-two-places.csv").write_text(
        f"place,{','.join(columns)}\nKlinte,512,498,530\nHemse,471,520,488\n"
    )
    with Engine.open(folder / "index", create=True, encoder=encoder) as engine:
        engine.add(folder)
        yield engine


def test_a_row_is_found_by_words_that_stand_in_the_first_rows_of_its_table(tables):
    """They name the table, since they are at its beginning, and tell its rows apart all the same."""
    assert "name: Ida Rehn" in tables.search("How old did Ida Rehn get?", top_k=1)[0].text


def test_a_document_without_a_name_of_the_question_is_not_the_one(tables):
    question = "How much rainfall did Ronehamn have in 1992?"
    assert "place: Ronehamn | year: 1992" in tables.search(question, top_k=1)[0].text


def test_names_and_numbers_of_a_question_find_a_row(tables):
    (span,) = tables.search("How much rain did Burgsvik measure in 1991?", top_k=1)
    assert span.text.strip() == "place: Burgsvik | year: 1991 | rain: 22"
