"""Asking through the command line: every reader, streams, batches, conversations."""

import json
import re
import threading
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from lmkrag import Engine

QUESTION = "Where are bonfires allowed?"
CONTROL = re.compile(r"\x1b(?:\[[?\d;]*[A-Za-z]|\][^\x1b]*\x1b\\)")


@pytest.fixture
def served(chat_server, causal_model):
    return [
        "--reader",
        "openai",
        "--base-url",
        chat_server,
        "--model",
        causal_model,
        "--max-tokens",
        60,
        "--top",
        2,
    ]


def test_a_server_answers_and_is_checked(lmkrag, index, served):
    result = lmkrag("ask", QUESTION, "--index", index, *served)
    assert result.returncode == 0
    answer, _, sources = result.stdout.partition("\n\n")
    assert answer.startswith("  bonfires are allowed only in iron baskets")
    assert "[1] reports/allotment-minutes.docx, " in sources
    assert re.search("^    > .*»", sources, re.MULTILINE)
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


def test_on_a_terminal_the_answer_streams(on_terminal, index, served):
    text = CONTROL.sub("", on_terminal("ask", QUESTION, "--index", index, *served))
    assert text.startswith("  bonfires\r  bonfires are\r  bonfires are allowed\r")
    assert "\n[1] reports/allotment-minutes.docx, " in text.replace("\r", "")


def test_a_language_model_is_named_only_where_passages_may_answer(on_terminal, index):
    arguments = ("--index", index, "--reader", "extractive")
    perhaps = on_terminal("ask", "How far have the coping stones moved?", *arguments, errors=True)
    assert "--llm lets a language model" in perhaps
    nothing = on_terminal("ask", "Who rules the parliament of Peru?", *arguments, errors=True)
    assert "Closest:" in nothing and "--llm" not in nothing


GUIDE = """# The **Big** Guide

| plan | price | note |
| --- | ---: | --- |
| **Basic** | 10 € | see [terms](https://example.org/terms) |
"""
WRITTEN = """## How to

Do **three** things [1]:

1. Get the [installer](https://example.org/get).
2. Run `setup`.

```
setup --all

echo **done**
```

The end.\x1b[31m"""


@pytest.fixture
def guide(tmp_path):
    """An index of a document in Markdown."""
    (tmp_path / "guide.md").write_text(GUIDE)
    with Engine.open(tmp_path / "guide", create=True) as engine:
        engine.add(tmp_path / "guide.md")
    return tmp_path / "guide"


@pytest.mark.parametrize("streamed", [True, False])
def test_a_person_reads_no_markup(on_terminal, lmkrag, guide, picky, streamed):
    arguments = ["ask", "What is the price of Basic?", "--index", guide, *picky]
    printed = on_terminal(*arguments, *([] if streamed else ["--no-stream"]))
    assert "\x1b[1mthree\x1b[0m" in printed and "\x1b[31m" not in printed
    text = re.sub(r" *\r?\n", "\n", CONTROL.sub("", printed).replace("\r", ""))
    blocks = [
        "  How to\n  Do three things [1]:",
        "   1. Get the installer.\n   2. Run setup.",
        "    setup --all\n\n    echo **done**",
    ]
    for block in blocks if streamed else ["\n\n".join([*blocks, "  The end."])]:
        assert block in text
    assert "    The Big Guide\n" in text
    *_, row, _, answered_by = text.splitlines()
    assert row.split() == [">", "Basic", "10", "€", "see", "terms"]
    assert answered_by.startswith("answered by m on 127.0.0.1:")
    piped = lmkrag(*arguments).stdout
    assert piped.startswith("  ## How to\n\n  Do **three** things [1]:")
    assert "    The **Big** Guide\n    > " in piped and "»| **Basic** | 10 € |" in piped


def test_what_came_before_an_error_stays(on_terminal, guide, picky):
    printed = on_terminal("ask", "What breaks off?", "--index", guide, *picky, code=1)
    assert "The end." in printed.rpartition("\x1b[?25h")[2]  # after the last that is drawn anew


def test_json_explains_only_where_that_is_asked_for(lmkrag, index):
    spans = [
        json.loads(lmkrag("ask", QUESTION, "--index", index, "--json", *options).stdout)["spans"]
        for options in ([], ["--explain"])
    ]
    assert {*spans[1][0]} - {*spans[0][0]} == {"hits", "explanation"}
    assert spans[1][0]["explanation"]["parts"]
    assert "   score 0." in lmkrag("ask", QUESTION, "--index", index, "--explain").stdout


def test_a_batch(lmkrag, index, served, tmp_path):
    questions = tmp_path / "q.jsonl"
    questions.write_text(
        '{"query_id": "a", "query": "bonfires"}\n{"query_id": 7, "query": "salmon"}\n'
    )
    for options in (served, []):
        result = lmkrag("ask", "--batch", questions, "--index", index, *options)
        lines = [json.loads(line) for line in result.stdout.splitlines()]
        assert [line["query_id"] for line in lines] == ["a", 7]
        assert [line["reader"] for line in lines] == ["openai" if options else "extractive"] * 2


def test_a_conversation(lmkrag, index):
    questions = "When are bonfires allowed?\nAnd what may not be burned?\n\n"
    result = lmkrag("chat", "--index", index, stdin=questions)
    assert result.returncode == 0
    assert len(re.findall(r"\n\[\d\] reports/allotment-minutes.docx, ", result.stdout)) >= 2
    assert "first Sunday of November" in result.stdout
    assert "Painted wood and plastic may not be burned at all. [1]" in result.stdout


def test_own_prompts_and_settings_from_the_environment(
    lmkrag, index, served, chat_server, causal_model, tmp_path
):
    (tmp_path / "answer.txt").write_text("$spans", "utf-8")
    result = lmkrag("ask", QUESTION, "--index", index, *served, "--prompts", tmp_path)
    assert result.returncode == 2
    assert "its placeholders must be $key, $question, $spans" in result.stderr
    settings = {
        "LMKRAG_READER": "openai",
        "LMKRAG_BASE_URL": chat_server,
        "LMKRAG_MODEL": str(causal_model),
    }
    result = lmkrag("ask", QUESTION, "--index", index, "--json", "--max-tokens", 60, env=settings)
    assert json.loads(result.stdout)["reader"] == "openai"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["ask"], 2, "give a question, or --batch FILE.jsonl"),
        (
            ["ask", "x", "--reader", "openai"],
            2,
            "give --base-url of a server, or set OPENAI_API_KEY",
        ),
        (["ask", "x", "--base-url", "http://x"], 2, "--base-url is for the reader 'openai'"),
        (
            ["ask", "x", "--reader", "transformers", "--model", "./none"],
            2,
            "no such model folder: ./none",
        ),
        (
            [
                "ask",
                "x",
                "--reader",
                "openai",
                "--base-url",
                "http://127.0.0.1:9/v1",
                "--model",
                "m",
                "--timeout",
                "10",
            ],
            1,
            "can't be reached; is the server running?",
        ),
        (["chat", "--reader", "vllm"], 2, "choose a model with --model"),
        (
            ["ask", "x", "--rerank", "on", "--rerank-model", "./gone"],
            2,
            "re-ranker './gone': no such folder",
        ),
    ],
)
def test_what_goes_wrong_is_one_line(lmkrag, index, arguments, code, message):
    environment = {"OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""}
    result = lmkrag(*arguments, "--index", index, env=environment, stdin="x\n")
    assert result.returncode == code
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


class PickyServer(ThreadingHTTPServer):
    """A server of one model, which refuses every question that says "bad". It keeps the headers it got."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Picky)
        self.headers: list[Message] = []


class Picky(BaseHTTPRequestHandler):
    server: PickyServer

    def do_GET(self):
        self.server.headers.append(self.headers)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"data": [{"id": "llama3", "owned_by": "library"}]}')

    def do_POST(self):
        self.server.headers.append(self.headers)
        asked = self.rfile.read(int(self.headers["Content-Length"]))
        if b"bad" in asked.rpartition(b"Question:")[2]:
            self.send_response(404)
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for start in range(0, len(WRITTEN), 7):
            choice = {
                "index": 0,
                "delta": {"content": WRITTEN[start : start + 7]},
                "finish_reason": None,
            }
            if start + 7 >= len(WRITTEN) and b"breaks off" not in asked:
                choice["finish_reason"] = "stop"
            chunk = {
                "id": "1",
                "object": "chat.completion.chunk",
                "created": 0,
                "model": "m",
                "choices": [choice],
            }
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_):
        pass


@pytest.fixture
def picky_server():
    server = PickyServer()
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def picky(picky_server):
    return [
        "--reader",
        "openai",
        "--base-url",
        f"http://127.0.0.1:{picky_server.server_port}/v1",
        "--model",
        "m",
    ]


def test_a_model_that_is_found_gets_no_key_and_is_named(lmkrag, index, picky_server, monkeypatch):
    port = picky_server.server_port
    monkeypatch.setattr("lmkrag.readers.local_servers.PORTS", [port])
    asking = ["ask", QUESTION, "--index", index, "--llm"]
    found = lmkrag(*asking, env={"OPENAI_API_KEY": "sk-the-users-key"})
    assert found.stdout.splitlines()[-1] == f"answered by llama3 on 127.0.0.1:{port}"
    assert len(picky_server.headers) == 2 and "sk-the-users-key" not in str(
        list(map(str, picky_server.headers))
    )
    record = json.loads(lmkrag(*asking, "--json").stdout)
    assert record["answered_by"] == f"llama3 on 127.0.0.1:{port}"
    named = lmkrag(
        *asking,
        "--base-url",
        f"http://127.0.0.1:{port}/v1",
        env={"OPENAI_API_KEY": "sk-the-users-key"},
    )
    assert named.returncode == 0
    assert (
        picky_server.headers[-1]["Authorization"] == "Bearer sk-the-users-key"
    )  # the user named the server
    assert "answered by" not in lmkrag("ask", QUESTION, "--index", index).stdout


def test_one_failure_of_a_batch_loses_no_paid_answer(lmkrag, index, picky, tmp_path):
    queries = [
        {"query_id": n, "query": "a bad question" if n == 3 else f"question {n}"} for n in range(6)
    ]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(query) + "\n" for query in queries))
    result = lmkrag("ask", "--batch", tmp_path / "q.jsonl", "--index", index, *picky)
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["query_id"] for line in lines] == list(range(6))
    assert ["error" in line for line in lines] == [False, False, False, True, False, False]
    assert "no such model or path" in lines[3]["error"]
    assert result.returncode == 1
    assert '1 question was not answered; look for "error" in the lines above' in result.stderr


def test_a_failed_request_does_not_end_a_conversation(lmkrag, index, picky):
    result = lmkrag("chat", "--index", index, *picky, stdin="a bad question\nWhen?\n\n")
    assert result.stdout.count("three** things [1]:") == 1
    assert "lmkrag: " in result.stderr
    assert "Traceback" not in result.stderr
    assert result.returncode == 1


def test_the_sentence_that_answers_is_cited(lmkrag, engine, index):
    question = "How long must the lamp burn before the wick may be trimmed?"
    result = lmkrag("ask", question, "--index", index)
    assert result.stdout.splitlines()[0] == "> 1. The lamp"
    answer = json.loads(
        lmkrag("ask", question, "--index", index, "--json", "--rerank", "on").stdout
    )
    (citation,) = answer["citations"]
    text = engine.read(citation["doc_id"])
    assert text[citation["start"] : citation["end"]] == citation["quote"]
    assert "four hours" in citation["quote"]
    assert answer["label"] == "strong"
