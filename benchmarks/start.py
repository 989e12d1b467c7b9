"""How long until the first answer of a cold process?

    python benchmarks/start.py INDEX [--runs 9]

Starts a process for each figure and waits for it; medians of interleaved runs. "By torch" is the same search with
the encoder run by torch and transformers.
"""

import argparse
import statistics
import subprocess
import sys
import time

QUESTION = "how is leave accrued?"
BY_TORCH = (
    "import sys; from lmkrag import Engine, LandmarkEncoder; encoder = LandmarkEncoder.load(runtime='torch'); "
    "print(Engine.open(sys.argv[1], encoder=encoder).search(sys.argv[2], top_k=1)[0].text)"
)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index")
    parser.add_argument("--runs", type=int, default=9)
    options = parser.parse_args()
    command = [sys.executable, "-m", "lmkrag"]
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "lmkrag --help": [*command, "--help"],
        "lmkrag status": [*command, "status", "--index", options.index],
        "lmkrag search, lexical": [*command, "search", QUESTION, "--index", options.index, "--mode", "lexical"],
        "lmkrag search": [*command, "search", QUESTION, "--index", options.index],
        "the same by torch": [sys.executable, "-c", BY_TORCH, options.index, QUESTION],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(options.runs):
        for name, line in commands.items():
            began = time.perf_counter()
            subprocess.run(line, check=True, capture_output=True)
            times[name].append(time.perf_counter() - began)
    slowest = statistics.median(times["the same by torch"])
    print("| command | median s | share of the last |\n|---|---|---|")
    for name, found in times.items():
        print(f"| {name} | {statistics.median(found):.2f} | {statistics.median(found) / slowest:.2f} |")


if __name__ == "__main__":
    main()
