"""Asking through the command line: every reader, streams, batches, conversations."""

import json
import os
import pty
import subprocess
import sys

import pytest

QUESTION = "Where are bonfires allowed?"


@pytest.fixture
def served(chat_server, causal_model):
    return ["--reader", "openai", "--base-url", chat_server, "--model", causal_model, "--max-tokens", 60, "--top", 2]


def test_a_server_answers_and_is_checked(lmkrag, index, served):
    result = lmkrag("ask", QUESTION, "--index", index, *served)
    assert result.returncode == 0
    answer, _, sources = result.stdout.partition("\n\n")
    assert answer.startswith("bonfires are allowed only in iron baskets")
    assert "[1] reports/allotment-minutes.docx " in sources
    assert "»" in sources
    assert "lmkrag: warning: citation [99] matches no retrieved span; removed" in result.stderr


def test_a_local_model_answers_in_json(lmkrag, index, causal_model):
    options = ["--reader", "transformers", "--model", causal_model, "--max-tokens", 60, "--top", 2]
    result = lmkrag("ask", QUESTION, "--index", index, "--json", *options)
    answer = json.loads(result.stdout)
    assert (answer["reader"], answer["found"]) == ("transformers", True)
    assert "citation [99] matches no retrieved span; removed" in answer["warnings"]
    citation = answer["citations"][0]
    text = lmkrag("show", citation["doc_id"], "--index", index).stdout
    assert text[citation["start"] : citation["end"]] == citation["quote"]


def test_on_a_terminal_the_answer_streams(index, served):
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "lmkrag", "ask", QUESTION, "--index", str(index), *map(str, served)]
    process = subprocess.Popen(command, stdout=theirs, stderr=subprocess.DEVNULL, env={**os.environ, "NO_COLOR": "1"})
    os.close(theirs)
    reads = []
    while True:
        try:
            part = os.read(ours, 4_096)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        reads.append(part.decode())
    assert process.wait(60) == 0
    text = "".join(reads)
    assert text.startswith("bonfires are allowed only")
    assert text.index("[1] reports/allotment-minutes.docx ") < text.index("»")


def test_a_batch(lmkrag, index, served, tmp_path):
    questions = tmp_path / "q.jsonl"
    questions.write_text('{"query_id": "a", "query": "bonfires"}\n{"query_id": 7, "query": "salmon"}\n')
    for options in (served, []):
        result = lmkrag("ask", "--batch", questions, "--index", index, *options)
        lines = [json.loads(line) for line in result.stdout.splitlines()]
        assert [line["query_id"] for line in lines] == ["a", 7]
        assert [line["reader"] for line in lines] == ["openai" if options else "extractive"] * 2


def test_a_conversation(lmkrag, index):
    questions = "When are bonfires allowed?\nAnd who signs for it?\n\n"
    result = lmkrag("chat", "--index", index, stdin=questions)
    assert result.returncode == 0
    assert result.stdout.count("\n[1] reports/allotment-minutes.docx ") == 2
    assert "first Sunday of November" in result.stdout


def test_own_prompts_and_settings_from_a_file(lmkrag, index, served, chat_server, causal_model, tmp_path):
    (tmp_path / "answer.txt").write_text("$spans", "utf-8")
    result = lmkrag("ask", QUESTION, "--index", index, *served, "--prompts", tmp_path)
    assert result.returncode == 2
    assert "its placeholders must be $key, $question, $spans" in result.stderr
    settings = f'reader = "openai"\nbase_url = "{chat_server}"\nmodel = "{causal_model}"\nmax_tokens = 60\n'
    (tmp_path / "lmkrag.toml").write_text(f"[ask]\n{settings}", "utf-8")
    assert lmkrag("trust", cwd=tmp_path).returncode == 0
    result = lmkrag("ask", QUESTION, "--index", index, "--json", cwd=tmp_path)
    assert json.loads(result.stdout)["reader"] == "openai"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["ask"], 2, "give a question, or --batch FILE.jsonl"),
        (["ask", "x", "--reader", "openai"], 2, "give --base-url of a server, or set OPENAI_API_KEY"),
        (["ask", "x", "--base-url", "http://x"], 2, "--base-url is for the reader 'openai'"),
        (["ask", "x", "--reader", "transformers", "--model", "./none"], 2, "no such model folder: ./none"),
        (
            ["ask", "x", "--reader", "openai", "--base-url", "http://127.0.0.1:9/v1", "--model", "m", "--timeout", "2"],
            1,
            "can't be reached; is the server running?",
        ),
        (["chat", "--reader", "vllm"], 2, "choose a model with --model"),
    ],
)
def test_what_goes_wrong_is_one_line(lmkrag, index, arguments, code, message):
    environment = {"OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""}
    result = lmkrag(*arguments, "--index", index, env=environment, stdin="x\n")
    assert result.returncode == code
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""
