"""Kill a writer again and again, and see that nothing is lost and nothing is wrong.

    python tests/trust/crash.py kills --count 500       SIGKILL at random instants
    python tests/trust/crash.py faults                  a crash (with loss of power) at every write, sync, rename ...
    python tests/trust/crash.py faults --every 7        ... at every seventh
    python tests/trust/crash.py errors --every 1        the disk is full, can't sync or is read-only from some call on
    python tests/trust/crash.py backups                 a crash at every such call while a backup is made or replaced

A writer adds, changes, adopts, removes and compacts, and says when each step is done. After each death: the index
opens, `verify` is clean, every acknowledged document is whole and found, one whose step was not acknowledged is as it
was before or as it was to be, none is there twice. In the end, a run to completion equals an index made without a
death. Prints one line of counts; exits with 1 at the first thing that is wrong.
"""

import argparse
import ctypes
import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"  # its threads do not outlive a fork

import faiss
import numpy as np

from lmkrag import Engine, LandmarkEncoder
from lmkrag.errors import StorageError
from lmkrag.formats import load
from lmkrag.index import catalog
from lmkrag.index.backup import back_up_index
from lmkrag.index.store import IndexStore
from lmkrag.ingest import pipeline as encoding
from lmkrag.ingest.ingest import ingest
from lmkrag.ingest.ray_encoding import adopt_batch, encode_batch, plan_batches
from lmkrag.ingest.report import Run
from lmkrag.ingest.sources import Files
from lmkrag.ingest.walk import SourceFile
from lmkrag.types.arrays import Vectors

CRASH, FAIL, COUNT = 2, 3, 1
EVERY_CALL, SYNCS = 15, 2
NAMES = [f"d{number}.txt" for number in range(6)]

State = dict[str, str]
"""What each document says."""


def write_text(name: str, version: int) -> str:
    """A short document that says which it is, in words no other has."""
    mark = f"{name[:2]}v{version}x"
    lines = [
        f"This is {mark}, a report about the bridge.",
        "Its stones moved.",
        f"The end of {mark}.",
    ]
    return " ".join([lines[0], *lines[1:2] * (version % 5), lines[2]])


class WordModel:
    """Adds up a random vector for each token of a sentence. The trials test files, so a child needs no real model."""

    device, precision = "cpu", "float32"

    def __init__(self, dimensions: int) -> None:
        self._vectors = np.random.default_rng(0).standard_normal((4_096, dimensions), np.float32)

    def read(self, windows: Sequence, titles: Sequence, *, exact: bool = False) -> Vectors:
        sums = [
            self._vectors[np.array(ids) % len(self._vectors)].sum(0)
            for window in windows
            for ids in window
        ]
        vectors = np.stack(sums)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def make_encoder() -> LandmarkEncoder:
    """Return the shipped encoder with a :class:`WordModel` in place of its model."""
    shipped = LandmarkEncoder.load(runtime="numpy")
    return LandmarkEncoder(WordModel(shipped.spec.dimensions), shipped.tokens, shipped.spec)


class Job:
    """Runs steps in a child and hears which were begun and which were done."""

    def __init__(self, encoder: LandmarkEncoder, work: Path) -> None:
        self.encoder, self.index, self.docs = encoder, work / "index", work / "docs"
        self.docs.mkdir(parents=True, exist_ok=True)

    def do(self, step: dict, tell: Callable[[str, dict], None]) -> None:
        """One step: change files and add them or adopt a batch of them, remove documents, or compact."""
        for name, text in step.get("files", {}).items():
            half = self.docs.with_name("half")
            half.write_text(text)
            half.replace(self.docs / name)  # a kill here leaves no empty document
        for name in step.get("removed", []):
            (self.docs / name).unlink(missing_ok=True)
        if "files" in step:  # a killed step may have left others behind
            step = {
                **step,
                "files": {path.name: path.read_text() for path in sorted(self.docs.iterdir())},
            }
        tell("begun", step)
        with Engine.open(self.index, create=True, encoder=self.encoder) as engine:
            if step.get("adopt"):
                store = engine._store
                ingest(
                    store,
                    lambda: self.encoder,
                    Files([self.docs], encode=partial(self.adopt, store)),
                )
            elif "files" in step:
                engine.add(self.docs)
            elif "removed" in step:
                held = set(read_state(self.index))
                engine.remove([name for name in step["removed"] if name in held])
            else:
                engine.compact()
        tell("done", step)

    def adopt(self, store: IndexStore, files: list[SourceFile], run: Run) -> list[SourceFile]:
        """Encode files into a batch, which lies elsewhere, and adopt it."""
        out = self.index.with_name("batches")
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        for batch in plan_batches(files, run.known, store, size=1 << 20):
            encode_batch(batch, out, lambda: self.encoder, store)
            adopt_batch(store, out / batch.name, run)
        return []

    def run(
        self, steps: list[dict], *, delay: float | None = None, arm: tuple = ()
    ) -> tuple[list, str]:
        """Run steps in a child, killed after ``delay`` seconds; return what it told and how it ended."""

        def child(tell: Callable[[str, dict], None]) -> None:
            if arm:
                ctypes.CDLL(None).faults_arm(str(self.index).encode(), *map(ctypes.c_long, arm))
            for step in steps:
                self.do(step, tell)
            if arm:
                tell("calls", {"count": ctypes.CDLL(None).faults_seen()})

        return fork(child, delay)


def fork(child: Callable, delay: float | None = None) -> tuple[list, str]:
    """Run ``child(tell)`` in a forked process; return what it told, and "fine", "killed" or its exception."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 0
        try:
            os.close(reading)
            child(lambda word, value: os.write(writing, json.dumps([word, value]).encode() + b"\n"))
        except StorageError as error:
            os.write(writing, json.dumps(["refused", {"error": str(error)}]).encode() + b"\n")
            code = 3
        except BaseException:
            os.write(
                writing, json.dumps(["error", {"error": traceback.format_exc()}]).encode() + b"\n"
            )
            code = 4
        os._exit(code)
    os.close(writing)
    if delay is not None:
        time.sleep(delay)
        os.kill(pid, signal.SIGKILL)
    with os.fdopen(reading) as stream:
        told = [json.loads(line) for line in stream if line.endswith("\n")]
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    return told, {0: "fine", 3: "refused", 4: "error"}.get(code, "killed")


def read_state(index: Path) -> State:
    """What an index holds."""
    if not IndexStore.exists(index):
        return {}
    store = IndexStore.open(index)
    with store.reader.snapshot(segments=False) as snapshot:
        rows = list(snapshot.all_documents())
        state = {
            row.doc_id: catalog.read_text(snapshot.connection, row, 0, row.length) for row in rows
        }
    store.close()
    return state


def expect(before: State, told: list) -> dict[str, set]:
    """What each document may say after some steps: one thing, or two if its step was not acknowledged."""
    allowed = {name: {before.get(name)} for name in NAMES}
    for word, step in told:
        if word not in ("begun", "done"):
            continue
        changed = {**step.get("files", {}), **dict.fromkeys(step.get("removed", []))}
        for name, text in changed.items():
            allowed[name] = {text} if word == "done" else allowed[name] | {text}
    return allowed


def check(job: Job, allowed: dict[str, set]) -> State:
    """Look at an index after a death, in a child; return what it holds."""

    def child(tell: Callable[[str, dict], None]) -> None:
        state = read_state(job.index)
        for name, texts in allowed.items():
            assert state.get(name) in texts, f"{name} is {state.get(name)!r}, not one of {texts}"
        if IndexStore.exists(job.index):
            with Engine.open(job.index, encoder=job.encoder, rerank=False) as engine:
                assert engine.verify() == (), engine.verify()
                for name, text in state.items():
                    mark = text.split()[2].strip(",")
                    for mode in ("lexical", "hybrid"):
                        spans = engine.search(f"the end of {mark}", top_k=20, mode=mode)
                        found = [span for span in spans if mark in span.text]
                        assert found, f"{mark} is not found ({mode})"
                        assert {span.doc_id for span in found} == {name}
                        assert all(
                            text[span.start : span.end] == span.text
                            for span in spans
                            if span.doc_id == name
                        )
        tell("state", state)

    told, end = fork(child)
    if end != "fine":
        sys.exit(f"WRONG: {told[-1][1]['error'] if told else end}")
    return told[-1][1]


def compare(job: Job, fresh: Path) -> None:
    """Run to completion; the index must equal one made in a single run, which is made if it is not at ``fresh``."""

    def contents(index: Path) -> dict:
        store = IndexStore.open(index)
        with store.reader.snapshot() as snapshot:
            found = {}
            for row in snapshot.all_documents():
                ids = np.arange(row.first_sentence, row.first_sentence + row.sentences)
                ends = catalog.read_stored(snapshot.connection, row).sentences.ends
                found[row.doc_id] = (
                    row.content_checksum,
                    ends.tolist(),
                    snapshot.read_vectors(ids),
                )
        store.close()
        return found

    def child(tell: Callable[[str, dict], None]) -> None:
        for index in [job.index] if fresh.exists() else [job.index, fresh]:
            with Engine.open(index, create=True, encoder=job.encoder) as engine:
                engine.add(job.docs, prune=True)
                engine.compact()
        ours, right = contents(job.index), contents(fresh)
        assert list(ours) == list(right) == sorted(path.name for path in job.docs.iterdir())
        for name, (checksum, borders, vectors) in right.items():
            assert ours[name][:2] == (checksum, borders), name
            assert np.abs(ours[name][2] - vectors).max() < 2e-3, name
        assert len(list((job.index / "segments").iterdir())) == 3

    told, end = fork(child)
    if end != "fine":
        sys.exit(f"WRONG after a run to completion: {told[-1][1]['error'] if told else end}")


def kills(job: Job, work: Path, count: int, rng: random.Random) -> str:
    """SIGKILL at random instants of random steps, one index throughout."""
    state: State = {}
    longest, inside, versions = 1.0, 0, 0
    for number in range(count):
        steps = []
        for _ in range(rng.randint(1, 3)):
            versions += 1
            kind = rng.random()
            if kind < 0.7:
                chosen = rng.sample(NAMES, rng.randint(1, 4))
                files = {name: write_text(name, versions) for name in chosen}
                steps.append({"files": files, "adopt": True} if kind < 0.2 else {"files": files})
            else:
                steps.append({"removed": rng.sample(NAMES, 2)} if kind < 0.85 else {})
        began = time.monotonic()
        told, end = job.run(steps, delay=rng.uniform(0, longest) if number else None)
        if end == "error":
            sys.exit(f"WRONG: {told[-1][1]['error']}")
        if number == 0:
            longest = 1.2 * (time.monotonic() - began)
        inside += end == "killed" and bool(told) and told[-1][0] == "begun"
        state = check(job, expect(state, told))
        if number % 50 == 49 or number == count - 1:
            shutil.rmtree(work / "fresh", ignore_errors=True)
            compare(job, work / "fresh")
            state = check(
                job, {name: {None} | {p.read_text() for p in job.docs.glob(name)} for name in NAMES}
            )
    return f"{count} kills, {inside} of them inside a step"


def plan() -> tuple[list[dict], list[dict]]:
    """Steps that prepare an index, and the steps under test: each way to write."""
    base: list[dict] = [{"files": {name: write_text(name, 1) for name in NAMES[:4]}}]
    tested: list[dict] = [
        {"files": {name: write_text(name, 2) for name in NAMES[2:6]}},
        {"removed": NAMES[:1]},
        {},
        {"files": {NAMES[1]: write_text(NAMES[1], 3)}},
        {"files": {NAMES[2]: write_text(NAMES[2], 4)}, "adopt": True},
    ]
    return base, tested


def faults(job: Job, work: Path, every: int, error: tuple[int, int] | None) -> str:
    """A crash, or errors from then on, at each call that changes a file, from an empty directory and from an index."""
    base, tested = plan()
    died = refused = trials = 0
    for prepared in ([], base):
        reset(job, work, prepared)
        before = read_state_in_child(job.index)
        which = SYNCS if error and error[1] == SYNCS else EVERY_CALL
        told, end = job.run(tested, arm=(COUNT, 0, 0, which))
        assert end == "fine", told
        calls = told[-1][1]["count"]
        for call in range(1, calls + 1, every):
            reset(job, work, prepared)
            arm = (FAIL, call, error[0], which) if error else (CRASH, call, 0, which)
            told, end = job.run(tested, arm=arm)
            if end == "error":
                sys.exit(f"WRONG: call {call}: {told[-1][1]['error']}")
            died, refused, trials = (
                died + (end == "killed"),
                refused + (end == "refused"),
                trials + 1,
            )
            check(job, expect(before, told))
            told, end = job.run(tested)
            if end != "fine":
                sys.exit(f"WRONG: the index can't be written to again after call {call}: {told}")
            compare(job, work / f"fresh-{len(prepared)}")
    how = f"{refused} refused with a clear error" if error else f"{died} crashed"
    return f"{trials} calls, {how}"


def backups(job: Job, work: Path, every: int) -> str:
    """A crash at each call of a backup, the first or beside one of an earlier state, of links and of copies."""
    base, tested = plan()
    assert job.run(base)[1] == "fine"
    copy, earlier, elsewhere = (
        work / "copies" / "copy",
        work / "earlier",
        Path(tempfile.mkdtemp(dir="/dev/shm")),
    )

    def back_up(tell: Callable[[str, dict], None], arm: tuple = ()) -> None:
        if arm:
            ctypes.CDLL(None).faults_arm(str(copy.parent).encode(), *map(ctypes.c_long, arm))
        back_up_index(index, copy)
        tell("calls", {"count": ctypes.CDLL(None).faults_seen()})

    def states(tell: Callable[[str, dict], None]) -> None:
        if copy.exists():
            with Engine.open(copy, encoder=job.encoder) as engine:
                assert engine.verify() == (), engine.verify()
        tell("states", {"copy": read_state(copy), "index": read_state(index)})

    def look(what: str, *earlier_states: State) -> None:
        told, end = fork(states)
        if end != "fine" or told[-1][1]["copy"] not in (told[-1][1]["index"], *earlier_states):
            sys.exit(f"WRONG: {what}: {told}")

    index, trials = job.index, 0
    told, end = fork(back_up)
    assert end == "fine", told
    shutil.copytree(copy, earlier)
    assert job.run(tested)[1] == "fine"
    shutil.copytree(job.index, elsewhere / "index")
    try:
        for index in (job.index, elsewhere / "index"):  # noqa: B007  # the functions above use it
            for begun in (None, earlier):
                call, calls = 0, 0
                while call <= calls:
                    shutil.rmtree(copy.parent, ignore_errors=True)
                    copy.parent.mkdir()
                    if begun:
                        shutil.copytree(begun, copy)
                    before = read_state_in_child(copy)
                    arm = (CRASH, call, 0, EVERY_CALL) if call else (COUNT, 0, 0, EVERY_CALL)
                    told, end = fork(partial(back_up, arm=arm))
                    calls = told[-1][1]["count"] if end == "fine" and not call else calls
                    assert end == ("killed" if call else "fine"), told
                    look(f"after call {call}", before)
                    told, end = fork(back_up)
                    assert end == "fine", told
                    look(f"run again after call {call}")
                    assert [path.name for path in copy.parent.iterdir()] == [copy.name]
                    trials, call = trials + 1, call + (every if call else 1)
    finally:
        shutil.rmtree(elsewhere)
    return f"{trials} backups, all but 4 of them crashed"


def reset(job: Job, work: Path, prepared: list[dict]) -> None:
    """Put the index and the files back to where the steps under test begin."""
    kept = work / f"kept-{len(prepared)}"
    if not kept.exists():
        for path in (job.index, job.docs):
            shutil.rmtree(path, ignore_errors=True)
        job.docs.mkdir()
        assert job.run(prepared)[1] == "fine"
        kept.mkdir()
        for path in (job.index, job.docs):
            if path.exists():
                shutil.copytree(path, kept / path.name)
    for path in (job.index, job.docs):
        shutil.rmtree(path, ignore_errors=True)
        if (kept / path.name).exists():
            shutil.copytree(kept / path.name, path)


def read_state_in_child(index: Path) -> State:
    """What the index holds; the parent itself never opens it."""
    told, _ = fork(lambda tell: tell("state", read_state(index)))
    return told[-1][1]


def warm_up(encoder: LandmarkEncoder, folder: Path) -> None:
    """Run each step once, so that the parent imports what every child needs."""
    job = Job(encoder, folder)
    for step in plan()[1]:
        job.do(step, lambda word, value: None)
    with Engine.open(job.index, encoder=encoder, rerank=False) as engine:
        assert engine.verify() == () and engine.search("the end")
    back_up_index(job.index, folder / "copy")
    shutil.rmtree(folder)


def preload(work: Path) -> None:
    """Start again with the library that makes calls fail."""
    library = work / "faults.so"
    source = Path(__file__).with_name("faults.c")
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True
    )
    os.environ.update(LD_PRELOAD=str(library), LMKRAG_CRASH_WORK=str(work))
    os.execv(sys.executable, [sys.executable, *sys.argv])


def main() -> None:
    """Run the trials asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["kills", "faults", "errors", "backups"])
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.what != "kills" and "LMKRAG_CRASH_WORK" not in os.environ:
        preload(Path(tempfile.mkdtemp()))
    work = Path(os.environ.get("LMKRAG_CRASH_WORK") or tempfile.mkdtemp())
    os.environ["OMP_NUM_THREADS"] = "1"  # a forked child must not need the parent's threads
    faiss.omp_set_num_threads(1)
    encoding._COMMIT_SENTENCES = 8  # many commits in one step
    load._LONG = 90  # some texts stay on the disk
    began = time.monotonic()
    try:
        job = Job(make_encoder(), work)
        warm_up(job.encoder, work / "first")
        if options.what == "kills":
            lines = [kills(job, work, options.count, random.Random(options.seed))]
        elif options.what == "faults":
            lines = [faults(job, work, options.every, None)]
        elif options.what == "backups":
            lines = [backups(job, work, options.every)]
        else:
            kinds = {
                "disk full": (errno.ENOSPC, 15),
                "read-only": (errno.EROFS, 15),
                "no sync": (errno.EIO, SYNCS),
            }
            lines = [
                f"{name}: {faults(job, work, options.every, kind)}" for name, kind in kinds.items()
            ]
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print("\n".join(lines), f"\nnothing lost, nothing wrong ({time.monotonic() - began:.0f} s)")


if __name__ == "__main__":
    main()
