"""Load an encoder from a folder or hub name, in the runtime that suits it and the machine."""

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from safetensors import SafetensorError, safe_open
from tokenizers import Tokenizer

from lmkrag.encoder.onnx_model import POOLINGS, OnnxModel
from lmkrag.encoder.spec import (
    DEFAULT_ENCODER,
    DEFAULT_OVERLAP,
    DEFAULT_WINDOW,
    PACKAGED,
    SHIPPED,
    check_types,
    find_model,
    fingerprint_model,
    read_settings,
)
from lmkrag.encoder.tokens import SentenceTokenizer
from lmkrag.encoder.windows import WindowModel
from lmkrag.errors import EncoderError, MissingExtra, UsageError
from lmkrag.models import device as devices
from lmkrag.models.bert import Bert, LateBert, expected_names, is_plain_bert, read_weights
from lmkrag.models.device import Precision
from lmkrag.models.files import expand_name, hash_weights
from lmkrag.models.packing import unpacked_names
from lmkrag.models.tokens import find_landmark
from lmkrag.specs import EncoderSpec

if TYPE_CHECKING:
    import torch

Runtime = Literal["onnx", "torch", "numpy"]
"""The runtime of a model: ONNX Runtime, torch (an extra), or NumPy for the first question, then
ONNX Runtime.
"""
_TORCH = ("torch", "transformers")
_UNLIMITED = 1 << 30  # positions, where a tokenizer names no limit
_SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings")
_BERT = {**dict.fromkeys(_SIZES, int), "layer_norm_eps": float}  # of ``config.json``


class _ModelFolder(NamedTuple):
    """The contents of a model folder, in the runtime that will run it."""

    dimensions: int  # of a state
    free: int  # tokens that fit beside the special ones
    tokenizer: Tokenizer
    pad: int
    # makes the model, by the tokenizer as an encoder uses it
    build: Callable[[SentenceTokenizer], WindowModel]


def load_parts(
    name: str | None,
    device: str | None,
    dtype: "torch.dtype | None",
    window: int | None,
    overlap: float | None,
    runtime: Runtime | None,
    precision: Precision | None,
) -> tuple[WindowModel, SentenceTokenizer, EncoderSpec]:
    """Load the parts of an encoder: see :meth:`lmkrag.encoder.landmark.LandmarkEncoder.load`.

    Args:
        name: a folder, a hub name, the name of a packaged encoder, or None for the default one.
        device: a torch device; None for the best there is.
        dtype: dtype of weights and activations in torch; None for the fastest.
        window: tokens of a window; None for what the model was made for.
        overlap: share of a window that the next one repeats; None for what the model says.
        runtime: where the network runs; None for the fastest that can run it.
        precision: how it computes; None for the setting of the environment.

    Returns:
        The model with its pooling, the tokenizer, and the spec that indexes record.

    Raises:
        UsageError: there is no such folder or precision, or ``overlap`` is out of range.
        EncoderError: the model can't be loaded, or its window is longer than its positions.
        MissingExtra: the model needs torch, which is not installed.
    """
    name = expand_name(name or DEFAULT_ENCODER, PACKAGED)
    folder = find_model(name)
    settings = read_settings(folder)
    named = settings.get("weights")
    # the encoder of documents checks their hashes
    is_ours = runtime == "numpy" and name in SHIPPED
    weights: dict[str, str] = settings["weights"] if is_ours else hash_weights(folder)
    if named not in (None, weights):
        raise EncoderError(
            f"{folder}: its weights are not those that landmark.json names: get the folder again"
        )
    # Choose the runtime, and load the network and the tokenizer in it.
    pooling = settings.get("pooling", "mean")
    precision, device = devices.find_precision(precision), devices.find_device(device)
    if runtime is None:
        runtime = _choose_runtime(folder, pooling, device, dtype, precision)
    elif runtime != "torch" and not runs_without_torch(folder, pooling):
        raise EncoderError(
            f"{folder}: ONNX Runtime can't run this model; torch can: pip install 'lmkrag[torch]'"
        )
    if runtime == "torch":
        loaded = _load_torch(folder, pooling, device, dtype, precision)
    else:
        loaded = _load_onnx(folder, pooling, precision, late=runtime == "numpy")
    # Choose window and overlap: as the caller says, else as the model says, else the defaults.
    chosen = window or settings.get("window") or min(DEFAULT_WINDOW, loaded.free)
    if chosen > loaded.free:
        raise EncoderError(
            f"a window of {chosen} tokens is longer than the {loaded.free} that "
            f"{folder.name} has positions for"
        )
    if chosen < 1:
        raise UsageError(f"a window must have at least one token, not {chosen}")
    # in ours, half a window gains 0.5 points, in twice the time
    if overlap is None and name not in SHIPPED:
        overlap = settings.get("overlap", DEFAULT_OVERLAP)
    share = float(overlap or 0)
    if not 0 <= share < 1:
        raise UsageError(f"overlap must be in [0, 1), not {share}")
    landmark = settings.get("landmark", "")
    if landmark or "lmk" in pooling:
        find_landmark(loaded.tokenizer, landmark, folder)
    # Record everything that vectors depend on, and build the model for the tokenizer as it is used.
    spec = EncoderSpec(
        name=name,
        fingerprint=fingerprint_model(folder, f"{chosen} {share} {pooling}", weights),
        dimensions=loaded.dimensions,
        pooling=pooling,
        window=chosen,
        overlap=share,
        landmark=landmark,
        query_prefix=settings.get("query_prefix", ""),
        title_tokens=settings.get("title_tokens", 0),
    )
    tokens = SentenceTokenizer(
        loaded.tokenizer,
        window=chosen,
        landmark=spec.landmark,
        query_prefix=spec.query_prefix,
        title_tokens=spec.title_tokens,
        pad=loaded.pad,
    )
    return loaded.build(tokens), tokens, spec


def runs_without_torch(folder: Path, pooling: str) -> bool:
    """Return whether ONNX Runtime can run a model folder.

    It can if the model is a plain BERT whose weights are one safetensors file in float16 or
    float32, and its graph is in the folder or can be built, which takes the package ``onnx``.

    Args:
        folder: the model folder.
        pooling: how states become vectors; a way that is not in :data:`POOLINGS` needs torch.

    Raises:
        EncoderError: the weights or the configuration can't be read.
    """
    weights = folder / "model.safetensors"
    if (
        pooling not in POOLINGS
        or not weights.is_file()
        or not (folder / "tokenizer.json").is_file()
    ):
        return False
    config = read_config(folder)
    if not is_plain_bert(config) or not (
        (folder / "float32.onnx").is_file() or importlib.util.find_spec("onnx")
    ):
        return False
    check_types(folder / "config.json", config, _BERT)
    try:
        with safe_open(weights, "np") as file:
            names = {name.removeprefix("bert."): name for name in file.keys()}  # noqa: SIM118
            expected = expected_names(config)
            return expected <= unpacked_names(names) and all(
                file.get_slice(names[name]).get_dtype() in ("F16", "F32")
                for name in expected & names.keys()
            )
    except (SafetensorError, OSError, ValueError) as error:
        raise EncoderError(f"{folder}: can't be loaded as an encoder ({error})") from error


def prefers_torch(device: str | None = None) -> bool:
    """Return whether torch is installed and faster on this machine: there is a card, or a CPU with
    AMX.

    Args:
        device: a torch device; if one is named, a card does not count.
    """
    device = devices.find_device(device)
    installed = all(importlib.util.find_spec(package) for package in _TORCH)
    return installed and (devices.has_amx() or (device is None and devices.has_card()))


def _choose_runtime(
    folder: Path,
    pooling: str,
    device: str | None,
    dtype: "torch.dtype | None",
    precision: Precision,
) -> Runtime:
    """Return ``onnx`` if ONNX Runtime can run the model, unless torch is asked for or faster
    here.
    """
    if dtype is not None or device not in (None, "cpu") or not runs_without_torch(folder, pooling):
        return "torch"
    if precision == "int8" or (precision == "float32" and not devices.has_card()):
        return "onnx"
    return "torch" if prefers_torch(device) else "onnx"


def _load_onnx(folder: Path, pooling: str, precision: Precision, *, late: bool) -> _ModelFolder:
    """Read a model folder for ONNX Runtime. With ``late``, its session starts after the first
    question.
    """
    config, longest, weights = read_config(folder), _UNLIMITED, folder / "model.safetensors"

    def start() -> Bert:
        return Bert(
            read_weights(weights, rows=True),
            config,
            devices.choose_ranges(folder, precision),
            folder,
        )

    try:
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception as error:  # tokenizers raises nothing more precise
        raise EncoderError(f"{folder}: can't be loaded as an encoder ({error})") from error
    if (folder / "tokenizer_config.json").is_file():
        longest = read_config(folder, "tokenizer_config.json").get("model_max_length") or _UNLIMITED
    return _ModelFolder(
        dimensions=config["hidden_size"],
        free=min(config["max_position_embeddings"], longest)
        - tokenizer.num_special_tokens_to_add(is_pair=False),
        tokenizer=tokenizer,
        pad=0,
        build=lambda tokens: OnnxModel(
            LateBert(weights, config, start) if late else start(), pooling, tokens
        ),
    )


def _load_torch(
    folder: Path,
    pooling: str,
    device: str | None,
    dtype: "torch.dtype | None",
    precision: Precision,
) -> _ModelFolder:
    """Read a model folder for torch."""
    if precision == "int8":
        raise EncoderError(
            f"{folder}: only ONNX Runtime computes in int8, and torch runs this model"
        )
    for package in _TORCH:
        if importlib.util.find_spec(package) is None:
            raise MissingExtra("torch", package)
    import torch

    from lmkrag.encoder.torch_model import Pooling, TorchModel, load_network

    where = devices.choose_device(device)
    dtype = dtype or (torch.float32 if precision == "float32" else devices.choose_dtype(where))
    network, config, tokenizer = load_network(folder, dtype)
    try:
        pool = Pooling(pooling)
    except ValueError as error:
        raise EncoderError(f"{folder}: its pooling can't be loaded ({error})") from error
    return _ModelFolder(
        dimensions=config.hidden_size,
        free=min(getattr(config, "max_position_embeddings", 512), tokenizer.model_max_length)
        - tokenizer.num_special_tokens_to_add(),
        # calling the tokenizer itself would undo what an encoder sets
        tokenizer=tokenizer.backend_tokenizer,
        pad=tokenizer.pad_token_id or 0,
        build=lambda tokens: TorchModel(network, pool, tokens, where),
    )


def read_config(folder: Path, name: str = "config.json") -> dict[str, Any]:
    """Return a JSON file of a model folder.

    Args:
        folder: the model folder.
        name: the file in it.

    Raises:
        EncoderError: the file can't be read, or is no JSON object.
    """
    try:
        return {**json.loads((folder / name).read_text("utf-8"))}
    except (OSError, ValueError, TypeError) as error:
        raise EncoderError(f"{folder}: can't be loaded as an encoder ({error})") from error
