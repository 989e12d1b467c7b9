"""Matrices in 4 bits, one scale for each block of a row: how they are stored, and how training computes with them."""

import torch
from torch import Tensor

from lmkrag.models.packing import BLOCK

SHRINK = torch.linspace(0.75, 1.1, 15, dtype=torch.float64).tolist()  # of a scale: less rounding for the many


def round_blocks(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return the codes ``[rows, blocks, BLOCK]`` from -8 to 7 and the scales ``[rows, blocks, 1]`` of a matrix.

    Their product is the rounded matrix. Of each block's scales, that of the least squared error is taken.
    """
    blocks = weight.reshape(len(weight), -1, BLOCK)
    greatest = blocks.gather(2, blocks.abs().argmax(2, keepdim=True))
    codes, scales = torch.zeros_like(blocks), torch.zeros_like(greatest)
    least = torch.full_like(greatest, torch.inf)
    for share in SHRINK:
        scale = (share * greatest.double() / -8).half().float()
        code = (blocks / torch.where(scale == 0, 1, scale)).round().clamp(-8, 7)
        error = ((code * scale - blocks) ** 2).sum(2, keepdim=True)
        better = error < least
        codes, scales = torch.where(better, code, codes), torch.where(better, scale, scales)
        least = torch.where(better, error, least)
    return codes, scales
