"""The listwise model in training: what lmkrag.reranker.listwise runs, its losses, and its graph."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from mined_passages import ANSWERS, UNKNOWN
from reranker_files import save_half
from reranker_settings import MiningSettings, share_sets
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset
from transformers import BertConfig
from transformers.models.bert.modeling_bert import BertEncoder

from lmkrag.arrays import Ids, Vectors
from lmkrag.models.files import make_readable
from lmkrag.models.graph import build_model, layer_nodes, normalize, shape_nodes
from lmkrag.models.session import AFTER, BEFORE
from lmkrag.reranker.base import DEFAULT_RERANKER, ScoredSentences
from lmkrag.reranker.listwise import (
    CONFIG,
    FEATURES,
    GRAPH,
    LOGITS,
    WEIGHTS,
    describe_sentences,
    normalize_features,
    read_members,
)

_POWER = 0.4  # a set's share of the questions grows with its size to this power
_WHOLE = 0.5  # of the questions keep all their passages
_FEWEST = 4  # passages of the other questions
_INPUTS = f"float[lists, sentences, features] {FEATURES}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListwiseSettings(MiningSettings):
    """The training of the listwise model: the table ``[listwise]`` of a configuration."""

    reranker: str = DEFAULT_RERANKER  # reads the passages; a folder is relative to the configuration
    questions: int = 32  # of a step, each with all its passages
    layers: int = 2  # of each member
    size: int = 64  # dimensions of each layer
    members: int = 4  # of the model
    dropout: float = 0.1  # share of the dimensions that are left out
    learning_rate: float = 1e-3


class LabelledList(NamedTuple):
    """The sentences that were read for a question, and their ``labels`` ``[n]``."""

    read: ScoredSentences
    labels: Ids


@dataclass(frozen=True, slots=True)
class ListwiseStep:
    """``q`` questions of ``n`` sentences, padded."""

    features: Tensor  # ``[q, n, features]``, as deviations from their means
    labels: Tensor  # ``[q, n]``, padding is unknown
    real: Tensor  # ``[q, n]``, false for padding

    def to(self, device: torch.device) -> "ListwiseStep":
        """Return the same on a device."""
        return ListwiseStep(self.features.to(device), self.labels.to(device), self.real.to(device))


class ListwiseData(Dataset[ListwiseStep]):
    """The steps of a run. Step ``i`` is a function of the seed and ``i``, so a resumed run sees the same ones."""

    def __init__(
        self,
        settings: ListwiseSettings,
        sets: Sequence[Sequence[LabelledList]],
        mean: Vectors,
        deviation: Vectors,
        processes: int,
    ) -> None:
        """Take the questions of each set in the order of the settings; ``processes`` share the steps."""
        self._settings, self._sets, self._mean, self._deviation = settings, sets, mean, deviation
        self._processes = processes
        self._shares = share_sets(settings.sets, sets, _POWER)

    def __len__(self) -> int:
        return self._settings.steps * self._processes

    def __getitem__(self, index: int) -> ListwiseStep:
        rng = np.random.default_rng((self._settings.seed, index))
        chosen = []
        for number in rng.choice(len(self._sets), self._settings.questions, p=self._shares):
            item = self._sets[number][int(rng.integers(len(self._sets[number])))]
            passages = int(item.read.passages.max()) + 1
            if rng.random() >= _WHOLE and passages > _FEWEST:
                item = keep_passages(item, int(rng.integers(_FEWEST, passages)))
            chosen.append(item)
        features = [normalize_features(describe_sentences(item.read), self._mean, self._deviation) for item in chosen]
        longest = max(len(values) for values in features)
        labels = np.full((len(chosen), longest), UNKNOWN, np.int64)
        padded = np.zeros((len(chosen), longest, len(self._mean)), np.float32)
        real = np.zeros((len(chosen), longest), bool)
        for row, (values, item) in enumerate(zip(features, chosen, strict=True)):
            padded[row, : len(values)], labels[row, : len(values)], real[row, : len(values)] = values, item.labels, True
        return ListwiseStep(torch.from_numpy(padded), torch.from_numpy(labels), torch.from_numpy(real))


def keep_passages(item: LabelledList, count: int) -> LabelledList:
    """Return what a search that re-ranks only the first passages would have read."""
    mask = item.read.passages < count
    arrays = {name: values[mask] for name, values in item.read._asdict().items()}
    return LabelledList(item.read._replace(**arrays), item.labels[mask])


def measure_features(sets: Sequence[Sequence[LabelledList]]) -> tuple[Vectors, Vectors]:
    """Return the mean and the deviation of each feature, ``[features]`` each, every set weighing the same."""
    features = [np.concatenate([describe_sentences(item.read) for item in questions]) for questions in sets]
    mean = np.mean([values.mean(0) for values in features], 0)
    square = np.mean([((values - mean) ** 2).mean(0) for values in features], 0)
    return mean.astype(np.float32), np.sqrt(square + 1e-6).astype(np.float32)


_HEADS = 4
_LIST_SHARE = 0.3  # of each of the two losses over a question's sentences, beside that of each sentence alone
_MASKED = -1e4


class Member(nn.Module):
    """A transformer that sees the features of all sentences of a question."""

    def __init__(self, config: BertConfig, features: int) -> None:
        super().__init__()
        self.input = nn.Linear(features, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.encoder = BertEncoder(config)
        self.output = nn.Linear(config.hidden_size, 1)

    def forward(self, features: Tensor, mask: Tensor) -> Tensor:
        """Return log-odds ``[q, n]`` from features ``[q, n, features]``; ``mask`` ``[q, 1, 1, n]`` is for attention."""
        states = self.encoder(self.norm(self.input(features)), attention_mask=mask).last_hidden_state
        logits: Tensor = self.output(states)[..., 0]
        return logits


class ListwiseTrainee(nn.Module):
    """The model and its loss, in the form that transformers' Trainer trains."""

    def __init__(
        self, mean: Vectors, deviation: Vectors, *, size: int, layers: int, members: int, dropout: float
    ) -> None:
        """Make untrained ``members`` of ``layers`` layers of ``size``; ``mean`` and ``deviation`` ``[features]``."""
        super().__init__()
        self._mean, self._deviation = mean, deviation
        self._config = BertConfig(
            vocab_size=1,
            hidden_size=size,
            num_hidden_layers=layers,
            num_attention_heads=_HEADS,
            intermediate_size=2 * size,
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=dropout,
            attn_implementation="sdpa",
        )
        self.members = nn.ModuleList(Member(self._config, len(mean)) for _ in range(members))

    def read(self, features: Tensor, known: Tensor) -> Tensor:
        """Return log-odds ``[members, q, n]`` of features ``[q, n, features]``; what is not ``known`` is padding."""
        mask = torch.zeros(known.shape, dtype=features.dtype, device=features.device).masked_fill(~known, _MASKED)
        return torch.stack([member(features, mask[:, None, None]) for member in self.members])

    def forward(self, step: ListwiseStep) -> dict[str, Tensor]:
        """Return ``{"loss": scalar}``, the sum of the members' means over questions: see :meth:`_member_loss`."""
        losses = [self._member_loss(logits, step) for logits in self.read(step.features, step.real)]
        return {"loss": torch.stack(losses).sum()}

    def _member_loss(self, logits: Tensor, step: ListwiseStep) -> Tensor:
        """The loss of log-odds ``[q, n]``: of each sentence alone, of the best evidence and of all before the rest."""
        known, good = step.labels != UNKNOWN, step.labels == ANSWERS
        each = functional.binary_cross_entropy_with_logits(logits, good.to(logits.dtype), reduction="none")
        each = (each * known).sum(1) / known.sum(1).clamp(min=1)
        best, rest, both = (
            logits.masked_fill(~chosen, _MASKED).logsumexp(1) for chosen in (good, known & ~good, known)
        )
        some = (both - best) * good.any(1)
        every = (functional.softplus(rest[:, None] - logits) * good).sum(1) / good.sum(1).clamp(min=1)
        return (each + _LIST_SHARE * (some + every)).mean()

    def save(self, folder: Path) -> None:
        """Write the model beside a re-ranker's weights, in float16. Raises EncoderError: a weight is not finite."""
        exact = {"mean": torch.from_numpy(self._mean), "deviation": torch.from_numpy(self._deviation)}
        config = json.dumps({name: getattr(self._config, name) for name in CONFIG})
        save_half(self.state_dict(), folder / WEIGHTS, exact=exact, config=config)
        make_readable(folder)
        write_listwise_graph(folder)


def write_listwise_graph(folder: Path) -> None:
    """Write the graph of a re-ranker's listwise model."""
    config, members, _, _ = read_members(folder)
    graph = build_model(_listwise_nodes(config), _INPUTS, [LOGITS], members[0])
    (folder / GRAPH).write_bytes(graph)


def _listwise_nodes(config: dict[str, Any]) -> str:
    """What computes the log-odds of sentences from their features."""
    return f"""{shape_nodes(config, FEATURES)}
        projected = MatMul({FEATURES}, "input.weight")
        embedded = Add(projected, "input.bias")
        flattened = Reshape(embedded, flat)
        {normalize(config, "flattened", "norm.", BEFORE)}
        {layer_nodes(config)}
        {LOGITS} = Gemm({AFTER}, "output.weight", "output.bias")"""
