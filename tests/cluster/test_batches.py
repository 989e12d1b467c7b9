"""Batches: encoded apart, adopted whole, by processes that may die."""

import json
import os
import shutil
import signal
from email.message import EmailMessage
from pathlib import Path

import numpy as np
import pytest

from lmkrag import Document, Engine
from lmkrag.cluster import parallel as indexing
from lmkrag.cluster import processes
from lmkrag.cluster.batches import Batch, find_batches
from lmkrag.cluster.parallel import adopt_batches
from lmkrag.corpus.walk import Found
from lmkrag.encoder.index_encoder import load_new_encoder
from lmkrag.errors import IndexCorrupt, IndexMismatch, UsageError
from lmkrag.index.working import WorkingFolder

QUESTIONS = ["who approves leave?", "how far have the coping stones moved?", "VX-1007", "when does the ferry leave?"]


def found(engine) -> list:
    return [[(span.doc_id, span.start, span.end) for span in engine.search(question)] for question in QUESTIONS]


def facts(engine) -> list:
    return [(info.doc_id, info.kind, info.fingerprint, info.sentences, info.meta) for info in engine.documents()]


@pytest.fixture
def folder(corpus, tmp_path) -> Path:
    """The sample corpus, a mail with an attachment, and a file that can't be read."""
    folder = tmp_path / "docs"
    shutil.copytree(corpus, folder)
    mail = EmailMessage()
    mail["Subject"] = "Valves"
    mail.set_content("The list is attached.")
    mail.add_attachment(b"Code,Pressure\nVX-1007,10 bar\n", maintype="text", subtype="csv", filename="valves.csv")
    (folder / "valves.eml").write_bytes(mail.as_bytes())
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4 nothing")
    for path in folder.rglob("*"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    return folder


@pytest.fixture
def plain(folder, tmp_path, encoder):
    """An index of it that one process made."""
    with Engine.open(tmp_path / "plain", create=True, encoder=encoder) as engine:
        engine.add(folder)
        yield engine


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(indexing, "_LEAST", 1)


def kill_a_worker() -> int:
    children = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    pids = [int(pid) for path in children for pid in path.read_text().split()]
    worker = next(pid for pid in pids if b"lmkrag.cluster.worker" in Path(f"/proc/{pid}/cmdline").read_bytes())
    os.kill(worker, signal.SIGKILL)
    return worker


def test_workers_make_the_same_index_though_one_is_killed(folder, plain, tmp_path, encoder, small_batches):
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        seen, killed = [], []

        def follow(*step):
            seen.append(step)
            if not killed:
                killed.append(kill_a_worker())

        report = engine.add(folder, workers=2, progress=follow)
        assert killed
        assert (report.added, [one.path for one in report.skipped]) == (7, ["broken.pdf"])
        assert facts(engine) == facts(plain)
        assert found(engine) == found(plain)
        assert not engine.verify()
        assert seen[-1][1] <= seen[-1][2]
        assert not WorkingFolder(tmp_path / "index", "workers").path.exists()

        again = engine.add(folder, workers=2)
        assert (again.added, again.updated, again.unchanged) == (0, 0, 6)  # the attachment is not counted
        assert [one.path for one in again.skipped] == ["broken.pdf"]

        handbook = folder / "lighthouse-handbook.md"
        with engine._reading(segments=True) as snapshot:
            row = snapshot.find_document("lighthouse-handbook.md")
            before = snapshot.read_vectors(np.arange(row.first_sentence, row.first_sentence + row.sentences))
        handbook.write_text(handbook.read_text("utf-8") + "\nThe lamp was changed in May.\n", "utf-8")
        (folder / "valves.eml").write_bytes(b"Subject: Valves\n\nNothing is attached.")
        (folder / "beekeeping.html").write_text("")
        report = engine.add(folder, workers=2)
        assert (report.updated, report.removed) == (2, 2)  # the attachment, and the file that is empty now
        assert "valves.eml/valves.csv" not in [info.doc_id for info in engine.documents()]
        with engine._reading(segments=True) as snapshot:
            row = snapshot.find_document("lighthouse-handbook.md")
            after = snapshot.read_vectors(np.arange(row.first_sentence, row.first_sentence + row.sentences))
        kept = len(before) // 2
        np.testing.assert_array_equal(before[:kept], after[:kept])  # not encoded again
        assert not engine.verify()


def test_processes_that_die_before_they_read_what_they_are_told(encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "_START", "raise SystemExit")
    long = [
        Found(tmp_path / f"{number}-{'x' * 100}.txt", "a", "", (1, 1), "") for number in range(3_000)
    ]  # a full pipe
    batches = [Batch(name, tuple(long)) for name in ("one", "two")]
    with processes.encoding_batches(batches, tmp_path / "out", encoder.spec, None, workers=2) as outcomes:
        found = list(outcomes)
    assert {batch.name for batch, _ in found} == {"one", "two"}
    assert all("died 2 times" in failure for _, failure in found)


def test_a_file_that_kills_every_process_is_skipped_with_a_line(folder, tmp_path, small_batches, monkeypatch):
    poison = "import os\nos._exit(9)\n"
    monkeypatch.setattr("lmkrag.cluster.processes._START", poison)
    with Engine.open(tmp_path / "index", create=True) as engine:
        report = engine.add(folder, workers=2)
        assert (report.added, len(report.skipped)) == (0, 7)
        assert "died 2 times" in report.skipped[0].reason
        monkeypatch.undo()
        assert engine.add(folder, workers=1).added == 7


def test_what_an_interrupted_run_has_encoded_is_adopted(folder, plain, tmp_path, encoder, small_batches, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        work = WorkingFolder(engine._store.path, "workers")
        work.claim()
        indexing.encode_sources([folder], work.new, encoder.spec, batch_bytes=1)
        (folder / "glass-river.txt").write_text("The river is of glass.")  # its batch is of no use any more
        with monkeypatch.context() as patched:
            patched.setattr(indexing, "encoding_batches", stop)
            with pytest.raises(KeyboardInterrupt):
                engine.add(folder, workers=2)
        assert len(engine.documents()) == 6
        assert engine.add(folder, workers=2).added == 1
        assert "of glass" in engine.read("glass-river.txt")
        assert not engine.verify()


def test_encode_and_adopt(lmkrag, folder, tmp_path):
    made = lmkrag("cluster", "encode", folder, "--out", tmp_path / "batches", "--batch-size", "0.02")
    assert made.returncode == 0, made.stderr
    assert "7 added, 1 skipped" in made.stderr and "skipped broken.pdf" in made.stderr
    once = load_new_encoder(None)
    again = indexing.encode_sources([folder], tmp_path / "batches", once.spec, batch_bytes=20_000)
    assert (again.added, again.unchanged, len(again.skipped)) == (0, 7, 1)
    index = tmp_path / "adopting"
    adopted = json.loads(lmkrag("cluster", "adopt", tmp_path / "batches", "--index", index, "--json").stdout)
    assert (adopted["added"], adopted["skipped"][0]["path"]) == (7, "broken.pdf")
    with Engine.open(index) as engine, Engine.open(tmp_path / "at-once", create=True, encoder=once) as plain:
        plain.add(folder)
        assert facts(engine) == facts(plain)
        assert found(engine) == found(plain)
        assert not engine.verify()
        assert adopt_batches(engine._store, [tmp_path / "batches"]).unchanged == 7
        report = engine.add(folder)
        assert (report.added, report.updated, report.unchanged) == (0, 0, 6)
    refused = lmkrag("cluster", "adopt", tmp_path / "docs", "--index", index)
    assert refused.returncode == 2 and "no batches here" in refused.stderr


def test_an_index_with_removed_documents_is_adopted(tmp_path, encoder):
    texts = {f"d{number}": f"Pump number {number} stands in yard {number}. It is oiled." for number in range(6)}
    with Engine.open(tmp_path / "one", create=True, encoder=encoder) as one:
        one.add([Document(doc_id, doc_id, text) for doc_id, text in texts.items()])
        one.remove(["d1", "d4"])
    with Engine.open(tmp_path / "two", create=True, encoder=encoder) as two:
        two.add([Document("d5", "d5", "Pump number 5 was sold."), Document("own", "own", "A page of its own.")])
        report = adopt_batches(two._store, [tmp_path / "one"])
        assert (report.added, report.updated, report.skipped) == (3, 1, ())
        assert sorted(info.doc_id for info in two.documents()) == ["d0", "d2", "d3", "d5", "own"]
        for number in (0, 2, 3, 5):
            assert two.search(f"where does pump number {number} stand?", level="sentence")[0].doc_id == f"d{number}"
        assert not two.verify()
        two.compact()
        assert not two.verify()
        assert two.search("a page of its own")[0].doc_id == "own"


def test_what_cannot_be_adopted(tmp_path, encoder, folder):
    batch = tmp_path / "batch"
    with Engine.open(batch, create=True, encoder=encoder) as engine:
        engine.add([Document("a", "a", "The gate is green.")])
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        with pytest.raises(UsageError, match="can't adopt itself"):
            adopt_batches(engine._store, [tmp_path / "index"])
        with pytest.raises(UsageError, match="no batches here"):
            adopt_batches(engine._store, [folder])
        segment = next((batch / "segments").glob("*.words"))
        whole = segment.read_bytes()
        segment.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(IndexCorrupt, match="damaged"):
            adopt_batches(engine._store, [batch])
        assert engine.documents() == [] and not engine.verify()
        segment.write_bytes(whole)
        assert adopt_batches(engine._store, [batch]).added == 1
        segment.write_bytes(b"x" * len(whole))
        assert engine.search("the gate")[0].text == "The gate is green."
    base = Engine.open(tmp_path / "other", create=True, encoder="all-MiniLM-L6-v2")
    with base as engine, pytest.raises(IndexMismatch, match="made with encoder"):
        adopt_batches(engine._store, [batch])


def test_wrong_numbers_of_workers(tmp_path, encoder, folder):
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        for workers in (0, -1, 1.5, True):
            with pytest.raises(UsageError, match="workers must be"):
                engine.add(folder, workers=workers)
        with pytest.raises(UsageError, match="workers are for files"):
            engine.add([Document("a", "a", "x")], workers=2)


def test_find_batches_in_nothing(tmp_path):
    with pytest.raises(UsageError, match="no batches here"):
        find_batches(tmp_path / "missing")
