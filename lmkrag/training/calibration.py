"""Measure the least and greatest values of what a model multiplies, so that it can be run in
int8.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lmkrag.encoder.landmark import LandmarkEncoder
from lmkrag.encoder.loading import read_config
from lmkrag.encoder.onnx_model import OnnxModel
from lmkrag.evaluation.dataset import load_dataset
from lmkrag.models.bert import Bert, bert_inputs, fuse_weights, read_weights
from lmkrag.models.graph import BERT_INPUTS, bert_nodes, build_bert, build_model, parse_nodes
from lmkrag.models.quantization import product_names, quantize, read_ranges, write_ranges
from lmkrag.models.session import AFTER, Session
from lmkrag.sentences.split import split_sentences
from lmkrag.types.arrays import Ids, Vectors, Weights

_DOCUMENTS, _CHARACTERS = 6, 4_000  # of each set


def sample_texts(sets: Iterable[Path]) -> Iterator[str]:
    """Yield the beginnings of six documents of each set in the data format."""
    rng = np.random.default_rng(0)
    for folder in sets:
        documents = load_dataset(folder).documents
        for number in rng.permutation(len(documents))[:_DOCUMENTS]:
            yield documents[number].text[:_CHARACTERS]


def calibrate_encoder(folder: Path, texts: Iterable[str]) -> None:
    """Measure the ranges of an encoder, and write them and its graphs into its folder.

    Args:
        folder: the encoder folder, which must be a plain BERT.
        texts: texts like those that will be read, of 100,000 characters or more.

    Raises:
        EncoderError: the folder can't be loaded.
    """
    encoder = LandmarkEncoder.load(str(folder), runtime="onnx", precision="float32")
    model = _MeteredBert(read_weights(folder / "model.safetensors"), read_config(folder))
    encoder.model = OnnxModel(model, encoder.spec.pooling, encoder.tokens)
    for text in texts:
        encoder.encode(text, split_sentences(text))
    write_ranges(folder, model.meter.ranges)
    write_encoder_graphs(folder)


def write_encoder_graphs(folder: Path) -> None:
    """Write the graph of an encoder folder, and the one for int8 if the folder has ranges."""
    config, ranges = read_config(folder), read_ranges(folder)
    layers = config["num_hidden_layers"]
    weights = fuse_weights(read_weights(folder / "model.safetensors", rows=True), layers)
    (folder / "float32.onnx").write_bytes(build_bert(config, weights, int8=False))
    if ranges is not None:
        (folder / "int8.onnx").write_bytes(
            build_bert(config, quantize(weights, ranges, layers), int8=True)
        )


class RangeMeter:
    """Runs a BERT and notes the least and greatest values of each channel that it multiplies.

    Attributes:
        ranges: ``[2, channels]`` float32 of each product, by name, of all runs so far.
    """

    def __init__(self, fused: Weights, config: dict[str, Any]) -> None:
        """Build a graph whose outputs are also the inputs of each product.

        Args:
            fused: fused weights, from :func:`lmkrag.models.bert.fuse_weights`.
            config: the model's ``config.json``.
        """
        self.ranges: Weights = {}
        nodes = bert_nodes(config, fused)
        parsed = parse_nodes(nodes, BERT_INPUTS, [AFTER]).graph.node
        self._given = {
            name: next(node.input[0] for node in parsed if f"{name}weight" in node.input)
            for name in product_names(config["num_hidden_layers"])
        }
        outputs = [AFTER, *dict.fromkeys(self._given.values())]
        self._session = Session(build_model(nodes, BERT_INPUTS, outputs, fused), fused)

    def read(self, inputs: dict[str, Any]) -> Vectors:
        """Return the states of the last layer for inputs from
        :func:`lmkrag.models.bert.bert_inputs`, and note the ranges.
        """
        after, *multiplied = self._session.run([AFTER, *self._given.values()], inputs)
        for name, values in zip(self._given, multiplied, strict=True):
            low, high = self.ranges.get(name, (0.0, 0.0))
            self.ranges[name] = np.stack(
                [np.minimum(low, values.min(0)), np.maximum(high, values.max(0))]
            )
        return after


class _MeteredBert(Bert):
    """A BERT that notes the ranges of what it multiplies."""

    def __init__(self, weights: Weights, config: dict[str, Any]) -> None:
        super().__init__(weights, config)
        self.meter = RangeMeter(self._fused, config)

    def _run(self, groups: Sequence[Ids], exact: bool) -> list[Vectors]:
        return [self.meter.read(bert_inputs(ids)) for ids in groups]
