"""The document that a question names, among many that are alike."""

import numpy as np
import pytest

from lmkrag import Document, Engine
from lmkrag.language.terms import query_variants, query_words
from lmkrag.search.candidates import match_document

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


def named(engine, question, filter=None, names=()):
    with engine._reading(segments=True) as snapshot:
        among = None
        if filter is not None:
            rows = [snapshot.find_document(doc_id) for doc_id in filter]
            among = snapshot.documents.find(np.array([row.id for row in rows]))
        terms = snapshot.find_terms(query_words(question))
        naming = match_document(
            snapshot, terms, among, names=[query_variants(name)[0] for name in names]
        )
        if naming is None:
            return None, set()
        doc_id = snapshot.view_document(int(snapshot.documents.keys[naming.document])).row.doc_id
        left = set(naming.words.tolist())
        return doc_id, {
            word
            for word in question.lower().strip("?").split()
            if set(query_words(word).tolist()) <= left
        }


@pytest.mark.parametrize("name", TENANTS)
def test_the_right_one_is_searched(leases, name):
    question = f"Consider the lease with {name}: how much notice must be given?"
    spans = leases.search(question, top_k=3)
    assert spans[0].doc_id == name.lower().replace(" ", "-")
    assert f"notice of {TENANTS[name][2]} months" in " ".join(
        span.text for span in spans if span.doc_id == spans[0].doc_id
    )


def test_words_that_name_it_have_done_their_work(leases):
    doc_id, left = named(leases, "What notice must Calder Diving give?")
    assert doc_id == "calder-diving"
    assert {"calder", "diving"} & left == set()
    assert "notice" in left


def test_a_question_that_names_none_or_several(leases):
    assert named(leases, "How much notice must be given?") == (None, set())
    assert named(leases, "Do Calder Diving and Dunlin Ceramics pay the same?")[0] is None
    assert named(leases, "What is a bowline?") == (None, set())


def test_only_documents_that_may_be_found_are_named(leases):
    others = ["aurora-fisheries", "dunlin-ceramics"]
    assert named(leases, "What rent does Calder Diving pay?", others)[0] is None
    assert named(leases, "What rent does Dunlin Ceramics pay?", others)[0] == "dunlin-ceramics"
    assert (
        named(leases, "What rent does Dunlin Ceramics pay?", others[1:])[0] is None
    )  # there is no other
    found = leases.search("What rent does Calder Diving pay?", filter="doc_id=aurora-fisheries")
    assert {span.doc_id for span in found} == {"aurora-fisheries"}


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
    question = "How old did Ida Rehn get?"
    doc_id, left = named(tables, question)
    assert doc_id == "pilots.csv"
    assert {"ida", "rehn"} <= left
    assert "name: Ida Rehn" in tables.search(question, top_k=1)[0].text


def test_a_document_without_a_name_of_the_question_is_not_the_one(tables):
    question = "How much rainfall did Ronehamn have in 1992?"
    assert named(tables, question)[0] == "rainfall-of-two-places.csv"
    assert named(tables, question, names=["Ronehamn"])[0] is None
    assert "place: Ronehamn | year: 1992" in tables.search(question, top_k=1)[0].text


def test_names_and_numbers_of_a_question_raise_rows(tables):
    (span,) = tables.search("How much rain did Burgsvik measure in 1991?", top_k=1, explain=True)
    assert span.text.strip() == "place: Burgsvik | year: 1991 | rain: 22"
    (factor,) = [
        factor.value for factor in span.explanation.factors if factor.name == "names and numbers"
    ]
    assert factor == pytest.approx(1.1 * 1.1)
