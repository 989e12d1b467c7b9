"""The clients that lmkrag installs itself into, and where and how each keeps its MCP servers.

Each form is that of the client's own documentation, as of November 2026.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Client:
    """A client: its settings file, the object in it that holds MCP servers, and the form of an entry.

    ``notes`` is a file of instructions that gets a paragraph, ``skill`` one of its own.
    """

    name: str
    title: str
    settings: Path
    servers: str
    form: Literal["plain", "stdio", "array", "zed", "toml"] = "plain"
    notes: Path | None = None
    skill: Path | None = None

    @property
    def is_there(self) -> bool:
        """Whether the client has settings on this machine."""
        return self.settings.exists() or (self.settings.parent.is_dir() and self.settings.parent != Path.home())

    def entry(self, command: Sequence[str]) -> dict[str, Any]:
        """Return what the client wants to know of a server that is started by a command."""
        program, *arguments = command
        if self.form == "array":
            return {"type": "local", "command": list(command), "enabled": True}
        kind = {"stdio": {"type": "stdio"}, "zed": {"source": "custom"}}.get(self.form, {})
        return {**kind, "command": program, "args": arguments}


def find_clients() -> dict[str, Client]:
    """Return the clients by name."""
    from platformdirs import user_config_path

    home, config = Path.home(), user_config_path(roaming=True)
    dot_config = home / ".config"
    claude, opencode = home / ".claude", dot_config / "opencode"
    clients = [
        Client(
            "claude-code", "Claude Code", home / ".claude.json", "mcpServers",
            form="stdio", skill=claude / "skills" / "lmkrag" / "SKILL.md",
        ),
        Client("claude-desktop", "Claude Desktop", config / "Claude" / "claude_desktop_config.json", "mcpServers"),
        Client(
            "codex", "Codex", home / ".codex" / "config.toml", "mcp_servers",
            form="toml", notes=home / ".codex" / "AGENTS.md",
        ),
        Client("cursor", "Cursor", home / ".cursor" / "mcp.json", "mcpServers"),
        Client("vscode", "VS Code", config / "Code" / "User" / "mcp.json", "servers", form="stdio"),
        Client(
            "opencode", "OpenCode", opencode / "opencode.json", "mcp", form="array", notes=opencode / "AGENTS.md"
        ),
        Client(
            "gemini", "Gemini CLI", home / ".gemini" / "settings.json", "mcpServers",
            notes=home / ".gemini" / "GEMINI.md",
        ),
        Client("zed", "Zed", dot_config / "zed" / "settings.json", "context_servers", form="zed"),
        Client("windsurf", "Windsurf", home / ".codeium" / "windsurf" / "mcp_config.json", "mcpServers"),
    ]  # fmt: skip
    return {client.name: client for client in clients}
