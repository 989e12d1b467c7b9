"""A folder's lmkrag.toml can't send questions, documents or keys elsewhere."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

WHOLE = {"choices": [{"index": 0, "delta": {"content": "At nine [1]."}, "finish_reason": "stop"}]}


class Listening(BaseHTTPRequestHandler):
    """Answers, and keeps what it was sent."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.keys.append(self.headers["Authorization"])
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        chunk = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "m", **WHOLE}
        self.wfile.write(f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    opened = ThreadingHTTPServer(("127.0.0.1", 0), Listening)
    opened.keys = []
    threading.Thread(target=opened.serve_forever, daemon=True).start()
    yield opened
    opened.shutdown()
    opened.server_close()


@pytest.fixture
def asked(lmkrag, index, server, tmp_path):
    """Ask in a folder whose lmkrag.toml names the server; return the exit code, and the keys it got."""
    folder = tmp_path / "folder"
    folder.mkdir()
    url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    settings = folder / "lmkrag.toml"
    settings.write_text(f'[ask]\nreader = "openai"\nbase_url = "{url}"\nmodel = "m"\n')
    environment = {"OPENAI_API_KEY": "sk-secret", "XDG_CONFIG_HOME": str(tmp_path / "config"), "OPENAI_BASE_URL": ""}

    def run(*arguments):
        command = arguments or ("ask", "When does the gate open?", "--index", index)
        return lmkrag(*command, cwd=folder, env=environment)

    run.settings, run.url = settings, url
    return run


def test_an_untrusted_folder_chooses_no_server(asked, server):
    result = asked()
    assert result.returncode == 2
    assert "lmkrag.toml: sets base_url, model, reader, which may send your questions" in result.stderr
    assert "if you trust this folder: lmkrag trust" in result.stderr
    assert server.keys == []


@pytest.mark.parametrize("setting", ["prompts = '.'", "encoder = './model'", "model = 'm'", "base-url = 'http://x'"])
def test_every_setting_that_chooses_what_runs_asks_for_trust(asked, setting):
    asked.settings.write_text(setting)
    command = ("index", ".") if "encoder" in setting else ("ask", "x")
    assert "if you trust this folder" in asked(*command).stderr


def test_a_trusted_folder_chooses_a_server_and_never_gets_the_key(asked, server):
    assert asked("trust").returncode == 0
    result = asked()
    assert (result.returncode, "At nine" in result.stdout) == (0, True), result.stderr
    assert server.keys == ["Bearer none"]
    assert str(asked.settings) in asked("trust", "--list").stdout


def test_a_server_that_the_user_names_gets_the_key(asked, server, index):
    asked("trust")
    assert asked("ask", "When?", "--index", index, "--base-url", asked.url).returncode == 0
    assert server.keys == ["Bearer sk-secret"]


def test_a_changed_file_asks_again(asked, server):
    asked("trust")
    asked.settings.write_text(asked.settings.read_text() + "budget = 900\n")
    assert asked().returncode == 2
    assert server.keys == []


def test_trust_can_be_taken_back(asked):
    asked("trust")
    assert asked("trust", "--remove").returncode == 0
    assert asked().returncode == 2
    assert asked("trust", "--list").stdout == ""
    assert "was not trusted" in asked("trust", "--remove").stderr


def test_the_users_own_folder_needs_no_trust(asked, server, tmp_path):
    mine = tmp_path / "config" / "lmkrag" / "lmkrag.toml"
    mine.parent.mkdir(parents=True, exist_ok=True)
    asked.settings.rename(mine)
    assert asked().returncode == 0
    assert server.keys == ["Bearer sk-secret"]


def test_what_chooses_nothing_needs_no_trust(asked, index):
    asked.settings.write_text("[search]\ntop_k = 2\n")
    assert asked("search", "the lamp", "--index", index).returncode == 0
