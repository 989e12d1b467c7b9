"""Every way in works where the system lacks or refuses what Linux has: real processes, in an environment whose Python
finds it so, the readers of files and the processes that lmkrag starts included.
"""

import gzip
import json
import os
import signal
import socket
import subprocess
import sysconfig
import time
import venv
from pathlib import Path
from urllib.request import Request, urlopen

import docx
import pytest

QUESTION = "who approves leave?"
CALLS: list[dict] = [
    {
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    },
    {"method": "notifications/initialized"},
    {
        "id": 2,
        "method": "tools/call",
        "params": {"name": "search", "arguments": {"query": QUESTION, "top_k": 1}},
    },
]

# What a Python runs when it starts, by what it takes away.
WITHOUT = {
    "proc": """
import builtins, io, os
def hide(opens):
    def opened(path, *arguments, **options):
        if isinstance(path, (str, os.PathLike)) and os.fspath(path).startswith("/proc"):
            raise FileNotFoundError(2, "No such file or directory", os.fspath(path))
        return opens(path, *arguments, **options)
    return opened
io.open = builtins.open = hide(io.open)
os.open = hide(os.open)
""",
    "limits": """
import resource
allowed = resource.setrlimit
def set_limit(kind, limits):
    if kind == resource.RLIMIT_AS:
        raise ValueError("current limit exceeds maximum limit")
    allowed(kind, limits)
resource.setrlimit = set_limit
""",
    "calls of Linux": """
import ctypes
find = ctypes.CDLL.__getattr__
def find_call(library, name):
    if name in ("prctl", "renameat2"):
        raise AttributeError(name)
    return find(library, name)
ctypes.CDLL.__getattr__ = find_call
""",
    "affinity": """
import os
for name in ("sched_getaffinity", "sched_setaffinity", "posix_fadvise", "posix_fallocate", "fdatasync"):
    if hasattr(os, name):
        delattr(os, name)
""",
    "locks": """
import errno, fcntl
def lock(*_):
    raise OSError(errno.ENOSYS, "Function not implemented")
fcntl.flock = lock
""",
    "fork": """
import multiprocessing, os
def fork():
    raise OSError(1, "Operation not permitted")
os.fork = fork
multiprocessing.set_start_method("spawn")
""",
}
SYSTEMS = {
    "like macOS": [name for name in WITHOUT if name != "locks"],
    "limits without sizes": ["proc"],  # of processes, by which the limits are set
    "a disk without locks": ["locks"],
}


@pytest.fixture(scope="module")
def folder(corpus, tmp_path_factory):
    """Documents whose readers have limits: a web page, a packed text, a document of Word."""
    folder = tmp_path_factory.mktemp("documents")
    for name in ("beekeeping.html", "lighthouse-handbook.md"):
        (folder / name).write_bytes((corpus / name).read_bytes())
    (folder / "river.txt.gz").write_bytes(gzip.compress((corpus / "glass-river.txt").read_bytes()))
    document = docx.Document()
    document.add_paragraph("The winch is greased on the first Monday of each month.")
    document.save(str(folder / "winch.docx"))
    return folder


class System:
    """A Python that lacks something, with a home of its own."""

    def __init__(self, home: Path, lacks: list[str]) -> None:
        venv.create(home / "env", symlinks=True)
        packages = Path(sysconfig.get_path("purelib", vars={"base": str(home / "env")}))
        installed = sysconfig.get_path("purelib")
        (packages / "all.pth").write_text(f"import site; site.addsitedir({installed!r})\n")
        (packages / "sitecustomize.py").write_text("".join(WITHOUT[name] for name in lacks))
        self.python = home / "env/bin/python"
        self.environment = {
            **os.environ,
            "XDG_CACHE_HOME": str(home / "cache"),
            "LMKRAG_RERANK": "off",
            "OMP_NUM_THREADS": "1",
        }
        self.environment.pop("PYTHONPATH", None)

    def start(self, *arguments: object, **options) -> "subprocess.Popen[str]":
        command = [str(self.python), "-m", "lmkrag", *map(str, arguments)]
        return subprocess.Popen(command, text=True, env=self.environment, **options)

    def run(self, *arguments: object) -> str:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = self.start(*arguments, **pipes)
        output, errors = process.communicate(timeout=120)
        assert process.returncode == 0, (arguments, output, errors)
        return output

    def processes(self) -> list[int]:
        """The processes of this Python that run."""
        listed = subprocess.run(["ps", "-A", "-o", "pid=,command="], capture_output=True, text=True)
        lines = [line.split(maxsplit=1) for line in listed.stdout.splitlines()]
        return [int(pid) for pid, command in lines if command.startswith(str(self.python))]


@pytest.fixture
def system(request, tmp_path_factory):
    system = System(tmp_path_factory.mktemp("sys"), request.param)
    yield system
    for process in system.processes():
        os.kill(process, signal.SIGKILL)


def wait_until(is_so) -> None:
    deadline = time.monotonic() + 200  # a busy machine is no fault
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def ask_server(port: int) -> str:
    """The first passage of a server, once it has an answer; empty before."""
    body = json.dumps({"question": QUESTION}).encode()
    headers = {"Content-Type": "application/json"}
    try:
        with urlopen(Request(f"http://127.0.0.1:{port}/api/ask", body, headers), timeout=30) as got:
            return json.load(got)["text"]
    except OSError:
        return ""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("system", SYSTEMS.values(), ids=SYSTEMS, indirect=True)
def test_every_way_in(system, folder, tmp_path):
    index = tmp_path / "index"
    system.run("index", folder, "--index", index)
    status = json.loads(system.run("status", "--index", index, "--json"))
    assert status["documents"] == 4
    for command in ("search", "ask"):
        assert "harbour" in system.run(command, QUESTION, "--index", index)
    assert "first Monday" in system.run("search", "greasing the winch", "--index", index)
    system.run("index-tools", "reindex", "--index", index)
    assert "harbour" in system.run("grep", QUESTION, folder)

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = system.start("serve", folder, "--port", port, stderr=subprocess.DEVNULL)
    wait_until(lambda: "harbour" in ask_server(port))
    server.kill()
    server.wait(30)
    wait_until(lambda: not system.processes())  # what followed the folder ends with the server

    for options in ([], ["--in-process"]):
        arguments: list[object] = ["mcp", "--index", index, *options]
        with system.start(*arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as agent:
            assert agent.stdin is not None and agent.stdout is not None
            for call in CALLS:
                agent.stdin.write(json.dumps({"jsonrpc": "2.0", **call}) + "\n")
                agent.stdin.flush()
                reply = agent.stdout.readline() if "id" in call else ""
            assert "harbour" in reply
