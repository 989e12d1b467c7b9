"""Write the ONNX graphs of a model beside its weights, so that it runs where ``onnx`` is not installed."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lmkrag.arrays import Vectors
from lmkrag.encoder.loading import read_config
from lmkrag.encoder.spec import find_model
from lmkrag.models.bert import AFTER, BEFORE, fuse_weights, read_weights
from lmkrag.models.graph import BERT_INPUTS, bert_nodes, build_bert, build_model, layer_nodes, normalize, shape_nodes
from lmkrag.models.quantization import quantize, read_ranges
from lmkrag.reranker.landmark import ANSWER_BOUNDS, OUTPUTS, TOKEN_SIMILARITY, WEIGHTS, read_body, read_head
from lmkrag.reranker.listwise import FEATURES, GRAPH, LOGITS, read_members

# members: the share of each token in its sentence's mean. question: where it ends; it begins at 1.
_RERANKER_INPUTS = f"{BERT_INPUTS}, float[sentences, length] members, int64[one] question"
_LISTWISE_INPUTS = f"float[lists, sentences, features] {FEATURES}"
_CONTRAST = 4.0  # times the product of a sentence's mean and the question's


def write_encoder_graphs(folder: Path) -> None:
    """Write the graph of an encoder folder, and where it has ranges that for int8."""
    config, layers = read_config(folder), read_config(folder)["num_hidden_layers"]
    weights, ranges = fuse_weights(read_weights(folder / "model.safetensors", rows=True), layers), read_ranges(folder)
    (folder / "float32.onnx").write_bytes(build_bert(config, weights, int8=False))
    if ranges is not None:
        (folder / "int8.onnx").write_bytes(build_bert(config, quantize(weights, ranges, layers), int8=True))


def write_reranker_graphs(folder: Path) -> None:
    """Write the graph of a re-ranker folder, and where it has ranges that for int8."""
    write_graphs(folder, read_head(folder)[0], _head_nodes(), _RERANKER_INPUTS, OUTPUTS)


def write_graphs(folder: Path, head: dict[str, Vectors], nodes: str, inputs: str, outputs: Sequence[str]) -> None:
    """Write the graphs of a re-ranker, whose ``nodes`` with the weights of its ``head`` follow those of its BERT."""
    settings = json.loads((folder / "reranker.json").read_text("utf-8"))
    layers = int(settings["layers"])
    config, weights = read_body(folder, find_model(settings["base"]), layers)
    ranges = read_ranges(folder)
    bodies = {"float32": weights} if ranges is None else {"float32": weights, "int8": quantize(weights, ranges, layers)}
    for precision, body in bodies.items():
        body_nodes = bert_nodes(config, body, int8=precision == "int8")
        (folder / f"{precision}.onnx").write_bytes(build_model(body_nodes + nodes, inputs, outputs, body | head))


def write_listwise_graph(folder: Path) -> None:
    """Write the graph of a re-ranker's listwise model."""
    config, members, _, _ = read_members(folder)
    graph = build_model(_listwise_nodes(config), _LISTWISE_INPUTS, [LOGITS], members[0])
    (folder / GRAPH).write_bytes(graph)


def _head_nodes() -> str:
    """What computes :data:`OUTPUTS` of one text. Linear layers are named ``head.*``, as ``[in, out]``."""
    return f"""
        zero = Constant <value_ints = [0]> ()
        one = Constant <value_ints = [1]> ()
        contrast = Constant <value_float = {_CONTRAST}> ()
        {_compare(AFTER)}
        {_compare(BEFORE)}
        asked = Slice({AFTER}, one, question)
        {_linear("weigh", "asked", "weighed")}
        weighed_flat = Squeeze(weighed, one)
        {WEIGHTS} = Softmax(weighed_flat)
        {_linear("ends", AFTER, ANSWER_BOUNDS)}
        means = MatMul(members, {AFTER})
        whole = ReduceMean <keepdims = 1> (asked, zero)
        scaled = Mul(whole, contrast)
        products = Mul(means, scaled)
        features = Concat <axis = -1> (means, products)
        {_linear("dense", "features", "dense")}
        hidden = com.microsoft.Gelu(dense)
        {_linear("out", "hidden", LOGITS)}"""


def _compare(states: str) -> str:
    """Cosines of the question's tokens and all tokens of the text."""
    return f"""
        "{states}.unit" = LpNormalization <axis = -1, p = 2> ({states})
        "{states}.asked" = Slice("{states}.unit", one, question)
        "{states}.turned" = Transpose <perm = [1, 0]> ("{states}.unit")
        "{TOKEN_SIMILARITY[states]}" = MatMul("{states}.asked", "{states}.turned")"""


def _linear(module: str, states: str, out: str) -> str:
    return f"""{out}_projected = MatMul({states}, "head.{module}.weight")
        {out} = Add({out}_projected, "head.{module}.bias")"""


def _listwise_nodes(config: dict[str, Any]) -> str:
    """What computes the log-odds of sentences from their features."""
    return f"""{shape_nodes(config, FEATURES)}
        projected = MatMul({FEATURES}, "input.weight")
        embedded = Add(projected, "input.bias")
        flattened = Reshape(embedded, flat)
        {normalize(config, "flattened", "norm.", BEFORE)}
        {layer_nodes(config)}
        {LOGITS} = Gemm({AFTER}, "output.weight", "output.bias")"""
