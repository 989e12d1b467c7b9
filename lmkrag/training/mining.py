"""Which sentences must not be taken for negatives."""

from torch import Tensor


def mask_near_duplicates(candidate: Tensor, weights: Tensor, teacher: Tensor, threshold: float) -> Tensor:
    """Drop candidates that the teacher holds for near duplicates of the evidence.

    Negatives are all sentences of the sampled windows, not the ones a model ranks first: mined negatives are biased to
    what the miner's pooling confuses and hold the most unlabelled answers; tried, they gained nothing.

    Args:
        candidate: ``[q, n]`` bool.
        weights: ``[q, n]``, above zero at the evidence.
        teacher: ``[n, d]`` sentence vectors of length one, by the base model.
        threshold: cosine.

    Returns:
        ``[q, n]`` bool.
    """
    alike = (teacher @ teacher.T > threshold).to(weights.dtype)
    near = ((weights > 0).to(weights.dtype) @ alike) > 0
    return candidate & ~near
