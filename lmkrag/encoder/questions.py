"""Encode questions without a framework: BERT's forward pass in NumPy.

Importing torch and transformers takes seconds, a question a hundredth of one. So a process that only asks imports
neither: this gives the vectors that :class:`lmkrag.encoder.landmark.LandmarkEncoder` gives, within float32's rounding.
The architecture is that of Devlin et al., "BERT" (2019), with the exact GELU.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from safetensors import SafetensorError, safe_open
from tokenizers import Tokenizer

from lmkrag.arrays import Vectors
from lmkrag.encoder.spec import check_weights, find_model, fingerprint_model, read_settings
from lmkrag.encoder.tokens import SentenceTokenizer
from lmkrag.errors import EncoderError
from lmkrag.types import EncoderSpec

_POOLINGS = ("lmk", "lmk+mean", "mean")


class QuestionEncoder:
    """An encoder that knows questions only. State: the model's weights.

    >>> from lmkrag.encoder.landmark import LandmarkEncoder
    >>> spec = LandmarkEncoder.load().spec
    >>> encoder = QuestionEncoder.load(spec)
    >>> encoder.encode_queries(["When is the lamp lit?"]).shape
    (1, 384)
    """

    def __init__(
        self, weights: dict[str, Vectors], config: dict[str, Any], tokens: SentenceTokenizer, spec: EncoderSpec
    ) -> None:
        """Take the parts; :meth:`load` builds them."""
        self.spec = spec
        self._weights, self._config, self._tokens = weights, config, tokens

    @classmethod
    def load(cls, spec: EncoderSpec) -> Self | None:
        """Load the model of an index, or return None where it takes a framework to run it.

        Raises:
            UsageError: the model is gone. EncoderError: its weights are damaged.
        """
        folder = find_model(spec.name)
        settings = read_settings(folder)
        config = _read_config(folder)
        if not _is_plain_bert(config) or spec.pooling not in _POOLINGS or not _has_files(folder):
            return None
        check_weights(folder, settings)
        if fingerprint_model(folder, f"{spec.window} {spec.overlap} {spec.pooling}") != spec.fingerprint:
            return None  # the framework's loader says what is wrong
        try:
            tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
            weights = _read_weights(folder / "model.safetensors")
        except (SafetensorError, OSError, ValueError) as error:
            raise EncoderError(f"{folder}: can't be loaded as an encoder ({error})") from error
        if not _expected_names(config) <= weights.keys():
            return None  # such as quantised weights: the framework knows how to read them, or says what is wrong
        tokens = SentenceTokenizer(
            tokenizer, window=spec.window, landmark=spec.landmark, query_prefix=spec.query_prefix
        )
        return cls(weights, config, tokens, spec)

    def encode_queries(self, queries: Sequence[str]) -> Vectors:
        """Encode questions: ``[len(queries), dimensions]`` float32 of length one. Cut at the window's length."""
        tokens = self._tokens
        read = [tokens.query(query).ids for query in queries]
        if not read:
            return np.zeros((0, self.spec.dimensions), np.float32)
        lengths = [len(tokens.prefix) + len(ids) + len(tokens.suffix) for ids in read]
        states = self._read([token for ids in read for token in (*tokens.prefix, *ids, *tokens.suffix)], lengths)
        starts = np.cumsum([0, *lengths[:-1]]) + len(tokens.prefix)
        return np.stack([self._pool(states[start : start + len(ids)]) for start, ids in zip(starts, read, strict=True)])

    def count_tokens(self, text: str) -> int:
        """Return how many tokens ``text`` is, special tokens not counted."""
        return self._tokens.count(text)

    def _pool(self, states: Vectors) -> Vectors:
        """The vector of a question from the states of its tokens ``[tokens, dimensions]``."""
        if self.spec.pooling == "lmk":
            states = states[-1:]
        elif self.spec.pooling == "mean":
            states = states[: len(states) - len(self._tokens.landmark)]
        vector: Vectors = states.sum(0) / max(1, len(states))
        return vector / max(float(np.linalg.norm(vector)), 1e-12)

    def _read(self, ids: list[int], lengths: list[int]) -> Vectors:
        """The states ``[tokens, dimensions]`` of the last layer, of questions one after the other.

        Weights are read from memory once for all of them: what most of the time goes into where questions are short.
        """
        get, eps = self._weights, float(self._config["layer_norm_eps"])
        positions = np.concatenate([np.arange(length) for length in lengths])
        states = get["embeddings.word_embeddings.weight"][ids].astype(np.float32)
        states += get["embeddings.position_embeddings.weight"][positions]
        states += get["embeddings.token_type_embeddings.weight"][0]
        states = self._normalise("embeddings.LayerNorm", states, eps)
        for layer in range(self._config["num_hidden_layers"]):
            name = f"encoder.layer.{layer}"
            attended = self._attend(f"{name}.attention.self", states, lengths)
            read = self._project(f"{name}.attention.output.dense", attended)
            states = self._normalise(f"{name}.attention.output.LayerNorm", states + read, eps)
            wide = _gelu(self._project(f"{name}.intermediate.dense", states))
            added = self._project(f"{name}.output.dense", wide)
            states = self._normalise(f"{name}.output.LayerNorm", states + added, eps)
        return states

    def _attend(self, name: str, states: Vectors, lengths: list[int]) -> Vectors:
        heads = self._config["num_attention_heads"]
        parts = [self._project(f"{name}.{part}", states) for part in ("query", "key", "value")]
        read = np.empty_like(states)
        start = 0
        for length in lengths:  # each question attends to itself alone
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


def _is_plain_bert(config: dict[str, Any]) -> bool:
    return (
        config.get("model_type") == "bert"
        and config.get("hidden_act") == "gelu"
        and config.get("position_embedding_type", "absolute") == "absolute"
        and not config.get("is_decoder")
    )


def _has_files(folder: Path) -> bool:
    return (folder / "tokenizer.json").is_file() and (folder / "model.safetensors").is_file()


def _read_config(folder: Path) -> dict[str, Any]:
    try:
        config: dict[str, Any] = json.loads((folder / "config.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise EncoderError(f"{folder}: can't be loaded as an encoder ({error})") from error
    return config


def _read_weights(path: Path) -> dict[str, Vectors]:
    """Every tensor in float32, but the words' embeddings as they are: a question needs a few rows of them.

    Checkpoints of BERT with a head on top name what is below it ``bert.*``.
    """
    weights = {}
    with safe_open(path, "np") as file:
        names = list(file.keys())
        prefix = "bert." if "bert.embeddings.word_embeddings.weight" in names else ""
        for name in names:
            inner = name.removeprefix(prefix)
            if name.startswith(prefix) and inner.startswith(("embeddings.", "encoder.")):
                tensor = file.get_tensor(name)
                weights[inner] = tensor if "word_embeddings" in inner else tensor.astype(np.float32)
    return weights


def _expected_names(config: dict[str, Any]) -> set[str]:
    """The tensors that :meth:`QuestionEncoder._read` reads."""
    names = {f"embeddings.{part}_embeddings.weight" for part in ("word", "position", "token_type")}
    parts = ["attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"]
    parts += ["attention.output.LayerNorm", "intermediate.dense", "output.dense", "output.LayerNorm"]
    modules = [f"encoder.layer.{layer}.{part}" for layer in range(config["num_hidden_layers"]) for part in parts]
    return names | {f"{module}.{kind}" for module in ["embeddings.LayerNorm", *modules] for kind in ("weight", "bias")}


def _gelu(x: Vectors) -> Vectors:
    """Return x times the normal distribution at x; error function by Abramowitz and Stegun, 7.1.26 (within 1.5e-7)."""
    z = np.abs(x) * np.float32(np.sqrt(0.5))
    t = 1 / (1 + np.float32(0.3275911) * z)
    series: Any = np.float32(1.061405429)
    for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = series * t + np.float32(factor)
    error = np.copysign(1 - series * t * np.exp(-z * z), x)
    gelu: Vectors = x * (1 + error) / 2
    return gelu
