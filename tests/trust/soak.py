"""A server under hours of uploads, deletions, searches, questions and streams: nothing wrong, nothing growing.

    python tests/trust/soak.py --minutes 30

Each of some clients owns documents of its own and knows what they hold: what a client has uploaded it finds and reads
back word by word, what it has deleted it finds no more. Memory and descriptors of the server and its children are
sampled; at the end the index must verify, and no more may be in use than after the first fifth of the time.
"""

import argparse
import itertools
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

import httpx

from lmkrag import Engine

CORPUS = Path(__file__).parents[1] / "data" / "corpus"
QUESTIONS = (
    "who approves leave?",
    "how far have the coping stones moved?",
    "what is the lamp made of?",
    "ls -la",
)
GROWTH = 1.25  # of memory, from the second fifth to the last
NAMES = ("pump", "valve", "gate", "lamp", "ferry", "winch", "stove", "mill")


class Client:
    """One who uploads, asks and deletes. ``done`` counts what was done, by kind."""

    def __init__(self, number: int, url: str) -> None:
        self.number = number
        self.http = httpx.Client(base_url=url, timeout=120)
        self.random = random.Random(number)
        self.texts: dict[str, str] = {}
        self.count = itertools.count()
        self.done: dict[str, int] = {}

    def step(self) -> None:
        """Do one thing that is drawn at random."""
        kind = self.random.choices(
            [
                "upload",
                "value",
                "report",
                "delete",
                "read",
                "search",
                "batch",
                "ask",
                "stream",
                "listing",
            ],
            [4, 3, 0.3, 4, 4, 8, 1, 3, 2, 1],
        )[0]
        getattr(self, kind)()
        self.done[kind] = self.done.get(kind, 0) + 1

    def _text(self, doc_id: str) -> str:
        name = self.random.choice(NAMES)
        code = f"Q{self.number}X{next(self.count)}"
        lines = [
            f"The {name} {code} of yard {self.random.randrange(99)} is oiled every {n + 2} days."
            for n in range(9)
        ]
        return f"Notes on {doc_id}\n\n" + " ".join(lines) + f" \u2028 ü 😀 {code}\n"

    def _put(self, doc_id: str, **body) -> None:
        job = self._check(self.http.put(f"/api/documents/{doc_id}", **body), 202).json()
        while job["state"] not in ("done", "failed"):
            time.sleep(0.05)
            job = self._check(self.http.get(f"/api/jobs/{job['job_id']}")).json()
        assert job["state"] == "done", job

    def _check(self, reply: httpx.Response, status: int = 200) -> httpx.Response:
        assert reply.status_code == status, (
            f"{reply.request.method} {reply.url}: {reply.status_code} {reply.text[:300]}"
        )
        return reply

    def upload(self) -> None:
        """Upload a file, or another text of one."""
        doc_id = f"c{self.number}/{self.random.randrange(12)}.txt"
        text = self._text(doc_id)
        self._put(doc_id, content=text.encode())
        self.texts[doc_id] = text

    def value(self) -> None:
        """Send a text as JSON."""
        doc_id = f"c{self.number}/value-{self.random.randrange(8)}"
        text = self._text(doc_id)
        self._put(doc_id, json={"text": text, "meta": {"client": self.number}})
        self.texts[doc_id] = text

    def report(self) -> None:
        """Upload a PDF file, and look at a page of it."""
        doc_id = f"c{self.number}-report.pdf"
        self._put(doc_id, content=(CORPUS / "reports" / "viaduct-inspection.pdf").read_bytes())
        self._check(self.http.get(f"/api/documents/{doc_id}/pages/1.webp"))
        self._check(self.http.delete(f"/api/documents/{doc_id}"))

    def delete(self) -> None:
        """Delete a document."""
        if self.texts:
            doc_id = self.random.choice(sorted(self.texts))
            self._check(self.http.delete(f"/api/documents/{doc_id}"))
            del self.texts[doc_id]
            self._check(self.http.get(f"/api/documents/{doc_id}"), 404)

    def read(self) -> None:
        """Read a document back, and find it by a word that it alone has."""
        if self.texts:
            doc_id = self.random.choice(sorted(self.texts))
            text = self.texts[doc_id]
            assert (
                self._check(self.http.get(f"/api/documents/{doc_id}/text")).json()["text"] == text
            )
            body = {"query": text.split()[-1], "mode": "lexical", "top_k": 3}
            spans = self._check(self.http.post("/api/search", json=body)).json()["spans"]
            assert doc_id in [span["doc_id"] for span in spans], (doc_id, body)
            for span in spans:
                if span["doc_id"] == doc_id:
                    assert text[span["start"] : span["end"]] == span["text"]

    def search(self) -> None:
        """Search."""
        body = {
            "query": self.random.choice(QUESTIONS),
            "level": self.random.choice(["passage", "span", "document"]),
        }
        self._check(self.http.post("/api/search", json=body))

    def batch(self) -> None:
        """Search for several questions at once."""
        self._check(self.http.post("/api/search/batch", json={"queries": list(QUESTIONS)}))

    def ask(self) -> None:
        """Ask."""
        reply = self._check(self.http.post("/api/ask", json={"question": QUESTIONS[0]})).json()
        assert "harbour master approves leave" in reply["text"]

    def stream(self) -> None:
        """Ask, and read the answer as it comes; half of the time go away in the midst of it."""
        body = {"question": self.random.choice(QUESTIONS), "stream": True}
        with self.http.stream("POST", "/api/ask", json=body) as reply:
            assert reply.status_code == 200
            for _ in reply.iter_text():
                if self.random.random() < 0.1:
                    break

    def listing(self) -> None:
        """Look at what there is."""
        for path in ("/api/documents?limit=20", "/api/status", "/metrics", "/healthz", "/readyz"):
            self._check(self.http.get(path))


def measure(process: int) -> tuple[int, int]:
    """Return the resident memory, in bytes, and the descriptors of a process and its children."""
    children = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            number, rest = stat.read_text().split(" ", 1)
            children.setdefault(int(rest.rpartition(")")[2].split()[1]), []).append(int(number))
        except OSError:
            continue
    memory = descriptors = 0
    pending = [process]
    while pending:
        one = pending.pop()
        pending += children.get(one, [])
        try:
            status = Path(f"/proc/{one}/status").read_text()
            memory += int(re.search(r"VmRSS:\s+(\d+)", status)[1]) * 1024
            descriptors += len(list(Path(f"/proc/{one}/fd").iterdir()))
        except (OSError, TypeError):
            continue
    return memory, descriptors


def soak(work: Path, minutes: float, clients: int) -> list[str]:
    """Run a server for some minutes; return what went wrong."""
    with Engine.open(work / "index", create=True) as engine:
        engine.add(CORPUS)
    log = work / "log"
    command = [
        sys.executable,
        "-m",
        "lmkrag",
        "serve",
        "--port",
        "0",
        "--writable",
        "--index",
        f"demo={work / 'index'}",
    ]
    wrong: list[str] = []
    samples: list[tuple[int, int]] = []
    with log.open("w") as output, subprocess.Popen(command, stdout=output, stderr=output) as server:
        try:
            while not (found := re.search(r"on (http://\S+)", log.read_text())):
                time.sleep(0.1)
            end = time.monotonic() + 60 * minutes
            people = [Client(number, found[1]) for number in range(clients)]

            def live(client: Client) -> None:
                while time.monotonic() < end and len(wrong) < 5:
                    try:
                        client.step()
                    except Exception:
                        wrong.append(traceback.format_exc())

            threads = [threading.Thread(target=live, args=(client,)) for client in people]
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                time.sleep(5)
                samples.append(measure(server.pid))
            done = {kind: sum(one.done.get(kind, 0) for one in people) for kind in people[0].done}
        finally:
            server.terminate()
            server.wait(60)
    with Engine.open(work / "index") as engine:
        wrong += engine.verify()
        held = {
            info.doc_id: engine.read(info.doc_id) for info in engine.documents(filter="path=c*")
        }
    expected = {doc_id: text for one in people for doc_id, text in one.texts.items()}
    if held != expected:
        wrong.append(
            f"{len(held)} documents, {len(expected)} expected; differ: {held.keys() ^ expected.keys()}"
        )
    if "Traceback" in log.read_text():
        wrong.append(log.read_text()[-3_000:])
    fifth = max(1, len(samples) // 5)
    (memory, descriptors), (last, still) = (
        tuple(statistics.median(column) for column in zip(*part, strict=True))
        for part in (samples[fifth : 2 * fifth], samples[-fifth:])
    )
    print(f"done: {sum(done.values()):,} steps {done}; {len(held)} documents in the end")
    print(
        f"memory {memory / 2**20:.0f} MiB in the second fifth, {last / 2**20:.0f} in the last; descriptors",
        end=" ",
    )
    print(f"{descriptors:.0f} and {still:.0f}")
    if last > GROWTH * memory or still > descriptors + 10:
        wrong.append("memory or descriptors grow")
    return wrong


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--clients", type=int, default=4)
    options = parser.parse_args()
    work = Path(tempfile.mkdtemp())
    try:
        wrong = soak(work, options.minutes, options.clients)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    if wrong:
        sys.exit("\n".join(wrong))
    print("nothing wrong")


if __name__ == "__main__":
    main()
