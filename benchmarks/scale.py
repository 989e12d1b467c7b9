"""Does indexing take memory that stays flat and time that grows in step, as a document and a corpus grow?

    python benchmarks/scale.py DATA --work DIR [--megabytes 1,3,10,30,100]
    python benchmarks/scale.py DATA --work DIR --sentences 100000,300000,1000000 [--each 100]
        [--steps write,compact,ask,read]

Real text of DATA, repeated, in one file, and in files of 100 kB. The encoder is an embedding layer of random weights
with the vectors of landmark-mini: the model takes the same memory and a fixed time a token whatever the text, so all
else is what is looked at. Each run is a process of its own; its memory is sampled from outside. "Own" is memory that
can't be given back (anonymous pages); "peak" counts mapped files too. Prints tables and the slope of time in log-log,
and writes a plot with --plot FILE.

With --sentences, `Engine.add` writes documents of --each sentences, with metadata, by an encoder that gives a
sentence the mean of random vectors of its words. Times are CPU times of one process: of writing a sentence, of
the whole run's merges, of the first query of a process that has the encoder, and of queries without a re-ranker.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from increment import read_text

from lmkrag import Document, Engine
from lmkrag.encoder.landmark import Encoded, LandmarkEncoder
from lmkrag.index.store import IndexStore
from lmkrag.sentences.split import split_sentences
from lmkrag.specs import EncoderSpec

SMALL = 100_000  # characters of a file of the corpus


def main() -> None:
    """Run every size in a process of its own, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--megabytes", default="1,3,10,30,100")
    parser.add_argument("--plot", type=Path)
    parser.add_argument(
        "--sentences", help="measure an index with this number of sentences instead"
    )
    parser.add_argument("--each", type=int, default=100, help="sentences of a document")
    parser.add_argument(
        "--steps",
        default="write,ask,read",
        help="of: write, compact, ask, read; only write begins anew",
    )
    parser.add_argument("--run", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--step", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        print(json.dumps(STEPS[options.step[0]](options, int(options.step[1]))))
        return
    if options.sentences:
        for size in options.sentences.split(","):
            for step in options.steps.split(","):
                for name, value in measure_step(options, step, size).items():
                    print(f"{int(size):,} | {step} | {name} | {value:,.1f}", flush=True)
        return
    if options.run:
        run(*map(Path, options.run))
        return
    sizes = [float(size) for size in options.megabytes.split(",")]
    encoder = make_encoder(options.work / "encoder")
    base = read_text(options.data, 10_000_000)
    found = {}
    for what in ("one document", "a corpus"):
        print(f"\n| {what}, MB | s | s a MB | own MB | peak MB | sentences | bytes a sentence |")
        print("|---|---|---|---|---|---|---|")
        rows = []
        for size in sizes:
            sources = write_sources(
                options.work / "sources", base, int(size * 1e6), what == "a corpus"
            )
            shutil.rmtree(options.work / "scale", ignore_errors=True)
            rows.append((size, *measure(sources, options.work / "scale", encoder)))
            _, seconds, own, peak, sentences, disk = rows[-1]
            cells = f"{seconds:.1f} | {seconds / size:.2f} | {own:.0f} | {peak:.0f} | {sentences:,}"
            print(f"| {size:g} | {cells} | {disk / sentences:.0f} |", flush=True)
        table = np.array(rows)
        slope = np.polyfit(np.log(table[:, 0]), np.log(table[:, 1]), 1)[0]
        share = table[:, 2].max() / table[:, 2].min()
        print(f"\nslope of time: {slope:.3f}; own memory, largest to smallest: {share:.2f}")
        found[what] = table
    if options.plot:
        plot(options.plot, found)


def make_encoder(folder: Path) -> Path:
    """An encoder that reads fast: the tokenizer of landmark-mini and random embeddings."""
    from transformers import AutoTokenizer, BertConfig, BertModel

    from lmkrag.encoder.spec import find_model

    if not (folder / "config.json").exists():
        tokenizer = AutoTokenizer.from_pretrained(find_model(None))
        config = BertConfig(
            vocab_size=len(tokenizer), hidden_size=384, num_hidden_layers=0, num_attention_heads=12
        )
        BertModel(config).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return folder


def write_sources(folder: Path, base: str, size: int, corpus: bool) -> Path:
    """``size`` characters as one file or many."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    step = SMALL if corpus else len(base)
    with_end = (base * (size // len(base) + 1))[:size]
    if not corpus:
        (folder / "all.txt").write_text(with_end, "utf-8")
        return folder
    for start in range(0, size, step):
        (folder / f"{start:010}.txt").write_text(with_end[start : start + step], "utf-8")
    return folder


def measure(sources: Path, index: Path, encoder: Path) -> tuple[float, float, float, int, int]:
    """Index in another process: seconds, own and peak memory in MB, sentences, bytes on disk."""
    command = [
        sys.executable,
        __file__,
        ".",
        "--work",
        ".",
        "--run",
        str(sources),
        str(index),
        str(encoder),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    own = peak = 0
    while process.poll() is None:
        facts = read_memory(process.pid)
        own, peak = max(own, facts.get("RssAnon", 0)), max(peak, facts.get("VmHWM", 0))
        time.sleep(0.02)
    assert process.stdout is not None
    seconds, sentences, disk = json.loads(process.stdout.read().splitlines()[-1])
    return seconds, own / 1024, peak / 1024, sentences, disk


def run(sources: Path, index: Path, encoder: Path) -> None:
    """Index, in this process."""
    loaded = LandmarkEncoder.load(str(encoder))
    loaded.encode("Warm.", split_sentences("Warm."))  # imports, whose time start.py tells
    with Engine.open(index, create=True, encoder=loaded) as engine:
        began = time.perf_counter()
        report = engine.add(sources)
        seconds = time.perf_counter() - began
        assert not report.skipped, report.skipped
        status = engine.status()
    print(json.dumps([seconds, status.sentences, status.bytes]))


class WordEncoder(LandmarkEncoder):
    """Gives a sentence, or a question, the mean of random vectors of its words; takes next to no time."""

    def __init__(self) -> None:
        self.spec = EncoderSpec(name="words", fingerprint="words", dimensions=384)
        self._table = np.random.default_rng(7).standard_normal((1 << 15, 384), np.float32)

    def count_tokens(self, text: str) -> int:
        """Count words."""
        return len(text.split())

    def encode_queries(self, queries: list[str]) -> np.ndarray:
        """Encode texts."""
        words = [
            [hash(word) % len(self._table) for word in query.lower().split()] or [0]
            for query in queries
        ]
        flat = np.fromiter((word for row in words for word in row), np.int64)
        starts = np.cumsum([0, *map(len, words[:-1])])
        vectors = np.add.reduceat(self._table[flat], starts)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def encode_stream(self, documents: Any, *, recall: Any = None) -> Iterator[Encoded]:
        """Encode documents, a hundred sentences at a time."""
        for key, text, sentences, _ in documents:
            every = list(sentences)
            for start in range(0, len(every), 100):
                part = every[start : start + 100]
                vectors = self.encode_queries(
                    [text[sentence.start : sentence.end] for sentence in part]
                )
                yield Encoded(key, part, vectors, hash((key, start)) & (1 << 63) - 1)


def time_calls(owner: type, name: str, spent: dict[str, float], what: str) -> None:
    """Add the CPU seconds of a method's calls to ``spent[what]``."""
    method = getattr(owner, name)

    def timed(*arguments: Any) -> Any:
        began = time.process_time()
        try:
            return method(*arguments)
        finally:
            spent[what] += time.process_time() - began

    setattr(owner, name, timed)


def write_large(options: argparse.Namespace, size: int) -> dict[str, float]:
    """Write an index of ``size`` sentences by the product's own path."""
    import faiss  # not before the others' first query, which counts it

    shutil.rmtree(options.work / f"large-{size}", ignore_errors=True)
    base = read_text(options.data, 30_000_000)
    borders = [sentence.start for sentence in split_sentences(base)][:: options.each]
    spent = {"merging": 0.0, "learning clusters": 0.0}
    time_calls(IndexStore, "_merge", spent, "merging")
    time_calls(faiss.IndexIVFScalarQuantizer, "train", spent, "learning clusters")

    def documents() -> Iterator[Document]:
        for number in range(size // options.each):
            place = number % (len(borders) - 1)
            text = f"Note {number}. " + base[borders[place] : borders[place + 1]]
            name = f"folder{number % 100}/{number}.md"
            meta = {
                "year": 1990 + number % 30,
                "author": f"Author {number % 1000}",
                "tags": ["a", f"t{number % 7}"],
            }
            yield Document(
                name, name, text, f"Note {number} of {text[20:50]}", "markdown", meta=meta
            )

    with Engine.open(options.work / f"large-{size}", create=True, encoder=WordEncoder()) as engine:
        list(zip(documents(), range(1000), strict=False))
        began = time.process_time()
        engine.add(documents(), progress=False)
        total = time.process_time() - began
        status = engine.status()
    return {
        "CPU microseconds a sentence, merges aside": 1e6
        * (total - spent["merging"])
        / status.sentences,
        "CPU s of merging": spent["merging"],
        "CPU s of learning clusters, in writing and merging": spent["learning clusters"],
        "sentences": status.sentences,
        "segments": status.segments,
        "bytes a sentence": status.bytes / status.sentences,
    }


def compact_large(options: argparse.Namespace, size: int) -> dict[str, float]:
    """Compact the index."""
    with Engine.open(options.work / f"large-{size}", encoder=WordEncoder()) as engine:
        began = time.process_time()
        engine.compact()
        return {"CPU s": time.process_time() - began, "segments": engine.status().segments}


def ask_large(options: argparse.Namespace, size: int) -> dict[str, float]:
    """Ask an index questions: CPU milliseconds."""
    from search import read_questions

    questions = read_questions(options.data)[:100]
    found = {}
    with Engine.open(options.work / f"large-{size}", encoder=WordEncoder()) as engine:
        began = time.perf_counter()
        found["first query"] = cpu_ms(lambda: engine.search(questions[0], rerank=False))
        found["first query, wall clock"] = 1e3 * (time.perf_counter() - began)
        for name, how in {
            "hybrid": {},
            "lexical": {"mode": "lexical"},
            "dense": {"mode": "dense"},
            "kind=pdf or author=author*7 (10 %), first": {"filter": "kind=pdf or author=author*7"},
            "path=folder7/* (1 %), first": {"filter": "path=folder7/*"},
            "year<=1990 (3 %), first": {"filter": "year<=1990"},
            "tags=t3 and not year>2000 (5 %), first": {"filter": "tags=t3 and not year>2000"},
            "path=folder7/* (1 %)": {"filter": "path=folder7/*"},
        }.items():
            count = 1 if name.endswith("first") else len(questions)
            times = [
                cpu_ms(lambda q=q, how=how: engine.search(q, rerank=False, **how))
                for q in questions[:count]
            ]
            found[name] = statistics.median(times)
    return found


def read_large(options: argparse.Namespace, size: int) -> dict[str, float]:
    """Read an index in other ways: CPU milliseconds."""
    with Engine.open(options.work / f"large-{size}", encoder=WordEncoder()) as engine:
        engine.status()
        found = {name: cpu_ms(getattr(engine, name)) for name in ("status", "documents", "verify")}
        with engine._store.reader.snapshot():
            pass
        with engine._store.writing():
            engine._store.commit([])
        found["a snapshot after a commit"] = cpu_ms(engine._store.reader.snapshot().__enter__)
    return found


def cpu_ms(call: Callable[[], Any]) -> float:
    """How long a call takes."""
    began = time.process_time()
    call()
    return 1e3 * (time.process_time() - began)


STEPS = {"write": write_large, "compact": compact_large, "ask": ask_large, "read": read_large}


def measure_step(options: argparse.Namespace, step: str, size: str) -> dict[str, float]:
    """Run one step in another process; its own memory at the peak is added."""
    command = [
        sys.executable,
        __file__,
        str(options.data),
        "--work",
        str(options.work),
        "--each",
        str(options.each),
    ]
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    process = subprocess.Popen(
        [*command, "--step", step, size], stdout=subprocess.PIPE, text=True, env=environment
    )
    own = 0
    while process.poll() is None:
        own = max(own, read_memory(process.pid).get("RssAnon", 0))
        time.sleep(0.01)
    assert process.stdout is not None
    return {**json.loads(process.stdout.read().splitlines()[-1]), "MB of own memory": own / 1024}


def read_memory(process: int) -> dict[str, int]:
    """The memory of a process in kB, by the names that Linux gives."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return {}
    return {
        line.split(":")[0]: int(line.split()[1])
        for line in lines
        if line.startswith(("Rss", "VmHWM"))
    }


def plot(path: Path, found: dict[str, np.ndarray]) -> None:
    """Time and memory against size."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.5))
    for name, table in found.items():
        left.loglog(table[:, 0], table[:, 1], "o-", label=name)
        right.semilogx(table[:, 0], table[:, 2], "o-", label=name)
    left.set(xlabel="MB of text", ylabel="seconds", title="time")
    right.set(
        xlabel="MB of text", ylabel="MB of own memory at the peak", title="memory", ylim=(0, None)
    )
    left.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
