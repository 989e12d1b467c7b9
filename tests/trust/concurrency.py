"""Readers search while a writer adds, removes and compacts: they see whole states, and no error.

    python tests/trust/concurrency.py --seconds 180 --processes 4 --threads 4

Each commit replaces every document by the same new version of itself, so a search that found two versions would have
seen half a commit. Prints how many searches saw how many states; exits with 1 if one was wrong.
"""

import argparse
import multiprocessing
import shutil
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

import numpy as np

from lmkrag.index.copying import build_tables
from lmkrag.index.staged import SentenceTable, Staged
from lmkrag.index.store import IndexStore
from lmkrag.language.question import Question
from lmkrag.search.request import SearchRequest
from lmkrag.search.searcher import SearchQuestion, find_spans
from lmkrag.sentences.split import split_sentences
from lmkrag.specs import EncoderSpec
from lmkrag.types import Document

DIMENSIONS = 16
DOCUMENTS = 12
SPEC = EncoderSpec(name="test", fingerprint="f", dimensions=DIMENSIONS)


def vector(number: int) -> np.ndarray:
    """A unit vector."""
    made = np.random.default_rng(number).standard_normal(DIMENSIONS).astype(np.float32)
    return made / np.linalg.norm(made)


def commit(store: IndexStore, version: int) -> None:
    """Replace every document by its version; some versions leave a document out."""
    staged, vectors = [], []
    for number in range(DOCUMENTS):
        if number == version % (DOCUMENTS + 3):
            continue
        text = (
            f"Version{version} of report {number} about the harbour. It ends with version{version}."
        )
        sentences = split_sentences(text)
        staged.append(
            Staged(Document(f"d{number}", "p", text), text, SentenceTable.of(sentences), "", (1, 1))
        )
        vectors += [vector(number * 100 + place) for place in range(len(sentences))]
    removed = [f"d{number}" for number in range(DOCUMENTS)]
    segment = store.stage_segment([np.array(vectors)], *build_tables(staged))
    store.commit(staged, [segment], removed=removed)


def look(store: IndexStore) -> int:
    """Search once each way; return the version seen."""
    versions = set()
    with store.reader.snapshot() as snapshot:
        for mode in ("dense", "lexical", "hybrid"):
            question = SearchQuestion(read=Question.read("harbour report"), vector=vector(7))
            spans = find_spans(snapshot, question, SearchRequest(mode=mode, top_k=40))
            found = {span.doc_id for span in spans}
            versions |= {
                word.strip(".").lower()
                for span in spans
                for word in span.text.split()
                if "ersion" in word
            }
            (version,) = versions
            left_out = int(version.removeprefix("version")) % (DOCUMENTS + 3)
            assert found == {f"d{number}" for number in range(DOCUMENTS) if number != left_out}, (
                mode,
                version,
                found,
            )
    return int(version.removeprefix("version"))


def read(path: Path, seconds: float, threads: int, results: multiprocessing.Queue) -> None:
    """Search from some threads, on one store and on stores opened anew."""
    seen: list[int] = []
    wrong: list[str] = []
    shared = IndexStore.open(path)

    def loop(number: int) -> None:
        last = 0
        try:
            while time.monotonic() < end and not wrong:
                if number % 2:
                    own = IndexStore.open(path)
                    version = look(own)
                    own.close()
                else:
                    version = look(shared)
                assert version >= last, "an older state came after a newer one"
                last = version
                seen.append(version)
        except BaseException:
            wrong.append(traceback.format_exc())

    end = time.monotonic() + seconds
    workers = [threading.Thread(target=loop, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    results.put((len(seen), len(set(seen)), wrong[:1]))


def run(path: Path, seconds: float, processes: int, threads: int) -> tuple[int, int]:
    """Return how many searches saw how many states; exits at a wrong one."""
    store = IndexStore.create(path, encoder=SPEC)
    with store.writing():
        commit(store, 1)
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    readers = [
        context.Process(target=read, args=(path, seconds, threads, results))
        for _ in range(processes)
    ]
    for reader in readers:
        reader.start()
    end, version = time.monotonic() + seconds + 2, 1
    while time.monotonic() < end:
        version += 1
        with store.writing():
            commit(store, version)
            if version % 5 == 0:
                store.merge_small()
            if version % 20 == 0:
                store.compact()
    counts = [results.get(timeout=60) for _ in readers]
    for reader in readers:
        reader.join()
    store.close()
    wrong = [text for _, _, texts in counts for text in texts]
    if wrong:
        sys.exit(wrong[0])
    return sum(count for count, _, _ in counts), max(states for _, states, _ in counts)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--threads", type=int, default=4)
    options = parser.parse_args()
    work = Path(tempfile.mkdtemp())
    try:
        searches, states = run(work / "index", options.seconds, options.processes, options.threads)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(
        f"{searches} searches by {options.processes} x {options.threads} readers, {states} states seen, none wrong"
    )


if __name__ == "__main__":
    main()
