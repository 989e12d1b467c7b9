"""`lmkrag index --prune` where all files of a folder are gone, as those of a disk that is not mounted."""

import json
import os
import pty
import subprocess
import sys
import time

import pytest

from lmkrag import Engine

SAID = "docs: all files that were indexed from it are gone (documents: 2; is it mounted?); "


@pytest.fixture
def unmounted(tmp_path, encoder):
    """A folder without the files that an index has from it."""
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "ferry.md").write_text("The ferry leaves at nine.")
    (docs / "gate.md").write_text("The gate code is 1111.")
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        engine.add(docs)
    docs.rename(tmp_path / "away")
    docs.mkdir()
    return docs


def count(lmkrag, folder) -> int:
    return len(lmkrag("list", "--index", folder.parent / "index").stdout.splitlines())


def test_it_is_refused_in_one_line(lmkrag, unmounted):
    result = lmkrag("index", unmounted, "--index", unmounted.parent / "index", "--prune")
    assert result.returncode == 2
    assert result.stderr.endswith(SAID + "nothing was removed; --prune=all removes them\n")
    assert result.stderr.count("\n") == 1
    assert count(lmkrag, unmounted) == 2


def test_all_removes_them(lmkrag, unmounted):
    result = lmkrag("index", "--prune=all", unmounted, "--index", unmounted.parent / "index")
    assert (result.returncode, count(lmkrag, unmounted)) == (0, 0)
    assert "2 removed" in result.stderr


def test_a_path_may_follow_the_option(lmkrag, unmounted):
    (unmounted / "lock.md").write_text("The lock is new.")
    result = lmkrag("index", "--prune", unmounted, "--index", unmounted.parent / "new")
    assert (result.returncode, "1 added" in result.stderr) == (0, True)


@pytest.mark.parametrize(("reply", "code", "left"), [("y", 0, 0), ("n", 1, 2), ("", 1, 2)])
def test_on_a_terminal_it_asks(lmkrag, unmounted, reply, code, left):
    ours, theirs = pty.openpty()
    command = [
        sys.executable,
        "-m",
        "lmkrag",
        "index",
        unmounted,
        "--index",
        unmounted.parent / "index",
        "--prune",
    ]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "COLUMNS": "400"}
    process = subprocess.Popen(
        list(map(str, command)),
        stdin=theirs,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env=environment,
    )
    os.close(theirs)
    said = b""
    while b"Remove them?" not in said:
        said += os.read(ours, 4_096)
    os.write(ours, f"{reply}\n".encode())
    assert process.wait(60) == code
    assert SAID in said.decode()
    assert count(lmkrag, unmounted) == left


def test_what_follows_changes_warns_and_keeps_them(lmkrag, unmounted):
    pytest.importorskip("watchfiles")
    log = unmounted.parent / "log.txt"
    command = [
        sys.executable,
        "-m",
        "lmkrag",
        "index",
        unmounted,
        "--index",
        unmounted.parent / "index",
        "--watch",
        "--json",
    ]
    with log.open("wb") as said:
        process = subprocess.Popen(
            list(map(str, command)), stdout=subprocess.PIPE, stderr=said, text=True
        )
        try:
            first = json.loads(process.stdout.readline())
            assert (first["removed"], len(first["warnings"])) == (0, 1)
            assert SAID in first["warnings"][0]
            while "following changes" not in log.read_text():
                time.sleep(0.1)
            for name in ("ferry.md", "gate.md"):
                (unmounted.parent / "away" / name).rename(unmounted / name)
            later = next(
                record for line in process.stdout if "removed" in (record := json.loads(line))
            )
            assert (later["removed"], later["warnings"]) == (0, [])
        finally:
            process.terminate()
            process.wait()
    assert "lmkrag: warning: " in log.read_text() and "they are kept" in log.read_text()
    assert count(lmkrag, unmounted) == 2


def test_grep_keeps_the_index_of_the_folder(lmkrag, unmounted, tmp_path):
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    for name in ("ferry.md", "gate.md"):
        (tmp_path / "away" / name).rename(unmounted / name)
    assert "1111" in lmkrag("grep", "gate code", unmounted, env=environment).stdout
    unmounted.rename(tmp_path / "away again")
    unmounted.mkdir()
    empty = lmkrag("grep", "gate code", unmounted, env=environment)
    assert (empty.returncode, empty.stdout) == (1, "")
    (index,) = (tmp_path / "cache" / "lmkrag" / "folders").glob("docs-????????????????")
    assert len(lmkrag("list", "--index", index).stdout.splitlines()) == 2
