"""Every job in pipelines/ runs on the sample corpus."""

import json
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lmkrag.evaluation.dataset import load_dataset

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
    told = (PIPELINES / "ask_directory.py").read_text("utf-8").replace("\n    ", "\n")
    assert f"\nprints\n\n{out}\n" in told


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


def test_questions_about_files_of_one_name(run_here, corpus, causal_model, tmp_path):
    for name in ("north", "south"):
        (tmp_path / name).mkdir()
        shutil.copyfile(corpus / "glass-river.txt", tmp_path / name / "river.txt")
    folders = [tmp_path / "north", tmp_path / "south"]
    options = ["--questions", 2, "--reader", "transformers", "--model", causal_model]
    run_here("generate_questions.py", *folders, "--out", tmp_path / "set", *options)
    documents = load_dataset(tmp_path / "set").documents
    assert [each.doc_id for each in documents] == ["north/river.txt", "south/river.txt"]


EVIDENCE = "Bonfires are allowed in May.\u2028They end at dusk."


@pytest.fixture
def labelled(tmp_path):
    """Return a function that writes documents and one question, and returns their paths."""

    def write(*lines):
        folder, questions = tmp_path / "docs", tmp_path / "questions.jsonl"
        folder.mkdir(exist_ok=True)
        (folder / "fire.md").write_text(f"# Fire\n\n{EVIDENCE}\n", "utf-8")
        (folder / "boats.md").write_text("# Boats\n\nBoats leave at nine.\n", "utf-8")
        (folder / "trim.py").write_text("def trim(wick):\n    return wick - 1\n", "utf-8")
        questions.write_text("\n".join(lines), "utf-8")
        return questions, folder

    return write


def ask_about(doc, *quotes):
    record = {"query": QUESTION, "doc": doc, "evidence": quotes}
    return json.dumps(record, ensure_ascii=False)


def test_labelled_questions_as_editors_write_them(labelled, corpus, tmp_path):
    first, second = (
        ask_about("fire.md", EVIDENCE),
        ask_about("reports/allotment-minutes.docx", "bonfires"),
    )
    questions, folder = labelled(f"\ufeff{first}", "", second, "")
    shutil.copytree(corpus / "reports", folder / "reports")
    out = tmp_path / "out"
    run("evaluate_against_chunks.py", questions, folder, "--out", out, "--against", "sentence:1")
    dataset = load_dataset(out / "set")
    texts = {each.doc_id: each.text for each in dataset.documents}
    found = [texts[doc][start:end] for each in dataset.queries for doc, start, end in each.evidence]
    assert found == [EVIDENCE, "bonfires"]
    kinds = {each.doc_id: each.kind for each in dataset.documents}
    assert (kinds["boats.md"], kinds["trim.py"]) == ("markdown", "code")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (ask_about("fire.md", "Bonfires", "in  May"), "fire.md does not have the words 'in  May'"),
        (ask_about("fire.md", ""), "fire.md does not have the words ''"),
        (ask_about("sea.md", "Bonfires"), "there is no document 'sea.md'"),
        ('{"query": "When?", "doc": "fire.md", "evidence": "May"}', "must be a list of quotes"),
        ('{"query": "When?", "doc": "fire.md"}', "no 'evidence'"),
        ("When?", "not a JSON object"),
    ],
)
def test_a_wrong_question_is_named_by_its_line(labelled, run_here, tmp_path, line, message):
    questions, folder = labelled(ask_about("fire.md", EVIDENCE), line)
    with pytest.raises(SystemExit, match=f"questions.jsonl line 2: .*{message}"):
        run_here("evaluate_against_chunks.py", questions, folder, "--out", tmp_path / "out")


def test_no_job_is_left_out():
    told = Path(__file__).read_text("utf-8")
    for path in PIPELINES.glob("*.py"):
        assert f'"{path.name}"' in told
        assert len(path.read_text("utf-8").splitlines()) <= 220
