"""The folders of our re-rankers: settings, weights and graphs."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from tokenizers import Tokenizer

from lmkrag.encoder.loading import read_config
from lmkrag.encoder.spec import find_model
from lmkrag.errors import EncoderError, UsageError
from lmkrag.models.bert import expected_names, fuse_layers, fuse_weights, read_weights
from lmkrag.models.device import choose_ranges, find_precision
from lmkrag.models.packing import WORDS, unpacked_names
from lmkrag.models.quantization import check_ranges, quantize
from lmkrag.reranker.base import SHIPPED
from lmkrag.types.arrays import Vectors

FORMAT = 1  # of ``reranker.json``
ANSWERS = "answers"
"""The folder in that of a re-ranker with last layers of its own for whether a passage answers."""


def find_reranker(name: str) -> Path:
    """Return the folder of a re-ranker of ours. Raises UsageError: there is none."""
    if name in SHIPPED:
        return Path(__file__).with_name("weights") / name
    folder = Path(name).expanduser()
    if not (folder / "reranker.json").is_file():
        raise UsageError(f"re-ranker {name!r}: no folder with a reranker.json")
    return folder


def reads_sentences(folder: Path) -> bool:
    """Return whether a re-ranker scores the sentences of a passage alone. Raises EncoderError."""
    with refuse_broken(folder):
        return "landmark" in read_settings(folder)


@contextmanager
def refuse_broken(folder: Path) -> Iterator[None]:
    """Raise EncoderError where what a re-ranker's folder holds can't be loaded."""
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise EncoderError(f"{folder}: can't be loaded as a re-ranker ({error})") from error


def read_settings(folder: Path) -> dict[str, Any]:
    """Return the settings of a re-ranker. Raises EncoderError: they are of a newer format."""
    settings: dict[str, Any] = json.loads((folder / "reranker.json").read_text("utf-8"))
    if int(settings["format"]) > FORMAT:
        raise EncoderError(f"{folder}: made by a newer lmkrag: upgrade")
    return settings


def read_folder(folder: Path) -> tuple[dict[str, Any], Tokenizer, Path, dict[str, Vectors]]:
    """Return a re-ranker's settings, tokenizer, file of the graph and BERT's weights, or raise
    EncoderError.
    """
    settings = read_settings(folder)
    base, layers = find_model(settings["base"]), int(settings["layers"])
    _, weights = read_body(folder, base, layers)
    graph, weights = _choose_graph(folder, weights, layers)
    return settings, Tokenizer.from_file(str(base / "tokenizer.json")), graph, weights


def read_answer_layers(folder: Path, layers: int) -> tuple[Path, dict[str, Vectors]]:
    """Return the file of the graph and the weights of the layers in :data:`ANSWERS` of a
    re-ranker's folder, or raise EncoderError.
    """
    weights = read_weights(folder / ANSWERS / "model.safetensors", only="encoder.")
    return _choose_graph(folder / ANSWERS, fuse_layers(weights, layers), layers)


def _choose_graph(
    folder: Path, weights: dict[str, Vectors], layers: int
) -> tuple[Path, dict[str, Vectors]]:
    """The graph of a folder that suits the processor, and the weights as it needs them."""
    ranges = choose_ranges(folder, find_precision())
    if ranges is None:
        return folder / "float32.onnx", weights
    check_ranges(ranges, weights, layers)
    return folder / "int8.onnx", quantize(weights, ranges, layers)


def read_body(folder: Path, base: Path, layers: int) -> tuple[dict[str, Any], dict[str, Vectors]]:
    """Return a re-ranker's configuration and BERT, with the words of ``base`` if it has none.
    Raises EncoderError.
    """
    config = {**read_config(base), "num_hidden_layers": layers}
    weights = read_weights(folder / "model.safetensors", rows=True)
    if WORDS not in unpacked_names(weights):
        weights |= read_weights(base / "model.safetensors", only=WORDS, rows=True)
    if missing := sorted(expected_names(config) - unpacked_names(weights)):
        raise EncoderError(f"{folder}: can't be loaded as a re-ranker ({missing[0]} is missing)")
    return config, fuse_weights(weights, layers)
