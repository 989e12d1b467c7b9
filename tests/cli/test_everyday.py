"""Commands people keep: watch, status, completion, commands within a chat; what notebooks show."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from lmkrag import Engine


def test_watch_follows_a_directory_that_holds_the_index(tmp_path, lmkrag):
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.txt").write_text("The gate is green.")
    command = [
        sys.executable,
        "-m",
        "lmkrag",
        "index",
        ".",
        "--watch",
        "--index",
        "indexes/default",
    ]
    process = subprocess.Popen(
        command,
        cwd=docs,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    said = [process.stderr.readline()]
    assert process.stderr.readline() == "following changes in .\n"
    assert "1 added" in said[0]
    time.sleep(1.5)  # what the index wrote is no change of the directory
    (docs / "indexes/default.txt").write_text("The lamp is red.")
    said.append(process.stderr.readline())
    time.sleep(1.5)
    (docs / "a.txt").unlink()
    said.append(process.stderr.readline())
    process.send_signal(signal.SIGINT)
    rest = process.communicate(timeout=60)[1]
    assert process.returncode == 130, rest
    assert "1 added, 1 unchanged" in said[1]
    assert "1 removed" in said[2]
    assert "unchanged" not in rest
    assert lmkrag("list", cwd=docs).stdout == "indexes/default.txt\n"
    refused = lmkrag(
        "index", docs / "indexes/default.txt", "--watch", "--index", tmp_path / "index"
    )
    assert refused.returncode == 2 and "not a directory" in refused.stderr


def test_operators_and_ratings(lmkrag, index):
    found = lmkrag("search", "who approves the leave", "--index", index)
    assert " weak " not in f"{found.stdout.splitlines()[0]} "
    far = lmkrag("search", "price of bananas on mars", "--index", index)
    assert " weak " in f"{far.stdout.splitlines()[0]} "
    words = lmkrag("search", "leave", "--mode", "lexical", "--index", index)
    assert "weak" not in words.stdout.splitlines()[0]
    without = lmkrag("search", "who approves the leave -harbour", "--index", index)
    assert "harbour" in found.stdout.lower() and "harbour" not in without.stdout.lower()
    phrase = json.loads(lmkrag("search", '"fourteen days"', "--index", index, "--json").stdout)
    assert "fourteen days" in phrase["spans"][0]["text"]


def test_status_checks_the_encoder_and_the_index(lmkrag, index, tmp_path):
    healthy = lmkrag("status", "--check", "--index", index)
    assert healthy.returncode == 0, healthy.stdout
    assert "documents    5\n" in healthy.stdout and "WRONG" not in healthy.stdout
    record = json.loads(lmkrag("status", "--check", "--index", index, "--json").stdout)
    assert record["documents"] == 5
    checks = {item["check"]: item for item in record["checks"]}
    assert checks.keys() == {"encoder", "files", "disk", "vectors", "extras"}
    assert all(item["ok"] for item in checks.values())
    assert re.search(
        r"(Onnx on cpu in (int8|float32)|Torch on cpu in bfloat16)", checks["encoder"]["detail"]
    )
    assert checks["vectors"]["detail"] == "searched on the CPU"
    assert "checks" not in json.loads(lmkrag("status", "--index", index, "--json").stdout)
    segment = next((index / "segments").iterdir())
    segment.write_bytes(segment.read_bytes()[:-100] + b"\0" * 100)
    sick = lmkrag("status", "--check", "--index", index)
    assert sick.returncode == 1
    assert (
        "files        WRONG: " in sick.stdout
        and "; restore a backup, or index the sources again, elsewhere" in sick.stdout
    )
    assert lmkrag("status", "--index", index).returncode == 0
    missing = lmkrag("status", "--check", "--index", tmp_path / "none")
    assert missing.returncode == 1 and "no index here" in missing.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(lmkrag, shell):
    script = lmkrag("--completion", shell).stdout
    assert "_LMKRAG_COMPLETE" in script
    if shell == "bash" and shutil.which("bash"):
        assert subprocess.run(["bash", "-n"], input=script, text=True).returncode == 0


def test_completion_completes(lmkrag):
    found = lmkrag(
        env={"_LMKRAG_COMPLETE": "bash_complete", "COMP_WORDS": "lmkrag se", "COMP_CWORD": "1"}
    ).stdout
    assert "search" in found and "serve" in found


@pytest.mark.parametrize(
    ("typed", "completions"),
    [
        ("index ", ["file,"]),
        ("index docs --index ", ["file,"]),
        ("grep what sr", ["file,sr"]),
        ("serve ", ["dir,"]),
        ("install c", ["plain,claude-code", "plain,codex", "plain,claude-desktop", "plain,cursor"]),
        ("install codex vs", ["plain,vscode"]),
    ],
)
def test_completion_knows_paths_and_clients(lmkrag, typed, completions):
    words = ["lmkrag", *typed.split(" ")]
    settings = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    assert (
        lmkrag(env={"_LMKRAG_COMPLETE": "bash_complete", **settings}).stdout.split() == completions
    )


def test_an_empty_folder_leaves_no_index(lmkrag, tmp_path):
    (tmp_path / "empty").mkdir()
    result = lmkrag("index", "empty", "--index", "index", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (
        0,
        "index: nothing to index; 0 sentences in 0.0 s\n",
    )
    assert not (tmp_path / "index").exists()
    (tmp_path / "empty" / "broken.pdf").write_bytes(b"%PDF-1.7 broken")
    assert "skipped broken.pdf" in lmkrag("index", "empty", "--index", "index", cwd=tmp_path).stderr
    assert lmkrag("status", "--index", "index", cwd=tmp_path).returncode == 0
    lmkrag("index", "empty", "--index", "index", "--exclude", "*", cwd=tmp_path)
    assert (tmp_path / "index").exists()


def test_commands_within_a_chat(lmkrag, built_index):
    typed = (
        "/sources\nwho approves leave?\n/sources\n/clear\n/sources\n/nonsense\n/quit\nnever asked\n"
    )
    said = lmkrag("chat", "--index", built_index, "-k", "2", stdin=typed)
    assert said.returncode == 0
    assert said.stdout.startswith(("Probably:", "The harbour master\n"))
    assert "1. lighthouse-handbook.md:5" in said.stdout
    assert said.stderr.count("nothing was answered yet") == 2
    assert (
        "forgotten" in said.stderr
        and "no command /nonsense" in said.stderr
        and "/sources" in said.stderr
    )
    assert "never asked" not in said.stdout


def test_what_a_notebook_shows(engine):
    span = engine.search("how is leave accrued?", top_k=1)[0]
    assert "<b>lighthouse-handbook.md:50</b>" in span._repr_html_()
    answer = engine.ask("who approves leave?")
    assert "<li value=1>lighthouse-handbook.md:51" in answer._repr_html_()
    from dataclasses import replace

    assert "<script>" not in replace(span, text="<script>alert(1)</script>")._repr_html_()


def test_a_gitignore_above_counts(tmp_path, encoder):
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("secret*\ndocs/drafts/\nbuild/\n")
    docs = tmp_path / "docs"
    for name in ("kept.txt", "secret.txt", "drafts/x.txt", "deep/secret-2.txt", "deep/kept.txt"):
        (docs / name).parent.mkdir(parents=True, exist_ok=True)
        (docs / name).write_text(f"The text of {name}.")
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "made.txt").write_text("Made, and named by the user.")
    with Engine.open(tmp_path / "index", create=True, encoder=encoder) as engine:
        engine.add([docs, tmp_path / "build"])
        assert [info.doc_id for info in engine.documents()] == [
            "build/made.txt",
            "docs/deep/kept.txt",
            "docs/kept.txt",
        ]
