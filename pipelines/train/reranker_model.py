"""The re-ranker in training: the model that :mod:`lmkrag.reranker.landmark` runs, and its losses."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from group_losses import MASKED, softmax_costs
from mined_passages import ANSWERS, UNKNOWN
from place_steps import PlaceBatch, PlaceStep
from reranker_settings import RerankerSettings
from safetensors.numpy import load_file
from torch import Tensor, nn
from torch.nn import functional

from lmkrag.encoder.spec import find_model, read_settings
from lmkrag.encoder.torch_model import load_backbone
from lmkrag.errors import EncoderError, UsageError
from lmkrag.models.packing import unpack_weights

_ANSWER_SHARE, _SHORT_SHARE = 0.3, 0.4  # of the losses beside the order's
_SCALE = 20.0  # of similarities in the softmax, at the start
_HEAD_RATE, _SCALE_RATE = 8, 60  # times the learning rate: the head is new, and its scales are single numbers

Reading = tuple[Tensor, Tensor]
"""What the head says of a batch: see :meth:`Head.forward`."""


class Head(nn.Module):
    """Scores of sentences and of the ends of short answers, from the states of a question and a passage."""

    def __init__(self, size: int) -> None:
        """Make one whose scores are all 0: at the start the order is that of the similarities."""
        super().__init__()
        self.dense = nn.Linear(2 * size, size)
        self.out = nn.Linear(size, 2)
        self.weigh = nn.Linear(size, 1)
        self.match = nn.Linear(2, 2, bias=False)
        self.ends = nn.Linear(size, 2)
        self.scale = nn.Parameter(torch.tensor(_SCALE).log())
        for module in (self.out, self.match, self.ends, self.weigh):
            nn.init.zeros_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)

    def forward(
        self, after: Tensor, before: Tensor, question_mask: Tensor, owners: Tensor, count: int
    ) -> tuple[Tensor, Tensor]:
        """Return how sentences rank and the log-odds that they answer ``[p, k, 2]``, and starts and ends ``[p, t, 2]``.

        ``after`` and ``before`` ``[p, t, d]`` are states of the last layer and before the first, ``question_mask``
        ``[p, t]`` the question's tokens, ``owners`` ``[p, t]`` the sentence each token is of, -1 for none, of
        ``count``.
        """
        group = torch.where(owners >= 0, owners, count)
        shape = (len(after), count + 1, after.shape[2])
        sums = after.new_zeros(shape).scatter_add_(1, group[..., None].expand_as(after), after)
        sizes = after.new_zeros(shape[:2]).scatter_add_(1, group, torch.ones_like(group, dtype=after.dtype))
        means = (sums / sizes.clamp(min=1)[..., None])[:, :count]
        longest = int(question_mask.sum(1).max())
        question, real = after[:, 1 : 1 + longest], question_mask[:, 1 : 1 + longest]
        whole = (question * real[..., None]).sum(1) / real.sum(1, keepdim=True).clamp(min=1)
        weights = self.weigh(question)[..., 0].masked_fill(~real, MASKED).softmax(1)
        matches = []
        for states in (after, before):
            unit = functional.normalize(states, dim=-1)
            alike = unit[:, 1 : 1 + longest] @ unit.transpose(1, 2)
            best = alike.new_full((*alike.shape[:2], count + 1), -1.0)
            best = best.scatter_reduce(2, group[:, None].expand_as(alike), alike, "amax", include_self=True)
            matches.append((weights[..., None] * best[..., :count]).sum(1))
        features = torch.cat([means, means * whole[:, None] * 4], -1)
        hidden = functional.gelu(self.dense(features))
        return self.out(hidden) + self.match(torch.stack(matches, -1)), self.ends(after)


class RerankerModel(nn.Module):
    """The model and its loss, in the form that transformers' Trainer trains."""

    def __init__(self, settings: RerankerSettings) -> None:
        """Make the model from the base's first layers, or one to go on from. Raises UsageError, EncoderError."""
        from transformers import AutoConfig

        super().__init__()
        self._settings = settings
        base = find_model(settings.base)
        self.landmark = read_settings(base).get("landmark", "")
        try:
            config = AutoConfig.from_pretrained(base)
            config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
            # For texts this short the fused attention is half as fast on a CPU.
            attention = "sdpa" if torch.cuda.is_available() else "eager"
            bert = load_backbone(base, config=config, dtype=torch.float32, attn_implementation=attention)
        except (OSError, ValueError, TypeError) as error:
            raise EncoderError(f"{base}: can't be loaded as a base ({error})") from error
        if not self.landmark or bert.config.model_type != "bert" or len(bert.encoder.layer) < settings.layers:
            raise UsageError(f"{base}: a re-ranker needs a BERT with a landmark and {settings.layers} layers or more")
        bert.encoder.layer = bert.encoder.layer[: settings.layers]
        bert.pooler = None
        bert.embeddings.word_embeddings.weight.requires_grad_(False)  # the encoder's, and stay so: one file for both
        self.bert = bert
        self.head = Head(bert.config.hidden_size)
        if settings.start:
            self._load(settings.resolve(settings.start))

    def _load(self, folder: Path) -> None:
        stored = unpack_weights(load_file(folder / "model.safetensors"))
        weights = {name: torch.from_numpy(np.array(value, np.float32)) for name, value in stored.items()}
        body = {name: value for name, value in weights.items() if not name.startswith("head.")}
        missing, unknown = self.bert.load_state_dict(body, strict=False)
        if unknown or [name for name in missing if "word_embeddings" not in name and "position_ids" not in name]:
            raise UsageError(f"{folder}: holds no re-ranker of {self._settings.layers} layers")
        self.head.load_state_dict(
            {name.removeprefix("head."): value for name, value in weights.items() if name.startswith("head.")}
        )

    def trained_weights(self) -> dict[str, Tensor]:
        """Return the weights that a re-ranker's folder holds: all but the embeddings of words."""
        weights = {name: value for name, value in self.bert.state_dict().items() if "word_embeddings" not in name}
        weights |= {f"head.{name}": value for name, value in self.head.state_dict().items()}
        return {name: value for name, value in weights.items() if value.is_floating_point()}

    def read(self, batch: PlaceBatch) -> Reading:
        """Return what the head says of passages; it computes in float32."""
        before = self.bert.embeddings(input_ids=batch.ids, token_type_ids=batch.types)
        after = self.bert(
            input_ids=batch.ids, token_type_ids=batch.types, attention_mask=batch.mask.long()
        ).last_hidden_state
        with torch.autocast(after.device.type, enabled=False):
            scores, ends = self.head(
                after.float(), before.float(), batch.question_mask, batch.owners, batch.labels.shape[1]
            )
        return scores, ends

    def order(self, batch: PlaceBatch, reading: Reading) -> Tensor:
        """Return the logits of the sentences' order, ``[p, k]``: those of similarity and rank together."""
        return batch.scores * self.head.scale.exp() + reading[0][..., 0]

    def losses(self, step: PlaceStep, readings: Sequence[Reading]) -> tuple[Tensor, Tensor, Tensor]:
        """Return three losses of what was read of the batches of a step.

        For each question, the softmax of similarity and rank together over the sentences read; for each sentence,
        whether it answers; for each short answer, where it starts and ends in its passage.
        """
        logits, says, labels, questions, marked = [], [], [], [], []
        for batch, reading in zip(step.batches, readings, strict=True):
            known = batch.labels != UNKNOWN
            logits.append(self.order(batch, reading)[known])
            says.append(reading[0][..., 1][known])
            labels.append(batch.labels[known])
            questions.append(batch.question[:, None].expand_as(batch.labels)[known])
            marked.append(_short_losses(batch, reading[1], step.answerable))
        logit, question, count = torch.cat(logits), torch.cat(questions), len(step.answerable)
        good = (torch.cat(labels) == ANSWERS) & step.answerable[question]
        order = softmax_costs(logit, good, question, count).sum() / count
        answers = functional.binary_cross_entropy_with_logits(torch.cat(says), good.to(logit.dtype))
        short = torch.cat(marked)
        return order, answers, short.mean() if len(short) else short.sum()

    def forward(self, step: PlaceStep) -> dict[str, Tensor]:
        """Return ``{"loss": scalar}``."""
        return {"loss": sum_losses(*self.losses(step, [self.read(batch) for batch in step.batches]))}


def sum_losses(order: Tensor, answers: Tensor, short: Tensor) -> Tensor:
    """Return the loss of :meth:`RerankerModel.losses` together."""
    return order + _ANSWER_SHARE * answers + _SHORT_SHARE * short


def group_parameters(model: RerankerModel, rate: float) -> list[dict[str, Any]]:
    """Return the parameters by their learning rates, ``lr``, which are ``times`` the one that is given."""
    scales = [model.head.scale, model.head.match.weight]
    single = {id(parameter) for parameter in scales}
    head = [parameter for parameter in model.head.parameters() if id(parameter) not in single]
    body = [parameter for parameter in model.bert.parameters() if parameter.requires_grad]
    groups = ((body, 1), (head, _HEAD_RATE), (scales, _SCALE_RATE))
    return [{"params": chosen, "lr": rate * times, "times": times} for chosen, times in groups]


def _short_losses(batch: PlaceBatch, ends: Tensor, answerable: Tensor) -> Tensor:
    """The losses of the passages that hold a short answer."""
    marked = answerable[batch.question] & batch.starts.any(1)
    inside = ends[marked].masked_fill((batch.owners[marked] < 0)[..., None], MASKED).log_softmax(1)
    sums = [
        inside[..., side].masked_fill(~gold[marked], MASKED).logsumexp(1)
        for side, gold in enumerate((batch.starts, batch.ends))
    ]
    return -(sums[0] + sums[1]) / 2
