"""An index made anew from its own texts."""

import os
import shutil
import signal
import subprocess
import sys
import threading

import pytest
from click.testing import CliRunner

from lmkrag import Document, Engine, LandmarkEncoder
from lmkrag.cli import main
from lmkrag.encoder.spec import find_model
from lmkrag.errors import IndexMismatch, IndexNotFound, UsageError
from lmkrag.index import working
from lmkrag.index.working import WorkingFolder
from lmkrag.ingest.reindex import reindex
from lmkrag.system.platform import exchange


def contents(engine):
    return {
        (
            one.doc_id,
            one.path,
            one.root,
            one.title,
            one.kind,
            repr(sorted(one.meta.items())),
            engine.read(one.doc_id),
        )
        for one in engine.documents()
    }


@pytest.fixture
def before(index, encoder):
    with Engine.open(index, encoder=encoder) as engine:
        return contents(engine), engine.status()


def leftovers(index):
    return [
        path.name for path in index.parent.iterdir() if index.name in path.name and path != index
    ]


def test_another_encoder_and_recipe(index, before):
    report = reindex(index, encoder=LandmarkEncoder.load(overlap=0.25), recipe="flat")
    documents, status = before
    assert (report.added, report.skipped) == (status.documents, ())
    with Engine.open(index, recipe="flat") as engine:
        assert contents(engine) == documents
        assert engine.status().sentences == status.sentences
        assert engine.verify() == ()
        assert "accrued" in engine.search("how is leave accrued?", top_k=1)[0].text
    assert leftovers(index) == []


def test_unchanged_files_are_not_read_again(index, corpus):
    reindex(index)
    with Engine.open(index) as engine:
        report = engine.add(corpus)
    assert (report.added, report.updated) == (0, 0)
    assert report.unchanged == 5


def test_another_encoder_and_what_an_index_of_old_weights_says(index, tmp_path):

    other = tmp_path / "other"
    shutil.copytree(find_model(None), other)
    reindex(index, encoder=str(other))
    with Engine.open(index) as engine:
        assert engine.status().encoder == str(other)
    (other / "landmark.json").write_text(
        (other / "landmark.json").read_text().replace('"overlap": 0.5', '"overlap": 0.4')
    )
    with (
        Engine.open(index) as engine,
        pytest.raises(IndexMismatch, match="run lmkrag index-tools reindex"),
    ):
        engine.search("how is leave accrued?")
    reindex(index)
    with Engine.open(index) as engine:
        assert engine.search("how is leave accrued?")


def test_a_killed_run_leaves_the_old_index_and_the_next_goes_on(index, before, tmp_path):
    code = f"""
import os, signal
from pathlib import Path
from lmkrag.ingest import pipeline as encoding
from lmkrag import LandmarkEncoder
from lmkrag.ingest.reindex import reindex
encoding._COMMIT_SENTENCES = 1
done = encoding._PendingCommit.finish
def finish(self, item):
    done(self, item)
    if item.document.doc_id.startswith("glass"):
        os.kill(os.getpid(), signal.SIGKILL)
encoding._PendingCommit.finish = finish
reindex(Path({str(index)!r}), encoder=LandmarkEncoder.load(overlap=0.25))
"""
    killed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ}
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    with Engine.open(index) as engine:
        assert contents(engine) == before[0]
        assert engine.verify() == ()
    report = reindex(index, encoder=LandmarkEncoder.load(overlap=0.25))
    assert report.unchanged >= 1
    assert report.added + report.unchanged == before[1].documents
    assert leftovers(index) == []


def test_killed_between_the_two_renames(index, before):
    """As where the system can't exchange two directories in one step."""
    work = WorkingFolder(index, "reindex")
    work.claim()
    shutil.copytree(index, work.new)
    index.rename(work.old)
    reindex(index)
    with Engine.open(index) as engine:
        assert contents(engine) == before[0]
    assert leftovers(index) == []


def test_killed_right_after_the_exchange(index, before):
    work = WorkingFolder(index, "reindex")
    work.claim()
    shutil.copytree(index, work.new)
    with Engine.open(work.new) as engine:
        engine.add([Document("new.txt", "", "Made by the job.")])
    (work.path / "working-folder").write_text(str(work.new.stat().st_ino))
    assert exchange(work.new, index)
    work.finish_interrupted()
    assert work.old.exists() and not work.new.exists()
    with Engine.open(index) as engine, Engine.open(work.old) as old:
        assert engine.status().documents == len(before[0]) + 1
        assert contents(old) == before[0]


@pytest.mark.parametrize("exchanged", [True, False])
def test_a_reader_meets_one_index_or_the_other(index, before, monkeypatch, exchanged):
    if not exchanged:
        monkeypatch.setattr(working, "exchange", lambda *_: False)
    reindex(index)
    with Engine.open(index) as engine:
        assert contents(engine) == before[0]
    assert leftovers(index) == []


def test_searches_go_on_while_indexes_are_exchanged(index):
    with Engine.open(index) as engine:
        engine.remove(
            [info.doc_id for info in engine.documents() if info.doc_id != "lighthouse-handbook.md"]
        )
    failures, done = [], threading.Event()

    def search():
        while not done.is_set():
            try:
                with Engine.open(index, rerank=False) as engine:
                    assert engine.search("how is leave accrued?", mode="lexical")
            except IndexMismatch:  # another encoder's index took its place between the two calls
                continue
            except Exception as error:
                failures.append(error)
                return

    reader = threading.Thread(target=search)
    reader.start()
    for overlap in (0.25, 0.5, 0.25):
        reindex(index, encoder=LandmarkEncoder.load(overlap=overlap))
    done.set()
    reader.join()
    assert failures == []


@pytest.mark.parametrize(
    "name", ["{}.old", "{}.reindexed", "{}.damaged", ".{}.old", ".{}.pulled", "{}.blocks"]
)
def test_a_neighbour_of_the_index_is_left_alone(index, name):
    mine = index.with_name(name.format(index.name))
    mine.mkdir()
    (mine / "thesis.txt").write_text("years of work")
    with Engine.open(index) as engine:
        engine.add(mine)
    reindex(index)
    assert (mine / "thesis.txt").read_text() == "years of work"


def test_a_strangers_folder_in_the_way_is_refused(index, before):
    work = WorkingFolder(index, "reindex").path
    work.mkdir()
    (work / "thesis.txt").write_text("years of work")
    with pytest.raises(
        UsageError, match=r"exists and was not created by lmkrag; move it elsewhere"
    ):
        reindex(index)
    assert (work / "thesis.txt").read_text() == "years of work"
    with Engine.open(index) as engine:
        assert contents(engine) == before[0]


def test_the_index_may_be_the_working_directory(index, before, monkeypatch):
    monkeypatch.chdir(index)
    for command in (["index-tools", "reindex"], ["status"]):
        result = CliRunner().invoke(main, [*command, "--index", "."])
        assert result.exit_code == 0, result.output
        os.chdir(index)
    assert leftovers(index) == []


def test_no_index(tmp_path):
    with pytest.raises(IndexNotFound):
        reindex(tmp_path / "gone")


def test_on_the_command_line(index):
    result = CliRunner().invoke(
        main, ["index-tools", "reindex", "--index", str(index), "--encoder", "landmark-mini"]
    )
    assert result.exit_code == 0, result.output
    assert "5 added" in result.output
    with Engine.open(index) as engine:
        assert "accrued" in engine.search("how is leave accrued?")[0].text
