"""Files are encoded on a Ray cluster of several machines, as far as one machine can be several; some of them die."""

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from email.message import EmailMessage
from pathlib import Path

import numpy as np
import pytest

from lmkrag import Document, Engine
from lmkrag.errors import StorageError, UsageError
from lmkrag.index.store import IndexStore
from lmkrag.index.working import WorkingFolder
from lmkrag.ingest import ray_encoding
from lmkrag.ingest.changes import read_known
from lmkrag.ingest.ray_encoding import encode_batch, plan_batches
from lmkrag.ingest.walk import walk

pytestmark = pytest.mark.timeout(280)
QUESTIONS = [
    "who approves leave?",
    "how far have the coping stones moved?",
    "VX-1007",
    "when does the ferry leave?",
]


@pytest.fixture(scope="module")
def cluster():
    """Two machines of a core, which start no worker before one is needed: each takes seconds of a processor."""
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_prestart_worker_first_driver="0")
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    machines = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    machines.add_node(num_cpus=1)
    ray.init(address=machines.address, log_to_driver=False)
    yield machines
    ray.shutdown()
    machines.shutdown()


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(ray_encoding, "_BATCH", 1)


@pytest.fixture
def folder(corpus, tmp_path) -> Path:
    """The sample corpus, a mail with an attachment, and a file that can't be read."""
    folder = tmp_path / "docs"
    shutil.copytree(corpus, folder)
    mail = EmailMessage()
    mail["Subject"] = "Valves"
    mail.set_content("The list is attached.")
    mail.add_attachment(
        b"Code,Pressure\nVX-1007,10 bar\n", maintype="text", subtype="csv", filename="valves.csv"
    )
    (folder / "valves.eml").write_bytes(mail.as_bytes())
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4 nothing")
    for path in folder.rglob("*"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    return folder


@pytest.fixture
def texts(tmp_path) -> Path:
    """Files whose every sentence is of its own."""
    folder = tmp_path / "texts"
    folder.mkdir()
    for number in range(12):
        sentences = (
            f"Pump {number} of yard {line} is oiled every {line + number} days."
            for line in range(40)
        )
        (folder / f"{number:02}.txt").write_text(" ".join(sentences))
    return folder


def find_spans(engine) -> list:
    return [
        [(span.doc_id, span.start, span.end) for span in engine.search(question)]
        for question in QUESTIONS
    ]


def read_vectors(engine, doc_id):
    with engine._store.reader.snapshot() as snapshot:
        row = snapshot.find_document(doc_id)
        return snapshot.read_vectors(
            np.arange(row.first_sentence, row.first_sentence + row.sentences)
        )


def describe_documents(engine) -> list:
    return [
        (info.doc_id, info.kind, info.fingerprint, info.sentences, info.meta)
        for info in engine.documents()
    ]


def find_workers() -> list[int]:
    """The processes of Ray that encode, or wait to."""
    listed = subprocess.run(["ps", "-A", "-ww", "-o", "pid=", "-o", "args="], capture_output=True)
    rows = [line.split(maxsplit=1) for line in listed.stdout.decode().splitlines()]
    return [int(pid) for pid, command in rows if "MapWorker" in command.split()[0]]


def wait_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_cluster_makes_the_index_that_one_process_makes(cluster, folder, tmp_path, encoder):
    with (
        Engine.open(tmp_path / "plain", create=True, encoder=encoder) as plain,
        Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine,
    ):
        plain.add(folder)
        progress = []
        report = engine.add(
            folder, ray=cluster.address, progress=lambda *step: progress.append(step)
        )
        assert (report.added, [file.path for file in report.skipped]) == (7, ["broken.pdf"])
        assert describe_documents(engine) == describe_documents(plain)
        assert find_spans(engine) == find_spans(plain)
        assert engine.status().sentences == plain.status().sentences
        assert not engine.verify()
        assert (
            progress[-1][1]
            == progress[-1][2]
            == sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        )
        assert not WorkingFolder(tmp_path / "index", "ray").path.exists()

        again = engine.add(folder, ray=cluster.address)
        assert (again.added, again.updated, again.unchanged) == (
            0,
            0,
            6,
        )  # the attachment is not counted
        assert [file.path for file in again.skipped] == ["broken.pdf"]


def test_what_has_not_changed_is_not_encoded_again(cluster, folder, tmp_path, encoder):
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        engine.add(folder)
        before = read_vectors(engine, "lighthouse-handbook.md")
        handbook = folder / "lighthouse-handbook.md"
        handbook.write_text(
            handbook.read_text("utf-8") + "\nThe lamp was changed in May.\n", "utf-8"
        )
        (folder / "valves.eml").write_bytes(b"Subject: Valves\n\nNothing is attached.")
        (folder / "beekeeping.html").write_text("")
        os.utime(folder / "glass-river.txt")
        report = engine.add(folder, ray=cluster.address)
        assert (report.updated, report.removed) == (
            2,
            2,
        )  # the attachment, and the file that is empty now
        assert "valves.eml/valves.csv" not in [info.doc_id for info in engine.documents()]
        kept = len(before) // 2
        np.testing.assert_array_equal(
            before[:kept], read_vectors(engine, "lighthouse-handbook.md")[:kept]
        )
        assert not engine.verify()
        assert (
            engine.add(folder).unchanged == 5
        )  # the new time of the file that only looked changed is known


def test_workers_and_a_machine_die_while_it_indexes(cluster, texts, encoder, tmp_path, monkeypatch):
    with Engine.open(tmp_path / "one", create=True, encoder=encoder, rerank=False) as engine:
        engine.add(texts)
        sentences, shown = engine.status().sentences, engine.read("07.txt")
    doomed = cluster.add_node(num_cpus=1)
    killed = []

    def kill():
        wait_for(lambda: len(find_workers()) > 2)
        dead, full = find_workers()[:2]
        os.kill(dead, signal.SIGKILL)
        resource.prlimit(
            full, resource.RLIMIT_FSIZE, (10_000, 10_000)
        )  # its disk is full from now on
        killed.extend([dead, full])
        cluster.remove_node(doomed, allow_graceful=False)
        killed.append(doomed)

    monkeypatch.chdir(tmp_path)
    with Engine.open("big", create=True, encoder=encoder, rerank=False) as engine:
        killer = threading.Thread(target=kill)
        killer.start()
        report = engine.add("texts", ray=cluster.address)
        killer.join()
        assert len(killed) == 3
        assert (report.added, report.skipped) == (12, ())
        assert (engine.status().sentences, engine.read("07.txt")) == (sentences, shown)
        assert engine.search("pump 7 of yard 39", mode="lexical")[0].doc_id == "07.txt"
        assert engine.add("texts", ray=cluster.address).unchanged == 12
        assert not engine.verify()


def test_a_batch_that_kills_every_worker_is_skipped_with_a_line(
    cluster, folder, tmp_path, encoder, monkeypatch
):
    class DyingWorker(ray_encoding.EncodeBatch):
        def __call__(self, rows):
            (batch,) = rows["batch"]
            if batch.files[0].doc_id == "glass-river.txt":
                with contextlib.suppress(
                    StorageError
                ):  # so many have died that nobody tries any more
                    encode_batch(batch, self._out, lambda: os._exit(9), IndexStore.open(self._path))
            return super().__call__(rows)

    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        with monkeypatch.context() as patched:
            patched.setattr(ray_encoding, "EncodeBatch", DyingWorker)
            report = engine.add(folder, ray=cluster.address)
        assert report.added == 6
        assert {file.path: file.reason for file in report.skipped}["glass-river.txt"] == (
            "can't be encoded on Ray: the process that read it died 3 times (is there enough memory?)"
        )
        assert engine.add(folder).added == 1


def test_workers_that_can_not_start_end_the_run(cluster, folder, tmp_path, encoder, monkeypatch):
    class Unwilling(ray_encoding.EncodeBatch):
        def __init__(self, *_):
            raise ImportError("lmkrag is not installed here")

    monkeypatch.setattr(ray_encoding, "EncodeBatch", Unwilling)
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        with pytest.raises(StorageError, match="Ray failed"):
            engine.add(folder, ray=cluster.address)
        monkeypatch.undo()
        assert engine.add(folder).added == 7


def test_batches_of_an_interrupted_run_are_adopted(cluster, folder, tmp_path, encoder, monkeypatch):
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        store = engine._store
        work = WorkingFolder(store.path, "ray")
        work.claim()
        work.new.mkdir()
        batches = plan_batches(list(walk(folder)), read_known(store), store, size=1)
        for batch in batches:
            encode_batch(batch, work.new, lambda: encoder, store)
        handbook = next(
            batch for batch in batches if batch.files[0].doc_id == "lighthouse-handbook.md"
        )
        damaged = next((work.new / handbook.name).glob("segments/*.words"))
        damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
        (folder / "glass-river.txt").write_text(
            "The river is of glass."
        )  # its batch is of no use any more
        encoded = []
        monkeypatch.setattr(
            ray_encoding, "_run_workers", record_names(ray_encoding._run_workers, encoded)
        )
        report = engine.add(folder, ray=cluster.address)
        assert (report.added, [file.path for file in report.skipped]) == (7, ["broken.pdf"])
        assert len(encoded) == 2
        assert "of glass" in engine.read("glass-river.txt")
        assert not engine.verify()


def record_names(run_workers, names):
    def run(*arguments):
        for name, failure in run_workers(*arguments):
            names.append(name)
            yield name, failure

    return run


def test_what_can_not_be_encoded_on_a_cluster(
    folder, tmp_path, encoder, monkeypatch, lmkrag_process
):
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        with pytest.raises(UsageError, match="ray are for files"):
            engine.add([Document("a", "a", "x")], ray="local")
        monkeypatch.setattr(ray_encoding, "_BATCH", 1 << 20)
        assert engine.add(folder, ray="127.0.0.1:1").added == 7  # too few for a cluster
    (tmp_path / "long.txt").write_text("The gate is green. " * 100_000)
    (tmp_path / "longer.txt").write_text("The gate is red. " * 100_000)
    add = ("index", tmp_path / "long.txt", tmp_path / "longer.txt", "--index", tmp_path / "other")
    done = lmkrag_process(*add, "--ray", "127.0.0.1:1")
    assert done.returncode == 2
    assert "no Ray cluster can be reached at '127.0.0.1:1'" in done.stderr
    (tmp_path / "ray.py").write_text("raise ImportError('not here')")
    done = lmkrag_process(
        *add, "--ray", "local", env={"PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    )
    assert (done.returncode, done.stderr) == (
        1,
        "lmkrag: ray is not installed: pip install 'lmkrag[ray]'\n",
    )


def test_workers_import_no_modules_of_the_working_directory(tmp_path):
    code = """
import sys
from lmkrag.ingest.ray_encoding import connected
class Actor:
    def folders(self):
        return sys.path
with connected("local") as ray:
    print(*ray.get(ray.remote(Actor).remote().folders.remote()), sep="\\n")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert str(tmp_path) not in done.stdout.splitlines()
