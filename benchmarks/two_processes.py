"""What do two processes that encode at the same time cost each other?

    python benchmarks/two_processes.py ../shared/data/dev/squad [--characters 60000] [--rounds 3]

Reads the same text alone and in two processes at once, by how OpenMP's waiting threads wait: sleeping at once
(``OMP_WAIT_POLICY=PASSIVE``), spinning for so many turns and then sleeping (``GOMP_SPINCOUNT``), or as GNU's OpenMP
does by itself (300,000 turns). Prints characters per second per process, and the share of the speed alone.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

CODE = """
import sys, time
from pathlib import Path
from lmkrag import LandmarkEncoder
from lmkrag.sentences.split import split_sentences
from lmkrag.evaluation.dataset import iter_documents
encoder = LandmarkEncoder.load()
text = "".join(document.text for document in iter_documents(Path(sys.argv[1])))[: int(sys.argv[2])]
sentences = split_sentences(text)
encoder.encode(text[:2000], split_sentences(text[:2000]))
print("ready", flush=True)
sys.stdin.readline()
began = time.perf_counter()
encoder.encode(text, sentences)
print(len(text) / (time.perf_counter() - began), flush=True)
"""


VARIANTS = {
    "sleep at once": {"OMP_WAIT_POLICY": "PASSIVE"},
    **{f"spin {turns:,} turns": {"GOMP_SPINCOUNT": str(turns)} for turns in (1_000, 10_000)},
    "OpenMP's default": {},
}


def run(count: int, data: Path, characters: int, variables: dict[str, str]) -> list[float]:
    """Encode in so many processes at once; return the characters per second of each."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
    }
    environment |= {"HF_HUB_OFFLINE": "1", **variables}
    command = [sys.executable, "-P", "-c", CODE, str(data), str(characters)]
    processes = [
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        for _ in range(count)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return [float(process.communicate()[0]) for process in processes]


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--characters", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    speeds: dict[str, list[tuple[float, float]]] = {name: [] for name in VARIANTS}
    for _ in range(options.rounds):  # in turn: the machine's own ups and downs are shared
        for name, variables in VARIANTS.items():
            (alone,) = run(1, options.data, options.characters, variables)
            both = run(2, options.data, options.characters, variables)
            speeds[name].append((alone, sum(both) / len(both)))
    print("| waiting threads | alone | two at once, each | share |\n|---|---|---|---|")
    for name, rounds in speeds.items():
        alone, each = (median(column) for column in zip(*rounds, strict=True))
        print(f"| {name} | {alone:,.0f} | {each:,.0f} | {each / alone:.2f} |")


if __name__ == "__main__":
    main()
