"""The user's own settings file: defaults < ``lmkrag.toml`` < ``LMKRAG_*`` variables < flags."""

import tomllib
from pathlib import Path
from typing import Any

import click

from lmkrag.errors import UsageError

FILE = "lmkrag.toml"


def read_defaults(path: Path, commands: click.Group) -> dict[str, Any]:
    """Return the option values in a settings file as click's ``default_map``; empty if there is no file.

    A top-level key is a default for all commands that have the option, a key in a table named like a command, such as
    ``[search]`` or ``[index-tools.compact]``, for that command only. Keys are the names of the flags: ``top_k``.

    Args:
        path: of the file.
        commands: the group whose commands the file may name.

    Raises:
        UsageError: the file is not TOML, or names what no command has.
    """
    if not path.is_file():
        return {}
    try:
        settings = tomllib.loads(path.read_text("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise UsageError(f"{path}: not a TOML file ({error})") from error
    tables = {key: value for key, value in settings.items() if isinstance(value, dict)}
    shared = {_key(key): value for key, value in settings.items() if key not in tables}
    known: set[str] = set()
    try:
        defaults = _read_tables(tables, commands, shared, known, "")
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    for key in shared.keys() - known:
        raise UsageError(f"{path}: no command has an option {key!r}")
    return defaults


def _read_tables(
    tables: dict[str, Any], group: click.Group, shared: dict[str, Any], known: set[str], above: str
) -> dict[str, Any]:
    """The values of every command below a group; ``known`` takes the names of their options."""
    defaults = {}
    for name, command in group.commands.items():
        table = tables.pop(name, {})
        if not isinstance(table, dict):
            raise UsageError(f"{above}{name} is not a table")
        if isinstance(command, click.Group):
            defaults[name] = _read_tables(table, command, shared, known, f"{above}{name}.")
            continue
        options = {
            _key(flag.removeprefix("--")): option
            for option in command.params
            if isinstance(option, click.Option)
            for flag in (*option.opts, *option.secondary_opts)
            if flag.startswith("--")
        }
        known.update(options)
        own = {_key(key): value for key, value in table.items()}
        for key in own.keys() - options.keys():
            raise UsageError(f"lmkrag {above.replace('.', ' ')}{name} has no option {key!r}")
        values = {**{key: value for key, value in shared.items() if key in options}, **own}
        defaults[name] = {
            str(options[key].name): [value] if options[key].multiple and isinstance(value, str) else value
            for key, value in values.items()
        }
    for name in tables:
        raise UsageError(f"[{above}{name}] is not a command")
    return defaults


def _key(name: str) -> str:
    return name.replace("-", "_")
