"""The server stops when it is told to, and answers first."""

import signal
import threading
import time


def test_requests_in_flight_end(serve_process, built_index, chat_server, causal_model, tmp_path):
    options = [
        "--reader",
        "openai",
        "--base-url",
        chat_server,
        "--model",
        causal_model,
        "--rerank",
        "off",
    ]
    with (
        serve_process(tmp_path, *options, "--index", built_index, OPENAI_API_KEY="none") as running,
        running.client() as client,
    ):
        texts: list[str] = []

        def ask():
            body = {"question": "When are bonfires allowed?", "stream": True}
            with client.stream("POST", "/api/ask", json=body) as response:
                began.set()
                texts.append(response.read().decode())

        began = threading.Event()
        thread = threading.Thread(target=ask)
        thread.start()
        assert began.wait(60)
        running.process.send_signal(signal.SIGTERM)
        thread.join(60)
        assert running.process.wait(60) in (0, -signal.SIGTERM)
        assert "event: answer" in texts[0]
    assert "Traceback" not in running.log.read_text()


def test_a_server_that_only_reads_has_no_torch(serve_process, built_index, tmp_path):
    from pathlib import Path

    with serve_process(tmp_path, "--index", built_index) as running, running.client() as client:
        assert client.post("/api/ask", json={"question": "who approves leave?"}).status_code == 200
        maps = Path(f"/proc/{running.process.pid}/maps").read_text()
    assert "faiss" in maps
    assert "libtorch" not in maps


def test_without_its_packages(built_index):
    import subprocess
    import sys

    script = "import sys; sys.modules['fastapi'] = None; sys.modules['mcp'] = None; from lmkrag.cli import main; main()"
    for command, extra, options in (("serve", "serve", []), ("mcp", "mcp", ["--in-process"])):
        arguments = [sys.executable, "-c", script, command, "--index", str(built_index), *options]
        refused = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
        assert refused.returncode == 1
        assert f"pip install 'lmkrag[{extra}]'" in refused.stderr


def test_the_environment_names_indexes(serve, built_index, tmp_path):
    other = tmp_path / "other"
    other.symlink_to(built_index)
    with (
        serve(tmp_path, LMKRAG_INDEX=f"{built_index}:two={other}") as running,
        running.client() as client,
    ):
        names = [item["name"] for item in client.get("/api/indexes").json()["indexes"]]
        assert names == [built_index.name, "two"]


def test_an_idle_server_stops_at_once(serve_process, built_index, tmp_path):
    with (
        serve_process(tmp_path, "--index", built_index, "--writable", "--rerank", "off") as running,
        running.client() as client,
    ):
        client.get("/api/status")
        began = time.monotonic()
        running.process.send_signal(signal.SIGINT)
        running.process.wait(40)
        assert time.monotonic() - began < 15
    assert "Traceback" not in running.log.read_text()


def test_an_interruption_after_a_visitor(serve_process, built_index, tmp_path):
    with serve_process(tmp_path, "--index", built_index) as running, running.client() as client:
        assert client.post("/api/ask", json={"question": "who approves leave?"}).status_code == 200
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(40) == 130
    assert running.log.read_text().splitlines() == [
        f"lmkrag: serving {built_index.name} on {running.url}"
    ]
