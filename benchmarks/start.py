"""How long until the first answer of a cold process?

    python benchmarks/start.py INDEX [--runs 9]
    python benchmarks/start.py INDEX --agents 5

Starts a process for each figure and waits for it; medians of interleaved runs. "By torch" is the same search with
the encoder in torch and transformers. ``--agents N`` opens N sessions of ``lmkrag mcp``, one after another, and asks a
question in each. It prints when each client had its answer, and the CPU time and the memory (proportional set size) of
all processes until then, first with the shared process, then with ``--in-process``.
"""

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

QUESTION = "how is leave accrued?"
BY_TORCH = (
    "import sys; from lmkrag import Engine, LandmarkEncoder; encoder = LandmarkEncoder.load(runtime='torch'); "
    "print(Engine.open(sys.argv[1], encoder=encoder).search(sys.argv[2], top_k=1)[0].text)"
)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("index")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--agents", type=int)
    options = parser.parse_args()
    if options.agents:
        measure_agents(options.index, options.agents)
        return
    command = [sys.executable, "-m", "lmkrag"]
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "lmkrag --help": [*command, "--help"],
        "lmkrag status": [*command, "status", "--index", options.index],
        "lmkrag search, lexical": [
            *command,
            "search",
            QUESTION,
            "--index",
            options.index,
            "--mode",
            "lexical",
        ],
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
    for name, seconds in times.items():
        print(
            f"| {name} | {statistics.median(seconds):.2f} | {statistics.median(seconds) / slowest:.2f} |"
        )


def measure_agents(index: str, count: int) -> None:
    """Print when each session had its first answer, and the memory of all processes."""
    for options in ([], ["--in-process"]):
        with tempfile.TemporaryDirectory() as cache:
            command = [sys.executable, "-m", "lmkrag", "mcp", "--index", index, *options]
            agents, times, memory, spent = [], [], [], [0.0]
            for _ in range(count):
                began = time.perf_counter()
                pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
                agents.append(
                    subprocess.Popen(command, env={**os.environ, "XDG_CACHE_HOME": cache}, **pipes)
                )
                ask(agents[-1])
                times.append(time.perf_counter() - began)
                memory.append(sum(find_memory(cache).values()))
                spent.append(sum(map(count_seconds, find_memory(cache))))
            print(" ".join(["lmkrag mcp", *options]))
            print("  first answers, s   ", *(f"{seconds:.2f}" for seconds in times))
            print(
                "  processor, s       ",
                *(f"{after - before:.2f}" for before, after in pairwise(spent)),
            )
            print("  memory in all, MB  ", *(f"{size / 1e6:.0f}" for size in memory))
            for number in find_memory(cache):
                os.kill(number, signal.SIGKILL)
            for agent in agents:
                agent.wait()


def ask(agent: "subprocess.Popen[bytes]") -> None:
    """Begin a session and search."""
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "start", "version": "1"},
    }
    search = {"name": "search", "arguments": {"query": QUESTION, "top_k": 1}}
    for message in (
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": search},
    ):
        agent.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        agent.stdin.flush()
        if "id" in message and "error" in (reply := json.loads(agent.stdout.readline())):
            raise SystemExit(reply["error"]["message"])


def count_seconds(number: int) -> float:
    """Seconds of the processor that a process took."""
    fields = Path(f"/proc/{number}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def find_memory(cache: str) -> dict[int, int]:
    """Return the bytes of every process that uses a cache, by its number; processes share the bytes of shared pages."""
    sizes = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"XDG_CACHE_HOME={cache}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                size = re.search(
                    r"^Pss: *(\d+) kB", (folder / "smaps_rollup").read_text(), re.MULTILINE
                )
                sizes[int(folder.name)] = 1024 * int(size[1])
        except OSError:  # it has ended
            continue
    return sizes


if __name__ == "__main__":
    main()
