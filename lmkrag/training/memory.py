"""Sentences of earlier steps, as more negatives."""

from typing import NamedTuple

import torch
from torch import Tensor


class Remembered(NamedTuple):
    """``[n, d]`` sentence vectors as they were, ``[n, d]`` by the base model, ``[n]`` documents they are of."""

    vectors: Tensor
    anchors: Tensor
    owners: Tensor


class SentenceMemory:
    """The last sentences seen of each set (cross-batch memory; Wang et al., CVPR 2020, arXiv 1912.06798).

    An encoder that is fine-tuned moves slowly, so vectors of some steps ago are nearly what it would give now: a
    question gets many more negatives from other documents than fit into a step, for the price of a matrix product.
    It is not in checkpoints: a run that is resumed starts with an empty one.
    """

    def __init__(self, size: int) -> None:
        """Keep at most ``size`` sentences of each set."""
        self._size = size
        self._kept: dict[str, Remembered] = {}

    def recall(self, source: str) -> Remembered | None:
        """Return what is kept of a set."""
        return self._kept.get(source)

    def keep(self, source: str, new: Remembered) -> None:
        """Add a step's sentences; the oldest ones give way."""
        held = self._kept.get(source)
        parts = [new] if held is None else [held, new]
        self._kept[source] = Remembered(*(torch.cat(column)[-self._size :] for column in zip(*parts, strict=True)))
