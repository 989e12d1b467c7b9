"""Write an entry into a client's files, and take exactly that back later.

What was added to each file is remembered in the user's data directory, so that taking it back restores the file byte
for byte wherever the entry was not edited.
"""

import json
import os
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmkrag.agents.clients import Client
from lmkrag.agents.jsonc import add_member, parse, remove_member
from lmkrag.errors import StorageError, UsageError

NAME = "lmkrag"

_BEGIN, _END = "<!-- lmkrag -->", "<!-- /lmkrag -->"
_NOTES = """To find something in the user's documents or in this code by meaning, use lmkrag before plain grep:
`lmkrag grep "what it does" FOLDER` prints FILE:LINE:TEXT and needs no index; the MCP server `lmkrag` has `search`,
`ask`, `read_document` and `check`. Quote passages exactly, name their places, and check your quotations with `check`.
"""
_SKILL = f"""---
name: lmkrag
description: Find exact passages in the user's documents and in code by meaning, and check quotations against them.
---

{_NOTES}"""


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of a file: its text before and after, and what was added; no text before or after for no file."""

    path: Path
    before: str | None
    after: str | None
    added: str = ""


def plan_install(client: Client, command: Sequence[str]) -> Iterator[Change]:
    """Yield the changes that tell a client of the server that a command starts; none where it knows it already.

    Raises:
        UsageError: a file of the client can't be parsed.
    """
    before = _read(client.settings)
    entry = client.entry(command)
    known = _parse(client, before or "").get(client.servers, {})
    if not isinstance(known, dict):
        raise UsageError(f"{client.settings}: its {client.servers} is not an object; left alone")
    if known.get(NAME) != entry:
        text = before or ""
        if NAME in known:
            text = _remove_entry(client, text)
        after, added = _add_entry(client, text, entry)
        _parse(client, after)  # what is written can be read
        yield Change(client.settings, before, after, added)
    for path, text in ((client.notes, f"{_BEGIN}\n{_NOTES}{_END}\n"), (client.skill, _SKILL)):
        if path is not None:
            there = _read(path)
            added = text if not there or there.endswith("\n") else f"\n{text}"
            if text not in (there or ""):
                yield Change(path, there, (there or "") + added if path != client.skill else text, added)


def plan_uninstall(client: Client, remembered: dict[str, str]) -> Iterator[Change]:
    """Yield the changes that take back what was written.

    Args:
        client: whose files are looked at.
        remembered: what was added, by path.

    Raises:
        UsageError: a file of the client can't be parsed.
    """
    for path in filter(None, (client.settings, client.notes, client.skill)):
        before = _read(path)
        if before is None:
            continue
        added = remembered.get(str(path), "")
        if path == client.settings and NAME not in _parse(client, before).get(client.servers, {}):
            continue
        if added and before.count(added) == 1:
            after = before.replace(added, "")
        elif path == client.settings:
            after = _remove_entry(client, before)
        else:
            begin, end = before.find(_BEGIN), before.find(_END)
            after = before[:begin] + before[end + len(_END) + 1 :] if 0 <= begin < end else before
        if after != before:
            yield Change(path, before, after or None)


def apply(change: Change) -> None:
    """Write a change, all of it or nothing; a file that would be empty is removed.

    Raises:
        StorageError: it can't be written.
    """
    target = Path(os.path.realpath(change.path))
    try:
        if change.after is None:
            target.unlink()
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = target.with_name(f".{target.name}.lmkrag")
        scratch.write_bytes(change.after.encode())
        if target.exists():
            scratch.chmod(target.stat().st_mode)
        scratch.replace(target)
    except OSError as error:
        raise StorageError(f"{change.path}: can't be written ({error.strerror or error})") from error


def read_memory() -> dict[str, str]:
    """Return what was added to files before, by path."""
    try:
        found: dict[str, str] = json.loads(_memory().read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def write_memory(remembered: dict[str, str]) -> None:
    """Remember what was added to files."""
    apply(Change(_memory(), None, json.dumps(remembered, indent=1) + "\n"))


def _memory() -> Path:
    from platformdirs import user_data_path

    return user_data_path("lmkrag", appauthor=False) / "installed.json"


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: can't be read ({error}); left alone") from None


def _parse(client: Client, text: str) -> dict[str, Any]:
    try:
        found = tomllib.loads(text) if client.form == "toml" else parse(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{client.settings}: is not valid ({error}); left alone") from None
    if not isinstance(found, dict):
        raise UsageError(f"{client.settings}: is not an object; left alone")
    return found


def _add_entry(client: Client, text: str, entry: dict[str, Any]) -> tuple[str, str]:
    if client.form != "toml":
        return add_member(text, client.servers, NAME, entry)
    values = "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in entry.items())
    added = ("" if not text or text.endswith("\n") else "\n") + ("\n" if text else "")
    added += f"[{client.servers}.{NAME}]\n{values}"
    return text + added, added


def _remove_entry(client: Client, text: str) -> str:
    if client.form != "toml":
        return remove_member(text, client.servers, NAME)
    lines = text.splitlines(keepends=True)
    headers = [number for number, line in enumerate(lines) if line.lstrip().startswith("[")]
    own = f"[{client.servers}.{NAME}"
    kept = lines[: headers[0]] if headers else lines
    for number, stop in zip(headers, [*headers[1:], len(lines)], strict=True):
        if not lines[number].replace(" ", "").startswith((f"{own}]", f"{own}.")):
            kept += lines[number:stop]
    return "".join(kept)
