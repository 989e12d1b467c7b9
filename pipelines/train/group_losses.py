"""Softmaxes over groups of values, such as the passages or the sentences of each question."""

from torch import Tensor, where

MASKED = -1e4  # in place of a logit


def log_sums(values: Tensor, group: Tensor, count: int) -> Tensor:
    """Return the logarithm of the sum of the exponentials in each group, ``[count]``."""
    greatest = values.new_full((count,), MASKED).scatter_reduce(0, group, values.detach(), "amax")
    sums = values.new_zeros(count).scatter_add(0, group, (values - greatest[group]).exp())
    return sums.clamp(min=1e-30).log() + greatest


def log_softmax(values: Tensor, group: Tensor, count: int) -> Tensor:
    """Return the logarithms of the softmax in each group."""
    return values - log_sums(values, group, count)[group]


def softmax_costs(values: Tensor, good: Tensor, group: Tensor, count: int) -> Tensor:
    """Return the negative log-likelihoods of what answers, one for each group that has some."""
    best = log_sums(where(good, values, MASKED), group, count)
    return (log_sums(values, group, count) - best)[best > MASKED / 2]


def softmax_loss(values: Tensor, good: Tensor, group: Tensor, count: int) -> Tensor:
    """Return the mean of :func:`softmax_costs`, 0 if no group has any."""
    costs = softmax_costs(values, good, group, count)
    return costs.mean() if len(costs) else values.sum() * 0
