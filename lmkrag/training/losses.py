"""The position-aware contrastive objective."""

import torch
from torch import Tensor


def landmark_loss(
    scores: Tensor, weights: Tensor, candidate: Tensor, same: Tensor, *, mixing: float, temperature: float
) -> Tensor:
    """Return the loss of questions against the sentences of a step, from their cosines ``scores`` ``[q, n]``.

    Each sentence of the evidence is compared with the negatives, in a softmax over those of its own document (its share
    is ``mixing``) and in another over those of other documents (Conti et al., "Context is Gold to find the Gold
    Passage", arXiv 2505.24782), and the log-likelihoods are averaged by position weight (Luo et al., arXiv 2402.11573;
    there the weight stands inside the logarithm, where it has no gradient).

    ``weights`` have rows of sum one, above zero at the evidence; ``candidate`` may be negatives, ``same`` are of the
    question's document.
    """
    logits = scores / temperature
    parts = []
    for share, negatives in ((mixing, candidate & same), (1 - mixing, candidate & ~same)):
        if share > 0:
            # -log p of each piece of evidence among the negatives and itself, averaged by weight
            crowd = torch.logsumexp(logits.masked_fill(~negatives, -1e4), dim=1, keepdim=True)
            parts.append(share * (weights * (torch.logaddexp(logits, crowd) - logits)).sum(1))
    return torch.stack(parts).sum(0).mean()


def imitation_loss(scores: Tensor, taught: Tensor, *, temperature: float) -> Tensor:
    """Return how far scores ``[q, n]`` are from a teacher's: the divergence of their softmaxes, mean of questions.

    Hinton et al., "Distilling the Knowledge in a Neural Network" (2015), over lists of scores.
    """
    student, teacher = (torch.log_softmax(values / temperature, dim=1) for values in (scores, taught))
    return (teacher.exp() * (teacher - student)).sum(1).mean()


def anchor_loss(vectors: Tensor, anchors: Tensor) -> Tensor:
    """Return the mean cosine distance of ``[n, d]`` vectors of length one to those of the base model."""
    return (1 - (vectors * anchors).sum(1)).mean()


def mask_near_duplicates(candidate: Tensor, weights: Tensor, teacher: Tensor, threshold: float) -> Tensor:
    """Drop candidates ``[q, n]`` that a teacher's vectors ``[n, d]`` hold for near duplicates of the evidence.

    Negatives are all sentences of the sampled windows, not the ones a model ranks first: mined negatives are biased to
    what the miner's pooling confuses and hold the most unlabelled answers; tried, they gained nothing.
    """
    alike = (teacher @ teacher.T > threshold).to(weights.dtype)
    near = ((weights > 0).to(weights.dtype) @ alike) > 0
    return candidate & ~near
