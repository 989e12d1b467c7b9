"""Which folders' settings files the user trusts: by place and content, so that a changed file asks again."""

import hashlib
import json
from pathlib import Path

from lmkrag.errors import UsageError

_FILE = "trusted.json"


def is_trusted(path: Path, user_folder: Path) -> bool:
    """Return whether the user has trusted a settings file as it is now."""
    return path.is_file() and list_trusted(user_folder).get(str(path.resolve())) == _digest(path)


def trust(path: Path, user_folder: Path) -> None:
    """Trust a settings file as it is now.

    Raises:
        UsageError: there is none.
    """
    if not path.is_file():
        raise UsageError(f"{path}: no such file; there is nothing to trust")
    _write({**list_trusted(user_folder), str(path.resolve()): _digest(path)}, user_folder)


def distrust(path: Path, user_folder: Path) -> None:
    """Trust a settings file no more.

    Raises:
        UsageError: it was not trusted.
    """
    trusted = list_trusted(user_folder)
    if trusted.pop(str(path.resolve()), None) is None:
        raise UsageError(f"{path}: was not trusted")
    _write(trusted, user_folder)


def list_trusted(user_folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each trusted file by its path."""
    try:
        found = json.loads((user_folder / _FILE).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(trusted: dict[str, str], user_folder: Path) -> None:
    user_folder.mkdir(parents=True, exist_ok=True)
    partial = user_folder / f"{_FILE}.partial"
    partial.write_text(json.dumps(trusted, indent=2) + "\n", "utf-8")
    partial.replace(user_folder / _FILE)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
