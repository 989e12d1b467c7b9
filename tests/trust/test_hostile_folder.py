"""A folder of unknown origin is read, and nothing in it is run."""

import importlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lmkrag import Engine
from lmkrag.formats.isolated import IsolatedLoader
from lmkrag.ingest import ray_encoding
from lmkrag.ingest.folder_cache import cached_index
from lmkrag.server.following import FolderFollower

install, serve = (importlib.import_module(f"lmkrag.cli.{name}") for name in ("install", "serve"))
MODULES = (
    "json.py",
    "types.py",
    "sitecustomize.py",
    "usercustomize.py",
    "numpy.py",
    "lxml.py",
    "csv.py",
    "pypdfium2.py",
)


@pytest.fixture
def hostile(tmp_path, corpus) -> Path:
    """Files to index beside modules that leave a trace when they are imported, and then fail."""
    folder = tmp_path / "folder"
    folder.mkdir()
    trace = f"open({str(tmp_path / 'run')!r}, 'a').write(__name__)\nraise SystemExit(9)\n"
    for name in MODULES:
        (folder / name).write_text(trace)
    (folder / "lmkrag").mkdir()
    (folder / "lmkrag" / "__init__.py").write_text(trace)
    (folder / "fees.csv").write_text("boat,fee\nIda,four shillings\n")
    (folder / "note.html").write_text("<p>The gate opens at nine.</p>")
    (folder / "report.pdf").write_bytes(
        (corpus / "reports" / "viaduct-inspection.pdf").read_bytes()
    )
    return folder


def check(done: subprocess.CompletedProcess, folder: Path) -> None:
    assert not (folder.parent / "run").exists(), (folder.parent / "run").read_text()
    assert done.returncode == 0, done.stderr
    assert "skipped" not in done.stderr
    assert f"{len(MODULES) + 4} added" in done.stderr


def test_code_of_the_folder_is_not_run(hostile, tmp_path):
    command = [
        str(Path(sys.executable).with_name("lmkrag")),
        "index",
        ".",
        "--index",
        str(tmp_path / "index"),
    ]
    check(
        subprocess.run(command, cwd=hostile, capture_output=True, text=True, timeout=120), hostile
    )


def test_code_of_the_folder_is_not_run_by_a_loader_with_a_careless_path(
    hostile, tmp_path, monkeypatch
):
    monkeypatch.chdir(hostile)
    monkeypatch.setenv("PYTHONPATH", f"{os.pathsep}{hostile}")
    for entry in ("", ".", str(hostile)):
        monkeypatch.setattr(sys, "path", [entry, *sys.path])
    with IsolatedLoader() as loader:
        assert loader.load(Path("fees.csv"), "fees").text == "boat: Ida | fee: four shillings"
        assert loader.load(Path("report.pdf"), "report").page_starts
    assert not (tmp_path / "run").exists()


def wait_for(condition) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def documents(index: Path) -> int:
    with Engine.open(index) as engine:
        return engine.status().documents


@pytest.mark.timeout(280)
def test_code_of_the_folder_is_not_run_by_workers(hostile, tmp_path, encoder, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.chdir(hostile)
    monkeypatch.setattr(ray_encoding, "_BATCH", 10_000)
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        assert not engine.add(".", ray="local").skipped
    assert not (tmp_path / "run").exists()


def test_code_of_the_folder_is_not_run_behind_grep(hostile, tmp_path, lmkrag, monkeypatch):
    (hostile / "long.txt").write_text("The gate is green. " * 2_000)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert lmkrag("grep", "what colour is the gate?", cwd=hostile).returncode == 0
    wait_for(lambda: documents(cached_index([hostile])) == len(MODULES) + 5)
    assert not (tmp_path / "run").exists()


def test_code_of_the_folder_is_not_run_where_it_is_served(hostile, tmp_path, monkeypatch):
    monkeypatch.chdir(hostile)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (index,) = map(Path, serve._open_cached_index((Path(),)).values())
    with FolderFollower((Path(),), index, os.environ) as follower:
        wait_for(lambda: follower.state().indexing is None)
        (hostile / "new.txt").write_text("The lamp is red.")
        wait_for(lambda: documents(index) == len(MODULES) + 5)
    assert not (tmp_path / "run").exists()


def test_clients_are_told_a_command_that_does_not_run_code_of_their_folder(
    lmkrag, tmp_path, built_index, monkeypatch
):
    monkeypatch.setattr(install.shutil, "which", lambda name: None)
    told = lmkrag("install", "cursor", "--index", built_index, env={"HOME": str(tmp_path)}).stdout
    entry = json.loads(told[told.index("{") :])["mcpServers"]["lmkrag"]
    assert entry["args"][:3] == ["-P", "-m", "lmkrag"]
