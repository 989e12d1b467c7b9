"""Verdicts on results, and the set that they make."""

import gzip
import json

import pytest

from lmkrag import Document, Engine
from lmkrag.errors import StorageError
from lmkrag.evaluation.dataset import load_dataset
from lmkrag.server import feedback
from lmkrag.server.export import export_feedback
from lmkrag.server.feedback import FeedbackFiles, Verdict, feedback_file

QUESTION = "how is leave accrued?"


def give(client, span: dict, verdict: str, question: str = QUESTION):
    body = {"question": question, "verdict": verdict, **{name: span[name] for name in ("doc_id", "start", "end")}}
    return client.post("/api/feedback", json=body)


def test_from_the_page_to_eval(serve, lmkrag, index, tmp_path):
    with serve(tmp_path, "--index", f"demo={index}", "--writable") as running, running.client() as client:
        good, bad, other = client.post("/api/search", json={"query": QUESTION, "top_k": 3}).json()["spans"]
        assert give(client, good, "up").json()["verdict"] == "up"
        give(client, bad, "up")
        give(client, bad, "down")
        give(client, other, "up")
        give(client, other, "none")
        stored = client.get("/api/feedback", params={"question": QUESTION}).json()["verdicts"]
        assert [(item["start"], item["verdict"]) for item in stored] == [(good["start"], "up"), (bad["start"], "down")]
        assert client.get("/api/feedback", params={"question": "other"}).json() == {"verdicts": []}

        assert give(client, {**good, "end": 10**6}, "up").status_code == 400
        assert give(client, {**good, "doc_id": "none"}, "up").status_code == 404
        assert give(client, {**good, "end": good["start"]}, "up").status_code in (400, 422)
        assert give(client, good, "sideways").status_code == 422
    exported = lmkrag("questions", "export", "--index", index, "--out", tmp_path / "set")
    assert exported.returncode == 0, exported.stderr
    assert "1 questions with 1 spans, 1 found bad" in exported.stderr
    dataset = load_dataset(tmp_path / "set")
    (query,) = dataset.queries
    assert (query.query, query.doc_id, query.spans) == (QUESTION, good["doc_id"], ((good["start"], good["end"]),))
    assert len(dataset.documents) == 5
    with gzip.open(tmp_path / "set" / "rejected.jsonl.gz", "rt") as file:
        assert json.loads(file.readline())["spans"] == [[bad["start"], bad["end"]]]
    measured = lmkrag("eval", tmp_path / "set", "--out", tmp_path / "measured")
    assert measured.returncode == 0, measured.stderr


def test_changed_documents(encoder, tmp_path):
    def document(text: str) -> Document:
        return Document("a.txt", "a.txt", text)

    text = "The ferry leaves at seven. Dogs travel free. Bicycles cost a pound."
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        engine.add(document(text))
        files = FeedbackFiles()
        for start, end in ((0, 26), (27, 44), (45, 67)):
            files.add(engine._store.path, Verdict("q", "a.txt", start, end, text[start:end], "up"))
        files.add(engine._store.path, Verdict("q", "gone.txt", 0, 3, "abc", "up"))
        engine.add(
            document(
                "News! " + text.replace("Bicycles", "Prams").replace("Dogs travel free.", "Dogs travel free. " * 2)
            )
        )
        report = export_feedback(engine, tmp_path / "set")
    assert (report.queries, report.spans, report.lost) == (1, 1, 3)
    assert load_dataset(tmp_path / "set").queries[0].spans == ((6, 32),)


def test_without_feedback_and_with_a_damaged_file(lmkrag, index, tmp_path):
    missing = lmkrag("questions", "export", "--index", index, "--out", tmp_path / "set")
    assert missing.returncode == 2 and "no feedback yet" in missing.stderr
    feedback_file(index).write_text('{"question": "x"}\n')
    damaged = lmkrag("questions", "export", "--index", index, "--out", tmp_path / "set")
    assert damaged.returncode == 1 and "line 1: not a verdict" in damaged.stderr


@pytest.mark.parametrize("question", ["line\nbreak", "«ü» 🜁", "x" * 10_000])
def test_any_question(tmp_path, question):
    files = FeedbackFiles()
    files.add(tmp_path / "index", Verdict(question, "a", 0, 1, "\u2028", "up"))
    (found,) = files.find(tmp_path / "index", question)
    assert found.question == question and found.quote == "\u2028"


def test_a_server_that_is_read_only_stores_nothing(client, built_index):
    span = client.post("/api/search", json={"query": QUESTION}).json()["spans"][0]
    refused = give(client, span, "up")
    assert refused.status_code == 403 and "start with --writable" in refused.json()["detail"]
    assert not feedback_file(built_index).exists()


def test_feedback_is_bounded(index, monkeypatch):
    monkeypatch.setattr(feedback, "MAX_BYTES", 2_000)
    files = FeedbackFiles()
    with pytest.raises(StorageError, match="of feedback: export it, and move it away"):
        for number in range(100):
            files.add(index, Verdict(f"question {number}", "a", 0, 5, "quote", "up"))
    assert feedback_file(index).stat().st_size < 3_000
