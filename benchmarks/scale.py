"""Does indexing take memory that stays flat and time that grows in step, as a document and a corpus grow?

    python benchmarks/scale.py DATA --work DIR [--megabytes 1,3,10,30,100]

Real text of DATA, repeated, in one file, and in files of 100 kB. The encoder is an embedding layer of random weights
with the vectors of landmark-mini: the model takes the same memory and a fixed time a token whatever the text, so all
else is what is looked at. Each run is a process of its own; its memory is sampled from outside. "Own" is memory that
can't be given back (anonymous pages); "peak" counts mapped files too. Prints tables and the slope of time in log-log,
and writes a plot with --plot FILE.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from increment import read_text

SMALL = 100_000  # characters of a file of the corpus


def main() -> None:
    """Run every size in a process of its own, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--megabytes", default="1,3,10,30,100")
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--run", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
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
            sources = write_sources(options.work / "sources", base, int(size * 1e6), what == "a corpus")
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
        config = BertConfig(vocab_size=len(tokenizer), hidden_size=384, num_hidden_layers=0, num_attention_heads=12)
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
    command = [sys.executable, __file__, ".", "--work", ".", "--run", str(sources), str(index), str(encoder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    own = peak = 0
    while process.poll() is None:
        try:
            status = Path(f"/proc/{process.pid}/status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            break
        facts = {
            line.split(":")[0]: line.split()[1] for line in status.splitlines() if line.startswith(("Rss", "VmHWM"))
        }
        own = max(own, int(facts.get("RssAnon", 0)))
        peak = max(peak, int(facts.get("VmHWM", 0)))
        time.sleep(0.02)
    assert process.stdout is not None
    seconds, sentences, disk = json.loads(process.stdout.read().splitlines()[-1])
    return seconds, own / 1024, peak / 1024, sentences, disk


def run(sources: Path, index: Path, encoder: Path) -> None:
    """Index, in this process."""
    from lmkrag import Engine, LandmarkEncoder
    from lmkrag.sentences.split import split_sentences

    loaded = LandmarkEncoder.load(str(encoder))
    loaded.encode("Warm.", split_sentences("Warm."))  # imports, whose time start.py tells
    with Engine.open(index, create=True, encoder=loaded) as engine:
        began = time.perf_counter()
        report = engine.add(sources)
        seconds = time.perf_counter() - began
        assert not report.skipped, report.skipped
        status = engine.status()
    print(json.dumps([seconds, status.sentences, status.bytes]))


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
    right.set(xlabel="MB of text", ylabel="MB of own memory at the peak", title="memory", ylim=(0, None))
    left.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
