"""A folder of unknown origin is read, and nothing in it is run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lmkrag.corpus.isolated import IsolatedLoader

MODULES = ("json.py", "sitecustomize.py", "usercustomize.py", "numpy.py", "lxml.py", "csv.py", "pypdfium2.py")


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
    (folder / "report.pdf").write_bytes((corpus / "reports" / "viaduct-inspection.pdf").read_bytes())
    return folder


def check(done: subprocess.CompletedProcess, folder: Path) -> None:
    assert not (folder.parent / "run").exists(), (folder.parent / "run").read_text()
    assert done.returncode == 0, done.stderr
    assert "skipped" not in done.stderr
    assert f"{len(MODULES) + 4} added" in done.stderr


def test_code_of_the_folder_is_not_run(hostile, tmp_path):
    command = [str(Path(sys.executable).with_name("lmkrag")), "index", ".", "--index", str(tmp_path / "index")]
    check(subprocess.run(command, cwd=hostile, capture_output=True, text=True, timeout=120), hostile)


def test_code_of_the_folder_is_not_run_by_a_loader_with_a_careless_path(hostile, tmp_path, monkeypatch):
    monkeypatch.chdir(hostile)
    monkeypatch.setenv("PYTHONPATH", f"{os.pathsep}{hostile}")
    for entry in ("", ".", str(hostile)):
        monkeypatch.setattr(sys, "path", [entry, *sys.path])
    with IsolatedLoader() as loader:
        assert loader.load(Path("fees.csv"), "fees").text == "boat: Ida | fee: four shillings"
        assert loader.load(Path("report.pdf"), "report").page_starts
    assert not (tmp_path / "run").exists()
