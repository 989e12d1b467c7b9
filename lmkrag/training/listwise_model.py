"""The listwise model in training: what :mod:`lmkrag.reranker.listwise` runs, and its losses."""

import json
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import BertConfig
from transformers.models.bert.modeling_bert import BertEncoder

from lmkrag.arrays import Vectors
from lmkrag.models.files import make_readable
from lmkrag.reranker.listwise import CONFIG, WEIGHTS
from lmkrag.training.graphs import write_listwise_graph
from lmkrag.training.listwise_steps import ListwiseStep
from lmkrag.training.mining import ANSWERS, UNKNOWN
from lmkrag.training.weights import save_half

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
        found: Tensor = self.output(states)[..., 0]
        return found


class ListwiseTrainee(nn.Module):
    """The model and its loss, in the form that transformers' Trainer trains."""

    def __init__(
        self, mean: Vectors, deviation: Vectors, *, size: int, layers: int, members: int, dropout: float
    ) -> None:
        """Make an untrained one; ``mean`` and ``deviation`` ``[features]`` are those of the training sentences.

        ``members`` of ``layers`` layers of ``size`` dimensions are trained side by side, each from a start of its own.
        """
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
        """Return ``{"loss": scalar}``, the sum of the members' means over questions.

        Of a question: whether each sentence is evidence; that some evidence comes before all else; and that all of it
        comes before what is none.
        """
        losses = [self._member_loss(logits, step) for logits in self.read(step.features, step.real)]
        return {"loss": torch.stack(losses).sum()}

    def _member_loss(self, logits: Tensor, step: ListwiseStep) -> Tensor:
        """The loss of one member, from its log-odds ``[q, n]``: see :meth:`forward`."""
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
