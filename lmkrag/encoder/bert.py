"""BERT's forward pass in NumPy: a process that only asks needs no framework.

The architecture is that of Devlin et al., "BERT" (2019), with the exact GELU. Importing torch and transformers takes
seconds, reading a question a hundredth of one.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open

from lmkrag.arrays import Ids, Vectors


class Bert:
    """A model without a head. State: its weights, by the names that transformers gives them."""

    def __init__(self, weights: dict[str, Vectors], config: dict[str, Any]) -> None:
        """Take the weights and the configuration of the model."""
        self._weights, self._config = weights, config

    def read(self, ids: Sequence[int] | Ids, lengths: Sequence[int], types: Ids | None = None) -> Vectors:
        """Return the states of the last layer ``[tokens, dimensions]`` of texts one after the other.

        Weights are read from memory once for all of them: what most of the time goes into where texts are short.

        Args:
            ids: ``[tokens]`` of all texts, special ones included.
            lengths: tokens of each text, which attends to itself alone.
            types: ``[tokens]`` 0 or 1, which half of a pair each token is of; all 0 by default.
        """
        return self.run(self.embed(ids, lengths, types), lengths)

    def embed(self, ids: Sequence[int] | Ids, lengths: Sequence[int], types: Ids | None = None) -> Vectors:
        """Return the states before the first layer: see :meth:`read`."""
        get, eps = self._weights, float(self._config["layer_norm_eps"])
        positions = np.concatenate([np.arange(length) for length in lengths])
        states = get["embeddings.word_embeddings.weight"][ids].astype(np.float32)
        states += get["embeddings.position_embeddings.weight"][positions]
        states += get["embeddings.token_type_embeddings.weight"][0 if types is None else types]
        return self._normalise("embeddings.LayerNorm", states, eps)

    def run(self, states: Vectors, lengths: Sequence[int]) -> Vectors:
        """Return the states after the last layer, of those before the first."""
        eps = float(self._config["layer_norm_eps"])
        for layer in range(self._config["num_hidden_layers"]):
            name = f"encoder.layer.{layer}"
            attended = self._attend(f"{name}.attention.self", states, lengths)
            read = self._project(f"{name}.attention.output.dense", attended)
            states = self._normalise(f"{name}.attention.output.LayerNorm", states + read, eps)
            wide = gelu(self._project(f"{name}.intermediate.dense", states))
            added = self._project(f"{name}.output.dense", wide)
            states = self._normalise(f"{name}.output.LayerNorm", states + added, eps)
        return states

    def _attend(self, name: str, states: Vectors, lengths: Sequence[int]) -> Vectors:
        heads = self._config["num_attention_heads"]
        parts = [self._project(f"{name}.{part}", states) for part in ("query", "key", "value")]
        read = np.empty_like(states)
        start = 0
        for length in lengths:  # each text attends to itself alone
            one = slice(start, start := start + length)
            query, key, value = (part[one].reshape(length, heads, -1).transpose(1, 0, 2) for part in parts)
            scores = query @ key.transpose(0, 2, 1) / np.float32(np.sqrt(query.shape[2]))
            weights = np.exp(scores - scores.max(2, keepdims=True))
            weights /= weights.sum(2, keepdims=True)
            read[one] = (weights @ value).transpose(1, 0, 2).reshape(length, -1)
        return read

    def _project(self, name: str, states: Vectors) -> Vectors:
        projected: Vectors = states @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]
        return projected

    def _normalise(self, name: str, states: Vectors, eps: float) -> Vectors:
        centred = states - states.mean(1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(1, keepdims=True) + np.float32(eps))
        normalised: Vectors = scaled * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
        return normalised


def is_plain_bert(config: dict[str, Any]) -> bool:
    """Return whether :class:`Bert` runs a model of such a configuration."""
    return (
        config.get("model_type") == "bert"
        and config.get("hidden_act") == "gelu"
        and config.get("position_embedding_type", "absolute") == "absolute"
        and not config.get("is_decoder")
    )


def read_weights(path: Path, *, only: str = "") -> dict[str, Vectors]:
    """Return every tensor in float32, but the words' embeddings as they are: a text needs a few rows of them.

    Checkpoints of BERT with a head on top name what is below it ``bert.*``. With ``only``, one tensor is read.
    """
    weights = {}
    with safe_open(path, "np") as file:
        names = list(file.keys())
        prefix = "bert." if "bert.embeddings.word_embeddings.weight" in names else ""
        for name in names:
            inner = name.removeprefix(prefix)
            if name.startswith(prefix) and inner.startswith(only or ("embeddings.", "encoder.")):
                tensor = file.get_tensor(name)
                weights[inner] = tensor if "word_embeddings" in inner else tensor.astype(np.float32)
    return weights


def expected_names(config: dict[str, Any]) -> set[str]:
    """Return the names of the tensors that a model of such a configuration has."""
    names = {f"embeddings.{part}_embeddings.weight" for part in ("word", "position", "token_type")}
    parts = ["attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"]
    parts += ["attention.output.LayerNorm", "intermediate.dense", "output.dense", "output.LayerNorm"]
    modules = [f"encoder.layer.{layer}.{part}" for layer in range(config["num_hidden_layers"]) for part in parts]
    return names | {f"{module}.{kind}" for module in ["embeddings.LayerNorm", *modules] for kind in ("weight", "bias")}


def gelu(x: Vectors) -> Vectors:
    """Return x times the normal distribution at x; error function by Abramowitz and Stegun, 7.1.26 (within 1.5e-7)."""
    z = np.abs(x) * np.float32(np.sqrt(0.5))
    t = 1 / (1 + np.float32(0.3275911) * z)
    series: Any = np.float32(1.061405429)
    for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = series * t + np.float32(factor)
    error = np.copysign(1 - series * t * np.exp(-z * z), x)
    gelu: Vectors = x * (1 + error) / 2
    return gelu
