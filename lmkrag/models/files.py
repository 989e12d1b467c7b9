"""Files of a model's folder: weights, their hashes and modes, JSON."""

import json
import shutil
from pathlib import Path
from typing import Any

from lmkrag.system.files import FileStamp, hash_file


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
