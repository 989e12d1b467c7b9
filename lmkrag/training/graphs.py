"""Write the ONNX graphs of an encoder beside its weights, so that it runs where ``onnx`` is not installed."""

from pathlib import Path

from lmkrag.encoder.loading import read_config
from lmkrag.models.bert import fuse_weights, read_weights
from lmkrag.models.graph import build_bert
from lmkrag.models.quantization import quantize, read_ranges


def write_encoder_graphs(folder: Path) -> None:
    """Write the graph of an encoder folder, and where it has ranges that for int8."""
    config, layers = read_config(folder), read_config(folder)["num_hidden_layers"]
    weights, ranges = fuse_weights(read_weights(folder / "model.safetensors", rows=True), layers), read_ranges(folder)
    (folder / "float32.onnx").write_bytes(build_bert(config, weights, int8=False))
    if ranges is not None:
        (folder / "int8.onnx").write_bytes(build_bert(config, quantize(weights, ranges, layers), int8=True))
