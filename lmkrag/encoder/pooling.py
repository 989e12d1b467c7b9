"""Make one vector of each sentence's token states."""

from collections.abc import Callable

import torch
from torch import Tensor


def pool_sentences(pooling: str, states: Tensor, owner: Tensor, is_landmark: Tensor, count: int) -> Tensor:
    """Pool the states of a batch of windows into sentence vectors of length one.

    Args:
        pooling: a name in :data:`POOLINGS`.
        states: ``[tokens, dimensions]``, the windows of a batch end to end.
        owner: ``[tokens]`` int64, the sentence each token belongs to, ``count`` for none (special tokens, padding).
        is_landmark: ``[tokens]`` bool, true at the landmark that ends a sentence.
        count: how many sentences there are.

    Returns:
        ``[count, dimensions]`` float32, each row of length one.
    """
    vectors = POOLINGS[pooling](states.float(), owner, is_landmark, count)
    return torch.nn.functional.normalize(vectors, dim=1)


def _mean_over(states: Tensor, owner: Tensor, count: int) -> Tensor:
    sums = states.new_zeros(count + 1, states.shape[1]).index_add_(0, owner, states)
    sizes = torch.bincount(owner, minlength=count + 1).clamp(min=1)
    return (sums / sizes[:, None])[:count]


def _mean(states: Tensor, owner: Tensor, is_landmark: Tensor, count: int) -> Tensor:
    return _mean_over(states, owner.masked_fill(is_landmark, count), count)


def _landmark_and_mean(states: Tensor, owner: Tensor, _is_landmark: Tensor, count: int) -> Tensor:
    return _mean_over(states, owner, count)


def _landmark(states: Tensor, owner: Tensor, is_landmark: Tensor, count: int) -> Tensor:
    return _mean_over(states, owner.masked_fill(~is_landmark, count), count)


POOLINGS: dict[str, Callable[[Tensor, Tensor, Tensor, int], Tensor]] = {
    "mean": _mean,
    "lmk": _landmark,
    "lmk+mean": _landmark_and_mean,
}
"""``mean``: a sentence's tokens. ``lmk``: the landmark's state (Luo et al., 2024). ``lmk+mean``: both, averaged."""
