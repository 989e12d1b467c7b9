import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmkrag.encoder.spec import BASE_ENCODER
from lmkrag.errors import UsageError
from lmkrag.evaluation.baselines import Baseline
from lmkrag.evaluation.compare import Options, compare
from lmkrag.evaluation.dataset import load_dataset
from lmkrag.evaluation.metrics import overlap_at, paired_interval
from lmkrag.search.weights import Weights
from lmkrag.types import Document

PIECES = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 50), st.integers(1, 30)), max_size=6
).map(lambda items: [(doc, start, start + size) for doc, start, size in items])


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
        ([DOC, DOC], [QUERY], "docs.jsonl.gz line 2: another document has the doc_id 'a'"),
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
    documents = [
        Document(name, name, text, title=title)
        for name, title in [("a", ""), ("b", "The Seville oranges")]
    ]
    untitled, titled = Baseline("recursive:100+title").encode_documents(documents)
    (plain, _) = Baseline("recursive:100").encode_documents(documents)
    assert untitled.bounds == titled.bounds == plain.bounds
    np.testing.assert_allclose(untitled.vectors, plain.vectors, atol=1e-2)
    (query,) = Baseline("recursive:100").encode_queries(["oranges from Seville"])
    assert float((titled.vectors @ query).mean()) > float((untitled.vectors @ query).mean()) + 0.1


@pytest.mark.parametrize(
    "name", ["magic:3", "recursive:", "late:256+title", "recursive:100+context", "recursive:100+"]
)
def test_unknown_baseline(name):
    with pytest.raises(UsageError, match=re.escape(f"unknown baseline {name!r}")):
        Baseline(name)


READ_ONE = Weights(most_read=1)  # reading 24 passages a question would take most of the time


def test_two_encoders_in_one_folder_are_kept_apart(sample_set, tmp_path):
    shared = {"queries": 12, "against": ["rerank:off"], "weights": READ_ONE}
    both = [Options(**shared), Options(**shared, encoder=BASE_ENCODER), Options(**shared)]
    ours, base, again = (
        compare([sample_set], tmp_path / "out", options).scores["rerank:off"] for options in both
    )
    np.testing.assert_array_equal(ours["sample"].overlaps, again["sample"].overlaps)
    assert (ours["sample"].ranks != base["sample"].ranks).any()
    assert len(list((tmp_path / "out" / "index").iterdir())) == 2


def test_a_killed_run_leaves_no_half_of_a_baseline(sample_set, tmp_path, monkeypatch):
    options = Options(against=["sentence:1"], queries=2, weights=READ_ONE)
    monkeypatch.setattr(
        Baseline, "encode_queries", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
    )
    with pytest.raises(KeyboardInterrupt):
        compare([sample_set], tmp_path, options)
    monkeypatch.undo()
    real = np.savez

    def stop_half_way(path, **arrays):
        real(path, **arrays)
        path.write_bytes(path.read_bytes()[:100])
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez", stop_half_way)
    with pytest.raises(KeyboardInterrupt):
        compare([sample_set], tmp_path, options)
    monkeypatch.undo()
    assert compare([sample_set], tmp_path, options).scores["sentence:1"]
