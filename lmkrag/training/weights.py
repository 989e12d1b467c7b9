"""Write trained weights."""

from pathlib import Path

import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import save_file
from torch import Tensor, isfinite

from lmkrag.encoder.spec import read_settings
from lmkrag.errors import EncoderError
from lmkrag.models.bert import read_weights
from lmkrag.models.files import hash_weights, make_readable, write_json
from lmkrag.models.packing import WORDS, decode_words, pack_matrices


def save_half(
    weights: dict[str, Tensor], path: Path, *, exact: dict[str, Tensor] | None = None, config: str | None = None
) -> None:
    """Write weights in float16, ``exact`` ones as they are, with ``config``, or raise EncoderError: not finite."""
    if not all(bool(isfinite(value).all()) for value in weights.values()):
        raise EncoderError(f"{path.parent}: weights that are not finite are not saved")
    stored = {name: value.detach().cpu().half().contiguous() for name, value in weights.items()}
    save_file(stored | (exact or {}), path, metadata=None if config is None else {"config": config})


def pack_layers(path: Path) -> None:
    """Write a file of weights anew, the matrices of its layers in 8 bits (:mod:`lmkrag.models.packing`)."""
    save_arrays(pack_matrices(load_file(path)), path, {"format": "pt"})


def pack_encoder(folder: Path, base: Path) -> None:
    """Write an encoder packed, with its base's embeddings of words. Raises EncoderError: they were trained."""
    with safe_open(base / "model.safetensors", "np") as file:
        words = {name: file.get_tensor(name) for name in file.keys() if name.startswith(f"{WORDS}.")}  # noqa: SIM118
    weights = read_weights(folder / "model.safetensors")
    if not np.array_equal(weights.pop(WORDS), decode_words(words)):
        raise EncoderError(f"{folder}: its embeddings of words are not those of {base}: train with freeze_words")
    save_arrays(pack_matrices(weights) | words, folder / "model.safetensors", {"format": "pt"})
    write_json(folder / "landmark.json", {**read_settings(folder), "weights": hash_weights(folder)})
    make_readable(folder)
