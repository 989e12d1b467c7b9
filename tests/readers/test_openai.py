"""The openai reader: transformers' own server, and servers that misbehave in every way a network knows."""

import asyncio
import contextlib
import json
import os
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from lmkrag.errors import ReaderError, UsageError
from lmkrag.readers.base import answer_or_error
from lmkrag.readers.openai import OpenAIReader
from lmkrag.results import Span

TEXT = "Bonfires are allowed only in the iron basket. The gate opens\nat nine."
SPAN = Span("a.md", "/a.md", 10, 10 + len(TEXT), TEXT, 1.0)


@pytest.fixture
def reader(chat_server, causal_model):
    return OpenAIReader(model=str(causal_model), base_url=chat_server, max_tokens=60)


def test_it_streams_from_a_real_server(reader):
    stream = reader.stream("Where are bonfires allowed?", [SPAN])
    pieces = list(stream)
    assert len(pieces) > 3
    assert stream.answer().found
    assert stream.answer().reader == "openai"
    assert stream.answer().citations[0].quote.startswith("Bonfires are allowed only")
    assert "citation [99] matches no retrieved span; removed" in stream.answer().warnings


def test_a_server_on_this_machine_is_found(chat_server, causal_model):
    from lmkrag.readers.local_servers import find_local_server

    port = int(chat_server.split(":")[2].partition("/")[0])
    with socket.socket() as deaf:  # listens, and never answers
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        base_url, model = find_local_server([deaf.getsockname()[1], port])
    assert base_url == f"http://127.0.0.1:{port}/v1"
    assert model
    assert (
        OpenAIReader(model=str(causal_model), base_url=base_url).answer("Where?", [SPAN]).reader
        == "openai"
    )


def test_no_server_on_this_machine():
    from lmkrag.readers.local_servers import find_local_server

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(UsageError, match="start Ollama"):
        find_local_server([port])


@contextlib.contextmanager
def listening_as(user):
    """A socket of another user that listens on a port of this machine."""
    if os.getuid() or not Path("/proc/net/tcp").exists():
        pytest.skip("only root makes sockets of other users, and only Linux names their owners")
    os.seteuid(user)
    try:
        listening = socket.create_server(("127.0.0.1", 0))
    finally:
        os.seteuid(0)
    with listening:
        listening.settimeout(1)
        yield listening


def test_a_server_of_another_user_is_told_and_asked_nothing():
    from lmkrag.readers.local_servers import find_local_server

    with listening_as(65_534) as listening:
        port = listening.getsockname()[1]
        advice = f"127.0.0.1:{port} is of user nobody: if you trust it, name it with --base-url http://127.0.0.1:{port}/v1"
        with pytest.raises(UsageError, match=advice):
            find_local_server([port])
        reader = OpenAIReader(model="m", base_url=f"http://127.0.0.1:{port}/v1", found=True)
        with pytest.raises(ReaderError, match="another server is there now, of user nobody"):
            reader.answer("When?", [SPAN])
        with pytest.raises(TimeoutError):
            listening.accept()


async def test_async_says_the_same(reader):
    assert await reader.aanswer("Where?", [SPAN]) == reader.answer("Where?", [SPAN])


def test_a_batch(reader):
    answers = list(reader.answer_each(["Where?", "When?", "Why?"], [[SPAN], [], [SPAN]]))
    assert [answer.found for answer in answers] == [True, False, True]


def test_a_token_limit_is_told(chat_server, causal_model):
    answer = OpenAIReader(model=str(causal_model), base_url=chat_server, max_tokens=4).answer(
        "Where?", [SPAN]
    )
    assert "the model stopped at its token limit: the answer is not whole" in answer.warnings


def event(content: str | None, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": finish}
    chunk = {
        "id": "1",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": "m",
        "choices": [choice],
    }
    return f"data: {json.dumps(chunk)}\n\n".encode()


DONE = b"data: [DONE]\n\n"


class ScriptedServer(ThreadingHTTPServer):
    """Keeps what it was asked; ``script`` says what it answers, request by request."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Misbehaving)
        self.asked, self.script, self.refused, self.models = [], [], (), ["m"]
        self.released, self.may_name = threading.Event(), threading.Event()
        self.may_name.set()

    def handle_error(self, *_):
        pass


class Misbehaving(BaseHTTPRequestHandler):
    """Plays the script of its server: one entry a request, the last one for ever."""

    protocol_version = "HTTP/1.1"
    server: ScriptedServer

    def do_GET(self):
        self.reply(
            200 if self.server.may_name.wait(5) else 504,
            json.dumps(
                {"object": "list", "data": [{"id": n} for n in self.server.models]}
            ).encode(),
        )

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.headers, asked))
        refused = [name for name in self.server.refused if name in asked]
        if refused:
            told = f"Unsupported parameter: '{refused[0]}' is not supported with this model."
            told += " Use 'max_completion_tokens' instead." if refused[0] == "max_tokens" else ""
            self.reply(400, json.dumps({"error": {"message": told, "param": refused[0]}}).encode())
            return
        script = self.server.script
        step = script[min(len(self.server.asked), len(script)) - 1]
        if isinstance(step, int):
            self.reply(step, b'{"error": {"message": "no room"}}', {"Retry-After-Ms": "20"})
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for part in step:
            if part == "die":
                self.wfile.flush()
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            if part == "hang":
                self.server.released.wait(20)
                return
            if part == "comments":
                while not self.server.released.wait(0.1):
                    self.wfile.write(b"2\r\n:\n\r\n")
                return
            if part == "endless":
                part = event("and ")
                while not self.server.released.wait(0.1):
                    self.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
                return
            self.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def reply(self, status, body, headers=()):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def handle_one_request(self):
        try:
            super().handle_one_request()
        except (ConnectionError, ValueError):  # the client gave up, or we hung up on it
            self.close_connection = True

    def log_message(self, *_):
        pass


@pytest.fixture
def misbehaving(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-word")
    server = ScriptedServer()
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()

    def start(*script, refused=(), **options):
        server.script, server.refused = list(script), refused
        server.asked.clear()
        url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        return OpenAIReader(base_url=url, **{"model": "m", "timeout": 5.0, "retries": 2, **options})

    start.server = server  # type: ignore[attr-defined]
    yield start
    server.released.set()
    server.shutdown()
    server.server_close()


WHOLE = [event("At nine"), event(" [1]."), event(None, "stop"), DONE]


def test_what_is_sent(misbehaving):
    answer = misbehaving(WHOLE).answer("When?", [SPAN])
    assert (answer.text, answer.found, answer.warnings) == ("At nine [1].", True, ())
    headers, asked = misbehaving.server.asked[0]
    assert headers["Authorization"] == "Bearer sk-secret-word"
    assert [message["role"] for message in asked["messages"]] == ["system", "user"]
    assert (asked["stream"], asked["model"]) == (True, "m")


def test_a_server_that_was_found_gets_no_secret_of_the_environment(misbehaving, monkeypatch):
    for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY"):
        monkeypatch.setenv(name, "secret-word")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Gateway: secret-word")
    answer = misbehaving(WHOLE, found=True).answer("When?", [SPAN])
    assert answer.answered_by == f"m on 127.0.0.1:{misbehaving.server.server_port}"
    headers, asked = misbehaving.server.asked[0]
    assert (
        asked["messages"] and "secret-word" not in str(headers) and headers["Authorization"] is None
    )
    misbehaving(WHOLE).answer("When?", [SPAN])
    headers, _ = misbehaving.server.asked[0]
    assert headers["X-Gateway"] == headers["OpenAI-Organization"] == "secret-word"  # it was named


def test_an_answer_says_which_model_wrote_it(misbehaving):
    port = misbehaving.server.server_port
    reader = misbehaving(WHOLE, model="/srv/models/tiny-llama")
    assert reader.answer("When?", [SPAN]).answered_by == f"tiny-llama on 127.0.0.1:{port}"
    assert str(reader.answer("When?", [SPAN])).endswith(
        f"Answered by tiny-llama on 127.0.0.1:{port}"
    )
    assert reader.answer("When?", []).answered_by == ""  # the model is not asked
    secret = OpenAIReader(model="m", base_url=f"http://me:pass-word@127.0.0.1:{port}/v1")
    assert secret.answer("When?", [SPAN]).answered_by == f"m on 127.0.0.1:{port}"
    misbehaving(404)
    with pytest.raises(ReaderError) as raised:
        secret.answer("When?", [SPAN])
    assert f"http://127.0.0.1:{port}/v1: no such model" in str(raised.value)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_failure_that_passes_is_tried_again(misbehaving, status):
    assert misbehaving(status, status, WHOLE).answer("When?", [SPAN]).text == "At nine [1]."
    assert len(misbehaving.server.asked) == 3


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ([429], "too many requests, also after waiting"),
        ([500], "answered 500"),
        ([401], "refused the key; set OPENAI_API_KEY"),
        ([404], "no such model or path"),
        ([[event("At n"), "die"]], "(?:broke off in the middle of an answer|can't be reached)"),
        ([[event("At n")]], "broke off in the middle of an answer"),
        ([[event("At n"), DONE]], "broke off in the middle of an answer"),
        ([[event("At n"), b"data: {not json\n\n"]], "sent what is no chat completion"),
        (
            [[b'data: {"choices": [{"delta": null, "index": 0}]}\n\n', DONE]],
            "sent what is no chat completion",
        ),
        ([[b'data: {"choices": 7}\n\n', DONE]], "sent what is no chat completion"),
        ([[b'data: {"error": {"message": "out of memory"}}\n\n']], "out of memory"),
    ],
)
async def test_every_failure_is_one_line(misbehaving, script, message):
    reader = misbehaving(*script, retries=0)
    for attempt in ("sync", "async"):
        with pytest.raises(ReaderError, match=message) as raised:
            reader.answer("When?", [SPAN]) if attempt == "sync" else await reader.aanswer(
                "When?", [SPAN]
            )
        assert "secret-word" not in str(raised.value)
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize("script", [["hang"], [event("At n"), "hang"]])
def test_silence_is_waited_for_so_long(misbehaving, script):
    reader = misbehaving(script, retries=0, timeout=0.5)
    started = time.monotonic()
    with pytest.raises(ReaderError, match=r"nothing came in time|went silent|took longer"):
        reader.answer("When?", [SPAN])
    assert time.monotonic() - started < 10


@pytest.mark.parametrize(
    "script", [["comments"], ["endless"], [event("At n"), "comments"], ["hang"]]
)
async def test_an_answer_has_so_much_time_as_a_whole(misbehaving, script):
    reader = misbehaving(script, retries=3, timeout=0.5)
    for attempt in ("sync", "async"):
        started = time.monotonic()
        with pytest.raises(ReaderError, match=r"took longer than 0\.5 seconds; raise --timeout"):
            reader.answer("When?", [SPAN]) if attempt == "sync" else await reader.aanswer(
                "When?", [SPAN]
            )
        assert time.monotonic() - started < 4


def test_no_server(misbehaving):
    reader = misbehaving(WHOLE, retries=0)
    misbehaving.server.shutdown()
    misbehaving.server.server_close()
    with pytest.raises(ReaderError, match="can't be reached; is the server running"):
        reader.answer("When?", [SPAN])


def test_the_only_model_is_chosen(misbehaving):
    misbehaving(WHOLE, model=None).answer("When?", [SPAN])
    assert misbehaving.server.asked[0][1]["model"] == "m"


def test_of_several_models_none_is_guessed(misbehaving):
    reader = misbehaving(WHOLE, model=None)
    misbehaving.server.models = ["m", "n"]
    with pytest.raises(UsageError, match=r"has 2 models \(m, n\): choose one with --model"):
        reader.answer("When?", [SPAN])


def test_only_what_was_asked_for_is_sent(misbehaving):
    reader = misbehaving(WHOLE)
    reader.answer("When?", [SPAN])
    (_, asked) = misbehaving.server.asked[-1]
    assert set(asked) == {"model", "messages", "stream"}
    reader = misbehaving(WHOLE, max_tokens=7, temperature=0.0)
    reader.answer("When?", [SPAN])
    (_, asked) = misbehaving.server.asked[-1]
    assert (asked["max_tokens"], asked["temperature"]) == (7, 0.0)


async def test_what_a_model_refuses_is_left_out_and_remembered(misbehaving):
    reader = misbehaving(
        WHOLE, max_tokens=7, temperature=0.0, refused=["temperature", "max_tokens"]
    )
    assert reader.answer("When?", [SPAN]).text == "At nine [1]."
    assert len(misbehaving.server.asked) == 3
    (_, asked) = misbehaving.server.asked[-1]
    assert asked["max_completion_tokens"] == 7
    assert "temperature" not in asked
    assert (await reader.aanswer("When?", [SPAN])).text == "At nine [1]."
    assert len(misbehaving.server.asked) == 4


def test_a_refusal_of_something_else_is_an_error(misbehaving):
    with pytest.raises(ReaderError, match="answered 400"):
        misbehaving(WHOLE, refused=["messages"]).answer("When?", [SPAN])


def test_one_failure_of_a_batch_costs_one_answer(misbehaving):
    reader = misbehaving(WHOLE, 404, WHOLE)
    spans = [[SPAN]] * 3
    answers = [answer_or_error(reader.answer, "When?", its_spans) for its_spans in spans]
    assert [isinstance(answer, ReaderError) for answer in answers] == [False, True, False]
    assert len(list(misbehaving(404).answer_each(["a", "b"], spans[:2]))) == 2


# Streams that nobody hears to the end


def test_a_closed_stream_ends_its_request(misbehaving):
    with misbehaving([event("At "), event("nine "), "hang"]).stream("When?", [SPAN]) as stream:
        assert next(stream) == "At "
    with pytest.raises(StopIteration):
        next(stream)


async def test_the_event_loop_runs_while_a_server_is_asked_for_its_model(misbehaving):
    server = misbehaving.server
    server.may_name.clear()

    async def let_name() -> None:
        server.may_name.set()

    stream = misbehaving(WHOLE, model=None).astream("When?", [SPAN])
    naming = asyncio.create_task(let_name())
    assert "".join([piece async for piece in stream]) == "At nine [1]."
    await naming


async def test_a_cancelled_stream_ends_its_request(misbehaving):
    reader = misbehaving([event("At "), event("nine "), "hang"], timeout=30)
    async with reader.astream("When?", [SPAN]) as stream:
        assert await anext(stream) == "At "
    with pytest.raises(StopAsyncIteration):
        await anext(stream)
    task = asyncio.create_task(reader.aanswer("When?", [SPAN]))
    await asyncio.sleep(0.3)
    task.cancel()
    began = time.monotonic()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - began < 5
