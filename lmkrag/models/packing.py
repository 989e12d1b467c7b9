"""Weights in fewer bytes: embeddings of words by product quantization, matrices in 8 bits.

A row of embeddings is divided into parts of three numbers, and each part is one of 256 codewords (Jégou et al.,
"Product quantization for nearest neighbor search", IEEE TPAMI 2011): 128 bytes for 384 numbers. Rows of special tokens
are kept as they are. A matrix has one scale for each row.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from lmkrag.arrays import Vectors

WORDS = "embeddings.word_embeddings.weight"
"""The name of the embeddings of words."""

CODES, CODEWORDS, KEPT, KEPT_ROWS = (f"{WORDS}.{part}" for part in ("codes", "codewords", "kept", "kept_rows"))
"""``[words, parts]`` uint8, ``[parts, 256, size]`` float16, and the numbers and rows of the words kept as they are."""

_INT8, _SCALES = ".int8", ".scales"


def unpacked_names(names: Iterable[str]) -> set[str]:
    """Return the names of the weights that a file with tensors of such names holds."""
    found = set()
    for name in names:
        if name == CODES:
            found.add(WORDS)
        elif name not in (CODEWORDS, KEPT, KEPT_ROWS) and not name.endswith(_SCALES):
            found.add(name.removesuffix(_INT8))
    return found


def unpack_weights(tensors: Mapping[str, Any]) -> dict[str, Vectors]:
    """Return weights by their names: embeddings of words in float16, others in float32, what is not packed as it is."""
    weights = {}
    for name in unpacked_names(tensors):
        if name in tensors:
            weights[name] = tensors[name]
        elif name == WORDS:
            weights[name] = decode_words(tensors)
        else:
            scales = tensors[name + _SCALES].astype(np.float32)
            weights[name] = tensors[name + _INT8].astype(np.float32) * scales[:, None]
    return weights


def decode_words(tensors: Mapping[str, Any]) -> Vectors:
    """Return the embeddings of words ``[words, dimensions]`` float16."""
    codes, codewords = tensors[CODES], tensors[CODEWORDS]
    words: Vectors = codewords[np.arange(codes.shape[1]), codes].reshape(len(codes), -1)
    words[tensors[KEPT]] = tensors[KEPT_ROWS]
    return words


def pack_matrices(weights: Mapping[str, Vectors]) -> dict[str, Any]:
    """Return weights with every matrix of a layer in 8 bits."""
    packed: dict[str, Any] = {}
    for name, weight in weights.items():
        if weight.ndim == 2 and name.startswith("encoder."):
            scales = np.maximum(np.abs(weight).max(1), 1e-12).astype(np.float32) / 127
            packed[name + _INT8] = np.round(weight / scales[:, None]).astype(np.int8)
            packed[name + _SCALES] = scales
        else:
            packed[name] = weight.astype(np.float16)
    return packed
