"""Matrices in 4 bits, one scale for each block of a row: as they are stored, and in training."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lmkrag.models.packing import BLOCK, INT4, SCALES
from lmkrag.types.arrays import Vectors

_SHARES = torch.linspace(0.75, 1.1, 15, dtype=torch.float64).tolist()
"""Of a block's widest scale: a smaller one rounds the many weights less."""


def round_blocks(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return the codes ``[rows, blocks, BLOCK]``, -8 to 7, and scales ``[rows, blocks, 1]``.

    Their product is the rounded matrix. Of each block's scales, that of the least squared error is
    taken.
    """
    blocks = weight.reshape(len(weight), -1, BLOCK)
    greatest = blocks.gather(2, blocks.abs().argmax(2, keepdim=True))
    codes, scales = torch.zeros_like(blocks), torch.zeros_like(greatest)
    least = torch.full_like(greatest, torch.inf)
    for share in _SHARES:
        scale = (share * greatest.double() / -8).half().float()
        code = (blocks / torch.where(scale == 0, 1, scale)).round().clamp(-8, 7)
        error = ((code * scale - blocks) ** 2).sum(2, keepdim=True)
        better = error < least
        codes, scales = torch.where(better, code, codes), torch.where(better, scale, scales)
        least = torch.where(better, error, least)
    return codes, scales


def pack_blocks(weights: Mapping[str, Vectors]) -> dict[str, Any]:
    """Return weights with every matrix of a layer in 4 bits, others in float16."""
    packed: dict[str, Any] = {}
    for name, weight in weights.items():
        if weight.ndim != 2 or not name.startswith("encoder."):
            packed[name] = weight.astype(np.float16)
            continue
        codes, scales = (values.numpy() for values in round_blocks(torch.from_numpy(weight)))
        halves = (codes + 8).astype(np.uint8).reshape(len(weight), -1, 2)
        packed[name + INT4] = halves[..., 0] | halves[..., 1] << 4
        packed[name + SCALES] = scales[..., 0].astype(np.float16)
    return packed


class Rounding(nn.Module):
    """A matrix in 4 bits in training; gradients pass it unchanged (Bengio et al., 2013)."""

    def forward(self, weight: Tensor) -> Tensor:
        """Return the rounded matrix."""
        codes, scales = round_blocks(weight.detach())
        return weight + ((codes * scales).reshape(weight.shape) - weight.detach())
