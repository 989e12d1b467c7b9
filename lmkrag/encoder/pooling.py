"""Run a model over windows, and make one vector of each sentence's token states."""

from typing import Any

import torch
from torch import Tensor, nn

from lmkrag.encoder.batches import Batch
from lmkrag.encoder.onnx_model import POOLINGS


class Pooling(nn.Module):
    """Pools the states of a batch of windows into sentence vectors, in a way of :data:`POOLINGS`, or raises ValueError.

    ``mean`` is the mean of a sentence's tokens, its landmark left out; ``lmk`` the landmark's state (Luo et al., 2024);
    ``lmk+mean`` the mean of the tokens and the landmark.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        if name not in POOLINGS:
            raise ValueError(f"unknown pooling {name!r}: one of {', '.join(POOLINGS)}")
        self._name = name

    def forward(self, states: Tensor, owner: Tensor, is_landmark: Tensor, count: int) -> Tensor:
        """Return vectors ``[count, dimensions]`` float32 of length one, from the last states ``[tokens, dimensions]``.

        ``owner`` ``[tokens]`` is the sentence each token belongs to, ``count`` for none (special tokens, padding);
        ``is_landmark`` ``[tokens]`` bool is true at the landmark that ends a sentence.
        """
        if self._name != "lmk+mean":
            owner = owner.masked_fill(is_landmark if self._name == "mean" else ~is_landmark, count)
        sums = states.new_zeros(count + 1, states.shape[1], dtype=torch.float32).index_add_(0, owner, states.float())
        sizes = torch.bincount(owner, minlength=count + 1).clamp(min=1)
        return nn.functional.normalize((sums / sizes[:, None])[:count], dim=1)


def read_sentences(model: Any, pooling: Pooling, batch: Batch) -> Tensor:
    """Run a model over windows and pool their sentences: ``[batch.count, dimensions]`` float32 of length one."""
    inputs = {"input_ids": batch.input_ids}
    if not bool(batch.attention_mask.all()):
        inputs["attention_mask"] = batch.attention_mask
    states = model(**inputs).last_hidden_state.flatten(0, 1)
    vectors: Tensor = pooling(states, batch.owner.flatten(), batch.is_landmark.flatten(), batch.count)
    return vectors


def mean_by_group(vectors: Tensor, group: Tensor, count: int) -> Tensor:
    """Return the means of ``[n, d]`` vectors by group ``[n]``, of length one: ``[count, d]``; later groups fall out.

    The document vector of landmark pooling (Doshi et al., "LMK > CLS", arXiv 2601.21525).
    """
    size = max(count, int(group.max()) + 1) if len(group) else count
    sums = vectors.new_zeros(size, vectors.shape[1]).index_add_(0, group, vectors)
    return torch.nn.functional.normalize(sums[:count], dim=1)
