"""Readers are pooled, counted and closed, whoever comes and goes."""

import os
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from lmkrag import Document, Engine, LandmarkEncoder
from lmkrag.errors import IndexClosed, IndexMismatch, IndexNotFound
from lmkrag.index.pool import IndexReader
from lmkrag.index.store import IndexStore

QUESTION = "How long must the lamp burn before the wick is trimmed?"


def descriptors() -> int:
    return len(os.listdir("/dev/fd"))


def in_threads(count: int, work) -> list:
    """Run ``work`` in threads at once; return what it raised."""
    failures = []

    def guarded():
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    return failures


def test_a_closed_engine_refuses_with_one_clear_error(index):
    engine = Engine.open(index)
    assert engine.search("lamp", mode="lexical")
    engine.close()
    engine.close()
    for refused in (
        lambda: engine.search("lamp", mode="lexical"),
        lambda: engine.read("a"),
        engine.status,
    ):
        with pytest.raises(IndexClosed, match="this index was closed; open it again"):
            refused()


def test_closing_while_threads_search_ends_no_search_half_way(index):
    """In a process of its own: what must not happen is a segmentation fault."""
    code = f"""
import threading, time
from lmkrag import Engine, IndexClosed
for trial in range(8):
    engine = Engine.open({str(index)!r})
    engine.search("lamp", mode="lexical")
    wrong, done = [], []
    def work():
        try:
            while True:
                spans = engine.search("lamp wick keeper water", mode="lexical", top_k=20)
                assert len(spans) == 20, len(spans)
                done.append(1)
        except IndexClosed:
            pass
        except BaseException as error:
            wrong.append(repr(error))
    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads: thread.start()
    time.sleep(0.05 + 0.02 * trial)
    engine.close()
    for thread in threads: thread.join()
    assert done and not wrong, wrong
print("whole")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout == "whole\n", (done.returncode, done.stderr)


def test_a_snapshot_that_is_held_outlives_closing(index):
    reader = IndexReader(index, IndexStore.open(index).encoder)
    with reader.snapshot() as snapshot:
        reader.close()
        assert len(list(snapshot.all_documents())) == 5
        with reader.snapshot() as nested:  # of the same thread: the same state
            assert nested.connection is snapshot.connection
    with pytest.raises(IndexClosed), reader.snapshot():
        pass


def test_a_hundred_threads_leave_few_descriptors(index):
    with Engine.open(index, rerank=False) as engine:
        engine.search("lamp", mode="lexical")
        before = descriptors()
        most = []

        def work():
            engine.search("lamp", mode="lexical")
            most.append(descriptors())

        assert in_threads(100, work) == []
        assert max(most) < before + 2 * 16 + 8
        for _ in range(50):  # one after the other: each finds the connection of the one before
            assert in_threads(1, work) == []
        assert descriptors() <= before + 2 * 16 + 2
    assert descriptors() < before


@pytest.mark.parametrize("loaded", [False, True], ids=["questions only", "framework loaded"])
def test_after_a_fork_parent_and_child_both_read(index, loaded):
    """A process of its own forks, as servers do: the child opens the index itself, the parent goes on."""
    code = f"""
import os, sys
os.environ["TOKENIZERS_PARALLELISM"] = "false"
from lmkrag import Document, Engine
engine = Engine.open({str(index)!r})
if {loaded}:
    engine.encoders.encoder.encode_queries(["The framework is loaded, its threads have run."] * 8)
right = [span.text for span in engine.search({QUESTION!r})]
children = []
for number in range(3):
    pid = os.fork()
    if pid == 0:
        try:
            own = Engine.open({str(index)!r})
            ours = [span.text for span in own.search({QUESTION!r})] == right
            own.remove("beekeeping.html") if number == 2 else None
            os._exit(0 if ours else 5)
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(6)
    children.append(os.waitpid(pid, 0)[1])
assert children == [0, 0, 0], children
assert len(engine.documents()) == 4
assert engine.search({QUESTION!r})[0].text == right[0]
assert engine.verify() == ()
print("whole")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout == "whole\n", (done.returncode, done.stderr)


def test_an_index_that_is_replaced_or_gone_is_noticed(index, tmp_path, encoder):
    other = tmp_path / "other"
    with Engine.open(other, create=True, encoder=encoder) as engine:
        engine.add(Document("memo", "memo", "The ferry leaves at nine."))
    with Engine.open(index, encoder=encoder, rerank=False) as engine:
        assert engine.search("ferry")[0].doc_id != "memo"
        shutil.rmtree(index)
        other.rename(index)
        assert engine.search("ferry")[0].doc_id == "memo"
        shutil.rmtree(index)
        with pytest.raises(IndexNotFound, match="the index is gone"):
            engine.search("ferry")


def test_an_index_of_another_encoder_in_its_place_is_refused(index, tmp_path, encoder):
    other = tmp_path / "other"
    Engine.open(other, create=True, encoder=LandmarkEncoder.load(overlap=0.5)).close()
    with Engine.open(index, encoder=encoder, rerank=False) as engine:
        engine.search("ferry")
        shutil.rmtree(index)
        other.rename(index)
        with pytest.raises(
            IndexMismatch, match="replaced by an index of another encoder; open it again"
        ):
            engine.search("ferry")


# A reader without write permission


@pytest.fixture
def foreign(built_index, tmp_path):
    """A copy of the sample index that another user may read and not write; run Python as that user."""
    folder = Path(tempfile.mkdtemp())
    shutil.copytree(built_index, folder / "index")
    for path in [folder, *folder.rglob("*")]:
        path.chmod(path.stat().st_mode | stat.S_IROTH | (stat.S_IXOTH if path.is_dir() else 0))
    if os.geteuid() != 0:
        pytest.skip("needs root to read as another user beside a writer")

    def start() -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, "-c", READER, str(built_index), str(folder / "index")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    yield folder / "index", start
    shutil.rmtree(folder)


READER = """
import os, sys
from lmkrag import Engine
with Engine.open(sys.argv[1]) as engine:  # everything is imported before Python's own files can't be read any more
    engine.search("lamp", mode="lexical"), engine.documents(), engine.verify()
os.setgroups([]), os.setgid(65534), os.setuid(65534)
assert not os.access(sys.argv[2], os.W_OK)
engine = Engine.open(sys.argv[2])
for line in sys.stdin:
    spans = engine.search(line.strip(), mode="lexical", top_k=1)
    print(spans[0].doc_id if spans else "-", len(engine.documents()), len(engine.verify()), flush=True)
"""


def test_a_reader_without_write_permission_sees_what_a_writer_commits(foreign, encoder):
    path, start = foreign
    reader = start()

    def ask(question: str) -> str:
        reader.stdin.write(question + "\n")
        reader.stdin.flush()
        return reader.stdout.readline().strip() or reader.stderr.read()

    assert ask("zeppelin") == "- 5 0"
    with Engine.open(path, encoder=encoder) as engine:
        engine.add(Document("first", "first", "A zeppelin landed."))
    assert ask("zeppelin") == "first 6 0"  # the writer has closed everything
    with Engine.open(path, encoder=encoder) as engine:
        engine.search("zeppelin")  # holds the log open
        engine.add(Document("second", "second", "An airship, the Hindenburg."))
        assert ask("hindenburg") == "second 7 0"
        engine.compact()
        assert ask("hindenburg") == "second 7 0"
        engine.remove(["first", "second"])
    assert ask("hindenburg") == "- 5 0"
    reader.stdin.close()
    assert reader.wait(30) == 0


def test_readers_without_write_permission_beside_a_busy_writer(foreign, encoder):
    path, start = foreign
    reader = start()
    stop = threading.Event()

    def write():
        with Engine.open(path, encoder=encoder) as engine:
            for number in range(1_000):
                if stop.is_set():
                    return
                engine.add(Document("boat", "boat", f"Boat number {number} is called hindenburg."))

    writer = threading.Thread(target=write)
    writer.start()
    answers = set()
    for _ in range(60):
        reader.stdin.write("hindenburg\n")
        reader.stdin.flush()
        answers.add(reader.stdout.readline().strip())
    stop.set()
    writer.join()
    reader.stdin.close()
    assert answers <= {"- 5 0", "boat 6 0"}, (answers, reader.stderr.read())
    assert "boat 6 0" in answers
