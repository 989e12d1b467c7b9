"""Make one vector of each sentence's token states."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class Pooling(nn.Module):
    """Pools the states of a batch of windows into sentence vectors; every pooling has this ``forward``."""

    layered = False  # whether it reads the states of all layers, or the last only

    def forward(self, layers: Sequence[Tensor], owner: Tensor, is_landmark: Tensor, count: int) -> Tensor:
        """Pool.

        Args:
            layers: states of the model's layers, the last at the end, each ``[tokens, dimensions]``, the windows of a
                batch end to end; one alone unless ``layered``.
            owner: ``[tokens]`` int64, the sentence each token belongs to, ``count`` for none (special tokens, padding).
            is_landmark: ``[tokens]`` bool, true at the landmark that ends a sentence.
            count: how many sentences there are.

        Returns:
            ``[count, dimensions]`` float32, each row of length one.
        """
        return nn.functional.normalize(self.pool(layers, owner, is_landmark, count), dim=1)

    def pool(self, layers: Sequence[Tensor], owner: Tensor, is_landmark: Tensor, count: int) -> Tensor:
        """Pool, before normalisation."""
        raise NotImplementedError


def _mean_over(states: Tensor, owner: Tensor, count: int) -> Tensor:
    sums = states.new_zeros(count + 1, states.shape[1]).index_add_(0, owner, states)
    sizes = torch.bincount(owner, minlength=count + 1).clamp(min=1)
    return (sums / sizes[:, None])[:count]


class Mean(Pooling):
    """The mean of a sentence's tokens, its landmark left out."""

    def pool(self, layers: Sequence[Tensor], owner: Tensor, is_landmark: Tensor, count: int) -> Tensor:
        """Pool."""
        return _mean_over(layers[-1].float(), owner.masked_fill(is_landmark, count), count)


class Landmark(Pooling):
    """The landmark's state (Luo et al., 2024)."""

    def pool(self, layers: Sequence[Tensor], owner: Tensor, is_landmark: Tensor, count: int) -> Tensor:
        """Pool."""
        return _mean_over(layers[-1].float(), owner.masked_fill(~is_landmark, count), count)


class LandmarkAndMean(Pooling):
    """The mean of a sentence's tokens and its landmark."""

    def pool(self, layers: Sequence[Tensor], owner: Tensor, is_landmark: Tensor, count: int) -> Tensor:
        """Pool."""
        return _mean_over(layers[-1].float(), owner, count)


class First(Pooling):
    """The state of a sentence's first token: what CLS is to a text, inside a window."""

    def pool(self, layers: Sequence[Tensor], owner: Tensor, is_landmark: Tensor, count: int) -> Tensor:
        """Pool."""
        starts = torch.ones_like(is_landmark)
        starts[1:] = owner[1:] != owner[:-1]
        return _mean_over(layers[-1].float(), owner.masked_fill(~starts, count), count)


class Last(Pooling):
    """The state of a sentence's last token before its landmark."""

    def pool(self, layers: Sequence[Tensor], owner: Tensor, is_landmark: Tensor, count: int) -> Tensor:
        """Pool."""
        inner = owner.masked_fill(is_landmark, count)
        ends = torch.ones_like(is_landmark)
        ends[:-1] = inner[1:] != inner[:-1]
        return _mean_over(layers[-1].float(), inner.masked_fill(~ends, count), count)


class GeneralisedMean(Pooling):
    """The power mean of a sentence's tokens and landmark, one learnt power for each group of channels.

    Power 1 is the mean, a great power the maximum (Radenović et al., "Fine-tuning CNN Image Retrieval with No Human
    Annotation", 2018). States may be negative: they pass through softplus and back.
    """

    groups = 16

    def __init__(self) -> None:
        """Start at the mean."""
        super().__init__()
        self.power = nn.Parameter(torch.ones(self.groups))

    def pool(self, layers: Sequence[Tensor], owner: Tensor, is_landmark: Tensor, count: int) -> Tensor:
        """Pool."""
        states = layers[-1].float()
        power = self.power.clamp(min=0.1).repeat_interleave(states.shape[1] // self.groups)
        positive = nn.functional.softplus(states).clamp(min=1e-6)
        mean = _mean_over(positive**power, owner, count).clamp(min=1e-12) ** (1 / power)
        return mean + torch.log(-torch.expm1(-mean))  # softplus, inverted


class MultiLayer(Pooling):
    """Cross-attention of one learnt query over each layer's mean of a sentence (Tang and Yang, arXiv 2409.02727).

    The result is added to the last layer's mean, so that an untrained pooling starts near ``lmk+mean``.
    """

    layered = True

    def __init__(self, dimensions: int, heads: int = 4) -> None:
        """Take the size of a state."""
        super().__init__()
        self.query = nn.Parameter(torch.zeros(dimensions))
        self.norm = nn.LayerNorm(dimensions)
        self.attention = nn.MultiheadAttention(dimensions, heads, batch_first=True)
        nn.init.zeros_(self.attention.out_proj.weight)

    def pool(self, layers: Sequence[Tensor], owner: Tensor, is_landmark: Tensor, count: int) -> Tensor:
        """Pool."""
        means = torch.stack([_mean_over(states.float(), owner, count) for states in layers], dim=1)
        keys = self.norm(means)
        query = self.query.expand(count, 1, -1)
        read, _ = self.attention(query, keys, keys, need_weights=False)
        pooled: Tensor = means[:, -1] + read[:, 0]
        return pooled


POOLINGS = ("mean", "lmk", "lmk+mean", "cls", "last", "gem", "layers")
"""``gem``: generalised mean. ``layers``: multi-layer, trained. ``cls``: the first token."""


def build_pooling(name: str, dimensions: int) -> Pooling:
    """Return a pooling by its name in :data:`POOLINGS`, for states of a size.

    Raises:
        ValueError: no such pooling.
    """
    simple = {"mean": Mean, "lmk": Landmark, "lmk+mean": LandmarkAndMean, "cls": First, "last": Last}
    if name in simple:
        return simple[name]()
    if name == "gem":
        return GeneralisedMean()
    if name == "layers":
        return MultiLayer(dimensions)
    raise ValueError(f"unknown pooling {name!r}: one of {', '.join(POOLINGS)}")
