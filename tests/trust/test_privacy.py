"""Nothing leaves the machine: commands run under strace, which sees the connections and files of their processes."""

import contextlib
import ipaddress
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageDraw, ImageFont

CALLS = "connect,sendto,sendmsg,sendmmsg,open,openat,creat"
STRACE = ["strace", "-f", "-y", "-qq", "--seccomp-bpf", "-e", f"trace={CALLS}"]
NAMES = 53  # the port of name servers, which are asked for other machines
ADDRESS = re.compile(r'sin6?_port=htons\((\d+)\).*?(?:inet_addr\(|inet_pton\(AF_INET6, )"([^"]+)"')
WRITTEN = re.compile(r"open(?:at)?\(.*O_(?:W[A-Z]+|RDWR|CREAT)\b.*= \d+<(.+)>|creat\(.*= \d+<(.+)>")
IN_PASSING = re.compile(
    r"/dev/|/proc/|.*/__pycache__/|.*\(deleted\)"
)  # devices, compiled modules, files without a name
OURS = ("docs/", "answer.txt", "index/", "copy/", "cache/lmkrag/", "strace-")
ANSWER = 'The handbook says "The crank is turned 62 times at dusk."\n'


class Watched:
    """Commands of lmkrag in a home of their own, each under strace."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("docs", "home", "cache", "temporary", "here"):
            (folder / name).mkdir()
        (folder / "docs" / "lamp.md").write_text(
            "# Lamp\n\nThe crank is turned 62 times at dusk.\n"
        )
        picture = Image.new("RGB", (500, 100), "white")
        font = ImageFont.load_default(32)
        ImageDraw.Draw(picture).text((20, 30), "The gate is shut at nine", "black", font)
        picture.save(folder / "docs" / "gate.png")
        (folder / "answer.txt").write_text(ANSWER)
        self._environment = {
            **os.environ,
            "HOME": f"{folder}/home",
            "XDG_CACHE_HOME": f"{folder}/cache",
        }
        self._environment |= {"TMPDIR": f"{folder}/temporary", "PYTHONDONTWRITEBYTECODE": "1"}

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        log = self.folder / f"strace-{arguments[0]}.log"
        command = [*STRACE, "-o", str(log), sys.executable, "-m", "lmkrag", *map(str, arguments)]
        pipes: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return subprocess.Popen(
            command, env=self._environment, cwd=self.folder / "here", text=True, **pipes
        )

    def run(self, *arguments: object) -> str:
        process = self.start(*arguments)
        output, errors = process.communicate(timeout=120)
        assert process.returncode == 0, (arguments, output, errors)
        return output

    def calls(self) -> Iterator[str]:
        """The system calls of all processes; one that another interrupted is joined."""
        for log in self.folder.glob("strace-*.log"):
            begun: dict[str, str] = {}
            for line in log.read_text(errors="replace").splitlines():
                process, _, call = line.partition(" ")
                if call.lstrip().startswith("<... "):
                    call = begun.pop(process, "") + call.partition("resumed>")[2]
                if call.endswith("<unfinished ...>"):
                    begun[process] = call.removesuffix("<unfinished ...>")
                else:
                    yield call.lstrip()
            yield from begun.values()

    def processes(self, command: str) -> list[int]:
        log = self.folder / f"strace-{command}.log"
        return sorted({int(line.partition(" ")[0]) for line in log.read_text().splitlines()})


@pytest.fixture
def watched(tmp_path):
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed (apt-get install strace)")
    if subprocess.run([*STRACE, "true"], capture_output=True).returncode:
        pytest.skip("strace may not watch processes here")
    return Watched(tmp_path)


def ask_server(watched: Watched) -> None:
    """Serve the folder, look at the page, search and ask."""
    server = watched.start("serve", watched.folder / "docs", "--port", "0", "--no-open")
    url = next(found[1] for line in server.stderr if (found := re.search(r"on (http://\S+)", line)))

    def get(path: str, body: object = None) -> str:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url + path, data, {"Content-Type": "application/json"})
        return urllib.request.urlopen(request, timeout=60).read().decode()

    while json.loads(get("/api/status"))["indexing"] or "ready" not in get_ready(get):
        time.sleep(0.1)
    assert "<title>" in get("/")
    assert "crank" in get("/api/search", {"query": "How often is the crank turned?"})
    assert "crank" in get("/api/ask", {"question": "How often is the crank turned?"})
    (process, *_) = watched.processes("serve")
    os.kill(process, signal.SIGTERM)
    server.communicate(timeout=60)


def get_ready(get) -> str:
    with contextlib.suppress(OSError):  # 503
        return get("/readyz")
    return ""


def ask_assistant(watched: Watched) -> None:
    """Begin a session of MCP, search, and end the process that assistants share."""
    session = watched.start("mcp", "--index", f"docs={watched.folder / 'index'}")
    client = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    call = {"name": "search", "arguments": {"query": "How often is the crank turned?"}}
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": client},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": call},
    ]
    for message in messages:
        session.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        session.stdin.flush()
    while "crank" not in session.stdout.readline():
        pass
    for process in watched.processes("mcp"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    session.communicate(timeout=60)


def test_commands_connect_to_no_other_machine_and_write_only_index_and_cache(watched):
    folder = watched.folder
    watched.run("index", folder / "docs", "--index", folder / "index")
    at = ("--index", folder / "index")
    with ThreadPoolExecutor(2) as pool:
        searched = pool.submit(watched.run, "search", "When is the gate shut?", *at)
        asked = pool.submit(watched.run, "ask", "How often is the crank turned?", *at)
        matched = pool.submit(watched.run, "grep", "turning the crank", folder / "docs")
        checked = pool.submit(watched.run, "check", folder / "answer.txt", *at)
        copied = pool.submit(watched.run, "backup", folder / "index", folder / "copy")
        served = pool.submit(ask_server, watched)
        assisted = pool.submit(ask_assistant, watched)
    assert "shut at nine" in searched.result()
    assert (
        "62 times" in asked.result()
        and "62 times" in matched.result()
        and "same" in checked.result()
    )
    for done in (copied, served, assisted):
        done.result()
    assert (folder / "copy").is_dir()

    calls = list(watched.calls())
    asked_addresses = {(host, int(port)) for call in calls for port, host in ADDRESS.findall(call)}
    elsewhere = {
        (host, port)
        for host, port in asked_addresses
        if port == NAMES or not ipaddress.ip_address(host).is_loopback
    }
    assert elsewhere == set()
    written = {
        path for call in calls if (found := WRITTEN.match(call)) for path in found.groups() if path
    }
    assert f"{folder}/index/catalog.sqlite" in written  # the watcher sees files
    outside = {
        path for path in written if not path.startswith(f"{folder}/") and not IN_PASSING.match(path)
    }
    assert outside == set()
    left = [str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()]
    assert [name for name in left if not name.startswith(OURS)] == []
