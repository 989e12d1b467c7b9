"""The add jobs: what is given, what interrupts them, what they refuse."""

import subprocess
import sys

import pytest

from lmkrag import Document, Engine
from lmkrag.errors import IndexLocked, StorageError, UsageError


@pytest.fixture
def empty(tmp_path, encoder):
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        yield engine


def test_an_iterator_of_documents_is_read_as_it_is_needed(empty, monkeypatch):
    monkeypatch.setattr("lmkrag.ingest.pipeline._COMMIT_SENTENCES", 200)
    monkeypatch.setattr("lmkrag.encoder.landmark._POOL_TOKENS", 1_000)
    alive = []

    class Counted(str):
        """A text that tells when it is gone."""

        def __new__(cls, value):
            alive.append(1)
            return super().__new__(cls, value)

        def __del__(self):
            alive.pop()

    most = []

    def documents():
        for number in range(80):
            text = Counted(f"Report {number} is new. " * 20)
            yield Document(f"d{number}", "p", text)
            del text
            most.append(len(alive))

    assert empty.add(documents()).added == 80
    assert max(most) < 50


@pytest.mark.parametrize("options", [{"include": ["*.md"]}, {"exclude": ["x"]}, {"prune": True}])
def test_options_for_files_are_refused_with_documents(empty, options):
    with pytest.raises(UsageError, match="include, exclude, prune and ray are for files"):
        empty.add(Document("a", "a", "One."), **options)


def test_progress_is_told_for_documents_too(empty):
    told = []
    empty.add(
        (Document(f"d{i}", "p", "The bridge is closed. " * 9) for i in range(3)),
        progress=lambda *a: told.append(a),
    )
    assert {name for name, _, _ in told} == {"d0", "d1", "d2"}
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)
    assert told[-1][1:] == (3 * 9 * 22, 0)


def test_nothing_is_added_by_an_empty_list(empty):
    assert empty.add([]).added == 0
    assert empty.add(iter(())).added == 0


def test_writing_inside_a_callback_is_refused_and_nothing_is_lost(empty):
    refused = []

    def progress(*_):
        for write in (
            lambda: empty.add(Document("b", "p", "Two.")),
            lambda: empty.remove("a"),
            empty.compact,
        ):
            with pytest.raises(
                IndexLocked, match="this program is already writing to this index"
            ) as error:
                write()
            refused.append(error)

    report = empty.add(
        [Document(f"d{i}", "p", "The bridge is closed.") for i in range(3)], progress=progress
    )
    assert (report.added, bool(refused)) == (3, True)
    assert empty.verify() == ()
    assert len(empty.documents()) == 3


def test_reading_inside_a_callback_works(empty):
    found = []
    empty.add(Document("a", "p", "The bridge is closed."))
    empty.add(
        Document("b", "p", "The gate is shut."),
        progress=lambda *_: found.append(empty.search("bridge")[0].doc_id),
    )
    assert set(found) == {"a"}


def test_a_commit_of_files_that_are_gone_is_refused(empty, monkeypatch):
    empty.add(Document("a", "p", "The bridge is closed."))
    store = empty._store
    real = store.stage_segment

    def stage(*tables):
        segment = real(*tables)
        (store.path / "segments" / f"{segment.name}.words").unlink()
        return segment

    monkeypatch.setattr(store, "stage_segment", stage)
    with pytest.raises(
        StorageError, match="gone before it was committed; what was committed before is kept"
    ):
        empty.add(Document("b", "p", "The gate is shut."))
    assert empty.verify() == ()
    assert [document.doc_id for document in empty.documents()] == ["a"]


def test_ctrl_c_commits_the_documents_that_are_whole(tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    for number in range(60):
        (docs / f"{number:03}.txt").write_text(
            f"Report {number}. " + "The harbour was dredged in the spring. " * 30
        )
    code = """
import os, signal, sys
from lmkrag.ingest import pipeline as encoding
from lmkrag.cli import main
from lmkrag.encoder import landmark
landmark._POOL_TOKENS = 1_000
finish, count = encoding._PendingCommit.finish, []
def finish_and_interrupt(batch, item):
    finish(batch, item)
    count.append(1)
    if len(count) == 10:
        os.kill(os.getpid(), signal.SIGINT)
encoding._PendingCommit.finish = finish_and_interrupt
main(sys.argv[1:])
"""
    command = [sys.executable, "-c", code, "index", str(docs), "--index", str(tmp_path / "index")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 130, done.stderr
    assert (
        "interrupted; complete documents are indexed, run the same command to continue"
        in done.stderr
    )
    assert "Traceback" not in done.stderr
    with Engine.open(tmp_path / "index") as engine:
        assert 10 <= len(engine.documents()) < 60
        assert engine.verify() == ()


def test_an_interruption_inside_a_long_document_keeps_the_whole_ones(empty, monkeypatch):
    from lmkrag.ingest import pipeline as encoding

    monkeypatch.setattr(encoding, "_SEGMENT_ROWS", 30)
    seen = []

    def progress(name, done, total):
        seen.append(name)
        if seen.count("long") == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("lmkrag.encoder.landmark._POOL_TOKENS", 300)
    short = [Document(f"s{i}", "p", "The bridge is closed. It rains.") for i in range(3)]
    with pytest.raises(KeyboardInterrupt):
        empty.add(
            [*short, Document("long", "p", "The harbour was dredged. " * 400)], progress=progress
        )
    assert [document.doc_id for document in empty.documents()] == ["s0", "s1", "s2"]
    assert empty.verify() == ()
    assert (
        empty.add([*short, Document("long", "p", "The harbour was dredged. " * 400)]).unchanged == 3
    )
    assert empty.verify() == ()
    assert empty.search("the harbour", top_k=1)[0].doc_id == "long"
