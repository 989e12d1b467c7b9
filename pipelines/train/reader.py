"""A reader of passages in training: the model, and its losses.

It reads `[CLS] question [SEP] place sentences [SEP]`. The first token's state says how well the
passage answers, and whether it has the whole answer; the mean of a sentence's tokens, whether the
sentence answers; each token, whether a short answer begins or ends there (Devlin et al., 2019): at
the first where there is none.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors.numpy import load_file
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrize
from transformers import BertConfig, BertModel

from lmkrag.encoder.spec import find_model
from lmkrag.models.bert import read_weights
from lmkrag.models.packing import WORDS, unpack_weights
from lmkrag.reranker.folders import read_settings
from pipelines.train.four_bits import Rounding
from pipelines.train.loop import Build, Compute, Loop
from pipelines.train.mined import ANSWERS, UNKNOWN
from pipelines.train.passages import Step
from pipelines.train.settings import Training, find_start

HEADS = ("classifier", "complete", "sentence", "ends")
_HEAD_SIZE = 32  # dimensions
_MASKED = -1e4  # in place of a logit
_LAYER = re.compile(r"(?<=encoder\.layer\.)\d+")
_HALF = 0.5  # weight of losses beside those of passages


class Scores(NamedTuple):
    """The logits of ``p`` passages of ``t`` tokens and ``k`` sentences.

    That each answers, and that it has the whole answer ``[p]``; of sentences ``[p, k]``; of the
    first and last token of a short answer ``[p, t, 2]``.
    """

    passages: Tensor
    complete: Tensor
    sentences: Tensor
    ends: Tensor


class Reader(nn.Module):
    """BERT with four heads."""

    def __init__(self, weights: dict[str, Tensor], layers: Sequence[int] = ()) -> None:
        """Take weights by the names of this module, heads may lack; keep some layers, or all."""
        super().__init__()
        kept = layers or range(1 + max(map(find_layer, weights)))
        words, size = weights[f"bert.{WORDS}"].shape

        def count(table: str) -> int:
            return len(weights[f"bert.embeddings.{table}_embeddings.weight"])

        config = BertConfig(
            vocab_size=words,
            hidden_size=size,
            num_hidden_layers=len(kept),
            num_attention_heads=size // _HEAD_SIZE,
            intermediate_size=4 * size,
            max_position_embeddings=count("position"),
            type_vocab_size=count("token_type"),
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            # For texts this short the fused attention is half as fast on a CPU.
            attn_implementation="sdpa" if torch.cuda.is_available() else "eager",
        )
        self.bert = BertModel(config)
        self.classifier, self.complete, self.sentence = (nn.Linear(size, 1) for _ in range(3))
        self.ends = nn.Linear(size, 2)
        for head in (self.complete, self.sentence):
            nn.init.zeros_(head.weight)
        missing, unknown = self.load_state_dict(keep_layers(weights, kept), strict=False)
        lacking = [name for name in missing if not name.startswith((*HEADS, "bert.pooler"))]
        assert not unknown and not lacking, (lacking, unknown)

    @property
    def layers(self) -> list[nn.Module]:
        """The layers of BERT."""
        return list(self.bert.encoder.layer)

    def forward(self, step: Step) -> Scores:
        """Return the scores of passages."""
        states = self.bert(
            step.ids, attention_mask=step.mask.long(), token_type_ids=step.types
        ).last_hidden_state
        return self.score(states, step)

    def score(self, states: Tensor, step: Step) -> Scores:
        """Return the scores of passages, from the states of the last layer ``[p, t, size]``."""
        last, count = states.float(), step.labels.shape[1]
        group = torch.where(step.owners >= 0, step.owners, count)
        sums = last.new_zeros(len(last), count + 1, last.shape[2])
        sums.scatter_add_(1, group[..., None].expand_as(last), last)
        sizes = last.new_zeros(sums.shape[:2])
        sizes.scatter_add_(1, group, torch.ones_like(group, dtype=last.dtype))
        means = (sums / sizes.clamp(min=1)[..., None])[:, :count]
        is_first = torch.arange(last.shape[1], device=last.device) == 0
        readable = step.mask & (step.types.bool() | is_first)  # no answer is in the question
        ends = self.ends(last).masked_fill(~readable[..., None], _MASKED)
        pooled = self.bert.pooler(states).float()
        passages, complete = self.classifier(pooled)[:, 0], self.complete(pooled)[:, 0]
        scores = Scores(passages, complete, self.sentence(means)[..., 0], ends)
        return Scores(*(values.float() for values in scores))

    def learn(self, trained: int, packed: int) -> None:
        """Let the heads and the last ``trained`` layers learn, 0 for all.

        The first ``packed`` layers compute in 4 bits, so that what is measured is what ships.
        """
        self.bert.embeddings.requires_grad_(False)
        fixed = len(self.layers) - trained if trained else 0
        for layer in self.layers[:fixed]:
            layer.requires_grad_(False)
        for matrix in find_matrices(self.layers[:packed]):
            parametrize.register_parametrization(matrix, "weight", Rounding())

    def trained_weights(self) -> dict[str, Tensor]:
        """Return all weights but the embeddings, as floats."""
        for matrix in find_matrices(self.layers):
            if parametrize.is_parametrized(matrix):
                parametrize.remove_parametrizations(matrix, "weight", leave_parametrized=False)
        return {
            name: value
            for name, value in self.state_dict().items()
            if not name.startswith("bert.embeddings.")
        }


def find_layer(name: str) -> int:
    """Return the layer that a weight is of, -1 for none."""
    number = _LAYER.search(name)
    return int(number[0]) if number else -1


def keep_layers(weights: Mapping[str, Any], kept: Sequence[int]) -> dict[str, Any]:
    """Return the weights of some layers, numbered from 0, and those that are of none."""
    renamed = {}
    for name, value in weights.items():
        layer = find_layer(name)
        if layer in kept:
            renamed[_LAYER.sub(str(kept.index(layer)), name)] = value
        elif layer < 0:
            renamed[name] = value
    return renamed


def find_matrices(layers: Sequence[nn.Module]) -> list[nn.Linear]:
    """Return the matrices of layers."""
    modules = [module for layer in layers for module in layer.modules()]
    return [module for module in modules if isinstance(module, nn.Linear)]


def read_start(name: str) -> dict[str, Tensor]:
    """Return the weights of a reader or an encoder, by the names of :class:`Reader`."""
    folder = find_start(name)
    weights = unpack_weights(load_file(folder / "model.safetensors"))
    if WORDS not in weights:
        base = find_model(read_settings(folder)["base"])
        weights |= read_weights(base / "model.safetensors", only=WORDS)
    return {
        name if name.startswith(HEADS) else f"bert.{name}": torch.from_numpy(
            np.array(values, np.float32)
        )
        for name, values in weights.items()
    }


def train_reader(
    model: Reader, build: Build, compute: Compute, training: Training, out: Path
) -> None:
    """Train a reader by the losses that ``compute`` returns, and write its weights."""
    weights = {
        "passages": 1.0,
        "sentences": _HALF,
        "single passages": 1.0,
        "completeness": _HALF,
        "ends": training.ends,
        "teacher's passages": training.teach,
        "teacher's sentences": training.imitate,
        "teacher's ends": training.imitate,
    }
    loop = Loop(
        folder=out,
        learning_rate=training.learning_rate,
        warmup=training.warmup,
        steps=training.steps,
        minutes=training.minutes,
    )
    loop.run(model, build, compute, weights)
    loop.write_parts(model.trained_weights())


def label_losses(step: Step, scores: Scores) -> dict[str, Tensor]:
    """Return the losses by the labels.

    A softmax over a question's passages, one over their sentences, and a logistic loss of each
    passage, which keeps the scores of different questions comparable.
    """
    count = int(step.question.max()) + 1
    good = (step.labels == ANSWERS).any(1)
    known = step.labels != UNKNOWN
    owner = step.question[:, None].expand_as(step.labels)[known]
    is_answer = (step.labels == ANSWERS)[known]
    costs = functional.cross_entropy(
        scores.ends.transpose(1, 2).flatten(0, 1),
        step.ends.flatten(),
        reduction="none",
        ignore_index=UNKNOWN,
    )
    costs, first = costs.view(-1, 2).mean(1), step.ends[:, 0]
    ends = [costs[group].mean() for group in (first > 0, first == 0) if bool(group.any())]
    told = step.complete != UNKNOWN
    return {
        "passages": softmax_loss(scores.passages, good, step.question, count),
        "sentences": softmax_loss(scores.sentences[known], is_answer, owner, count),
        "single passages": logistic_loss(scores.passages, good),
        "completeness": logistic_loss(scores.complete[told], step.complete[told]),
        "ends": torch.stack(ends).sum(),
    }


def teacher_losses(
    step: Step, scores: Scores, taught: Scores, temperature: float
) -> dict[str, Tensor]:
    """Return the divergences from a teacher's passages and sentences by question, and ends."""
    count = int(step.question.max()) + 1
    known = step.labels != UNKNOWN
    owner = step.question[:, None].expand_as(step.labels)[known]
    own, others = (values.ends.transpose(1, 2).flatten(0, 1) for values in (scores, taught))
    rows = torch.arange(len(own), device=own.device)[:, None].expand_as(own).flatten()
    pairs = {
        "passages": (scores.passages, taught.passages, step.question, count),
        "sentences": (scores.sentences[known], taught.sentences[known], owner, count),
        "ends": (own.flatten(), others.flatten(), rows, len(own)),
    }
    return {f"teacher's {name}": divergence(*values, temperature) for name, values in pairs.items()}


def divergence(
    values: Tensor, taught: Tensor, group: Tensor, count: int, temperature: float
) -> Tensor:
    """Return how far the softmaxes of groups are from a teacher's (Hinton et al., 2015)."""
    own, others = (
        each / temperature - log_sums(each / temperature, group, count)[group]
        for each in (values, taught)
    )
    return (others.exp() * (others - own)).sum() / count * temperature**2


def logistic_loss(values: Tensor, good: Tensor) -> Tensor:
    """Return the mean loss of log-odds, 0 if there are none."""
    if not len(values):
        return values.sum()
    return functional.binary_cross_entropy_with_logits(values, good.to(values.dtype))


def softmax_loss(values: Tensor, good: Tensor, group: Tensor, count: int) -> Tensor:
    """Return the negative log-likelihood of what answers, a mean of the groups that have some."""
    best = log_sums(torch.where(good, values, _MASKED), group, count)
    costs = (log_sums(values, group, count) - best)[best > _MASKED / 2]
    return costs.mean() if len(costs) else values.sum() * 0


def log_sums(values: Tensor, group: Tensor, count: int) -> Tensor:
    """Return the logarithm of the sum of the exponentials in each group, ``[count]``."""
    greatest = values.new_full((count,), _MASKED)
    greatest = greatest.scatter_reduce(0, group, values.detach(), "amax")
    sums = values.new_zeros(count).scatter_add(0, group, (values - greatest[group]).exp())
    return sums.clamp(min=1e-30).log() + greatest
