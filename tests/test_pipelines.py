"""Every job in pipelines/ runs on the sample corpus."""

import json
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PIPELINES = Path(__file__).parents[1] / "pipelines"
QUESTION = "When are bonfires allowed?"


def start(name, *arguments, **options):
    command = [sys.executable, str(PIPELINES / name), *map(str, arguments)]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        **options,
    )


def run(name, *arguments):
    process = start(name, *arguments)
    out, err = process.communicate(timeout=200)
    assert process.returncode == 0, err
    return out


@pytest.fixture
def run_here(monkeypatch, capsys):
    """Run a job in this process, which need not import everything again; return what it prints."""

    def run(name, *arguments):
        monkeypatch.setattr(sys, "argv", [str(PIPELINES / name), *map(str, arguments)])
        runpy.run_path(str(PIPELINES / name), run_name="__main__")
        return capsys.readouterr().out

    return run


def test_ask_directory(run_here, corpus, tmp_path):
    out = run_here("ask_directory.py", corpus, QUESTION, "--index", tmp_path / "index")
    assert "first Sunday of November" in out
    assert "[1] reports/allotment-minutes.docx 824-1027" in out


@pytest.mark.parametrize("name", ["langchain_rag.py", "llama_index_rag.py"])
def test_frameworks(run_here, name, corpus, chat_server, causal_model):
    out = run_here(
        name, corpus, QUESTION, "--base-url", chat_server, "--model", causal_model, "--top-k", 2
    )
    assert out.strip().startswith("bonfires are allowed")
    assert "reports/allotment-minutes.docx 824-1078" in out


def test_evaluate_against_chunks(corpus, tmp_path):
    questions = tmp_path / "questions.jsonl"
    questions.write_text(
        "\n".join((corpus.parent / "questions.jsonl").read_text().splitlines()[:6])
    )
    out = run(
        "evaluate_against_chunks.py",
        questions,
        corpus,
        "--out",
        tmp_path,
        "--against",
        "sentence:1",
    )
    assert out.startswith("Average over 1 sets (6 questions)")
    assert "| sentence:1 |" in out
    assert (tmp_path / "report.md").is_file()


def test_miniature_encoder(run_here, sample_set, tmp_path, lmkrag, corpus):
    build = tmp_path / "build"
    shutil.copytree(sample_set, build / "questions")
    recipe = tmp_path / "pipelines" / "miniature.toml"
    recipe.parent.mkdir()
    text = (PIPELINES / recipe.name).read_text("utf-8")
    recipe.write_text(text.replace("steps = 20\n", "steps = 2\n"), "utf-8")
    trained = lmkrag("train", recipe)
    folder = Path(trained.stdout.strip())
    assert folder == build / "miniature" / "encoder", trained.stderr
    ranges = folder / "ranges.npz"
    ranges.unlink()
    run_here("calibrate_encoder.py", folder, sample_set)
    assert ranges.is_file()
    result = lmkrag(
        "index", corpus / "glass-river.txt", "--encoder", folder, "--index", tmp_path / "index"
    )
    assert "1 added" in result.stderr


def test_generate_questions(corpus, causal_model, tmp_path):
    out = tmp_path / "set"
    (tmp_path / "broken.docx").write_bytes(b"x")
    arguments = [
        corpus / "glass-river.txt",
        tmp_path / "broken.docx",
        "--out",
        out,
        "--questions",
        3,
    ]
    process = start(
        "generate_questions.py", *arguments, "--reader", "transformers", "--model", causal_model
    )
    printed, err = process.communicate(timeout=200)
    assert process.returncode == 0, err
    assert printed.startswith(f"{out}: ") and printed.endswith(" questions about 1 documents\n")
    assert "skipped 'broken.docx': content is not DOCX" in err
    assert [
        json.loads(line)["number"] for line in (out / "questions.jsonl").read_text().splitlines()
    ] == [0, 1, 2]


def test_no_job_is_left_out():
    told = Path(__file__).read_text("utf-8")
    for path in PIPELINES.glob("*.py"):
        assert f'"{path.name}"' in told
        assert len(path.read_text("utf-8").splitlines()) <= 220
