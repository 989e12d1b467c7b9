"""A folder is served with the one extra: it is indexed, followed, and followed again after its process is killed."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lmkrag.index.files import lock_index


@pytest.fixture
def followed(serve_process, tmp_path):
    """A server on a folder with one document."""
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "ferry.md").write_text(
        "# Ferry\n\nThe ferry to Skerry leaves at seven.\n"
    )
    options = ("--no-open", "--rerank", "off", "--show-paths")
    served = serve_process(
        tmp_path, tmp_path / "notes", *options, XDG_CACHE_HOME=str(tmp_path / "cache")
    )
    with served as running, running.client() as client:
        until(lambda: status(client)["documents"] == 1 and status(client)["indexing"] is None)
        yield running, client


def status(client):
    return client.get("/api/status").json()


def until(condition):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def follower_of(running):
    """The process id of the server's only child that indexes; None where there is none."""
    listed = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=", "-o", "ppid=", "-o", "args="], capture_output=True
    )
    rows = [line.split(maxsplit=2) for line in listed.stdout.decode().splitlines()]
    ours = str(running.process.pid)
    pids = [pid for pid, parent, command in rows if parent == ours and "--watch" in command]
    return int(pids[0]) if pids else None


def is_running(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_killed_follower_is_noticed_and_started_again(followed, tmp_path):
    running, client = followed
    log = running.log.read_text()
    assert f"lmkrag: indexing {tmp_path / 'notes'}" in log
    assert "1 added" in log
    until(lambda: f"following changes in {tmp_path / 'notes'}" in running.log.read_text())
    (tmp_path / "notes" / "oil.md").write_text("Oil is counted in May.\n")
    until(lambda: status(client)["documents"] == 2)
    assert status(client)["not_followed_since"] is None
    first = follower_of(running)
    os.kill(first, signal.SIGKILL)
    (tmp_path / "notes" / "lamp.md").write_text("The lamp is trimmed at dawn.\n")
    until(lambda: status(client)["not_followed_since"])
    since = status(client)["not_followed_since"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", since)
    ready = client.get("/readyz")
    assert (ready.status_code, since in ready.json()["detail"]) == (503, True)
    assert "status -9; it starts again in 1 s" in running.log.read_text()
    until(lambda: status(client)["documents"] == 3)
    until(lambda: status(client)["not_followed_since"] is None)
    assert client.get("/readyz").status_code == 200
    assert follower_of(running) not in (first, None)


def test_the_pause_grows(followed, tmp_path):
    running, _ = followed
    (tmp_path / "notes").rename(tmp_path / "moved")
    os.kill(follower_of(running), signal.SIGKILL)
    until(lambda: "starts again in 2 s" in running.log.read_text())
    assert re.findall(r"again in (\d+) s", running.log.read_text())[:2] == ["1", "2"]
    assert "Traceback" not in running.log.read_text()


def test_a_folder_that_another_process_writes_to(followed, tmp_path):
    _, client = followed
    with lock_index(Path(status(client)["path"])):
        (tmp_path / "notes" / "lamp.md").write_text("The lamp is trimmed at dawn.\n")
        until(lambda: status(client)["not_followed_since"])
    until(lambda: status(client)["documents"] == 2)  # without another change
    until(lambda: status(client)["not_followed_since"] is None)


def test_a_folder_without_its_files_keeps_its_documents(followed, tmp_path):
    running, client = followed
    (tmp_path / "notes" / "ferry.md").rename(tmp_path / "ferry.md")
    until(lambda: "is it mounted?); they are kept" in running.log.read_text())
    assert status(client)["documents"] == 1
    (tmp_path / "ferry.md").rename(tmp_path / "notes" / "ferry.md")
    (tmp_path / "notes" / "oil.md").write_text("Oil is counted in May.\n")
    until(lambda: status(client)["documents"] == 2)


@pytest.mark.parametrize("stopped_by", [signal.SIGINT, signal.SIGTERM])
def test_a_server_that_is_stopped_starts_nothing_again(followed, stopped_by):
    """Ctrl-C reaches all processes of a terminal."""
    running, _ = followed
    follower = follower_of(running)
    os.killpg(running.process.pid, stopped_by)
    assert running.process.wait(40) == (130 if stopped_by == signal.SIGINT else -signal.SIGTERM)
    until(lambda: not is_running(follower))
    assert (
        "starts again" not in running.log.read_text() and "Traceback" not in running.log.read_text()
    )


def test_without_watchfiles_it_is_not_served(tmp_path):
    script = "import sys; sys.modules['watchfiles'] = None; from lmkrag.cli import main; main()"
    arguments = [sys.executable, "-c", script, "serve", str(tmp_path), "--no-open"]
    refused = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 1 and "pip install 'lmkrag[serve]'" in refused.stderr
