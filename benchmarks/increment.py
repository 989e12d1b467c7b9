"""What does it cost to index a long document again after a small edit, and a log that grew?

    python benchmarks/increment.py DATA --work DIR [--megabytes 5]

One document of real text is indexed, then again with a paragraph put into its middle, without it, with one put in
near its start, and with a line at its end. Prints seconds and windows encoded, and their share of the first run's.
"""

import argparse
import shutil
import time
from pathlib import Path

from lmkrag import Engine
from lmkrag.encoder.landmark import LandmarkEncoder
from lmkrag.evaluation.dataset import iter_documents

PARAGRAPH = "The committee met again in March. It heard two engineers. Nothing was decided, and the bridge stayed closed.\n\n"


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--megabytes", type=float, default=5)
    options = parser.parse_args()
    text = read_text(options.data, int(options.megabytes * 1e6))
    path = options.work / "long.txt"
    shutil.rmtree(options.work / "increment", ignore_errors=True)
    options.work.mkdir(parents=True, exist_ok=True)
    encoder = LandmarkEncoder.load()
    encoded = [0]
    forward = encoder._forward

    def counted(jobs: list, exact: bool) -> list:
        encoded[0] += len(jobs)
        return forward(jobs, exact)

    encoder._forward = counted
    middle, early = (text.index("\n", len(text) // part) + 1 for part in (2, 50))
    edits = {
        "first": text,
        "a paragraph put in": text[:middle] + PARAGRAPH + text[middle:],
        "and taken out": text,
        "a paragraph put in near the start": text[:early] + PARAGRAPH + text[early:],
        "a line at the end": text[:early] + PARAGRAPH + text[early:] + "\nA last line.\n",
    }
    print(
        f"{len(text):,} characters\n\n| run | s | share | windows | share |\n|---|---|---|---|---|"
    )
    first: tuple[float, int] | None = None
    with Engine.open(options.work / "increment", create=True, encoder=encoder) as engine:
        for name, edited in edits.items():
            path.write_text(edited, "utf-8")
            encoded[0] = 0
            began = time.perf_counter()
            engine.add(path)
            spent = time.perf_counter() - began
            first = first or (spent, encoded[0])
            shares = f"{spent / first[0]:.3f} | {encoded[0]:,} | {encoded[0] / first[1]:.4f}"
            print(f"| {name} | {spent:.1f} | {shares} |", flush=True)
        assert engine.verify() == ()


def read_text(data: Path, size: int) -> str:
    """Real documents, one after the other."""
    parts: list[str] = []
    total = 0
    for file in sorted(data.glob("*/docs.jsonl.gz")):
        for document in iter_documents(file.parent):
            parts.append(document.text)
            total += len(document.text)
            if total >= size:
                return "\n\n".join(parts)[:size]
    return "\n\n".join(parts)


if __name__ == "__main__":
    main()
