"""``lmkrag install``: tell coding agents and assistants of an index."""

import difflib
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lmkrag.cli.output import index_option, one_line
from lmkrag.errors import LmkragError, UsageError
from lmkrag.system import PYTHON

if TYPE_CHECKING:
    from lmkrag.agents.installing import Change


@click.command(epilog="Example: lmkrag install claude-code cursor --index indexes/handbook")
@click.argument("names", nargs=-1, metavar="[CLIENT]...")
@index_option
@click.option("--dry-run", is_flag=True, help="Show the changes and make none.")
@click.option("--uninstall", is_flag=True, help="Take back what was written.")
def install(names: tuple[str, ...], index_path: str, dry_run: bool, uninstall: bool) -> None:
    """Connect coding agents and assistants to an index, over MCP.

    CLIENT is claude-code, claude-desktop, codex, cursor, vscode, opencode, gemini, zed or windsurf; without one, all
    that are found here. Their other settings stay as they are, comments included. A file that can't be parsed is left
    alone.
    """
    from lmkrag.agents.clients import find_clients
    from lmkrag.agents.installing import apply, plan_install, plan_uninstall, read_memory, write_memory

    clients = find_clients()
    if unknown := [name for name in names if name not in clients]:
        raise UsageError(f"no client {unknown[0]!r}: use {', '.join(clients)}")
    chosen = [clients[name] for name in names] or [client for client in clients.values() if client.is_there]
    if not chosen:
        raise UsageError(f"no client was found; name one: {', '.join(clients)}")
    program = shutil.which("lmkrag")
    start = [str(Path(program).resolve())] if program else [*PYTHON, "-m", "lmkrag"]
    command = [*start, "mcp", "--index", str(Path(index_path).resolve())]
    remembered = read_memory()
    failed = False
    for client in chosen:
        try:
            plan = plan_uninstall(client, remembered) if uninstall else plan_install(client, command)
            changes = list(plan)
            for change in changes:
                if dry_run:
                    _show(change)
                else:
                    apply(change)
                    remembered[str(change.path)] = change.added
        except LmkragError as error:
            click.echo(f"lmkrag: {client.title}: {one_line(str(error))}", err=True)
            failed = True
            continue
        done = "nothing to take back" if uninstall else "already connected"
        if changes:
            done = ("would change " if dry_run else "") + ", ".join(str(change.path) for change in changes)
        click.echo(f"{client.title}: {done}", err=dry_run)
    if not dry_run:
        write_memory({path: added for path, added in remembered.items() if added})
    if failed:
        sys.exit(1)


def _show(change: "Change") -> None:
    """Print a change as a unified diff."""
    before, after = ((text or "").splitlines(keepends=True) for text in (change.before, change.after))
    for line in difflib.unified_diff(before, after, str(change.path), str(change.path)):
        click.echo(line.rstrip("\n"))
