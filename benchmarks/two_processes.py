"""What do two processes that encode at the same time cost each other?

    python benchmarks/two_processes.py ../shared/data/dev/squad [--characters 60000]

Reads the same text alone and in two processes at once, by the policy that OpenMP's waiting threads follow: lmkrag's
(``PASSIVE``: they sleep) and OpenMP's own (unset: they spin). Prints characters per second per process, and the share
of the speed alone.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

CODE = """
import sys, time
from pathlib import Path
from lmkrag import LandmarkEncoder, split_sentences
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


def run(count: int, data: Path, characters: int, policy: str | None) -> list[float]:
    """Encode in so many processes at once; return the characters per second of each."""
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    environment |= {"HF_HUB_OFFLINE": "1"} | ({"OMP_WAIT_POLICY": policy} if policy else {})
    command = [sys.executable, "-P", "-c", CODE, str(data), str(characters)]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--characters", type=int, default=60_000)
    options = parser.parse_args()
    print("| waiting threads | alone | two at once, each | share |\n|---|---|---|---|")
    for name, policy in (("sleep (lmkrag's default)", "PASSIVE"), ("spin (OpenMP's default)", None)):
        (alone,) = run(1, options.data, options.characters, policy)
        both = run(2, options.data, options.characters, policy)
        mean = sum(both) / len(both)
        print(f"| {name} | {alone:,.0f} | {mean:,.0f} | {mean / alone:.2f} |", flush=True)


if __name__ == "__main__":
    main()
