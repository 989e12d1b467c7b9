"""BERT as an ONNX graph, for ONNX Runtime: the architecture of Devlin et al., "BERT" (2019), with the exact GELU.

A graph reads texts of one length: without padding there is no mask, and ONNX Runtime's attention works in blocks that
stay in the cache (Dao et al., "FlashAttention", arXiv 2205.14135). The graph holds no weights: they are handed over
beside it.

The graphs of our models are files beside their weights. Only models that come without one, and training, need this
module and the package ``onnx``.
"""

from typing import Any, Protocol

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from lmkrag.arrays import Vectors
from lmkrag.models.bert import AFTER, BEFORE
from lmkrag.models.quantization import SMOOTHED, has_outliers

_FUSED = "com.microsoft"  # ONNX Runtime's own operators
_VERSIONS = (("", 18), (_FUSED, 1))
_FORMAT = 9  # of the file, which the oldest ONNX Runtime that lmkrag allows reads

_PARTS = ("query", "key", "value")
Inputs = dict[str, tuple[int, list[str]]]
"""The type and the shape of each input of a graph."""

BERT_INPUTS: Inputs = {
    "ids": (TensorProto.INT64, ["texts", "length"]),
    "types": (TensorProto.INT64, ["texts", "length"]),
}
"""Tokens of texts, and which half of a pair each is of: 0 or 1."""


def build_bert(config: dict[str, Any], weights: dict[str, Vectors], *, int8: bool) -> bytes:
    """Return the graph of a BERT that computes :data:`AFTER`: see :func:`bert_nodes` and :func:`build_model`."""
    return build_model(bert_nodes(config, int8=int8), BERT_INPUTS, [AFTER], weights)


def build_model(nodes: list[NodeProto], inputs: Inputs, outputs: list[str], weights: dict[str, Vectors]) -> bytes:
    """Return a model in ONNX's format whose weights are named but left out.

    Args:
        nodes: what is computed, in order.
        inputs: of the graph.
        outputs: by their names, float32.
        weights: only names, shapes and types are looked at.
    """
    graph = helper.make_graph(
        nodes,
        "model",
        [helper.make_tensor_value_info(name, *kind) for name, kind in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        initializer=[_outside(*weight) for weight in weights.items()],
    )
    versions = [helper.make_opsetid(*version) for version in _VERSIONS]
    model: bytes = helper.make_model(graph, opset_imports=versions, ir_version=_FORMAT).SerializeToString()
    return model


def bert_nodes(config: dict[str, Any], *, int8: bool = False) -> list[NodeProto]:
    """Return what computes :data:`BEFORE` and :data:`AFTER` from :data:`BERT_INPUTS`.

    Args:
        config: ``config.json`` of a BERT.
        int8: its weights are those of :func:`lmkrag.models.quantization.quantize`.
    """
    return [
        *shape_nodes(config, "ids"),
        *_embed(config["layer_norm_eps"]),
        *layer_nodes(config, BEFORE, AFTER, int8=int8),
    ]


def shape_nodes(config: dict[str, Any], sized: str) -> list[NodeProto]:
    """Return what :func:`layer_nodes` needs to know of shapes; ``sized`` is an input ``[texts, length, ...]``."""
    return [
        _constant("flat", [-1, config["hidden_size"]]),
        _constant("parts", [len(_PARTS), config["hidden_size"]]),
        helper.make_node("Shape", [sized], ["texts"], end=2),
        helper.make_node("Concat", ["texts", "parts"], ["apart"], axis=0),
        *(_constant(part, number) for number, part in enumerate(_PARTS)),
    ]


def layer_nodes(config: dict[str, Any], states: str, after: str, *, int8: bool = False) -> list[NodeProto]:
    """Return BERT's layers, from ``states`` to ``after``, ``[texts * length, dimensions]``: see :func:`bert_nodes`."""
    nodes = []
    for layer in range(config["num_hidden_layers"]):
        out = after if layer + 1 == config["num_hidden_layers"] else f"{layer}.states"
        nodes += _layer(f"encoder.layer.{layer}.", states, out, config, _multiply_int8 if int8 else _multiply)
        states = out
    return nodes


def _embed(eps: float) -> list[NodeProto]:
    """The states before the first layer."""
    name = "embeddings."
    return [
        helper.make_node("Gather", [f"{name}word_embeddings.weight", "ids"], ["stored"]),
        helper.make_node("Cast", ["stored"], ["words"], to=TensorProto.FLOAT),
        _constant("beginning", [0]),
        helper.make_node("Shape", ["ids"], ["length"], start=1),
        helper.make_node("Slice", [f"{name}position_embeddings.weight", "beginning", "length"], ["places"]),
        helper.make_node("Gather", [f"{name}token_type_embeddings.weight", "types"], ["halves"]),
        helper.make_node("Add", ["words", "places"], ["placed"]),
        helper.make_node("Add", ["placed", "halves"], ["added"]),
        helper.make_node("Reshape", ["added", "flat"], ["embedded"]),
        helper.make_node(
            "LayerNormalization",
            ["embedded", f"{name}LayerNorm.weight", f"{name}LayerNorm.bias"],
            [BEFORE],
            axis=-1,
            epsilon=eps,
        ),
    ]


def _layer(name: str, states: str, out: str, config: dict[str, Any], multiply: "_Multiply") -> list[NodeProto]:
    """One layer, from ``states`` to ``out``."""
    self = f"{name}attention.self."

    def project(states: str, module: str, kept: str, out: str) -> list[NodeProto]:
        """Multiply, add to what was before, and normalise."""
        added = f"{name}{module}.added"
        scales = [f"{name}{module}.LayerNorm.weight", f"{name}{module}.LayerNorm.bias"]
        # Two operators: the fused one takes six times as long.
        return [
            *multiply(states, f"{name}{module}.dense.", f"{name}{module}.projected", bias=True),
            helper.make_node("Add", [f"{name}{module}.projected", kept], [added]),
            helper.make_node("LayerNormalization", [added, *scales], [out], axis=-1, epsilon=config["layer_norm_eps"]),
        ]

    parts = [f"{self}{part}" for part in _PARTS]
    return [
        *multiply(states, self, f"{self}projected", bias=False),
        helper.make_node("Reshape", [f"{self}projected", "apart"], [f"{self}apart"]),
        # Faster than one Split.
        *(helper.make_node("Gather", [f"{self}apart", part], [f"{self}{part}"], axis=2) for part in _PARTS),
        helper.make_node(
            "MultiHeadAttention",
            [*parts, f"{self}bias"],
            [f"{self}read"],
            domain=_FUSED,
            num_heads=config["num_attention_heads"],
        ),
        helper.make_node("Reshape", [f"{self}read", "flat"], [f"{self}out"]),
        *project(f"{self}out", "attention.output", states, f"{name}attended"),
        *multiply(f"{name}attended", f"{name}intermediate.dense.", f"{name}intermediate.dense.projected", bias=False),
        helper.make_node(
            "BiasGelu",
            [f"{name}intermediate.dense.projected", f"{name}intermediate.dense.bias"],
            [f"{name}wide"],
            domain=_FUSED,
        ),
        *project(f"{name}wide", "output", f"{name}attended", out),
    ]


def _constant(name: str, values: int | list[int]) -> NodeProto:
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.array(values, np.int64)))


class _Multiply(Protocol):
    """Returns the nodes of a product ``out`` of what is ``given`` and the weights whose names begin with ``name``."""

    def __call__(self, given: str, name: str, out: str, *, bias: bool) -> list[NodeProto]: ...


def _multiply(given: str, name: str, out: str, *, bias: bool) -> list[NodeProto]:
    if bias:
        return [helper.make_node("Gemm", [given, f"{name}weight", f"{name}bias"], [out])]
    return [helper.make_node("MatMul", [given, f"{name}weight"], [out])]


def _multiply_int8(given: str, name: str, out: str, *, bias: bool) -> list[NodeProto]:
    nodes = []
    if name.endswith(SMOOTHED):
        nodes.append(helper.make_node("Mul", [given, f"{name}smooth"], [f"{name}given"]))
        given = f"{name}given"
    product = f"{name}product" if has_outliers(name) else out
    scale, zero_point = f"{name}scale", f"{name}zero_point"
    nodes += [
        helper.make_node("QuantizeLinear", [given, scale, zero_point], [f"{name}quantized"]),
        helper.make_node(
            "MatMulIntegerToFloat",
            [f"{name}quantized", f"{name}int8", scale, f"{name}scales", zero_point, "", f"{name}bias" if bias else ""],
            [product],
            domain=_FUSED,
        ),
    ]
    if has_outliers(name):
        nodes += [
            helper.make_node("Gather", [given, f"{name}outliers"], [f"{name}outliers.given"], axis=1),
            helper.make_node(
                "MatMul", [f"{name}outliers.given", f"{name}outliers.weight"], [f"{name}outliers.product"]
            ),
            helper.make_node("Add", [product, f"{name}outliers.product"], [out]),
        ]
    return nodes


def _outside(name: str, values: Vectors) -> TensorProto:
    """A tensor whose values are handed over beside the graph."""
    kind = helper.np_dtype_to_tensor_dtype(values.dtype)
    tensor = TensorProto(name=name, dims=values.shape, data_type=kind, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="beside")
    return tensor
