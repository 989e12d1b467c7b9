"""Files of a model's folder: weights, their hashes and modes, JSON."""

import hashlib
import json
import shutil
from functools import lru_cache
from pathlib import Path
from typing import Any


def hash_weights(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each weights file of a model folder."""
    hashes = {}
    for path in sorted(folder.glob("*.safetensors")):
        status = path.stat()
        hashes[path.name] = _hash_file(path, status.st_size, status.st_mtime_ns)
    return hashes


@lru_cache(64)
def _hash_file(path: Path, size: int, mtime_ns: int) -> str:
    """The SHA-256 of a file, cached by its size and time."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def encodable(text: str) -> str:
    """Return a text with lone surrogates, which tokenizers refuse, replaced one for one."""
    return text.encode("utf-8", "replace").decode("utf-8")


def make_readable(folder: Path) -> None:
    """Give weights the mode of the JSON in their folder: safetensors writes files that only their owner can read."""
    like = next(folder.glob("*.json"))
    for path in folder.glob("*.safetensors"):
        shutil.copymode(like, path)


def write_json(path: Path, value: Any) -> None:
    """Write JSON for people to read."""
    path.write_text(json.dumps(value, indent=2) + "\n", "utf-8")
