"""BERT in NumPy, for a process that asks one question: to start ONNX Runtime takes longer."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lmkrag.arrays import Ids, Vectors
from lmkrag.models.bert import PROJECTIONS, Bert, read_weights
from lmkrag.models.packing import WORDS
from lmkrag.system import computed_once

_LONGEST = 64  # tokens of a text that is read here; longer ones are faster in ONNX Runtime, its start included
_ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)


class LateBert:
    """A :class:`Bert` that is made once it is needed: the first text that must be exact and is short is read without.

    State: whether a text was read, and the model.
    """

    def __init__(self, weights: Path, config: dict[str, Any], make: Callable[[], Bert]) -> None:
        self._weights, self._config, self._make, self._is_first = weights, config, make, True

    @computed_once
    def _bert(self) -> Bert:
        return self._make()

    @property
    def precision(self) -> str:
        """See :class:`Bert`."""
        return self._bert.precision

    def read(self, ids: Sequence[int] | Ids, lengths: Sequence[int], *, exact: bool = True) -> Vectors:
        """Return the last states ``[tokens, dimensions]`` of texts: see :class:`Bert`."""
        if self._is_first and exact and len(lengths) == 1 and len(ids) <= _LONGEST:
            self._is_first = False
            return read_text(self._weights, self._config, np.asarray(ids, np.int64))
        return self._bert.read(ids, lengths, exact=exact)


def read_text(path: Path, config: dict[str, Any], ids: Ids) -> Vectors:
    """Return the last states ``[tokens, dimensions]`` of one text by the weights in a file, one layer after another."""
    weights = read_weights(path, only="embeddings.", words=ids)

    def normalize(states: Vectors, name: str) -> Vectors:
        centred = states - states.mean(1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(1, keepdims=True) + config["layer_norm_eps"])
        normal: Vectors = centred / deviation * weights[f"{name}.LayerNorm.weight"] + weights[f"{name}.LayerNorm.bias"]
        return normal

    words = weights[WORDS].astype(np.float32)
    places, halves = (weights[f"embeddings.{part}_embeddings.weight"] for part in ("position", "token_type"))
    states = normalize(words + places[: len(ids)] + halves[0], "embeddings")
    for layer in range(config["num_hidden_layers"]):
        module = f"encoder.layer.{layer}."
        weights = read_weights(path, only=module)

        def project(states: Vectors, name: str, weights: dict[str, Vectors] = weights) -> Vectors:
            return states @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

        parts = [project(states, f"{module}attention.self.{part}") for part in PROJECTIONS]
        heads = [part.reshape(len(ids), config["num_attention_heads"], -1).swapaxes(0, 1) for part in parts]
        scores = heads[0] @ heads[1].swapaxes(1, 2) / np.float32(heads[0].shape[2] ** 0.5)
        shares = np.exp(scores - scores.max(2, keepdims=True))
        read = (shares / shares.sum(2, keepdims=True) @ heads[2]).swapaxes(0, 1).reshape(states.shape)
        states = normalize(states + project(read, f"{module}attention.output.dense"), f"{module}attention.output")
        wide = _gelu(project(states, f"{module}intermediate.dense"))
        states = normalize(states + project(wide, f"{module}output.dense"), f"{module}output")
    return states


def _gelu(values: Vectors) -> Vectors:
    """The exact GELU, its error function within 2e-7 (Abramowitz and Stegun, 7.1.26)."""
    size = np.abs(values) * np.float32(0.5**0.5)
    part = 1 / (1 + np.float32(0.3275911) * size)
    erf = 1 - np.polyval([*_ERF, 0], part) * np.exp(-(size**2))
    result: Vectors = (0.5 * values * (1 + np.copysign(erf, values))).astype(np.float32)
    return result
