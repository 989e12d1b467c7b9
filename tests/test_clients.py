"""Clients ask this machine directly, other machines as the environment says, and are all made in one module."""

import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from lmkrag import Engine, RemoteEngine
from lmkrag.errors import LmkragError
from lmkrag.qdrant import connection
from lmkrag.readers.openai import OpenAIReader
from lmkrag.results import Span

SPAN = Span("a.md", "/a.md", 0, 20, "The gate opens at nine", 1.0)
ROOT = Path(__file__).parents[1]


class Recorder(ThreadingHTTPServer):
    """Keeps what it is asked; it refuses it, or sends it on to ``elsewhere``."""

    def __init__(self, elsewhere: str = "") -> None:
        super().__init__(("127.0.0.1", 0), Refusal)
        self.seen: list[str] = []
        self.elsewhere = elsewhere

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class Refusal(BaseHTTPRequestHandler):
    server: Recorder

    def do_GET(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.seen.append(self.path)
        self.send_response(307 if self.server.elsewhere else 502)
        self.send_header("Location", self.server.elsewhere)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self):
        self.do_GET()

    def log_message(self, *_):
        pass


@pytest.fixture
def proxied(monkeypatch):
    """What is asked through the proxy that the environment names."""
    with Recorder() as proxy:
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
            monkeypatch.setenv(name.upper(), proxy.url)
        yield proxy.seen


def search(url: str) -> None:
    RemoteEngine(url).search("a private question")


async def search_on_a_loop(url: str) -> None:
    await RemoteEngine(url).asearch("a private question")


def ask(url: str) -> None:
    OpenAIReader(model="m", base_url=f"{url}/v1", retries=0, timeout=5).answer("When?", [SPAN])


def ask_for_the_model(url: str) -> None:
    OpenAIReader(base_url=f"{url}/v1", retries=0, timeout=5).answer("When?", [SPAN])


def open_on_qdrant(url: str) -> None:
    Engine.open(f"qdrant:{url.removeprefix('http:')}/handbook")


CALLS = [search, ask, ask_for_the_model, open_on_qdrant]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_this_machine_is_asked_through_no_proxy(proxied, call, host, monkeypatch):
    monkeypatch.setattr(connection, "_PAUSES", ())
    with pytest.raises(LmkragError):  # nothing listens on this port
        call(f"http://{host}:9")
    assert proxied == []


async def test_nor_on_an_event_loop(proxied):
    with pytest.raises(LmkragError):
        await search_on_a_loop("http://127.8.0.1:9")
    assert proxied == []


@pytest.mark.parametrize("call", CALLS)
def test_other_machines_are_asked_through_the_proxy(proxied, call, monkeypatch):
    monkeypatch.setattr(connection, "_PAUSES", ())
    with pytest.raises(LmkragError):
        call("http://harbour.example")
    assert proxied and all("harbour.example" in path for path in proxied)


@pytest.mark.parametrize("call", [search, ask, ask_for_the_model])
def test_no_server_sends_a_question_elsewhere(call):
    with Recorder() as other, Recorder(f"{other.url}/") as named:
        with pytest.raises(LmkragError):
            call(named.url)
        assert named.seen and other.seen == []


MADE = {
    "httpx": [
        "Client()",
        "AsyncClient()",
        "get('http://localhost')",
        "stream('GET', 'http://localhost')",
    ],
    "openai": ["OpenAI()", "AsyncOpenAI()"],
    "qdrant_client": ["QdrantClient()"],
    "urllib.request": ["urlopen('http://localhost')"],
    "platformdirs": ["user_cache_path('lmkrag')"],
}


def lint(code: str, name: str) -> str:
    command = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--select",
        "TID251",
        "--stdin-filename",
        f"lmkrag/{name}",
        "-",
    ]
    return subprocess.run(command, input=code, cwd=ROOT, capture_output=True, text=True).stdout


@pytest.mark.parametrize(
    ("module", "call"), [(module, call) for module, calls in MADE.items() for call in calls]
)
def test_a_module_that_makes_a_client_of_its_own_is_found(module, call):
    name = call.partition("(")[0]
    for code in (
        f"import {module}\n\n{module}.{call}\n",
        f"from {module} import {name}\n\n{call}\n",
    ):
        assert "TID251" in lint(code, "readers/new.py")
        own = "system/cache.py" if module == "platformdirs" else "system/clients.py"
        assert "TID251" not in lint(code, own)
