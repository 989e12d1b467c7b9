"""Indexing from Python shows how far it is where somebody looks."""

import contextlib
import os
import pty
import subprocess
import sys

import nbformat
import pytest
from nbclient import NotebookClient

ADD = """
from lmkrag import Document, Engine
text = "The bridge of Skerry is closed. " * 60
documents = [Document(f"report-{number}.txt", text=f"Report {number}. " + text) for number in range(COUNT)]
with Engine.open("index", create=True) as engine:
    engine.add(documents, **dict(OPTIONS))
"""


def write_code(options: str = "", count: int = 5) -> str:
    """What adds some documents with options; a bar, where there is one, is shown from the first on."""
    return ADD.replace("OPTIONS", options).replace("COUNT", str(count))


def run_on_a_terminal(folder, code: str) -> str:
    terminal, side = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=folder, stdout=subprocess.DEVNULL, stderr=side
    )
    os.close(side)
    shown = b""
    with contextlib.suppress(OSError):  # a closed terminal reads as an error
        while data := os.read(terminal, 4096):
            shown += data
    assert process.wait(120) == 0, shown
    return shown.decode()


def test_a_terminal_gets_a_bar(tmp_path):
    shown = run_on_a_terminal(tmp_path, write_code(count=20))
    assert "report-1" in shown and "B/s" in shown


@pytest.mark.parametrize("options", ["progress=False", "progress=lambda *_: None"])
def test_it_is_silent_when_it_is_told_so(tmp_path, options):
    assert run_on_a_terminal(tmp_path, write_code(options)) == ""


def test_a_pipe_gets_nothing(tmp_path):
    command = [sys.executable, "-c", write_code()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_notebook_gets_a_line_that_changes(tmp_path):
    setup = "from lmkrag.ingest import report; report._QUIET = 0.05"
    quiet = write_code("progress=False", 10).replace('"index"', '"other"')
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(code) for code in (setup, write_code(count=40), quiet)]
    )
    updates = []
    client = NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}})
    process = client.process_message

    def record(message, *arguments):
        if message["msg_type"] in ("display_data", "update_display_data"):
            updates.append(message["content"]["data"]["text/plain"])
        return process(message, *arguments)

    client.process_message = record
    client.execute()
    shown, silent = notebook.cells[1].outputs, notebook.cells[2].outputs
    assert [
        output["data"]["text/plain"] for output in shown if output["output_type"] == "display_data"
    ] == updates[-1:]
    assert len(updates) > 2 and all(line.startswith("indexed ") for line in updates)
    assert silent == []
