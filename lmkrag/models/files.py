"""Names of models; files of a model's folder: weights, their hashes and modes, JSON."""

import json
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any

from lmkrag.system.files import FileStamp, hash_file


def expand_name(name: str, packaged: Collection[str]) -> str:
    """Return the name of a model, that of a folder as its absolute path.

    The name of a packaged model means that model also where a folder is called so; ``./`` before
    it means the folder.

    Args:
        name: a folder, or any other name.
        packaged: the names of packaged models.
    """
    folder = Path(name).expanduser()
    return str(folder.resolve()) if name not in packaged and folder.is_dir() else name


def hash_weights(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each weights file of a model folder."""
    return {
        path.name: hash_file(path, FileStamp.of(path.stat()))
        for path in sorted(folder.glob("*.safetensors"))
    }


def make_readable(folder: Path) -> None:
    """Give weights the mode of the JSON files in their folder.

    safetensors writes files that only their owner can read.
    """
    like = next(folder.glob("*.json"))
    for path in folder.glob("*.safetensors"):
        shutil.copymode(like, path)


def write_json(path: Path, value: Any) -> None:
    """Write JSON for people to read."""
    path.write_text(json.dumps(value, indent=2) + "\n", "utf-8")
