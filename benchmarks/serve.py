"""How many requests a second does ``lmkrag serve`` answer, how soon, and is it stable for hours?

    python benchmarks/serve.py                  # 1, 8 and 64 clients, alone and beside a writer that adds and compacts
    python benchmarks/serve.py --soak 30        # minutes of mixed requests; memory, descriptors and threads over time

Every answer is checked: one document is replaced again and again, each time with another number in all its sentences,
so an answer with two numbers mixes two states of the index.
"""

import argparse
import asyncio
import contextlib
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import httpx

from lmkrag import Document, Engine

CORPUS = Path(__file__).parent / "folder" / "corpus"
QUESTIONS = [
    "how is leave accrued?",
    "what does the warranty cover?",
    "who approves expenses?",
    "how do I turn the alarm off?",
    "when does the lease end?",
    "what was decided about the budget?",
    "how much notice must be given?",
    "which ports have to be open?",
]
SENTENCES = 40
_NUMBER = re.compile(r"state number (\d+)")


def versioned(number: int) -> Document:
    """Return a document whose sentences all name its state."""
    lines = [
        f"Line {line} of the ledger belongs to state number {number}." for line in range(SENTENCES)
    ]
    return Document("ledger.txt", "ledger.txt", "\n\n".join(lines))


@contextlib.contextmanager
def start_server(index: Path, *options: str):
    """Yield the URL and the process of a server."""
    command = [
        sys.executable,
        "-m",
        "lmkrag",
        "serve",
        "--index",
        f"demo={index}",
        "--port",
        "0",
        *options,
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        url = ""
        for line in process.stderr:
            if match := re.search(r"on (http://\S+)", line):
                url = match[1]
                break
        while True:
            try:
                httpx.get(f"{url}/readyz").raise_for_status()
                break
            except httpx.HTTPError:
                time.sleep(0.2)
        yield url, process
    finally:
        process.terminate()
        process.wait(60)


def write_for_ever(index: Path) -> None:
    """Replace the ledger, and compact now and then, until the process is killed."""
    with Engine.open(index) as engine:
        number = 1
        while True:
            engine.add(versioned(number))
            if number % 5 == 0:
                engine.compact()
            number += 1


@contextlib.contextmanager
def writing(index: Path):
    """Run a writer in a process of its own."""
    command = [sys.executable, __file__, "--write", str(index)]
    process = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"})
    try:
        time.sleep(8)  # torch is imported first
        yield
    finally:
        process.kill()
        process.wait()


def check(spans: list, problems: Counter) -> None:
    """Count answers that mix two states."""
    states = {
        number
        for span in spans
        if span["doc_id"] == "ledger.txt"
        for number in _NUMBER.findall(span["text"])
    }
    if len(states) > 1:
        problems["answers of two states"] += 1


async def load(url: str, clients: int, seconds: float, problems: Counter) -> list[float]:
    """Search from several clients for some seconds; return how long each request took."""
    took: list[float] = []
    end = time.monotonic() + seconds

    async def work(number: int) -> None:
        choose = random.Random(number)
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:
            while time.monotonic() < end:
                ledger = choose.random() < 0.1
                query = "which state number has the ledger?" if ledger else choose.choice(QUESTIONS)
                began = time.monotonic()
                reply = await client.post("/api/search", json={"query": query})
                took.append(time.monotonic() - began)
                if reply.status_code != 200:
                    problems[f"status {reply.status_code}"] += 1
                else:
                    check(reply.json()["spans"], problems)

    await asyncio.gather(*(work(number) for number in range(clients)))
    return took


def measure(index: Path, seconds: float) -> None:
    """Print a table of requests a second and latencies."""
    print(
        f"{'clients':>8} {'writer':>7} {'req/s':>7} {'p50 ms':>8} {'p95 ms':>8} {'p99 ms':>8}  problems"
    )
    with start_server(index) as (url, _):
        for beside in (False, True):
            with writing(index) if beside else contextlib.nullcontext():
                for clients in (1, 8, 64):
                    problems: Counter = Counter()
                    took = asyncio.run(load(url, clients, seconds, problems))
                    cuts = statistics.quantiles(took, n=100)
                    p50, p95, p99 = (1000 * cuts[place] for place in (49, 94, 98))
                    rate = len(took) / seconds
                    said = (
                        ", ".join(f"{count} {name}" for name, count in problems.items()) or "none"
                    )
                    writer = "yes" if beside else "no"
                    print(
                        f"{clients:>8} {writer:>7} {rate:>7.1f} {p50:>8.1f} {p95:>8.1f} {p99:>8.1f}  {said}"
                    )


def read_process(pid: int) -> tuple[float, int, int]:
    """Return the megabytes of memory, the descriptors and the threads of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    memory = int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024
    threads = int(re.search(r"Threads:\s+(\d+)", status)[1])
    return memory, len(list(Path(f"/proc/{pid}/fd").iterdir())), threads


class Soak:
    """Sends every kind of request to a server, beside documents that are added and compactions."""

    def __init__(self, url: str, pid: int, index: Path, minutes: float) -> None:
        self.problems: Counter = Counter()
        self.done: Counter = Counter()
        self.samples: list[tuple[float, int, int]] = []
        self._url, self._pid, self._index = url, pid, index
        self._end = time.monotonic() + 60 * minutes

    async def run(self) -> None:
        """Send requests, write and watch until the time is over."""
        await asyncio.gather(
            *(self._work(number) for number in range(8)), self._write(), self._watch()
        )

    def _client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self._url, timeout=60)

    async def _work(self, number: int) -> None:
        choose = random.Random(number)
        kinds = [
            self.search,
            self.search,
            self.search,
            self.ledger,
            self.ask,
            self.leave,
            self.read,
            self.refuse,
        ]
        async with self._client() as client:
            while time.monotonic() < self._end:
                kind = choose.choice(kinds)
                try:
                    await kind(client, choose)
                    self.done[kind.__name__] += 1
                except Exception as error:
                    self.problems[f"{kind.__name__}: {error!r:.100}"] += 1
                await asyncio.sleep(choose.random() / 5)

    async def search(self, client: httpx.AsyncClient, choose: random.Random) -> None:
        """Search, explained."""
        reply = await client.post(
            "/api/search", json={"query": choose.choice(QUESTIONS), "explain": True}
        )
        reply.raise_for_status()

    async def ledger(self, client: httpx.AsyncClient, _: random.Random) -> None:
        """Search the document that changes."""
        body = {"query": "which state number has the ledger?", "top_k": 20, "level": "sentence"}
        reply = await client.post("/api/search", json=body)
        check(reply.raise_for_status().json()["spans"], self.problems)

    async def ask(self, client: httpx.AsyncClient, choose: random.Random) -> None:
        """Read a stream to its end."""
        body = {"question": choose.choice(QUESTIONS), "stream": True}
        async with client.stream("POST", "/api/ask", json=body) as reply:
            text = "".join([part async for part in reply.aiter_text()])
        if "event: answer" not in text:
            raise ValueError("the stream has no answer")

    async def leave(self, client: httpx.AsyncClient, choose: random.Random) -> None:
        """Go away in the middle of a stream."""
        body = {"question": choose.choice(QUESTIONS), "stream": True}
        async with client.stream("POST", "/api/ask", json=body) as reply:
            async for _ in reply.aiter_bytes(64):
                break

    async def read(self, client: httpx.AsyncClient, choose: random.Random) -> None:
        """Read a document and its relevance."""
        listed = (await client.get("/api/documents")).raise_for_status().json()["documents"]
        path = "/api/documents/" + choose.choice(listed)["doc_id"].replace("/", "%2F")
        for reply in (
            await client.get(f"{path}/text"),
            await client.get(f"{path}/relevance?query=leave"),
        ):
            reply.raise_for_status()

    async def refuse(self, client: httpx.AsyncClient, _: random.Random) -> None:
        """Send two requests that the server must refuse."""
        wrong = (
            await client.post(
                "/api/search", content=b"{", headers={"Content-Type": "application/json"}
            )
        ).status_code
        missing = (await client.get("/api/documents/none")).status_code
        if (wrong, missing) != (400, 404):
            raise ValueError(f"status {wrong} and {missing}")

    async def _write(self) -> None:
        number = 0
        async with self._client() as client:
            while time.monotonic() < self._end:
                number += 1
                reply = await client.put(
                    "/api/documents/ledger.txt", json={"text": versioned(number).text}
                )
                job = reply.raise_for_status().json()
                while job["state"] not in ("done", "failed"):
                    await asyncio.sleep(0.5)
                    job = (await client.get(f"/api/jobs/{job['job_id']}")).json()
                self.done[f"jobs {job['state']}"] += 1
                if number % 20 == 0:
                    command = [
                        sys.executable,
                        "-m",
                        "lmkrag",
                        "index-tools",
                        "compact",
                        "--index",
                        str(self._index),
                    ]
                    process = await asyncio.create_subprocess_exec(
                        *command, stderr=subprocess.DEVNULL
                    )
                    self.done[f"compactions, exit {await process.wait()}"] += 1
                await asyncio.sleep(2)

    async def _watch(self) -> None:
        while time.monotonic() < self._end:
            self.samples.append(read_process(self._pid))
            await asyncio.sleep(5)

    def report(self) -> None:
        """Print the requests, the problems, and what the process held, in six parts of the time."""
        print("done:", dict(self.done))
        print("problems:", dict(self.problems) or "none")
        print(f"{'minutes':>12} {'memory MB':>10} {'descriptors':>12} {'threads':>8}   medians")
        part = max(1, len(self.samples) // 6)
        for first in range(0, part * 6, part):
            columns = zip(*self.samples[first : first + part], strict=True)
            memory, descriptors, threads = (statistics.median(column) for column in columns)
            print(
                f"{first / 12:>5.1f}-{(first + part) / 12:>5.1f} {memory:>11.0f} {descriptors:>12.0f} {threads:>8.0f}"
            )


def main() -> None:
    """Run a measurement, a soak test or the writer."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=20, help="of each measurement")
    parser.add_argument("--soak", type=float, default=0, metavar="MINUTES")
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        write_for_ever(options.write)
        return
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "index"
        with Engine.open(index, create=True) as engine:
            engine.add(CORPUS)
            engine.add(versioned(0))
            print(engine.status().documents, "documents,", engine.status().sentences, "sentences")
        if options.soak:
            with start_server(index, "--writable") as (url, process):
                soak = Soak(url, process.pid, index, options.soak)
                asyncio.run(soak.run())
                soak.report()
        else:
            measure(index, options.seconds)


if __name__ == "__main__":
    main()
