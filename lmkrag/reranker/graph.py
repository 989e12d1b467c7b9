"""What a re-ranker has beside BERT, as ONNX graphs: the head of ``landmark-reranker``, and its listwise model."""

from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from lmkrag.arrays import Ids, Scores
from lmkrag.models.graph import AFTER, BEFORE, Inputs, layer_nodes, shape_nodes

LOGITS, WEIGHTS, ANSWER_BOUNDS = "logits", "weights", "bounds"
TOKEN_SIMILARITY = {AFTER: "similarity.after", BEFORE: "similarity.before"}
OUTPUTS = [LOGITS, WEIGHTS, ANSWER_BOUNDS, *TOKEN_SIMILARITY.values()]
"""``logits`` ``[sentences, 2]``: how sentences rank and the log-odds that they answer, without late interaction.
``weights`` ``[question]`` of the question's tokens. ``ends`` ``[length, 2]`` of short answers. For late interaction,
the similarity of the question's tokens to all: ``[question, length]``, after and before."""

INPUTS: Inputs = {
    "members": (TensorProto.FLOAT, ["sentences", "length"]),
    "question": (TensorProto.INT64, ["one"]),
}
"""``members``: the share of each token in its sentence's mean. ``question``: where it ends; it begins at 1."""

LINEAR = ("dense", "out", "weigh", "ends")
"""The head's linear layers."""

FEATURES = "features"
LISTWISE_INPUTS: Inputs = {FEATURES: (TensorProto.FLOAT, ["lists", "sentences", "features"])}
"""What the listwise model sees of sentences; its output is :data:`LOGITS` ``[lists * sentences, 1]``."""

_CONTRAST = 4.0  # times the product of a sentence's mean and the question's


def head_nodes() -> list[NodeProto]:
    """Return what computes :data:`OUTPUTS` of one text. Linear layers are named ``head.*``, as ``[in, out]``."""
    return [
        _constant("head.zero", np.array([0], np.int64)),
        _constant("head.one", np.array([1], np.int64)),
        _constant("head.contrast", np.array(_CONTRAST, np.float32)),
        *_compare(AFTER),
        *_compare(BEFORE),
        helper.make_node("Slice", [AFTER, "head.one", "question"], ["head.asked"]),
        *_linear("weigh", "head.asked", "head.weighed"),
        helper.make_node("Squeeze", ["head.weighed", "head.one"], ["head.flat"]),
        helper.make_node("Softmax", ["head.flat"], [WEIGHTS]),
        *_linear("ends", AFTER, ANSWER_BOUNDS),
        helper.make_node("MatMul", ["members", AFTER], ["head.means"]),
        helper.make_node("ReduceMean", ["head.asked", "head.zero"], ["head.whole"], keepdims=1),
        helper.make_node("Mul", ["head.whole", "head.contrast"], ["head.scaled"]),
        helper.make_node("Mul", ["head.means", "head.scaled"], ["head.products"]),
        helper.make_node("Concat", ["head.means", "head.products"], ["head.features"], axis=-1),
        *_linear("dense", "head.features", "head.dense"),
        helper.make_node("Gelu", ["head.dense"], ["head.hidden"], domain="com.microsoft"),
        *_linear("out", "head.hidden", LOGITS),
    ]


def listwise_nodes(config: dict[str, Any]) -> list[NodeProto]:
    """Return what computes the log-odds of sentences from :data:`LISTWISE_INPUTS`.

    Args:
        config: what ``config.json`` of a BERT says of its layers.
    """
    norm = ["flattened", "norm.weight", "norm.bias"]
    return [
        *shape_nodes(config, FEATURES),
        helper.make_node("MatMul", [FEATURES, "input.weight"], ["projected"]),
        helper.make_node("Add", ["projected", "input.bias"], ["embedded"]),
        helper.make_node("Reshape", ["embedded", "flat"], ["flattened"]),
        helper.make_node("LayerNormalization", norm, [BEFORE], axis=-1, epsilon=config["layer_norm_eps"]),
        *layer_nodes(config, BEFORE, AFTER),
        helper.make_node("Gemm", [AFTER, "output.weight", "output.bias"], [LOGITS]),
    ]


def _compare(states: str) -> list[NodeProto]:
    """Cosines of the question's tokens and all tokens of the text."""
    name = f"head.{states}."
    return [
        helper.make_node("LpNormalization", [states], [f"{name}unit"], axis=-1, p=2),
        helper.make_node("Slice", [f"{name}unit", "head.one", "question"], [f"{name}asked"]),
        helper.make_node("Transpose", [f"{name}unit"], [f"{name}turned"], perm=[1, 0]),
        helper.make_node("MatMul", [f"{name}asked", f"{name}turned"], [TOKEN_SIMILARITY[states]]),
    ]


def _linear(module: str, states: str, out: str) -> list[NodeProto]:
    return [
        helper.make_node("MatMul", [states, f"head.{module}.weight"], [f"{out}.projected"]),
        helper.make_node("Add", [f"{out}.projected", f"head.{module}.bias"], [out]),
    ]


def _constant(name: str, value: Ids | Scores) -> NodeProto:
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value))
