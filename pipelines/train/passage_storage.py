"""How landmark-reranker-l12 is written: its layers in 4 bits, and the graphs of its head."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from four_bits import round_blocks
from reranker_files import write_graphs

from lmkrag.arrays import Vectors
from lmkrag.models.graph import BERT_INPUTS
from lmkrag.models.packing import INT4, SCALES
from lmkrag.models.session import AFTER
from lmkrag.reranker import passages


def pack_blocks(weights: Mapping[str, Vectors]) -> dict[str, Any]:
    """Return weights with every matrix of a layer in 4 bits; a block's scale is that of the least squared error."""
    packed: dict[str, Any] = {}
    for name, weight in weights.items():
        if weight.ndim != 2 or not name.startswith("encoder."):
            packed[name] = weight.astype(np.float16)
            continue
        codes, scales = (values.numpy() for values in round_blocks(torch.from_numpy(weight)))
        halves = (codes + 8).astype(np.uint8).reshape(len(weight), -1, 2)
        packed[name + INT4] = halves[..., 0] | halves[..., 1] << 4
        packed[name + SCALES] = scales[..., 0].astype(np.float16)
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
