import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmkrag.errors import UsageError
from lmkrag.evaluation.baselines import Baseline
from lmkrag.evaluation.dataset import load_dataset
from lmkrag.evaluation.metrics import overlap_at
from lmkrag.evaluation.significance import paired_interval
from lmkrag.types import Document

PIECES = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 50), st.integers(1, 30)), max_size=6).map(
    lambda items: [(doc, start, start + size) for doc, start, size in items]
)


@given(PIECES, PIECES.filter(bool), st.integers(1, 80))
def test_overlap_against_a_list_of_characters(pieces, gold, budget):
    retrieved = [(doc, i) for doc, start, end in pieces for i in range(start, end)][:budget]
    evidence = {(doc, i) for doc, start, end in gold for i in range(start, end)}
    found = len(set(retrieved) & evidence)
    (overlap,) = overlap_at(pieces, gold, [budget])
    assert overlap.raw == pytest.approx(found / len(evidence))
    assert overlap.recall == pytest.approx(found / min(len(evidence), budget))
    assert overlap.precision == pytest.approx(found / max(1, len(retrieved)))


@given(PIECES, PIECES.filter(bool))
def test_budgets_do_not_depend_on_each_other(pieces, gold):
    together = overlap_at(pieces, gold, [5, 20, 60])
    assert together == [overlap_at(pieces, gold, [budget])[0] for budget in (5, 20, 60)]


def test_an_interval_holds_the_mean_and_knows_a_clear_difference():
    rng = np.random.default_rng(0)
    mean, low, high = paired_interval(rng.normal(0.3, 0.1, 200))
    assert 0.2 < low < mean < high < 0.4
    _, low, high = paired_interval(rng.normal(0.0, 1.0, 200))
    assert low < 0 < high
    assert paired_interval(np.zeros(5)) == (0, 0, 0)


DOC = {"doc_id": "a", "title": "A", "text": "0123456789"}
QUERY = {"query_id": "q", "query": "x?", "doc_id": "a", "spans": [[2, 5]]}


def test_a_set_is_read(write_set, tmp_path):
    write_set(tmp_path, [DOC], [QUERY])
    dataset = load_dataset(tmp_path)
    assert dataset.documents[0].text == "0123456789"
    assert dataset.queries[0].spans == ((2, 5),)


@pytest.mark.parametrize(
    ("docs", "queries", "message"),
    [
        ([DOC], [{**QUERY, "spans": [[5, 11]]}], "has a span outside its document"),
        ([DOC], [{**QUERY, "doc_id": "b"}], "names no document of the set"),
        ([DOC], [], "the set is empty"),
        ([{"doc_id": "a"}], [QUERY], "line 1: no 'text'"),
        (["text"], [QUERY], "line 1: not a JSON object"),
    ],
)
def test_a_bad_set_says_where(write_set, tmp_path, docs, queries, message):
    write_set(tmp_path, docs, queries)
    with pytest.raises(UsageError, match=message):
        load_dataset(tmp_path)


@pytest.mark.parametrize("name", ["recursive:40", "sentence:1", "late:40"])
def test_baselines_return_places_in_the_text(name, corpus):
    text = (corpus / "glass-river.txt").read_text()
    baseline = Baseline(name)
    (units,) = baseline.encode_documents([Document("a", "a", text, title="Glass River")])
    assert len(units.bounds) == len(units.vectors) > 10
    np.testing.assert_allclose(np.linalg.norm(units.vectors, axis=1), 1, atol=1e-2)
    (query,) = baseline.encode_queries(["Why was the low street empty when the water came?"])
    best = [units.bounds[i] for i in np.argsort(-(units.vectors @ query))[:8]]
    assert any(start <= text.index("was empty when the water came") < end for start, end in best)
    covered = {i for start, end in units.bounds for i in range(start, end)}
    assert all(i in covered for i, character in enumerate(text) if not character.isspace())


def test_a_baseline_may_read_titles(corpus):
    text = (corpus / "glass-river.txt").read_text()
    documents = [Document(name, name, text, title=title) for name, title in [("a", ""), ("b", "The Seville oranges")]]
    untitled, titled = Baseline("recursive:100+title").encode_documents(documents)
    (plain, _) = Baseline("recursive:100").encode_documents(documents)
    assert untitled.bounds == titled.bounds == plain.bounds
    np.testing.assert_allclose(untitled.vectors, plain.vectors, atol=1e-2)
    (query,) = Baseline("recursive:100").encode_queries(["oranges from Seville"])
    assert float((titled.vectors @ query).mean()) > float((untitled.vectors @ query).mean()) + 0.1


@pytest.mark.parametrize("name", ["magic:3", "recursive:", "late:256+title", "recursive:100+context", "recursive:100+"])
def test_unknown_baseline(name):
    with pytest.raises(UsageError, match=re.escape(f"unknown baseline {name!r}")):
        Baseline(name)
