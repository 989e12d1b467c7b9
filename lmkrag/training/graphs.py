"""Write the ONNX graphs of a model beside its weights, so that it runs where ``onnx`` is not installed."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from lmkrag.arrays import Ids, Scores
from lmkrag.encoder.loading import read_config
from lmkrag.encoder.spec import find_model
from lmkrag.models.bert import AFTER, BEFORE, fuse_weights, read_weights
from lmkrag.models.graph import BERT_INPUTS, Inputs, bert_nodes, build_bert, build_model, layer_nodes, shape_nodes
from lmkrag.models.quantization import quantize, read_ranges
from lmkrag.reranker.landmark import ANSWER_BOUNDS, OUTPUTS, TOKEN_SIMILARITY, WEIGHTS, read_body, read_head
from lmkrag.reranker.listwise import FEATURES, GRAPH, LOGITS, read_members

_RERANKER_INPUTS: Inputs = {
    **BERT_INPUTS,
    "members": (TensorProto.FLOAT, ["sentences", "length"]),
    "question": (TensorProto.INT64, ["one"]),
}
"""``members``: the share of each token in its sentence's mean. ``question``: where it ends; it begins at 1."""

_LISTWISE_INPUTS: Inputs = {FEATURES: (TensorProto.FLOAT, ["lists", "sentences", "features"])}

_CONTRAST = 4.0  # times the product of a sentence's mean and the question's


def write_encoder_graphs(folder: Path) -> None:
    """Write the graph of an encoder folder, and where it has ranges that for int8."""
    config, layers = read_config(folder), read_config(folder)["num_hidden_layers"]
    weights, ranges = fuse_weights(read_weights(folder / "model.safetensors"), layers), read_ranges(folder)
    (folder / "float32.onnx").write_bytes(build_bert(config, weights, int8=False))
    if ranges is not None:
        (folder / "int8.onnx").write_bytes(build_bert(config, quantize(weights, ranges, layers), int8=True))


def write_reranker_graphs(folder: Path) -> None:
    """Write the graph of a re-ranker folder, and where it has ranges that for int8."""
    settings = json.loads((folder / "reranker.json").read_text("utf-8"))
    layers = int(settings["layers"])
    config, weights = read_body(folder, find_model(settings["base"]), layers)
    head, ranges = read_head(folder)[0], read_ranges(folder)
    bodies = {"float32": weights} if ranges is None else {"float32": weights, "int8": quantize(weights, ranges, layers)}
    for precision, body in bodies.items():
        nodes = [*bert_nodes(config, int8=precision == "int8"), *_head_nodes()]
        graph = build_model(nodes, _RERANKER_INPUTS, OUTPUTS, body | head)
        (folder / f"{precision}.onnx").write_bytes(graph)


def write_listwise_graph(folder: Path) -> None:
    """Write the graph of a re-ranker's listwise model."""
    config, members, _, _ = read_members(folder)
    graph = build_model(_listwise_nodes(config), _LISTWISE_INPUTS, [LOGITS], members[0])
    (folder / GRAPH).write_bytes(graph)


def _head_nodes() -> list[NodeProto]:
    """What computes :data:`OUTPUTS` of one text. Linear layers are named ``head.*``, as ``[in, out]``."""
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


def _listwise_nodes(config: dict[str, Any]) -> list[NodeProto]:
    """What computes the log-odds of sentences from their features."""
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
