"""Settings at the command line's edge: defaults < the user's ``lmkrag.toml`` < the folder's < ``LMKRAG_*`` < flags."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lmkrag.errors import UsageError
from lmkrag.trust import is_trusted

FILE = "lmkrag.toml"

SENSITIVE = frozenset({"reader", "model", "base_url", "prompts", "encoder", "rerank_model", "server"})
"""What names servers, models, prompts or encoders: taken from a folder only if the user trusts it."""

Options = Mapping[str, Mapping[str, str]]
"""Of each command: the names of its options in a settings file, and what the command calls them."""


@dataclass(frozen=True, slots=True)
class Defaults:
    """Option values of one command, and which of them the working directory's file gave."""

    values: dict[str, Any] = field(default_factory=dict)
    from_folder: frozenset[str] = frozenset()


def read_defaults(folder: Path, user_folder: Path, options: Options, command: str) -> Defaults:
    """Read the settings files as defaults for a command.

    A top-level key is a default for all commands that have the option, a key in a table named like a command for that
    command only. Keys are the names of the flags, such as ``top_k``.

    Args:
        folder: the working directory.
        user_folder: the user's own configuration folder.
        options: of every command.
        command: that is run.

    Raises:
        UsageError: a file is not TOML, names what no command has, or sets what only a trusted folder may.
    """
    own = _read_file(user_folder / FILE, str(user_folder / FILE), options)
    path = folder / FILE
    local = _read_file(path, FILE, options)
    wanted = local.get(command, {})
    sensitive = sorted(SENSITIVE & wanted.keys())
    if sensitive and not is_trusted(path, user_folder):
        raise UsageError(
            f"{FILE}: sets {', '.join(sensitive)}, which may send your questions and documents elsewhere; "
            "read it, and if you trust this folder: lmkrag trust"
        )
    return Defaults({**own.get(command, {}), **wanted}, frozenset(wanted))


def _read_file(path: Path, name: str, options: Options) -> dict[str, dict[str, Any]]:
    """The option values in a settings file, by command."""
    if not path.is_file():
        return {}
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
