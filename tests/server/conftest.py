"""Real servers, started by the command line on ports that are free."""

import contextlib
import json
import os
import queue
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
import uvicorn

from lmkrag.cli.serve import serve as serve_command
from lmkrag.server import app
from lmkrag.server.settings import ServerLimits, ServerSettings

CHROMIUM = "/usr/bin/chromium"


@dataclass
class Running:
    url: str
    process: subprocess.Popen | None = None  # none for a server in a thread
    log: Path | None = None

    def client(self, **settings) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=60, **settings)


def wait_until_ready(url, ended) -> None:
    deadline = time.monotonic() + 120
    while True:
        try:
            urllib.request.urlopen(f"{url}/readyz", timeout=5).read()
            return
        except (OSError, urllib.error.URLError):
            assert ended() is None, ended()
            assert time.monotonic() < deadline
            time.sleep(0.1)


@contextlib.contextmanager
def start_server(folder: Path, *arguments, ready: bool = True, **environment: str):
    log = folder / f"server-{time.monotonic_ns()}.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "lmkrag", "serve", "--port", "0", *map(str, arguments)],
            stderr=output,
            stdout=output,
            start_new_session=True,  # so that a test can do what Ctrl-C does to all processes of a terminal
            env={**os.environ, "HF_HUB_OFFLINE": "1", **environment},
        )
    try:
        deadline = time.monotonic() + 120
        while not (found := re.search(r"on (http://\S+)", log.read_text())):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        url = found[1]
        if ready:
            wait_until_ready(url, lambda: None if process.poll() is None else log.read_text())
        yield Running(url, process, log)
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(40)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextlib.contextmanager
def run_here(start: Callable[[Callable[[str], None]], object], *, ready: bool = True):
    """A server in a thread of this process; ``start`` gets what is told its URL, and returns once it has stopped."""
    servers, urls = queue.Queue(), queue.Queue()

    class Recorded(uvicorn.Server):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            servers.put(self)

    def begin() -> None:
        try:
            start(urls.put)
        except BaseException as error:
            urls.put(error)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uvicorn, "Server", Recorded)
        thread = threading.Thread(target=begin)
        thread.start()
        url = urls.get(timeout=120)
        if isinstance(url, BaseException):
            raise url
        server = servers.get(timeout=60)
    try:
        if ready:
            wait_until_ready(url, lambda: None if thread.is_alive() else "the server has ended")
        yield Running(url)
    finally:
        server.should_exit = True
        thread.join(40)
    assert not thread.is_alive()


@contextlib.contextmanager
def serve_here(_: Path, *arguments, **environment: str):
    """``lmkrag serve`` in a thread, which takes a fraction of the time of a process; the variables are set at first."""
    listen = app.serve

    def start(announce: Callable[[str], None]) -> None:
        patch.setattr(app, "serve", lambda settings, **_: listen(settings, announce=announce))
        serve_command.main(
            [*map(str, ("--port", 0, *arguments))], "lmkrag serve", standalone_mode=False
        )

    with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as stack:
        before = os.environ.copy()
        os.environ.update(environment)
        try:
            running = stack.enter_context(run_here(start))
        finally:
            os.environ.clear()  # the command sets some, too
            os.environ.update(before)
        patch.undo()
        yield running


@pytest.fixture(scope="session")
def serve():
    """Starts a server in this process, with the options of the command."""
    return serve_here


@pytest.fixture(scope="session")
def serve_process():
    """Starts one in a process of its own, which can be killed and whose log is kept."""
    return start_server


@pytest.fixture(scope="session")
def server(built_index, tmp_path_factory):
    """A server on the sample index that nobody writes to, under the name ``demo``."""
    with start_server(
        tmp_path_factory.mktemp("server"),
        "--rerank-timeout-ms",
        "30000",
        "--index",
        f"demo={built_index}",
    ) as running:
        yield running


@pytest.fixture(scope="session")
def impatient(built_index, serve_settings):
    """A server that waits a second for the rest of a request."""
    limits = ServerLimits(arrival=4, stall=1)
    with serve_settings(ServerSettings({"demo": built_index}, port=0, limits=limits)) as running:
        yield running


@pytest.fixture(scope="session")
def serve_settings():
    """Starts a server in this process, with settings of its own; ``ready=False`` does not wait for its indexes."""
    return lambda settings, **options: run_here(
        lambda announce: app.serve(settings, announce=announce), **options
    )


@pytest.fixture(scope="session")
def client(server):
    with server.client() as opened:
        yield opened


@pytest.fixture
def writable(index, serve_settings):
    """A server in a thread that a test may write to, on its own copy of the sample index."""
    settings = ServerSettings({"demo": index}, port=0, writable=True)
    with serve_settings(settings) as running:
        yield running


CLAIMS = (
    "Leave is accrued by the month [1]. The moon is made of cheese [1]. Leave is lost [99]. "
    "Rule 7 says „keepers may fly to the moon“."
)


class CarelessModel(BaseHTTPRequestHandler):
    """A chat model whose answer does not hold."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for delta, end in (({"content": CLAIMS}, None), ({}, "stop")):
            chunk = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "m"}
            chunk["choices"] = [{"index": 0, "delta": delta, "finish_reason": end}]
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_):
        pass


@dataclass
class Careless:
    """How to ask the model, and what must be told of its answer."""

    url: str
    warnings = (
        "citation [1] shares no word with what it is cited for",
        "citation [99] matches no retrieved span; removed",
        "quotes words that stand in no passage: keepers may fly to the moon",
    )

    @property
    def options(self) -> list[str]:
        return ["--reader", "openai", "--base-url", self.url, "--model", "m"]


@pytest.fixture(scope="session")
def careless_model():
    """A reader whose answer does not hold."""
    with ThreadingHTTPServer(("127.0.0.1", 0), CarelessModel) as model:
        threading.Thread(target=model.serve_forever, args=(0.02,), daemon=True).start()
        yield Careless(f"http://127.0.0.1:{model.server_port}/v1")
        model.shutdown()


@pytest.fixture(scope="module")
def browser():
    """Chromium, driven by playwright, whose event loop must have ended before other modules' asynchronous tests."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not Path(CHROMIUM).is_file():
        pytest.skip(f"no browser: {CHROMIUM} is not there (apt-get install chromium)")
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()
