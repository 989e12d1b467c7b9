"""An index made anew from its own texts."""

import os
import shutil
import signal
import subprocess
import sys

import pytest
from click.testing import CliRunner

from lmkrag import Document, Engine
from lmkrag.cli import main
from lmkrag.errors import IndexMismatch, IndexNotFound, UsageError
from lmkrag.reindexing import reindex


def contents(engine):
    return {
        (one.doc_id, one.path, one.root, one.title, one.kind, repr(sorted(one.meta.items())), engine.show(one.doc_id))
        for one in engine.documents()
    }


@pytest.fixture
def before(index, encoder):
    with Engine.open(index, encoder=encoder) as engine:
        return contents(engine), engine.status()


def leftovers(index):
    return [path.name for path in index.parent.iterdir() if path.name.startswith(index.name) and path != index]


def test_another_overlap_and_recipe(index, before):
    report = reindex(index, overlap=0.25, recipe="flat")
    documents, status = before
    assert (report.added, report.skipped) == (status.documents, ())
    with Engine.open(index, overlap=0.25, recipe="flat") as engine:
        assert contents(engine) == documents
        assert engine.status().sentences == status.sentences
        assert engine.verify() == ()
        assert "accrued" in engine.search("how is leave accrued?", top_k=1)[0].text
    assert leftovers(index) == []


def test_a_thorough_reading(index, before):
    report = reindex(index, reading="thorough")
    documents, status = before
    assert (report.added, report.skipped) == (status.documents, ())
    with Engine.open(index, reading="thorough") as engine:
        assert contents(engine) == documents
        assert engine.encoder.spec.reading == "thorough"
        assert "accrued" in engine.search("how is leave accrued?", top_k=1)[0].text
        assert engine.add(Document(doc_id="a.txt", path="a.txt", text="A pump.")).added == 1
    with pytest.raises(UsageError, match="made with reading 'thorough'; run lmkrag reindex --reading plain"):
        Engine.open(index, reading="plain")
    reindex(index)
    with Engine.open(index) as engine:
        assert engine.encoder.spec.reading == "thorough"


def test_into_shards_and_back(index, before):
    reindex(index, shards=3)
    with Engine.open(index) as engine:
        assert (engine.status().shards, contents(engine)) == (3, before[0])
    reindex(index)
    with Engine.open(index) as engine:
        assert (engine.status().shards, contents(engine)) == (3, before[0])


def test_unchanged_files_are_not_read_again(index, corpus):
    reindex(index)
    with Engine.open(index) as engine:
        report = engine.add(corpus)
    assert (report.added, report.updated) == (0, 0)
    assert report.unchanged == 5


def test_another_encoder_and_what_an_index_of_old_weights_says(index, tmp_path):
    from lmkrag.encoder.spec import find_model

    other = tmp_path / "other"
    shutil.copytree(find_model(None), other)
    reindex(index, encoder=str(other))
    with Engine.open(index) as engine:
        assert engine.status().encoder == str(other)
    (other / "landmark.json").write_text(
        (other / "landmark.json").read_text().replace('"overlap": 0.5', '"overlap": 0.4')
    )
    with Engine.open(index) as engine, pytest.raises(IndexMismatch, match="run lmkrag reindex"):
        engine.search("how is leave accrued?")
    reindex(index)
    with Engine.open(index) as engine:
        assert engine.search("how is leave accrued?")


def test_a_killed_run_leaves_the_old_index_and_the_next_goes_on(index, before, tmp_path):
    code = f"""
import os, signal
from pathlib import Path
from lmkrag import encoding
from lmkrag.reindexing import reindex
encoding._COMMIT_SENTENCES = 1
done = encoding._Batch.finish
def finish(self, item):
    done(self, item)
    if item.document.doc_id.startswith("glass"):
        os.kill(os.getpid(), signal.SIGKILL)
encoding._Batch.finish = finish
reindex(Path({str(index)!r}), overlap=0.25)
"""
    killed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ})
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    with Engine.open(index) as engine:
        assert contents(engine) == before[0]
        assert engine.verify() == ()
    report = reindex(index, overlap=0.25)
    assert report.unchanged >= 1
    assert report.added + report.unchanged == before[1].documents
    assert leftovers(index) == []


def test_killed_between_the_two_renames(index, before):
    shutil.copytree(index, index.with_name(f"{index.name}.reindexed"))
    index.rename(index.with_name(f"{index.name}.old"))
    reindex(index)
    with Engine.open(index) as engine:
        assert contents(engine) == before[0]
    assert leftovers(index) == []


def test_no_index(tmp_path):
    with pytest.raises(IndexNotFound):
        reindex(tmp_path / "gone")


def test_on_the_command_line(index):
    result = CliRunner().invoke(main, ["reindex", "--index", str(index), "--overlap", "0.5"])
    assert result.exit_code == 0, result.output
    assert "5 added" in result.output
    with Engine.open(index) as engine:
        assert "accrued" in engine.search("how is leave accrued?")[0].text
