"""Run a model over windows, and pool its states to sentences."""

from typing import Any

import torch
from torch import Tensor

from lmkrag.encoder.batches import Batch
from lmkrag.encoder.pooling import Pooling


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
