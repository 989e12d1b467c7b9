"""One process for all assistants: real processes, which are killed, raced and left alone; the SDK's own client."""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from mcp import Client, MCPError, StdioServerParameters

from lmkrag import Document, Engine
from lmkrag.server import mcp_proxy
from lmkrag.server.mcp_proxy import GREETING, IDLE, SharedServer

READER = dict.fromkeys(["model", "base_url", "timeout", "max_tokens", "temperature"]) | {
    "prompts": ""
}
ASKED = {"query": "how is leave accrued?", "top_k": 1}

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="processes are found in /proc"
)


@pytest.fixture
def cache(monkeypatch):
    folder = tempfile.mkdtemp()  # the path of a socket is short
    monkeypatch.setenv("XDG_CACHE_HOME", folder)
    yield Path(folder)
    for number in processes(folder):
        os.kill(number, signal.SIGKILL)
    shutil.rmtree(folder)


def processes(cache, part="lmkrag.server.mcp_process") -> list[int]:
    """The processes with a cache that have a part in their command, by default those that assistants share."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            command, variables = (
                (folder / "cmdline").read_bytes(),
                (folder / "environ").read_bytes(),
            )
            state = (folder / "stat").read_text().rpartition(") ")[2][0]
        except OSError:
            continue
        ours = f"XDG_CACHE_HOME={cache}".encode() in variables.split(b"\0")
        if ours and part.encode() in command and state != "Z":
            found.append(int(folder.name))
    return found


def settings(index, *, idle: float = IDLE) -> dict:
    reader = {"name": "extractive", **READER}
    return {
        "indexes": {"demo": str(index)},
        "writable": False,
        "reader": reader,
        "folder": "/",
        "idle": idle,
    }


def agent(index, *options: str) -> StdioServerParameters:
    arguments = ["-m", "lmkrag", "mcp", "--index", f"demo={index}", *options]
    return StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))


async def search(client) -> str:
    found = await client.call_tool("search", ASKED)
    assert not found.is_error, found
    return found.structured_content["passages"][0]["place"]


async def wait_for(condition):
    deadline = time.monotonic() + 120
    while not (value := condition()):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
    return value


async def stop_during_a_search(client, cache) -> tuple[int, asyncio.Task[str]]:
    """Stop the shared process and begin a search, which waits for it."""
    await search(client)
    (number,) = processes(cache)
    os.kill(number, signal.SIGSTOP)
    call = asyncio.create_task(search(client))
    await asyncio.sleep(0.5)
    return number, call


async def test_two_assistants_share_a_process(cache, built_index):
    async with Client(agent(built_index)) as first, Client(agent(built_index)) as second:
        places = await asyncio.gather(search(first), search(second), search(first))
        assert set(places) == {"lighthouse-handbook.md:50"}
        (shared,) = processes(cache)
        proxies = processes(cache, f"demo={built_index}")
        assert len(proxies) == 2
        assert not any("numpy" in Path(f"/proc/{number}/maps").read_text() for number in proxies)
        assert "faiss" in Path(f"/proc/{shared}/maps").read_text()
    assert processes(cache) == [shared]  # for the next one
    assert (cache / "lmkrag" / "mcp").stat().st_mode & 0o777 == 0o700


async def test_killed_in_the_midst_of_a_call(cache, built_index):
    async with Client(agent(built_index)) as client:
        number, call = await stop_during_a_search(client, cache)
        assert not call.done()
        os.kill(number, signal.SIGKILL)
        assert await call == "lighthouse-handbook.md:50"  # from another process
        (other,) = processes(cache)
        assert other != number
        os.kill(other, signal.SIGKILL)  # while nobody waits
        await wait_for(lambda: other not in processes(cache))
        assert await search(client) == "lighthouse-handbook.md:50"


async def test_killed_twice_during_a_call(cache, built_index):
    async with Client(agent(built_index)) as client:
        number, call = await stop_during_a_search(client, cache)
        os.kill(number, signal.SIGKILL)
        again = await wait_for(lambda: [other for other in processes(cache) if other != number])
        os.kill(again[0], signal.SIGKILL)  # before it has opened the index
        with pytest.raises(MCPError):  # the session has ended
            await call


HELLO = {
    "protocolVersion": "2025-03-26",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


@pytest.mark.parametrize("options", [[], ["--in-process"]], ids=["shared", "in process"])
def test_malformed_messages_end_no_session(cache, built_index, options):
    deep = "[" * 100_000 + "]" * 100_000
    messages = [
        f'"id": 1, "method": "initialize", "params": {json.dumps(HELLO)}',
        '"method": "notifications/initialized"',
        '"method": "notifications/cancelled"',
        '"id": [1], "method": "ping"',
        f'"id": 3, "method": "ping", "params": {deep}',
        f'"id": 4, "method": "tools/call", "params": {{"name": "search", "arguments": {{"query": {deep}}}}}',
        '"id": 2, "method": "ping"',
    ]
    lines = (
        "".join(f'{{"jsonrpc": "2.0", {message}}}\n' for message in messages)
        + f"{deep}\n{deep[:9]}\n"
    )
    command = [sys.executable, "-m", "lmkrag", "mcp", "--index", f"demo={built_index}", *options]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe, stderr=pipe) as session:
        assert session.stdin and session.stdout
        session.stdin.write(lines)
        session.stdin.flush()
        replies = iter(session.stdout.readline, "")
        assert any(json.loads(line).get("id") == 2 for line in replies)
        session.stdin.write('{"jsonrpc": "2.0", "id": 5, "method": "ping"}\n')
        session.stdin.flush()
        assert any(json.loads(line).get("id") == 5 for line in replies)
        _, said = session.communicate(timeout=120)
    assert (session.returncode, "Traceback" in said) == (0, False), said


async def test_assistants_with_other_options_get_what_they_ask_for(cache, index, tmp_path):
    """Another one of the same index may write; a third has another index under the same name."""
    with Engine.open(tmp_path / "other", create=True) as engine:
        engine.add(Document("ferry.md", "", "The ferry leaves at nine."))
    note = {"doc_id": "notes/gate.md", "text": "The gate is green."}
    async with (
        Client(agent(index)) as reader,
        Client(agent(index, "--writable")) as writer,
        Client(agent(tmp_path / "other")) as other,
    ):
        names = {tool.name for tool in (await reader.list_tools()).tools}
        assert "add_document" not in names
        added = await writer.call_tool("add_document", note)
        assert added.structured_content["added"] == 1
        assert await search(reader) == "lighthouse-handbook.md:50"
        assert await search(other) == "ferry.md:1"
        assert len(processes(cache)) == 3


@pytest.mark.parametrize("options", [(), ("--in-process",)], ids=["shared", "in process"])
async def test_a_session_notices_that_its_index_was_replaced(cache, tmp_path, encoder, options):
    """In its place, and by a link that leads to another one; also to one of another encoder."""
    for name, made_with in (
        ("nine", encoder),
        ("ten", encoder),
        ("eleven", "landmark-multilingual"),
    ):
        with Engine.open(tmp_path / name, create=True, encoder=made_with) as engine:
            engine.add(Document("ferry.md", "", f"The ferry leaves at {name}."))
    link = tmp_path / "link"

    async def ask(client) -> str:
        found = await client.call_tool(
            "search", {"query": "When does the ferry leave?", "top_k": 1}
        )
        return found.structured_content["passages"][0]["text"].split()[-1]

    def lead_to(name: str) -> None:
        link.unlink(missing_ok=True)
        link.symlink_to(tmp_path / name)

    lead_to("nine")
    async with Client(agent(link, *options)) as client:
        assert await ask(client) == "nine."
        for name in ("ten", "eleven", "nine"):
            lead_to(name)
            assert await ask(client) == f"{name}."
        (tmp_path / "nine").rename(tmp_path / "away")
        refused = await client.call_tool("search", ASKED)
        assert refused.is_error and refused.content[0].text.endswith("the index is gone")
        (tmp_path / "ten").rename(tmp_path / "nine")
        assert await ask(client) == "ten."


def test_starters_at_once_and_a_stale_socket(cache, built_index):
    server = SharedServer(settings(built_index))
    server.path.parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(server.path))
    with ThreadPoolExecutor(4) as pool:
        connections = list(pool.map(lambda _: server.connect(), range(4)))
    assert len(processes(cache)) == 1
    for connection in connections:
        connection.close()


def test_it_ends_after_a_while_without_a_message(cache, built_index):
    server = SharedServer(settings(built_index, idle=0.5))
    with server.connect() as connection:
        assert connection.recv(1) == b""
    assert not server.path.exists()
    with server.connect() as connection:
        assert connection.fileno() >= 0


def test_versions_do_not_talk_to_each_other(cache, built_index, monkeypatch):
    server = SharedServer(settings(built_index))
    assert server.path == SharedServer(settings(built_index)).path
    assert server.path != SharedServer(settings(built_index) | {"writable": True}).path
    with monkeypatch.context() as patch:
        patch.setattr(mcp_proxy, "__version__", "0.0.1")
        assert server.path != SharedServer(settings(built_index)).path
    monkeypatch.setenv("LMKRAG_RERANK", "off")
    assert server.path != SharedServer(settings(built_index)).path
    server.path.parent.mkdir(parents=True)
    with (
        socket.socket(socket.AF_UNIX) as other,
        ThreadPoolExecutor(1) as pool,
    ):  # whatever listens there
        other.bind(str(server.path))
        other.listen()
        greeted = pool.submit(
            lambda: other.accept()[0].sendall(b"lmkrag 0.0.1".ljust(len(GREETING)))
        )
        server.connect().close()
        greeted.result()
        assert len(processes(cache)) == 1  # one of ours in its place


def test_a_session_whose_link_leads_elsewhere_has_another_process(cache, built_index, tmp_path):
    index = tmp_path / "index"
    index.symlink_to(built_index)
    command = [sys.executable, "-m", "lmkrag", "mcp", "--index", index]
    for _ in range(2):
        subprocess.run(command, input=b"", capture_output=True, check=True)
    assert len(processes(cache)) == 1
    index.unlink()
    index.symlink_to(shutil.copytree(built_index, tmp_path / "other"))
    subprocess.run(command, input=b"", capture_output=True, check=True)
    assert len(processes(cache)) == 2


def test_only_in_a_folder_of_the_user(cache, built_index, tmp_path):
    (cache / "lmkrag").mkdir()
    (cache / "lmkrag" / "mcp").symlink_to(tmp_path)
    with pytest.raises(PermissionError):
        SharedServer(settings(built_index)).connect()


async def test_where_sockets_fail_it_serves_in_process(cache, built_index, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache / ("long" * 30)))
    async with Client(agent(built_index)) as client:
        assert await search(client) == "lighthouse-handbook.md:50"
    assert processes(os.environ["XDG_CACHE_HOME"]) == []


def test_an_error_of_the_index_is_told_as_without(cache, lmkrag):
    refused = lmkrag("mcp", "--index", "no/such", stdin="")
    assert (refused.returncode, refused.stdout) == (1, "") and "no index here" in refused.stderr


def test_it_needs_mcp_alone():
    absent = (
        "import sys; sys.modules |= dict.fromkeys(['fastapi', 'prometheus_client', 'watchfiles'])"
    )
    script = f"{absent}; import lmkrag.server.mcp_process"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
