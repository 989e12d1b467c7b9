"""Who may ask, how much and how slowly; what responses say about themselves."""

import asyncio
import contextlib
import socket
import threading
import time

import httpx
import pytest
from starlette.responses import PlainTextResponse

from lmkrag.errors import UsageError
from lmkrag.server.guard import Guard
from lmkrag.server.metrics import Metrics
from lmkrag.server.problems import Problem
from lmkrag.server.sessions import TokenCheck
from lmkrag.server.settings import ServerSettings, name_indexes

TOKEN = "a-token-of-the-tests"


@pytest.fixture(scope="module")
def locked(serve_process, built_index, tmp_path_factory):
    """A server that asks for a token, which requests of these tests don't send on their own."""
    folder = tmp_path_factory.mktemp("locked")
    (folder / "token").write_text(TOKEN + "\n")
    with serve_process(
        folder, "--index", f"demo={built_index}", "--token-file", folder / "token"
    ) as running:
        yield running


def raw(url: str, request: bytes, seconds: float = 30) -> bytes:
    """Send bytes as they are and return all that comes."""
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=seconds) as connection:
        connection.sendall(request)
        parts = []
        while part := connection.recv(65_536):
            parts.append(part)
        return b"".join(parts)


def test_only_with_the_token(locked):
    with locked.client() as client:
        for path in (
            "/api/status",
            "/api/documents",
            "/v1/models",
            "/metrics",
            "/openapi.json",
            "/mcp",
        ):
            reply = client.get(path)
            assert reply.status_code == 401, path
            assert reply.headers["www-authenticate"].startswith("Bearer")
        assert client.post("/api/search", json={"query": "leave"}).status_code == 401
        for path in ("/", "/healthz", "/readyz", "/static/app.js"):
            assert client.get(path).status_code == 200, path
        wrong = client.get("/api/status", headers={"Authorization": "Bearer not-the-token"})
        assert wrong.status_code == 401
        right = client.get("/api/status", headers={"Authorization": f"Bearer {TOKEN}"})
        assert right.status_code == 200


def test_a_session_by_cookie(locked):
    with locked.client() as client:
        assert client.post("/api/login", json={"token": "nonsense"}).status_code == 401
        reply = client.post("/api/login", json={"token": TOKEN})
        cookie = reply.headers["set-cookie"]
        assert reply.status_code == 204
        assert "HttpOnly" in cookie and "SameSite=strict" in cookie and TOKEN not in cookie
        assert client.get("/api/status").status_code == 200
        client.post("/api/logout")
        assert client.get("/api/status").status_code == 401
        forged = client.get("/api/status", headers={"Cookie": "lmkrag_session=" + "0" * 64})
        assert forged.status_code == 401


def test_logging_out_ends_the_session_wherever_its_cookie_is_kept(locked):
    with locked.client() as client:
        cookies = []
        for _ in range(2):
            cookie = client.post("/api/login", json={"token": TOKEN}).headers["set-cookie"]
            cookies.append({"Cookie": cookie.partition(";")[0]})
            client.cookies.clear()
        assert cookies[0] != cookies[1]
        for kept in cookies:
            assert client.get("/api/status", headers=kept).status_code == 200
        assert client.post("/api/logout", headers=cookies[0]).status_code == 204
        assert client.get("/api/status", headers=cookies[0]).status_code == 401
        assert client.get("/api/status", headers=cookies[1]).status_code == 200
        assert client.post("/api/logout", headers=cookies[0]).status_code == 401


@pytest.fixture
def waits(monkeypatch):
    """The seconds that callers were told to wait; nobody does."""
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    monkeypatch.setattr("lmkrag.server.sessions.asyncio.sleep", sleep)
    return slept


async def test_whoever_guesses_waits_and_nobody_else(waits):
    check = TokenCheck(TOKEN)
    for _ in range(12):
        assert not await check.is_right("not the token", "10.0.0.1")
        assert await check.is_right(TOKEN, "10.0.0.1")
    assert waits == [0.25, 0.5, 1, 2, 4, 8, 10, 10, 10]
    waits.clear()
    assert not await check.is_right("not the token", "10.0.0.2")
    assert waits == []
    for number in range(4):  # a network of IPv6 counts as one
        await check.is_right("not the token", f"2001:db8::{number}")
    assert waits == [0.25]


async def test_addresses_that_guess_are_forgotten_in_the_end(waits):
    check = TokenCheck(TOKEN)
    for _ in range(4):
        await check.is_right("not the token", "10.0.0.1")
    for number in range(10_000):
        await check.is_right("not the token", f"10.1.{number // 250}.{number % 250}")
    await check.is_right("not the token", "10.0.0.1")
    assert waits == [0.25]


async def test_of_too_many_guesses_at_once_none_is_looked_at():
    check = TokenCheck(TOKEN)
    for _ in range(3):  # which nobody waits for
        await check.is_right("not the token", "10.0.0.2")
    guesses = [asyncio.create_task(check.is_right("not the token", "10.0.0.2")) for _ in range(8)]
    await asyncio.sleep(0)
    for token in (TOKEN, "not the token"):
        with pytest.raises(Problem) as refused:
            await check.is_right(token, "10.0.0.2")
        assert refused.value.status_code == 429
    assert await check.is_right(TOKEN, "10.0.0.3")
    for guess in guesses:
        guess.cancel()
    await asyncio.gather(*guesses, return_exceptions=True)
    assert await check.is_right(TOKEN, "10.0.0.2")


def test_wrong_tokens_slow_down_logins_and_other_requests(serve_process, built_index, tmp_path):
    with (
        serve_process(tmp_path, "--index", built_index, LMKRAG_TOKEN=TOKEN) as running,
        running.client() as client,
    ):
        began = time.monotonic()
        for _ in range(3):
            assert client.post("/api/login", json={"token": "wrong"}).status_code == 401
            assert (
                client.get("/api/status", headers={"Authorization": "Bearer wrong"}).status_code
                == 401
            )
        assert time.monotonic() - began >= 0.25 + 0.5 + 1
        began = time.monotonic()
        assert client.post("/api/login", json={"token": TOKEN}).status_code == 204
        assert time.monotonic() - began < 1


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1.evil.example"}, 421),
        ({"Host": ""}, 421),
        ({"Host": "localhost:1234"}, 200),
        ({"Host": "[::1]:8700"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://["}, 403),
        ({"Origin": "http://[::1"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
    ],
)
def test_names_and_origins(client, headers, status):
    assert client.get("/api/status", headers=headers).status_code == status


def test_a_name_that_was_allowed(serve, built_index, tmp_path):
    options = ["--index", built_index, "--allow-host", "Docs.Example"]
    with serve(tmp_path, *options) as running, running.client() as client:
        assert client.get("/api/status", headers={"Host": "docs.example"}).status_code == 200
        own = {"Host": "docs.example:80", "Origin": "http://docs.example:80"}
        assert client.get("/api/status", headers=own).status_code == 200
        assert client.get("/api/status", headers={"Host": "other.example"}).status_code == 421


async def test_the_name_that_it_listens_on_in_any_case(built_index):
    settings = ServerSettings({"demo": built_index}, host="Harbour.Example", token=TOKEN)
    transport = httpx.ASGITransport(Guard(PlainTextResponse("alive"), settings, Metrics(None)))
    async with httpx.AsyncClient(transport=transport) as client:
        assert (await client.get("http://harbour.example/healthz")).status_code == 200
        assert (await client.get("http://other.example/healthz")).status_code == 421


def test_other_addresses_ask_for_a_token(lmkrag, built_index):
    refused = lmkrag("serve", "--host", "0.0.0.0", "--index", built_index, env={"LMKRAG_TOKEN": ""})
    assert refused.returncode == 2
    assert "anybody who reaches 0.0.0.0 could read the documents" in refused.stderr
    ServerSettings(indexes={"a": built_index}, host="0.0.0.0", token=TOKEN)
    ServerSettings(indexes={"a": built_index}, host="0.0.0.0", authenticated=False)
    for token in ("short", "a" * 15, "ä" * 16, "a" * 16 + "\n"):
        with pytest.raises(
            UsageError,
            match="at least 16 printable ASCII characters, such as `openssl rand -hex 32`",
        ):
            ServerSettings(indexes={"a": built_index}, token=token)
    ServerSettings(indexes={"a": built_index}, token="a" * 16)
    with pytest.raises(UsageError, match="two indexes are called 'a'"):
        name_indexes(("a=x", "a=y"))


def test_headers_of_every_response(client):
    for path in ("/", "/api/status", "/api/nothing", "/static/app.js"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers
    assert client.get("/api/status").headers["cache-control"] == "no-store"


def test_a_body_of_a_gigabyte_is_refused_before_it_is_sent(server):
    head = b"POST /api/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1073741824\r\n\r\n"
    assert b" 413 " in raw(server.url, head).split(b"\r\n")[0]


def test_a_body_without_a_length_is_cut_off(client):
    def endless():
        for _ in range(40):
            yield b"x" * 65_536

    try:
        reply = client.post("/api/search", content=endless())
    except httpx.TransportError:  # the server has closed while we were sending
        return
    assert reply.status_code == 413


def test_a_wrong_length(server):
    head = b"POST /api/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: many\r\n\r\n"
    assert b" 400 " in raw(server.url, head).split(b"\r\n")[0]


@pytest.mark.parametrize(
    "path", ["/", "/healthz", "/readyz", "/docs", "/static/app.js", "/api/status", "/metrics"]
)
def test_head_is_get_without_the_body(client, path):
    got, head = client.get(path), client.head(path)
    assert head.status_code == 200 and head.content == b""
    assert head.headers["content-type"] == got.headers["content-type"]
    if path != "/metrics":
        assert head.headers["content-length"] == str(
            len(client.get(path, headers={"Accept-Encoding": "identity"}).content)
        )


def test_head_opens_no_stream(client):
    assert client.head("/mcp").status_code == 405


def test_health_needs_no_host(server):
    for path, status in ((b"/healthz", b"200"), (b"/readyz", b"200"), (b"/api/status", b"421")):
        assert raw(server.url, b"GET " + path + b" HTTP/1.0\r\n\r\n").split()[1] == status
    pages = b"GET /healthz HTTP/1.0\r\nOrigin: http://evil.example\r\n\r\n"
    assert raw(server.url, pages).split()[1] == b"403"


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET / HTTP/1.1\r\nHost: local", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGE"],
)
def test_a_header_that_never_comes(impatient, sent):
    began = time.monotonic()
    reply = raw(impatient.url, sent)
    assert reply.count(b"HTTP/1.1") == sent.count(b"\r\n\r\n")
    assert 0.5 < time.monotonic() - began < 10


def test_clients_that_leave_are_no_bugs(serve_process, index, tmp_path):
    with serve_process(tmp_path, "--index", index, "--writable", "--rerank", "off") as running:
        host, port = running.url.removeprefix("http://").split(":")
        head = "{} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {}\r\nContent-Length: 5000\r\n\r\n"
        for line in ("PUT /api/documents/x.md", "POST /mcp", "POST /api/search"):
            for kind in ("text/plain", "application/json"):
                with socket.create_connection((host, int(port))) as leaving:
                    leaving.sendall(head.format(line, kind).encode() + b" " * 1_000)
        raw(running.url, b"nonsense\r\n\r\n")
        with running.client() as client:
            while "lmkrag_requests_in_flight 1.0" not in (metrics := client.get("/metrics").text):
                time.sleep(0.05)
        assert 'status="500"' not in metrics and 'status="400"' in metrics
        _, *logged = running.log.read_text().splitlines()
    assert logged == ["uvicorn.error: Invalid HTTP request received."]


def test_a_body_that_never_comes(impatient):
    head = b"POST /api/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"
    reply = raw(impatient.url, head)
    assert b" 408 " in reply.split(b"\r\n")[0]
    assert b"nothing came for 1 seconds" in reply


def test_a_body_that_trickles(impatient):
    """A byte at a time never pauses for long; the whole body has a limit as well."""
    host, port = impatient.url.removeprefix("http://").split(":")
    began = time.monotonic()
    with socket.create_connection((host, int(port)), timeout=30) as slow:
        slow.sendall(b"POST /api/login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n")
        reply = b""
        while not reply and time.monotonic() - began < 30:
            with contextlib.suppress(OSError):
                slow.sendall(b" ")
            slow.settimeout(0.3)
            with contextlib.suppress(TimeoutError):
                reply = slow.recv(65_536)
        slow.settimeout(5)
        with contextlib.suppress(OSError):
            reply += slow.recv(65_536)
    assert b" 408 " in reply.split(b"\r\n")[0] and b"the body comes too slowly" in reply
    assert time.monotonic() - began < 20


def test_slow_logins_crowd_nobody_out(serve_process, built_index, tmp_path):
    options = ["--index", built_index]
    with serve_process(tmp_path, *options, LMKRAG_TOKEN=TOKEN) as running:
        host, port = running.url.removeprefix("http://").split(":")
        head = b"POST /api/login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"
        slow = []
        for _ in range(600):
            slow.append(socket.create_connection((host, int(port))))
            slow[-1].sendall(head)
        time.sleep(2)
        with running.client(headers={"Authorization": f"Bearer {TOKEN}"}) as client:
            assert client.get("/healthz").status_code == 200
            assert client.get("/readyz").status_code == 200
            assert client.get("/api/status").status_code == 200
            assert client.post("/api/search", json={"query": "leave"}).status_code == 200
            refused = client.post("/api/login", json={"token": TOKEN})
            assert refused.status_code == 429
        for connection in slow:
            connection.close()
        time.sleep(1)
        with running.client() as client:
            assert client.post("/api/login", json={"token": TOKEN}).status_code == 204


def test_methods_that_clients_make_up_are_one_metric(client):
    before = len(client.get("/metrics").content)
    for number in range(200):
        assert client.request(f"MADEUP{number}", "/api/status").status_code == 405
    text = client.get("/metrics").text
    assert "MADEUP" not in text and 'method="other"' in text
    assert len(text) < before + 5_000


def test_too_many_at_once(built_index):
    import asyncio

    from lmkrag.server.app import create_app
    from lmkrag.server.settings import ServerLimits

    limits = ServerLimits(threads=1, waiting=2)
    app = create_app(ServerSettings(indexes={"demo": built_index}, limits=limits))

    async def run():
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await asyncio.gather(
                *(
                    client.post("/api/search", json={"query": f"question {number}"})
                    for number in range(12)
                )
            )

    replies = asyncio.run(run())
    statuses = [reply.status_code for reply in replies]
    assert set(statuses) == {200, 429}
    assert statuses.count(200) == 3
    refused = next(reply for reply in replies if reply.status_code == 429)
    assert int(refused.headers["retry-after"]) > 0


def test_nothing_secret_in_the_log(locked):
    with locked.client() as client:
        client.get("/api/status", headers={"Authorization": "Bearer wrong-secret"})
        client.post(
            "/api/search",
            json={"query": "very private question"},
            headers={"Authorization": f"Bearer {TOKEN}"},
        )
        client.get(
            "/api/documents/x/relevance?query=very+private+question",
            headers={"Authorization": f"Bearer {TOKEN}"},
        )
    log = locked.log.read_text()
    for secret in (TOKEN, "wrong-secret", "private"):
        assert secret not in log


def test_metrics(client):
    client.post("/api/search", json={"query": "leave"})
    client.get("/api/documents/glass-river.txt/text")
    text = client.get("/metrics").text
    assert 'lmkrag_requests_total{method="POST",route="/api/search",status="200"}' in text
    assert 'route="/api/documents/{doc_id:path}/text"' in text
    assert "glass-river" not in text
    assert 'lmkrag_index_documents{index="demo"} 5.0' in text
    assert 'lmkrag_index_up{index="demo"} 1.0' in text
    assert "lmkrag_request_seconds_bucket" in text


def test_port_in_use(lmkrag, server, built_index):
    port = server.url.rpartition(":")[2]
    refused = lmkrag("serve", "--port", port, "--index", built_index)
    assert refused.returncode == 2
    assert f"can't listen on 127.0.0.1, port {port}: Address already in use" in refused.stderr
    missing = lmkrag("serve", "--port", "0", "--index", "no/such")
    assert missing.returncode == 1
    assert "no index here" in missing.stderr


def test_clients_that_read_nothing_hold_nobody_up(impatient):
    host, port = impatient.url.removeprefix("http://").split(":")
    idle = [socket.create_connection((host, int(port))) for _ in range(20)]
    request = b"GET /api/documents/glass-river.txt/text HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for connection in idle:
        connection.sendall(request * 50)
    answers = []

    def ask():
        answers.append(httpx.get(f"{impatient.url}/api/status", timeout=30).status_code)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    for connection in idle:
        connection.close()
    assert answers == [200]
