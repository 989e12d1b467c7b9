"""The document that a question names, among many that are alike."""

import numpy as np
import pytest

from lmkrag import Document, Engine
from lmkrag.index.words.terms import query_words
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
        Document(name.lower().replace(" ", "-"), "", LEASE.format(name=name, place=place, rent=rent, months=months))
        for name, (place, rent, months) in TENANTS.items()
    ]
    with Engine.open(tmp_path_factory.mktemp("leases") / "index", create=True, encoder=encoder, rerank=False) as engine:
        engine.add(documents)
        yield engine


def named(engine, question, filter=None):
    with engine._reading(segments=True) as snapshot:
        among = None
        if filter is not None:
            rows = [snapshot.find_document(doc_id) for doc_id in filter]
            among = snapshot.documents.find(np.array([row.id for row in rows]))
        naming = match_document(snapshot, snapshot.find_terms(query_words(question)), among)
        if naming is None:
            return None, set()
        doc_id = snapshot.view_document(int(snapshot.documents.keys[naming.document])).row.doc_id
        left = set(naming.words.tolist())
        return doc_id, {word for word in question.lower().strip("?").split() if set(query_words(word).tolist()) <= left}


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
    assert named(leases, "What rent does Dunlin Ceramics pay?", others[1:])[0] is None  # there is no other
    found = leases.search("What rent does Calder Diving pay?", filter="doc_id=aurora-fisheries")
    assert {span.doc_id for span in found} == {"aurora-fisheries"}


def test_another_document_is_meant_after_all(leases):
    spans = leases.search("What may the landlord of the boathouse ask for repairs of the roof?", top_k=3)
    assert any("repairs of the roof" in span.text for span in spans)
