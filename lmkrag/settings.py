"""The user's own settings file: defaults < ``lmkrag.toml`` < ``LMKRAG_*`` variables < flags."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lmkrag.errors import UsageError

FILE = "lmkrag.toml"

Options = Mapping[str, Mapping[str, str]]
"""Of each command: the names of its options in a settings file, and what the command calls them."""


def read_defaults(path: Path, options: Options) -> dict[str, dict[str, Any]]:
    """Return the option values in a settings file, by command; nothing if there is no file.

    A top-level key is a default for all commands that have the option, a key in a table named like a command for that
    command only. Keys are the names of the flags, such as ``top_k``.

    Args:
        path: of the file.
        options: of every command.

    Raises:
        UsageError: the file is not TOML, or names what no command has.
    """
    if not path.is_file():
        return {}
    name = str(path)
    try:
        settings = tomllib.loads(path.read_text("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise UsageError(f"{name}: not a TOML file ({error})") from error
    tables = {key: value for key, value in settings.items() if isinstance(value, dict)}
    shared = {_key(key): value for key, value in settings.items() if key not in tables}
    for key in shared:
        if not any(key in names for names in options.values()):
            raise UsageError(f"{name}: no command has an option {key!r}")
    defaults = {}
    for command, names in options.items():
        own = {_key(key): value for key, value in tables.pop(command, {}).items()}
        unknown = sorted(own.keys() - names.keys())
        if unknown:
            raise UsageError(f"{name}: lmkrag {command} has no option {unknown[0]!r}")
        values = {**{key: value for key, value in shared.items() if key in names}, **own}
        defaults[command] = {names[key]: value for key, value in values.items()}
    if tables:
        raise UsageError(f"{name}: [{min(tables)}] is not a command")
    return defaults


def _key(name: str) -> str:
    return name.replace("-", "_")
