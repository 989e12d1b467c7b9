"""Compare all sentences that were read for a question, across passages and documents.

``landmark-reranker`` reads each passage separately. An ensemble of small transformers then reads
features of all its sentences: the rank and the search score of each, those of its neighbours, and
how good the others are (Pang et al., "SetRank", arXiv 1912.05891). The members differ in their
initial weights, and their mean is better than any of them (Lakshminarayanan et al., arXiv
1612.01474). They are trained on documents that the re-ranker was not trained on, so that they learn
how far to trust its ranks (``pipelines/train/train_listwise.py`` of commit 4f1c2b7a).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from safetensors import safe_open

from lmkrag.index.searchable import best_of_groups
from lmkrag.models.bert import fuse_layers
from lmkrag.models.session import Session
from lmkrag.reranker.base import ScoredSentences
from lmkrag.types.arrays import Scores, Vectors

# a file beside a re-ranker's; without it, ranks are added to the search's scores
WEIGHTS = "listwise.safetensors"
GRAPH = "listwise.onnx"  # the file with the graph of its members
# ``[lists, sentences, features]`` in, ``[lists * sentences, 1]`` out
FEATURES, LOGITS = ("features", "logits")
CONFIG = ("hidden_size", "num_hidden_layers", "num_attention_heads", "layer_norm_eps")
"""The configuration of the model in the file, by the names of transformers."""

SHARE = 5.0  # a sentence's log-odds beside its rank; see ``benchmarks/log/sentence-reranking.md``
_BESIDE_RANKS = (20.0, 60.0)  # factors of the search's scores in a softmax together with ranks
_ALONE = 100.0  # the same without ranks
_BESIDE = (-2, -1, 1, 2)
_AROUND = 5
_WEAKEST = -12.0  # strength of a short answer below which all are alike
_LIMIT = 6.0  # standard deviations


def describe_sentences(read: ScoredSentences) -> Vectors:
    """Return the features of each sentence, ``[n, features]`` float32.

    The search's scores are differences from the best one: from absolute scores, or the number of
    documents, the model would learn the kind of the documents, and do worse on other kinds.
    """
    return np.stack(list(_columns(read)), 1).astype(np.float32)


def _columns(read: ScoredSentences) -> Iterator[Scores]:
    strength = np.maximum(read.strength, _WEAKEST)
    signals = (read.rank, read.score, read.answers)
    for values in (read.score, read.similarity):
        yield values - values.max()
    for values in (read.rank, read.answers, strength):
        yield values
        yield values - values.max()
    yield _log_softmax(read.rank)
    yield _log_softmax(_ALONE * read.score)
    for factor in _BESIDE_RANKS:
        yield _log_softmax(read.rank + factor * read.score)
    yield np.log1p(read.passages)
    yield np.log(np.maximum(read.lengths, 1))
    for offset in _BESIDE:
        beside = np.minimum(
            np.searchsorted(read.sentences, read.sentences + offset), len(read.sentences) - 1
        )
        known = (read.sentences[beside] == read.sentences + offset) & (
            read.documents[beside] == read.documents
        )
        for values in signals:
            yield np.where(known, values[beside] - values, 0.0)
    near = np.abs(read.sentences[:, None] - read.sentences) <= _AROUND
    near &= read.documents[:, None] == read.documents
    for values in signals:
        yield near @ values / near.sum(1) - values.max()
    for values in (read.rank, read.answers):
        yield np.where(near, values, -np.inf).max(1) - values.max()
    yield best_of_groups(read.rank, read.passages) - read.rank.max()
    for values in (read.rank, read.score):
        yield best_of_groups(values, read.documents) - values.max()


def _log_softmax(values: Scores) -> Scores:
    shifted = values - values.max()
    logarithms: Scores = shifted - np.log(np.exp(shifted).sum())
    return logarithms


class ListwiseModel:
    """The ensemble. State: a session for each member. May be shared by threads."""

    def __init__(self, members: Sequence[Session], mean: Vectors, deviation: Vectors) -> None:
        """Take the parts; :meth:`load` builds them. Features are given as deviations from their
        ``mean``.
        """
        self._members, self._mean, self._deviation = members, mean, deviation

    @classmethod
    def load(cls, folder: Path) -> Self | None:
        """Load the model of a re-ranker's folder; None where there is none."""
        if not (folder / WEIGHTS).is_file():
            return None
        _, members, mean, deviation = read_members(folder)
        return cls([Session(folder / GRAPH, member) for member in members], mean, deviation)

    def score(self, read: ScoredSentences) -> Scores:
        """Return the log-odds that each sentence is evidence, ``[n]``, compared with all others."""
        features = normalize_features(describe_sentences(read), self._mean, self._deviation)
        logits = [member.run([LOGITS], {FEATURES: features[None]})[0] for member in self._members]
        mean: Scores = np.mean(logits, 0)[:, 0]
        return mean


def read_members(folder: Path) -> tuple[dict[str, Any], list[dict[str, Vectors]], Vectors, Vectors]:
    """Return the model's configuration, each member's weights as the graph multiplies by them,
    means and deviations.
    """
    with safe_open(folder / WEIGHTS, "np") as file:
        config: dict[str, Any] = json.loads(file.metadata()["config"])
        weights = {name: file.get_tensor(name).astype(np.float32) for name in file.keys()}  # noqa: SIM118
    mean, deviation = weights.pop("mean"), weights.pop("deviation")
    members = {name.split(".")[1] for name in weights if name.startswith("members.")}
    if not members:
        raise ValueError(f"{WEIGHTS} has no members")
    fused = [
        _fuse_member(config, weights, f"members.{member}.") for member in sorted(members, key=int)
    ]
    return config, fused, mean, deviation


def _fuse_member(
    config: dict[str, Any], weights: Mapping[str, Vectors], prefix: str
) -> dict[str, Vectors]:
    """The weights of one member, whose names begin with ``prefix``."""
    member = {
        name.removeprefix(prefix): values
        for name, values in weights.items()
        if name.startswith(prefix)
    }
    fused = {
        name: member[name] for name in ("norm.weight", "norm.bias", "input.bias", "output.bias")
    }
    fused |= {
        name: np.ascontiguousarray(member[name].T) for name in ("input.weight", "output.weight")
    }
    return fused | fuse_layers(member, config["num_hidden_layers"])


def normalize_features(features: Vectors, mean: Vectors, deviation: Vectors) -> Vectors:
    """Return features ``[n, features]`` as deviations from their mean, within limits."""
    limited: Vectors = np.clip((features - mean) / deviation, -_LIMIT, _LIMIT).astype(np.float32)
    return limited
