"""Floats from a BERT that ONNX Runtime quantized dynamically: int8, one scale for each matrix."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper


def unpack(path: Path) -> dict[str, Any]:
    """Return the weights of a BERT in dynamic int8 as floats, by the names that transformers gives them."""
    graph = onnx.load(path).graph
    tensors = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    readers: dict[str, list[Any]] = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    weights = {}
    for name, values in tensors.items():
        stored = name.removesuffix("_quantized")
        if stored == name:
            if values.dtype == np.float32 and values.ndim and not name.endswith("_scale"):
                weights[name] = values
            continue
        zero = tensors[f"{stored}_zero_point"].astype(np.float32)
        values = (values.astype(np.float32) - zero) * tensors[f"{stored}_scale"]
        if any(node.op_type == "MatMulInteger" for node in readers[name]):
            values = np.ascontiguousarray(values.T)
        weights[stored if stored.endswith(".weight") else _name(readers[name][0], readers, tensors)] = values
    return weights


def _name(node: Any, readers: dict[str, list[Any]], tensors: dict[str, Any]) -> str:
    """The name of a matrix that lost it: that of the bias which is added to its product."""
    while True:
        (node,) = [reader for output in node.output for reader in readers.get(output, [])][:1]
        biases = [name for name in node.input if name in tensors and name.endswith(".bias")]
        if node.op_type == "Add" and biases:
            return f"{biases[0].removesuffix('.bias')}.weight"
