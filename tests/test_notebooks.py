"""Every notebook runs from its first cell to its last, and is committed with what it printed and drew."""

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def printed(notebook):
    outputs = [output for cell in code_cells(notebook) for output in cell.outputs]
    return "".join(output["text"] for output in outputs if output.get("name") == "stdout")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs_and_its_outputs_are_committed(path, monkeypatch):
    monkeypatch.setitem(os.environ, "HF_HUB_OFFLINE", "1")
    committed = nbformat.read(path, as_version=4)
    assert all(cell.execution_count for cell in code_cells(committed))
    fresh = nbformat.read(path, as_version=4)
    for cell in code_cells(fresh):
        cell.outputs, cell.execution_count = [], None
    NotebookClient(fresh, timeout=200, resources={"metadata": {"path": str(path.parent)}}).execute()
    words = [
        [word for word in printed(each).split() if word.isalpha()] for each in (fresh, committed)
    ]
    assert words[0] == words[1]
    images = [
        sum(
            "image/png" in output.get("data", {})
            for cell in code_cells(each)
            for output in cell.outputs
        )
        for each in (fresh, committed)
    ]
    assert images[0] == images[1]


def test_there_are_three():
    assert [path.stem[0] for path in NOTEBOOKS] == ["1", "2", "3"]
