"""``lmkrag eval`` and ``lmkrag train``, as a user runs them."""

import json
import sqlite3

import pytest

from lmkrag.errors import UsageError
from lmkrag.evaluation.dataset import load_dataset


def test_eval_compares_and_writes_a_report(lmkrag, sample_set, tmp_path):
    result = lmkrag(
        "eval",
        sample_set,
        "--against",
        "recursive:50,rerank:off",
        "--queries",
        4,
        "--out",
        tmp_path / "report",
    )
    assert result.returncode == 0, result.stderr
    assert "| lmkrag |" in result.stdout
    assert "| recursive:50 | 500 |" in result.stdout
    report = json.loads((tmp_path / "report" / "report.json").read_text())
    assert report["queries"] == {"sample": 4}
    ours = report["systems"]["lmkrag"]
    assert ours["macro"] == ours["sets"]["sample"]
    assert 0.5 < ours["macro"]["recall"]["500"] <= ours["macro"]["recall"]["4000"]
    assert 0.5 < ours["macro"]["mrr"] <= 1
    assert 0.3 < ours["macro"]["ultimate"] <= 1
    for system in report["systems"].values():
        for budget in ("500", "1000", "2000", "4000"):
            assert 0 <= system["macro"]["whole"][budget] <= 1
    differences = {(d["system"], d["budget"]): d for d in report["differences"]}
    recall = {name: values["macro"]["recall"]["500"] for name, values in report["systems"].items()}
    found = differences["recursive:50", 500]
    assert abs(found["mean"] - (recall["lmkrag"] - recall["recursive:50"])) < 1e-9
    assert found["low"] <= found["mean"] <= found["high"]
    assert report["systems"]["rerank:off"]["macro"]["recall"]["4000"] > 0.9
    assert (tmp_path / "report" / "report.md").read_text() == result.stdout


def test_eval_runs_again_from_what_it_kept(lmkrag, sample_set, tmp_path):
    first = lmkrag("eval", sample_set, "--queries", 2, "--out", tmp_path, "--json")
    again = lmkrag(
        "eval", sample_set, "--queries", 2, "--out", tmp_path, "--json", "--within", "sample"
    )
    assert json.loads(first.stdout)["queries"] == {"sample": 2}
    assert json.loads(again.stdout)["systems"]["lmkrag"]["macro"]["recall"]["4000"] > 0.9


def test_eval_keeps_an_index_for_each_encoder(lmkrag, sample_set, tmp_path):
    for encoder in ("landmark-mini", "landmark-multilingual"):
        result = lmkrag("eval", sample_set, "--queries", 2, "--out", tmp_path, "--encoder", encoder)
        assert result.returncode == 0, result.stderr
    made = [read_meta(path, "encoder") for path in tmp_path.glob("index/*/*")]
    assert sorted(json.loads(spec)["name"] for spec in made) == [
        "landmark-mini",
        "landmark-multilingual",
    ]


def read_meta(index, key):
    with sqlite3.connect(index / "catalog.sqlite") as connection:
        return connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()[0]


def test_eval_says_what_is_wrong(lmkrag, sample_set, tmp_path, write_set):
    result = lmkrag("eval", tmp_path / "gone", "--out", tmp_path / "report")
    assert result.returncode == 2
    assert "no such file" in result.stderr
    result = lmkrag("eval", sample_set, "--against", "magic:3", "--out", tmp_path / "report")
    assert result.returncode == 2
    assert "unknown baseline 'magic:3'" in result.stderr
    documents = [{"doc_id": "a", "title": "", "text": "Nothing."}]
    queries = [{"query_id": "1", "query": "What?", "doc_id": "a", "spans": []}]
    empty = write_set(tmp_path / "empty", documents, queries)
    result = lmkrag("eval", empty, "--out", tmp_path / "report")
    assert result.returncode == 2
    assert "no question of these sets has evidence" in result.stderr
    for wrong in ([[1]], "x", [[1.5, 3]], [[0, True]], [1], {"0": [0, 3]}, None):
        bad = write_set(tmp_path / "bad", documents, [*queries, {**queries[0], "spans": wrong}])
        with pytest.raises(
            UsageError, match=r"queries\.jsonl\.gz line 2: 'spans' must be pairs of whole numbers"
        ):
            load_dataset(bad)
    for key, value in (("query", 1), ("doc_id", [])):
        bad = write_set(tmp_path / "bad", documents, [{**queries[0], key: value}])
        with pytest.raises(UsageError, match=rf"queries\.jsonl\.gz line 1: '{key}' must be text"):
            load_dataset(bad)


def test_train_writes_an_encoder_that_indexes(lmkrag, sample_set, corpus, tmp_path):
    config = tmp_path / "train.toml"
    config.write_text(f"""
out = "run"
data = "{sample_set.parent}"
keep_base = 0.5
[model]
window = 64
[[stages]]
name = "documents"
steps = 2
tokens = 128
windows = [64]
sets = [{{ path = "sample", task = "documents" }}]
""")
    result = lmkrag("train", config)
    assert result.returncode == 0, result.stderr
    folder = result.stdout.strip()
    assert folder == str(tmp_path / "run" / "encoder")
    index = tmp_path / "index"
    assert lmkrag("index", corpus, "--index", index, "--encoder", folder).returncode == 0
    found = lmkrag("search", "Why was it called the Glass River?", "--index", index, "--json")
    assert "froze so clear" in json.loads(found.stdout)["spans"][0]["text"]


def test_train_says_what_is_wrong(lmkrag, tmp_path):
    result = lmkrag("train", tmp_path / "gone.toml")
    assert result.returncode == 2
    assert "no such file" in result.stderr
