"""The script for the public benchmark reads its form and counts as it does, on a miniature of the same form."""

import csv
import json
import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def miniature(tmp_path, corpus):
    """A folder of the benchmark's form: two corpora, three questions with their references."""
    data = tmp_path / "clone/src/general_evaluation_data"
    (data / "corpora").mkdir(parents=True)
    texts = {"handbook": "lighthouse-handbook.md", "story": "glass-river.txt"}
    for name, file in texts.items():
        (data / "corpora" / f"{name}.md").write_text((corpus / file).read_text())
    handbook = (corpus / texts["handbook"]).read_text()
    quotes = {
        "How is leave accrued?": "Leave is accrued by the month",
        "Who approves leave?": "The\nharbour master approves leave.",
        "How long must the lamp burn before the wick is trimmed?": "lamp has burned for four hours",
    }
    with (data / "questions_df.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["question", "references", "corpus_id"])
        for question, quote in quotes.items():
            start = handbook.index(quote)
            reference = {"content": quote, "start_index": start, "end_index": start + len(quote)}
            writer.writerow([question, json.dumps([reference]), "handbook"])
    return tmp_path / "clone"


def test_the_table(miniature, tmp_path, monkeypatch, capsys):
    script = str(ROOT / "benchmarks" / "chunking_evaluation.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [script, str(miniature), "--against", "recursive:100"])
    runpy.run_path(script, run_name="__main__")
    printed = capsys.readouterr().out
    assert "2 corpora, 3 questions" in printed
    found = re.findall(r"^\| (lmkrag, spans|recursive:100) \| (.*) \|$", printed, re.M)
    rows = {name: [float(value) for value in values.split(" | ")] for name, values in found}
    ours, chunks = rows["lmkrag, spans"], rows["recursive:100"]
    assert len(ours) == len(chunks) == 7
    assert (
        ours[0] == 100.0 and ours[4] == 100.0
    )  # recall within 500 characters, and of five results
    assert ours[5] > chunks[5] > 0  # precision
    assert "chunks by GPT-4o | 91.9" in printed
