"""Do several processes index faster than several threads of one?

    python benchmarks/workers.py ../shared/data/dev/squad [--workers 1,2] [--shards 0,4] [--ray local]
        [--characters 600000] [--rounds 2]

Writes documents of DATA as files and indexes them with `lmkrag index --workers N --shards N` (0 for none), the cores
divided between the processes, every time into a new index; with --ray also by as many workers on a Ray cluster. Prints
characters per second, start of the processes included, and their ratio to the first; rounds alternate, and the best of
each counts.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lmkrag.evaluation.dataset import iter_documents


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--shards", default="0")
    parser.add_argument("--ray", metavar="ADDRESS|local")
    parser.add_argument("--characters", type=int, default=600_000)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    ways = [
        (shards, workers, ray)
        for ray in ([None, options.ray] if options.ray else [None])
        for shards in options.shards.split(",")
        for workers in options.workers.split(",")
    ]
    with tempfile.TemporaryDirectory() as work:
        written = _write_files(options.data, Path(work) / "docs", options.characters)
        best = dict.fromkeys(ways, 0.0)
        for number in range(options.rounds):
            for place, way in enumerate(ways):
                seconds = _index(Path(work), *way, f"index-{number}-{place}")
                best[way] = max(best[way], written / seconds)
    print(f"{written:,} characters, {os.cpu_count()} processors\n")
    print("| shards | workers | characters/s | ratio |\n|---|---|---|---|")
    for (shards, workers, ray), speed in best.items():
        print(f"| {shards} | {workers}{' on Ray' * bool(ray)} | {speed:,.0f} | {speed / best[ways[0]]:.2f} |")


def _write_files(data: Path, folder: Path, characters: int) -> int:
    folder.mkdir()
    written = 0
    for number, document in enumerate(iter_documents(data)):
        if written >= characters:
            break
        (folder / f"{number:05}.txt").write_text(document.text, "utf-8")
        written += len(document.text)
    return written


def _index(work: Path, shards: str, workers: str, ray: str | None, name: str) -> float:
    command = [sys.executable, "-m", "lmkrag", "index", str(work / "docs"), "--index", str(work / name), "--json"]
    command += ["--workers", workers]
    if shards != "0":
        command += ["--shards", shards]
    if ray:
        command += ["--ray", ray]
    began = time.perf_counter()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds = time.perf_counter() - began
    assert not json.loads(done.stdout)["skipped"]
    return seconds


if __name__ == "__main__":
    main()
