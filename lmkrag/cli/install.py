"""``lmkrag install``: connect coding agents and assistants to an index."""

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from lmkrag.cli.output import index_option
from lmkrag.errors import StorageError, UsageError
from lmkrag.index.location import locate_index
from lmkrag.system.processes import PYTHON

NAME = "lmkrag"  # what the server is called in the settings of a client
SKILL = """---
name: lmkrag
description: Find exact passages in the user's documents and in code by meaning, and check quotations.
---

To find something in the user's documents or in this code by meaning, use lmkrag before plain grep:
`lmkrag grep "what it does" FOLDER` prints FILE:LINE:TEXT and needs no index; the MCP server `lmkrag`
has `search`, `ask`, `read_document` and `check`. Quote passages exactly, name their places, and check
your quotations with `check`.
"""  # noqa: E501


@dataclass(frozen=True, slots=True)
class Client:
    """A program that starts MCP servers, by its own command ``add``, or else by an entry in its
    file ``settings``.
    """

    title: str
    add: tuple[str, ...] = ()
    add_json: bool = False  # the command takes the server as one JSON argument
    settings: str = ""
    servers: str = "mcpServers"  # the object of the file that holds the servers
    fields: tuple[tuple[str, str], ...] = ()  # what an entry has beside ``command`` and ``args``

    def command(self, server: Sequence[str]) -> list[str]:
        """Return the client's own command line that adds a server, which is started by
        ``server``.
        """
        if self.add_json:
            return [
                *self.add,
                json.dumps({"name": NAME, **self._describe(server)}, ensure_ascii=False),
            ]
        return [*self.add, *server]

    def entry(self, server: Sequence[str]) -> str:
        """Return the entry for the settings file, as JSON."""
        return json.dumps(
            {self.servers: {NAME: self._describe(server)}}, indent=2, ensure_ascii=False
        )

    def _describe(self, server: Sequence[str]) -> dict[str, Any]:
        program, *arguments = server
        return {**dict(self.fields), "command": program, "args": arguments}


CLIENTS = {
    "claude-code": Client("Claude Code", ("claude", "mcp", "add", "--scope", "user", NAME, "--")),
    "codex": Client("Codex", ("codex", "mcp", "add", NAME, "--")),
    "gemini": Client("Gemini CLI", ("gemini", "mcp", "add", "--scope", "user", NAME)),
    "opencode": Client("OpenCode", ("opencode", "mcp", "add", NAME, "--")),
    "vscode": Client("VS Code", ("code", "--add-mcp"), add_json=True),
    "claude-desktop": Client(
        "Claude Desktop", settings="Claude/claude_desktop_config.json in your configuration folder"
    ),
    "cursor": Client("Cursor", settings="~/.cursor/mcp.json"),
    "windsurf": Client("Windsurf", settings="~/.codeium/windsurf/mcp_config.json"),
    "zed": Client(
        "Zed",
        settings="~/.config/zed/settings.json",
        servers="context_servers",
        fields=(("source", "custom"),),
    ),
}


@click.command(epilog="Example: lmkrag install claude-code cursor --index indexes/handbook")
@click.argument(
    "names",
    nargs=-1,
    metavar="[CLIENT]...",
    shell_complete=lambda _, __, incomplete: [
        name for name in CLIENTS if name.startswith(incomplete)
    ],
)
@index_option
@click.option("--dry-run", is_flag=True, help="Show what would be run or written, and do nothing.")
@click.option(
    "--skill",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write a skill for agents to DIR/lmkrag/SKILL.md.",
)
def install(names: tuple[str, ...], index_path: str, dry_run: bool, skill: Path | None) -> None:
    """Connect coding agents and assistants to an index, over MCP.

    CLIENT is claude-code, codex, gemini, opencode or vscode, whose own commands are shown and run,
    or claude-desktop, cursor, windsurf or zed, for which the entry and its file are printed.
    Without one, all whose commands are found.
    """
    clients = _find_clients() if not names and skill is None else _name_clients(names)
    program = shutil.which("lmkrag")
    start = [str(Path(program).resolve())] if program else [*PYTHON, "-m", "lmkrag"]
    server = [*start, "mcp", "--index", str(locate_index(index_path))]
    connected = [_connect(client, server, dry_run=dry_run) for client in clients]
    if skill is not None:
        _write_skill(skill / "lmkrag" / "SKILL.md", dry_run=dry_run)
    if not all(connected):
        sys.exit(1)


def _name_clients(names: Sequence[str]) -> list[Client]:
    """The clients of these names. Raises UsageError: there is none of a name."""
    for name in names:
        if name not in CLIENTS:
            raise UsageError(f"no client {name!r}: use {', '.join(CLIENTS)}")
    return [CLIENTS[name] for name in names]


def _find_clients() -> list[Client]:
    """The clients whose commands are on PATH. Raises UsageError: there is none."""
    found = [client for client in CLIENTS.values() if client.add and shutil.which(client.add[0])]
    if not found:
        raise UsageError(f"no client was found; name one: {', '.join(CLIENTS)}")
    return found


def _write_skill(path: Path, *, dry_run: bool) -> None:
    """Write the skill for agents, or print it. Raises StorageError: it can't be written."""
    if dry_run:
        click.echo(f"# {path}\n{SKILL}")
        return
    click.echo(f"# {path}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SKILL, "utf-8")
    except OSError as error:
        raise StorageError(f"{path}: can't be written ({error.strerror or error})") from error


def _connect(client: Client, server: list[str], *, dry_run: bool) -> bool:
    """Run a client's own command, or print the entry for its settings file; return whether that
    worked.
    """
    if not client.add:
        click.echo(f"# {client.title}: add this to {client.settings}\n{client.entry(server)}")
        return True
    command = client.command(server)
    click.echo(f"# {client.title}\n{shlex.join(command)}")
    if dry_run:
        return True
    if shutil.which(command[0]) is None:
        click.echo(f"lmkrag: {command[0]} is not on PATH; run this command where it is", err=True)
        return False
    status = subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode
    if status:
        click.echo(f"lmkrag: {command[0]} failed with exit status {status}", err=True)
    return status == 0
