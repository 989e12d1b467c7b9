"""Measure how far the channels of a model reach, so that it can be run in int8."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lmkrag.arrays import Ids, Vectors
from lmkrag.corpus.sentences import split_sentences
from lmkrag.encoder.bert import Bert, lay_out
from lmkrag.encoder.graph import AFTER, BERT_INPUTS, bert_nodes, build_model
from lmkrag.encoder.landmark import LandmarkEncoder
from lmkrag.encoder.loading import load_parts, read_bert, read_config
from lmkrag.encoder.onnx_model import OnnxModel
from lmkrag.encoder.quantization import product_names, write_ranges
from lmkrag.encoder.session import Session
from lmkrag.evaluation.dataset import load_dataset

_DOCUMENTS, _CHARACTERS = 6, 4_000  # of each set


def sample_texts(sets: Iterable[Path], seed: int = 0) -> Iterator[str]:
    """Yield the beginnings of some documents of sets in the data format."""
    rng = np.random.default_rng(seed)
    for folder in sets:
        documents = load_dataset(folder).documents
        for number in rng.permutation(len(documents))[:_DOCUMENTS]:
            yield documents[number].text[:_CHARACTERS]


def calibrate(folder: Path, texts: Iterable[str]) -> None:
    """Measure ``ranges.npz`` of an encoder folder and write it.

    Args:
        folder: an encoder that ONNX Runtime can run.
        texts: of many kinds, a hundred thousand characters or more; values beyond what they reach are cut off later.

    Raises:
        EncoderError: it can't be loaded, or ONNX Runtime can't run it.
    """
    parts = load_parts(str(folder), runtime="onnx", precision="float32")
    meter = RangeMeter(read_bert(folder), read_config(folder))
    encoder = LandmarkEncoder(OnnxModel(meter, parts.spec.pooling, parts.tokens), parts.tokens, parts.spec)
    for text in texts:
        encoder.encode(text, split_sentences(text))
    write_ranges(folder, meter.ranges)


class RangeMeter(Bert):
    """A model that notes how far the channels reach of what it multiplies. State: ``ranges``."""

    def __init__(self, weights: dict[str, Vectors], config: dict[str, Any]) -> None:
        """Take what the model is: see :class:`lmkrag.encoder.bert.Bert`."""
        super().__init__(weights, config)
        self.ranges: dict[str, Vectors] = {}
        layers = config["num_hidden_layers"]
        nodes = bert_nodes(config)
        self._given = {
            name: next(node.input[0] for node in nodes if f"{name}weight" in node.input)
            for name in product_names(layers)
        }
        outputs = [AFTER, *dict.fromkeys(self._given.values())]
        self._session = Session(build_model(nodes, BERT_INPUTS, outputs, self._fused), self._fused)

    def read(self, ids: Sequence[int] | Ids, lengths: Sequence[int], *, exact: bool = True) -> Vectors:
        """Return the states of the last layer: see :meth:`lmkrag.encoder.bert.Bert.read`."""
        after, *given = self._session.run([AFTER, *self._given.values()], lay_out(ids, lengths))
        for name, values in zip(self._given, given, strict=True):
            low, high = self.ranges.get(name, (0.0, 0.0))
            self.ranges[name] = np.stack([np.minimum(low, values.min(0)), np.maximum(high, values.max(0))])
        return after
