"""Static int8 quantization: one scale for the input of each product, one for each column of its
weights.

The channels of some inputs are brought to like sizes first (Xiao et al., "SmoothQuant", ICML 2023,
arXiv 2211.10438), and the outlier channels after the GELU stay in float32 (Dettmers et al.,
"LLM.int8()", NeurIPS 2022, arXiv 2208.07339). The least and greatest values of the channels are
measured once for a model and kept beside its weights. A text's states depend on nothing but the
text: scales do not change with what else is read.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lmkrag.errors import EncoderError
from lmkrag.models.files import hash_weights
from lmkrag.types.arrays import Vectors

# beside a model's weights: least and greatest values of each channel that is multiplied
RANGES = "ranges.npz"
# ``[2, channels]``, least and greatest, by the name of a product's weights
Ranges = Mapping[str, Vectors]
_PRODUCTS = ("attention.self.", "attention.output.dense.", "intermediate.dense.", "output.dense.")
# their inputs are states, with a few far larger channels
SMOOTHED = ("attention.self.", "intermediate.dense.")
_SMOOTHING = 0.7  # alpha: the share of an input's magnitude that is moved to the weights
_OUTLIERS = 16  # channels
_LEAST = 1e-5
_WEIGHTS = "weights"  # in the file: the hash of the weights that the ranges were measured with


def has_outliers(name: str) -> bool:
    """Return whether the outlier channels of a product are multiplied in float32 (LLM.int8())."""
    return name.endswith(".output.dense.") and ".attention." not in name


def product_names(layers: int) -> list[str]:
    """Return the names of the matrix products of a model with some layers."""
    return [f"encoder.layer.{layer}.{part}" for layer in range(layers) for part in _PRODUCTS]


def read_ranges(folder: Path) -> Ranges | None:
    """Return the ranges of a model folder; None if it has none.

    Raises:
        EncoderError: the file is damaged, or was measured with other weights.
    """
    path = folder / RANGES
    if not path.is_file():
        return None
    try:
        with np.load(path) as file:
            ranges = {name: file[name] for name in file.files}
        weights_hash = str(ranges.pop(_WEIGHTS))
    except Exception as error:  # zipfile, zlib and numpy raise a dozen kinds
        raise EncoderError(
            f"{path}: can't be read ({error}); remove it to compute in float32"
        ) from error
    if weights_hash != hash_weights(folder).get("model.safetensors"):
        raise EncoderError(f"{path}: measured with other weights; remove it to compute in float32")
    return {name: values.astype(np.float32) for name, values in ranges.items()}


def write_ranges(folder: Path, ranges: Ranges) -> None:
    """Write ranges into a model folder, with the hash of the weights that are there."""
    arrays: dict[str, Any] = {name: values.astype(np.float16) for name, values in ranges.items()}
    arrays[_WEIGHTS] = np.array(hash_weights(folder)["model.safetensors"])
    np.savez_compressed(folder / RANGES, **arrays)


def check_ranges(ranges: Ranges, fused: Mapping[str, Vectors], layers: int) -> None:
    """Check that ranges fit the weights of a model.

    Args:
        ranges: ``[2, channels]`` of each product, by name.
        fused: fused weights.
        layers: number of layers.

    Raises:
        EncoderError: they do not.
    """
    for name in product_names(layers):
        values = ranges.get(name)
        if (
            values is None
            or values.shape != (2, len(fused[f"{name}weight"]))
            or not np.isfinite(values).all()
        ):
            raise EncoderError(f"the ranges of {name[:-1]} do not fit its weights")


def quantize(fused: Mapping[str, Vectors], ranges: Ranges, layers: int) -> dict[str, Any]:
    """Return fused weights in int8, for :func:`lmkrag.models.graph.bert_nodes`.

    In place of each ``weight`` of a product there are ``int8`` ``[channels, columns]`` and
    ``scales`` ``[columns]``, and ``scale`` and ``zero_point`` of its input. Some products have
    ``smooth`` ``[channels]``, by which the input is multiplied first (SmoothQuant, arXiv
    2211.10438), others ``outliers``, numbers of channels, and their ``outliers.weight``
    (LLM.int8(), arXiv 2208.07339).

    Args:
        fused: fused weights, from :func:`lmkrag.models.bert.fuse_weights`.
        ranges: checked ranges.
        layers: number of layers.
    """
    quantized: dict[str, Any] = dict(fused)
    for name in product_names(layers):
        weight = quantized.pop(f"{name}weight")
        low, high = ranges[name]
        # Bring the channels of the input to like sizes, or leave its outliers to float32.
        if name.endswith(SMOOTHED):
            magnitude = np.maximum(np.maximum(-low, high), _LEAST)
            smooth = (
                np.maximum(np.abs(weight).max(1), _LEAST) ** (1 - _SMOOTHING)
                / magnitude**_SMOOTHING
            )
            smooth /= smooth.mean()
            quantized[f"{name}smooth"] = smooth
            weight, low, high = weight / smooth[:, None], low * smooth, high * smooth
        elif has_outliers(name):
            outliers = np.sort(np.argsort(np.maximum(-low, high))[-_OUTLIERS:])
            quantized |= {
                f"{name}outliers": outliers,
                f"{name}outliers.weight": np.ascontiguousarray(weight[outliers]),
            }
            weight, low, high = weight.copy(), low.copy(), high.copy()
            weight[outliers] = low[outliers] = high[outliers] = 0
        # One scale for the input, one for each column of the weights.
        least, greatest = min(0.0, float(low.min())), max(_LEAST, float(high.max()))
        scales, scale = np.maximum(np.abs(weight).max(0), _LEAST) / 127, (greatest - least) / 255
        quantized |= {
            f"{name}int8": np.round(weight / scales).astype(np.int8),
            f"{name}scales": scales.astype(np.float32),
            f"{name}scale": np.array(scale, np.float32),
            f"{name}zero_point": np.array(round(-least / scale), np.uint8),
        }
    return quantized
