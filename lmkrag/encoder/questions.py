"""Encode questions without a framework.

A process that only asks imports neither torch nor transformers: this gives the vectors that
:class:`lmkrag.encoder.landmark.LandmarkEncoder` gives, within float32's rounding.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from safetensors import SafetensorError
from tokenizers import Tokenizer

from lmkrag.arrays import Vectors
from lmkrag.encoder.bert import Bert, expected_names, is_plain_bert, read_weights
from lmkrag.encoder.spec import check_weights, find_model, fingerprint_model, read_settings
from lmkrag.encoder.tokens import SentenceTokenizer
from lmkrag.errors import EncoderError
from lmkrag.types import EncoderSpec

_POOLINGS = ("lmk", "lmk+mean", "mean")


class QuestionEncoder:
    """An encoder that knows questions only. State: the model.

    >>> from lmkrag.encoder.landmark import LandmarkEncoder
    >>> spec = LandmarkEncoder.load().spec
    >>> encoder = QuestionEncoder.load(spec)
    >>> encoder.encode_queries(["When is the lamp lit?"]).shape
    (1, 384)
    """

    def __init__(self, bert: Bert, tokens: SentenceTokenizer, spec: EncoderSpec) -> None:
        """Take the parts; :meth:`load` builds them."""
        self.spec = spec
        self._bert, self._tokens = bert, tokens

    @classmethod
    def load(cls, spec: EncoderSpec) -> Self | None:
        """Load the model of an index, or return None where it takes a framework to run it.

        Raises:
            UsageError: the model is gone. EncoderError: its weights are damaged.
        """
        folder = find_model(spec.name)
        settings = read_settings(folder)
        config = read_config(folder)
        if not is_plain_bert(config) or spec.pooling not in _POOLINGS or not _has_files(folder):
            return None
        check_weights(folder, settings)
        if fingerprint_model(folder, f"{spec.window} {spec.overlap} {spec.pooling}") != spec.fingerprint:
            return None  # the framework's loader says what is wrong
        try:
            tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
            weights = read_weights(folder / "model.safetensors")
        except (SafetensorError, OSError, ValueError) as error:
            raise EncoderError(f"{folder}: can't be loaded as an encoder ({error})") from error
        if not expected_names(config) <= weights.keys():
            return None  # such as quantised weights: the framework knows how to read them, or says what is wrong
        tokens = SentenceTokenizer(
            tokenizer, window=spec.window, landmark=spec.landmark, query_prefix=spec.query_prefix
        )
        return cls(Bert(weights, config), tokens, spec)

    def encode_queries(self, queries: Sequence[str]) -> Vectors:
        """Encode questions: ``[len(queries), dimensions]`` float32 of length one. Cut at the window's length."""
        tokens = self._tokens
        read = [tokens.query(query).ids for query in queries]
        if not read:
            return np.zeros((0, self.spec.dimensions), np.float32)
        lengths = [len(tokens.prefix) + len(ids) + len(tokens.suffix) for ids in read]
        states = self._bert.read([token for ids in read for token in (*tokens.prefix, *ids, *tokens.suffix)], lengths)
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


def _has_files(folder: Path) -> bool:
    return (folder / "tokenizer.json").is_file() and (folder / "model.safetensors").is_file()


def read_config(folder: Path) -> dict[str, Any]:
    """Return the configuration of a model folder.

    Raises:
        EncoderError: it can't be read.
    """
    try:
        config: dict[str, Any] = json.loads((folder / "config.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise EncoderError(f"{folder}: can't be loaded as an encoder ({error})") from error
    return config
