"""Make one vector of each sentence's token states."""

import torch
from torch import Tensor, nn


class Pooling(nn.Module):
    """Pools the states of a batch of windows into sentence vectors; every pooling has this ``forward``."""

    def forward(self, states: Tensor, owner: Tensor, is_landmark: Tensor, count: int) -> Tensor:
        """Pool.

        Args:
            states: ``[tokens, dimensions]`` of the model's last layer, the windows of a batch end to end.
            owner: ``[tokens]`` int64, the sentence each token belongs to, ``count`` for none (special tokens, padding).
            is_landmark: ``[tokens]`` bool, true at the landmark that ends a sentence.
            count: how many sentences there are.

        Returns:
            ``[count, dimensions]`` float32, each row of length one.
        """
        return nn.functional.normalize(self.pool(states, owner, is_landmark, count), dim=1)

    def pool(self, states: Tensor, owner: Tensor, is_landmark: Tensor, count: int) -> Tensor:
        """Pool, before normalisation."""
        raise NotImplementedError


def _mean_over(states: Tensor, owner: Tensor, count: int) -> Tensor:
    sums = states.new_zeros(count + 1, states.shape[1]).index_add_(0, owner, states)
    sizes = torch.bincount(owner, minlength=count + 1).clamp(min=1)
    return (sums / sizes[:, None])[:count]


class Mean(Pooling):
    """The mean of a sentence's tokens, its landmark left out."""

    def pool(self, states: Tensor, owner: Tensor, is_landmark: Tensor, count: int) -> Tensor:
        return _mean_over(states.float(), owner.masked_fill(is_landmark, count), count)


class Landmark(Pooling):
    """The landmark's state (Luo et al., 2024)."""

    def pool(self, states: Tensor, owner: Tensor, is_landmark: Tensor, count: int) -> Tensor:
        return _mean_over(states.float(), owner.masked_fill(~is_landmark, count), count)


class LandmarkAndMean(Pooling):
    """The mean of a sentence's tokens and its landmark."""

    def pool(self, states: Tensor, owner: Tensor, is_landmark: Tensor, count: int) -> Tensor:
        return _mean_over(states.float(), owner, count)


POOLINGS: dict[str, type[Pooling]] = {"mean": Mean, "lmk": Landmark, "lmk+mean": LandmarkAndMean}


def build_pooling(name: str) -> Pooling:
    """Return a pooling by its name in :data:`POOLINGS`.

    Raises:
        ValueError: no such pooling.
    """
    if name not in POOLINGS:
        raise ValueError(f"unknown pooling {name!r}: one of {', '.join(POOLINGS)}")
    return POOLINGS[name]()
