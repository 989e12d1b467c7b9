"""Kill workers, machines and drivers of a Ray cluster while they index, and see that nothing is lost.

    python tests/trust/cluster.py --count 12

A cluster of four machines, each of two cores, as far as one machine can be four. Each trial indexes the same files
anew, and at a random instant one worker is killed, or one's disk is full, or one of the machines goes, or the driver
is killed and the same command is run again. In the end every document is there, whole and once, and `verify` is clean.
Prints one line of counts; exits with 1 at the first thing that is wrong.
"""

import argparse
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import ray
from ray.cluster_utils import Cluster

from lmkrag import Engine

KINDS = ("worker", "disk", "machine", "driver")
DOCUMENTS = 24
_SCRIPT = """
import sys
from lmkrag import Engine, ray_encoding
ray_encoding._BATCH = 1  # a file each
with Engine.open(sys.argv[2], create=True) as engine:
    report = engine.add(sys.argv[1], ray=sys.argv[3])
print(report.added + report.unchanged, len(report.skipped))
"""


def main() -> None:
    """Run the trials."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False}
    )
    machines = [cluster.add_node(num_cpus=2) for _ in range(3)]
    ray.init(address=cluster.address, log_to_driver=False)
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as work:
        texts = write_texts(Path(work) / "texts")
        for trial in range(options.count):
            kind = KINDS[trial % len(KINDS)]
            index = Path(work) / "index"
            shutil.rmtree(index, ignore_errors=True)
            command = [sys.executable, "-c", _SCRIPT, str(texts), str(index), cluster.address]
            run = start(command)
            while run.poll() is None and len(find("MapWorker")) < 2:
                time.sleep(0.02)
            time.sleep(rng.random() * 3)
            if run.poll() is not None:
                counts["too late"] += 1
            elif kind == "driver":
                run.kill()
                run.wait()
                run = start(command)
            elif kind == "machine":
                doomed = machines.pop(rng.randrange(len(machines)))
                cluster.remove_node(doomed, allow_graceful=False)
                machines.append(cluster.add_node(num_cpus=2))
            elif victims := find("MapWorker"):
                victim = rng.choice(victims)
                if kind == "worker":
                    os.kill(victim, signal.SIGKILL)
                else:
                    resource.prlimit(victim, resource.RLIMIT_FSIZE, (10_000, 10_000))
            said = run.communicate(timeout=300)[0].splitlines()[-1]  # Ray prints what dies
            check(index, texts, said)
            counts[kind] += 1
            print(trial, kind, said.strip(), flush=True)
    ray.shutdown()
    cluster.shutdown()
    print(
        ", ".join(f"{kind}: {count}" for kind, count in counts.items()),
        "- nothing lost, nothing wrong",
    )


def write_texts(folder: Path) -> Path:
    """Files whose every sentence is of its own."""
    folder.mkdir()
    for number in range(DOCUMENTS):
        sentences = (
            f"Pump {number} of yard {line} is oiled every {line + number} days."
            for line in range(80)
        )
        (folder / f"{number:02}.txt").write_text(" ".join(sentences))
    return folder


def start(command: list[str]) -> "subprocess.Popen[str]":
    """Start a driver."""
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def find(name: str) -> list[int]:
    """Processes of Ray by what they do."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if name in place.read_bytes().split(b"\0")[0].decode(errors="replace"):
                found.append(int(place.parent.name))
        except OSError:
            continue
    return found


def check(index: Path, texts: Path, said: str) -> None:
    """Exit unless every document is there, whole and once."""
    with Engine.open(index, rerank=False) as engine:
        problems = list(engine.verify())
        names = [info.doc_id for info in engine.documents()]
        wanted = sorted(path.name for path in texts.iterdir())
        if said.split() != [str(DOCUMENTS), "0"] or names != wanted:
            problems.append(f"the run said {said!r}; there are {len(names)} documents")
        problems += [name for name in names if engine.read(name) != (texts / name).read_text()]
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
