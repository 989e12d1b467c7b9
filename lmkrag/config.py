"""Settings at the command line's edge: defaults < ``lmkrag.toml`` < ``LMKRAG_*`` variables < flags."""

import tomllib
from pathlib import Path
from typing import Any

from lmkrag.errors import UsageError

FILE = "lmkrag.toml"


def read_defaults(folder: Path, commands: dict[str, set[str]]) -> dict[str, dict[str, Any]]:
    """Read ``lmkrag.toml`` in ``folder`` as defaults for each command.

    Args:
        folder: where to look.
        commands: the options each command has. A top-level key is a default for all commands that have the option, a
            key in a table named like a command for that command only.

    Returns:
        Option values by command, as click's ``default_map`` takes them; empty without a file.

    Raises:
        UsageError: the file is not TOML, or names what no command has.
    """
    path = folder / FILE
    if not path.is_file():
        return {}
    try:
        settings = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise UsageError(f"{FILE}: not a TOML file ({error})") from error
    shared = {key: value for key, value in settings.items() if not isinstance(value, dict)}
    for key in shared:
        if not any(key in options for options in commands.values()):
            raise UsageError(f"{FILE}: no command has an option {key!r}")
    defaults = {}
    for command, options in commands.items():
        own = settings.pop(command, {})
        unknown = sorted(set(own) - options)
        if unknown:
            raise UsageError(f"{FILE}: lmkrag {command} has no option {unknown[0]!r}")
        defaults[command] = {**{key: value for key, value in shared.items() if key in options}, **own}
    tables = sorted(key for key, value in settings.items() if isinstance(value, dict))
    if tables:
        raise UsageError(f"{FILE}: [{tables[0]}] is not a command")
    return defaults
