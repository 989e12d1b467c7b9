"""BERT as an ONNX graph, for ONNX Runtime: the architecture of Devlin et al., "BERT" (2019), with the exact GELU.

Texts of several lengths lie one after the other, without padding, wherever a token is read alone; only attention sees
them side by side. The graph holds no weights: they are handed over beside it.
"""

from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper

from lmkrag.arrays import Vectors

_FUSED = "com.microsoft"  # ONNX Runtime's own operators
_VERSIONS = (("", 18), (_FUSED, 1))
_FORMAT = 9  # of the file, which the oldest ONNX Runtime that lmkrag allows reads

BEFORE, AFTER = "before", "after"
"""States before the first layer and after the last, each ``[tokens, dimensions]`` float32."""

Inputs = dict[str, tuple[int, list[str]]]
"""The type and the shape of each input of a graph."""

BERT_INPUTS: Inputs = {
    "ids": (TensorProto.INT64, ["tokens"]),
    "types": (TensorProto.INT64, ["tokens"]),
    "positions": (TensorProto.INT64, ["tokens"]),
    "padded": (TensorProto.INT64, ["texts", "longest"]),
    "flat": (TensorProto.INT64, ["tokens"]),
    "lengths": (TensorProto.INT32, ["texts"]),
}
"""``padded`` is the token that stands at each place, any for padding; ``flat`` the place of each token."""


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


def bert_nodes(config: dict[str, Any]) -> list[NodeProto]:
    """Return what computes :data:`BEFORE` and :data:`AFTER` from :data:`BERT_INPUTS`.

    Args:
        config: ``config.json`` of a BERT.
    """
    merged = helper.make_tensor("merged", TensorProto.INT64, [2], [-1, config["hidden_size"]])
    nodes = [*_embed(config["layer_norm_eps"]), helper.make_node("Constant", [], ["merged"], value=merged)]
    states = BEFORE
    for layer in range(config["num_hidden_layers"]):
        out = AFTER if layer + 1 == config["num_hidden_layers"] else f"{layer}.states"
        nodes += _layer(f"encoder.layer.{layer}.", states, out, config)
        states = out
    return nodes


def _embed(eps: float) -> list[NodeProto]:
    """The states before the first layer."""
    name = "embeddings."
    return [
        helper.make_node("Gather", [f"{name}word_embeddings.weight", "ids"], ["stored"]),
        helper.make_node("Cast", ["stored"], ["words"], to=TensorProto.FLOAT),
        helper.make_node("Gather", [f"{name}position_embeddings.weight", "positions"], ["places"]),
        helper.make_node("Gather", [f"{name}token_type_embeddings.weight", "types"], ["halves"]),
        helper.make_node("Add", ["words", "places"], ["placed"]),
        helper.make_node("Add", ["placed", "halves"], ["embedded"]),
        helper.make_node(
            "LayerNormalization",
            ["embedded", f"{name}LayerNorm.weight", f"{name}LayerNorm.bias"],
            [BEFORE],
            axis=-1,
            epsilon=eps,
        ),
    ]


def _layer(name: str, states: str, out: str, config: dict[str, Any]) -> list[NodeProto]:
    """One layer, from ``states`` to ``out``."""
    self = f"{name}attention.self."

    def add_and_normalise(added: str, kept: str, module: str, out: str) -> NodeProto:
        scales = [f"{name}{module}.LayerNorm.weight", f"{name}{module}.LayerNorm.bias", f"{name}{module}.dense.bias"]
        return helper.make_node(
            "SkipLayerNormalization", [added, kept, *scales], [out], domain=_FUSED, epsilon=config["layer_norm_eps"]
        )

    def project(states: str, module: str) -> NodeProto:
        return helper.make_node("MatMul", [states, f"{name}{module}.weight"], [f"{name}{module}.projected"])

    parts = [f"{name}{part}" for part in ("query", "key", "value")]
    return [
        helper.make_node("MatMul", [states, f"{self}weight"], [f"{self}flat"]),
        helper.make_node("Gather", [f"{self}flat", "padded"], [f"{self}padded"]),
        helper.make_node("Split", [f"{self}padded"], parts, axis=-1, num_outputs=3),
        helper.make_node(
            "MultiHeadAttention",
            [*parts, f"{self}bias", "lengths"],
            [f"{self}read"],
            domain=_FUSED,
            num_heads=config["num_attention_heads"],
        ),
        helper.make_node("Reshape", [f"{self}read", "merged"], [f"{self}merged"]),
        helper.make_node("Gather", [f"{self}merged", "flat"], [f"{self}out"]),
        project(f"{self}out", "attention.output.dense"),
        add_and_normalise(f"{name}attention.output.dense.projected", states, "attention.output", f"{name}attended"),
        project(f"{name}attended", "intermediate.dense"),
        helper.make_node(
            "BiasGelu",
            [f"{name}intermediate.dense.projected", f"{name}intermediate.dense.bias"],
            [f"{name}wide"],
            domain=_FUSED,
        ),
        project(f"{name}wide", "output.dense"),
        add_and_normalise(f"{name}output.dense.projected", f"{name}attended", "output", out),
    ]


def _outside(name: str, values: Vectors) -> TensorProto:
    """A tensor whose values are handed over beside the graph."""
    kind = TensorProto.FLOAT16 if values.dtype == np.float16 else TensorProto.FLOAT
    tensor = TensorProto(name=name, dims=values.shape, data_type=kind, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="beside")
    return tensor
