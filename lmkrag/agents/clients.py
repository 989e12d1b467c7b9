"""The clients that ``lmkrag install`` knows: their own commands, or the entries for their settings files."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

NAME = "lmkrag"
"""What the server is called in the settings of a client."""

SKILL = """---
name: lmkrag
description: Find exact passages in the user's documents and in code by meaning, and check quotations against them.
---

To find something in the user's documents or in this code by meaning, use lmkrag before plain grep:
`lmkrag grep "what it does" FOLDER` prints FILE:LINE:TEXT and needs no index; the MCP server `lmkrag` has `search`,
`ask`, `read_document` and `check`. Quote passages exactly, name their places, and check your quotations with `check`.
"""


@dataclass(frozen=True, slots=True)
class Client:
    """A program that starts MCP servers.

    Args:
        title: its name for people.
        add: its own command that adds a server, without the server; empty if it has none.
        add_json: the command takes the server as one JSON argument, not as a command line.
        settings: the file that an entry belongs into, if there is no command.
        servers: the object of that file that holds the servers.
        fields: what an entry has beside ``command`` and ``args``.
    """

    title: str
    add: tuple[str, ...] = ()
    add_json: bool = False
    settings: str = ""
    servers: str = "mcpServers"
    fields: tuple[tuple[str, str], ...] = ()

    def command(self, server: Sequence[str]) -> list[str]:
        """Return the client's own command line that adds a server, which is started by ``server``."""
        if self.add_json:
            return [*self.add, json.dumps({"name": NAME, **self._describe(server)}, ensure_ascii=False)]
        return [*self.add, *server]

    def entry(self, server: Sequence[str]) -> str:
        """Return the entry for the settings file, as JSON."""
        return json.dumps({self.servers: {NAME: self._describe(server)}}, indent=2, ensure_ascii=False)

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
