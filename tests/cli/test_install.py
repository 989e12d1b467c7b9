"""``lmkrag install``: the clients' own commands are shown and run, entries are printed, no file is edited."""

import json
import os
import shlex
import sys

import pytest

from lmkrag.cli.install import CLIENTS

RECORDER = """#!{python}
import json, os, sys
with open(os.environ["RECORD"], "a") as file:
    file.write(json.dumps(sys.argv) + "\\n")
sys.exit(int(os.environ["STATUS"]))
"""
OWN_COMMANDS = [name for name, client in CLIENTS.items() if client.add]
FILES = {
    "claude-desktop": ("mcpServers", "claude_desktop_config.json"),
    "cursor": ("mcpServers", "~/.cursor/mcp.json"),
    "windsurf": ("mcpServers", "~/.codeium/windsurf/mcp_config.json"),
    "zed": ("context_servers", "~/.config/zed/settings.json"),
}


@pytest.fixture
def programs(tmp_path):
    """A folder for programs that stand for clients; a function puts one there that records how it is called."""
    folder = tmp_path / "bin"
    folder.mkdir()

    def add(*names: str) -> None:
        for name in names:
            (folder / name).write_text(RECORDER.format(python=sys.executable))
            (folder / name).chmod(0o755)

    return add


@pytest.fixture
def install(tmp_path, built_index, lmkrag):
    def run(*arguments, status=0):
        environment = {
            "HOME": str(tmp_path / "home"),
            "PATH": str(tmp_path / "bin"),
            "RECORD": str(tmp_path / "calls"),
            "STATUS": str(status),
        }
        return lmkrag("install", *arguments, "--index", built_index, env=environment)

    return run


def calls(tmp_path) -> list[list[str]]:
    path = tmp_path / "calls"
    if not path.exists():
        return []
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [[os.path.basename(program), *arguments] for program, *arguments in lines]


@pytest.mark.parametrize("name", OWN_COMMANDS)
def test_a_clients_own_command_is_shown_and_run(install, programs, tmp_path, built_index, name):
    program = CLIENTS[name].add[0]
    programs(program)
    shown = install(name, "--dry-run")
    assert shown.returncode == 0, shown.stderr
    assert calls(tmp_path) == []
    done = install(name)
    assert done.returncode == 0, done.stderr
    assert done.stdout == shown.stdout
    (call,) = calls(tmp_path)
    assert call == shlex.split(done.stdout.splitlines()[1])
    server = call
    if name == "vscode":
        entry = json.loads(call[-1])
        assert entry["name"] == "lmkrag"
        server = [entry["command"], *entry["args"]]
    assert server[-3:] == ["mcp", "--index", str(built_index)]
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("name", FILES)
def test_an_entry_and_its_file_are_printed(install, tmp_path, built_index, name):
    key, file = FILES[name]
    done = install(name)
    assert done.returncode == 0, done.stderr
    heading, _, entry = done.stdout.partition("\n")
    assert heading.startswith(f"# {CLIENTS[name].title}: add this to ") and file in heading
    server = json.loads(entry)[key]["lmkrag"]
    assert [server["command"], *server["args"]][-3:] == ["mcp", "--index", str(built_index)]
    assert not (tmp_path / "home").exists()


def test_without_a_name_every_client_that_is_found(install, programs, tmp_path):
    assert "no client was found; name one: claude-code, codex" in install().stderr
    programs("codex", "gemini")
    assert install().returncode == 0
    assert [call[0] for call in calls(tmp_path)] == ["codex", "gemini"]


def test_a_client_that_is_missing_or_fails_is_told(install, programs, tmp_path):
    programs("codex")
    both = install("claude-code", "codex")
    assert both.returncode == 1
    assert "claude mcp add --scope user lmkrag -- " in both.stdout
    assert both.stderr == "lmkrag: claude is not on PATH; run this command where it is\n"
    assert len(calls(tmp_path)) == 1
    failed = install("codex", status=3)
    assert (failed.returncode, failed.stderr) == (1, "lmkrag: codex failed with exit status 3\n")


def test_the_skill_is_a_file(install, tmp_path):
    shown = install("--skill", tmp_path / "skills", "--dry-run")
    assert "name: lmkrag" in shown.stdout and not (tmp_path / "skills").exists()
    assert install("--skill", tmp_path / "skills").returncode == 0
    skill = (tmp_path / "skills" / "lmkrag" / "SKILL.md").read_text()
    assert skill.startswith("---\nname: lmkrag\ndescription: ")
    (tmp_path / "file").write_text("")
    refused = install("--skill", tmp_path / "file")
    assert refused.returncode == 1 and "can't be written" in refused.stderr


def test_what_is_no_client_is_refused(install):
    refused = install("emacs")
    assert refused.returncode == 2 and "no client 'emacs': use claude-code" in refused.stderr
