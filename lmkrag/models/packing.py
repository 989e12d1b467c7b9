"""Weights in fewer bytes: embeddings of words as codewords or in 8 bits, matrices in 8 or 4 bits.

A row of embeddings is divided into parts of three numbers, and each part is one of 256 codewords
(product quantization; Jégou et al., IEEE TPAMI 2011): 128 bytes for 384 numbers. Rows of special
tokens are kept as they are. A matrix in 8 bits has one scale for each row, one in 4 bits one for
every 32 weights of a row.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from lmkrag.types.arrays import Ids, Vectors, Weights

WORDS = "embeddings.word_embeddings.weight"  # the name of the embeddings of words
CODES, CODEWORDS, KEPT, KEPT_ROWS = (
    f"{WORDS}.{part}" for part in ("codes", "codewords", "kept", "kept_rows")
)
"""``[words, parts]`` uint8, ``[parts, 256, size]`` float16, and the numbers and rows of the words
kept as they are.
"""

_INT8, INT4, SCALES = ".int8", ".int4", ".scales"

# ``[words, dimensions]`` int8, ``[words, 1]`` float32, for a graph
ROWS, ROW_SCALES = (WORDS + _INT8, WORDS + SCALES)
_TABLES = {WORDS, ROWS, ROW_SCALES, CODES}  # with a row for each word
BLOCK = 32  # weights of a row with one scale, in 4 bits


def unpacked_names(names: Iterable[str]) -> set[str]:
    """Return the names of weights before packing, from the names of tensors in a file."""
    stored = [
        name
        for name in names
        if name not in (CODEWORDS, KEPT, KEPT_ROWS) and not name.endswith(SCALES)
    ]
    return {
        WORDS if name == CODES else name.removesuffix(_INT8).removesuffix(INT4) for name in stored
    }


def unpack_weights(tensors: Mapping[str, Any]) -> Weights:
    """Return weights by their names before packing.

    Returns:
        Embeddings of words from codewords in float16, unpacked matrices in float32, other tensors
            as they are.
    """
    weights = {}
    for name in unpacked_names(tensors):
        if name in tensors:
            weights[name] = tensors[name]
        elif name + _INT8 in tensors:
            # ``[rows]`` or ``[rows, 1]``
            scales = tensors[name + SCALES].astype(np.float32).reshape(-1, 1)
            weights[name] = tensors[name + _INT8].astype(np.float32) * scales
        elif name + INT4 in tensors:
            weights[name] = _decode_blocks(
                tensors[name + INT4], tensors[name + SCALES].astype(np.float32)
            )
        else:
            weights[name] = decode_words(tensors)
    return weights


def select_words(tensors: Mapping[str, Any], words: Ids) -> dict[str, Any]:
    """Return the tensors of a file, with the embeddings of some words alone.

    Args:
        tensors: slices of a safetensors file, by name.
        words: ``[n]`` int64, the words, in the order that their rows are to have.
    """
    chosen = {name: value[:] for name, value in tensors.items() if name not in _TABLES}
    chosen |= {
        name: np.stack([tensors[name][word] for word in words.tolist()])
        for name in _TABLES & tensors.keys()
    }
    if KEPT in tensors:
        places, rows = np.nonzero(words[:, None] == chosen[KEPT])
        chosen |= {KEPT: places, KEPT_ROWS: chosen[KEPT_ROWS][rows]}
    return chosen


def decode_words(tensors: Mapping[str, Any]) -> Vectors:
    """Return the embeddings of words ``[words, dimensions]`` float16 from their codewords."""
    codes, codewords = tensors[CODES], tensors[CODEWORDS]
    words: Vectors = codewords[np.arange(codes.shape[1]), codes].reshape(len(codes), -1)
    words[tensors[KEPT]] = tensors[KEPT_ROWS]
    return words


def pack_matrices(weights: Mapping[str, Vectors]) -> dict[str, Any]:
    """Return weights with every matrix of a layer in 8 bits, and other tensors in float16."""
    packed: dict[str, Any] = {}
    for name, weight in weights.items():
        if weight.ndim == 2 and name.startswith("encoder."):
            packed |= pack_rows(name, weight)
        else:
            packed[name] = weight.astype(np.float16)
    return packed


def pack_rows(name: str, weight: Vectors) -> dict[str, Any]:
    """Return a matrix ``[rows, columns]`` in 8 bits, with one scale for each row, as tensors by
    name.
    """
    scales = np.maximum(np.abs(weight.astype(np.float32)).max(1, keepdims=True), 1e-12) / 127
    return {name + _INT8: np.round(weight / scales).astype(np.int8), name + SCALES: scales}


def _decode_blocks(packed: Any, scales: Vectors) -> Vectors:
    """A matrix from 4 bits ``[rows, columns / 2]`` and the scales ``[rows, columns / 32]`` of its
    blocks.
    """
    codes = (
        np.stack([packed & 15, packed >> 4], -1).reshape(len(packed), -1, BLOCK).astype(np.float32)
        - 8
    )
    return (codes * scales[..., None]).reshape(len(packed), -1)
