"""How landmark-reranker-l12 is written: its layers in 4 bits, and the graphs of its head."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from reranker_files import write_graphs

from lmkrag.arrays import Vectors
from lmkrag.models.bert import AFTER
from lmkrag.models.graph import BERT_INPUTS
from lmkrag.models.packing import BLOCK, INT4, SCALES, SHRINK
from lmkrag.reranker import passages


def pack_blocks(weights: Mapping[str, Vectors]) -> dict[str, Any]:
    """Return weights with every matrix of a layer in 4 bits; a block's scale is that of the least squared error."""
    packed: dict[str, Any] = {}
    for name, weight in weights.items():
        if weight.ndim != 2 or not name.startswith("encoder."):
            packed[name] = weight.astype(np.float16)
            continue
        blocks = weight.reshape(len(weight), -1, BLOCK)
        greatest = np.take_along_axis(blocks, np.abs(blocks).argmax(-1)[..., None], -1)[..., 0]
        scales = np.zeros(greatest.shape, np.float32)
        codes = np.zeros(blocks.shape, np.int8)
        least = np.full(greatest.shape, np.inf)
        for share in SHRINK:
            scale = (share * greatest / -8).astype(np.float16).astype(np.float32)
            code = np.clip(np.round(blocks / np.where(scale == 0, 1, scale)[..., None]), -8, 7)
            error = ((code * scale[..., None] - blocks) ** 2).sum(-1)
            better = error < least
            least[better], scales[better], codes[better] = error[better], scale[better], code[better]
        halves = (codes + 8).astype(np.uint8).reshape(len(weight), -1, 2)
        packed[name + INT4] = halves[..., 0] | halves[..., 1] << 4
        packed[name + SCALES] = scales.astype(np.float16)
    return packed


def write_passage_graphs(folder: Path) -> None:
    """Write the graph of the folder of a re-ranker of passages, and where it has ranges that for int8."""
    write_graphs(folder, passages.read_head(folder), _passage_nodes(), BERT_INPUTS, passages.OUTPUTS)


def _passage_nodes() -> str:
    """What computes :data:`lmkrag.reranker.passages.OUTPUTS`: a score from the first token's state, ends from each."""
    pooler, pooler_bias, classifier, classifier_bias, ends, ends_bias = passages.HEAD
    return f"""
        first = Constant <value_ints = [0]> ()
        second = Constant <value_ints = [1]> ()
        state = Slice({AFTER}, first, second)
        pooled = Gemm <transB = 1> (state, "{pooler}", "{pooler_bias}")
        bent = Tanh(pooled)
        {passages.SCORE} = Gemm <transB = 1> (bent, "{classifier}", "{classifier_bias}")
        {passages.ENDS} = Gemm <transB = 1> ({AFTER}, "{ends}", "{ends_bias}")"""
