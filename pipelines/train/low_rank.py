"""Train little of a decoder: products of low rank beside its matrices, and its landmark."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

SCALE = 2.0  # of a product
LANDMARK = "landmark"  # the name of the landmark's embedding among the trained weights


class LowRank(nn.Module):
    """Adds a product of two matrices of low rank to a fixed one (Hu et al., arXiv 2106.09685)."""

    def __init__(self, matrix: nn.Linear, rank: int) -> None:
        super().__init__()
        self.down = nn.Parameter(torch.randn(rank, matrix.in_features) / matrix.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(matrix.out_features, rank))
        matrix.register_forward_hook(lambda _, inputs, output: output + self(inputs[0]))

    def forward(self, states: Tensor) -> Tensor:
        """Return what is added to the matrix's output."""
        return SCALE * (states @ self.down.T @ self.up.T)


class Adapter(nn.Module):
    """All that is trained of a decoder, whose own weights stay as they are."""

    def __init__(self, backbone: Any, landmark: int, rank: int) -> None:
        super().__init__()
        backbone.requires_grad_(False)
        words = backbone.get_input_embeddings()
        self.landmark = nn.Parameter(words.weight[landmark].clone())
        words.register_forward_hook(
            lambda _, inputs, output: torch.where(
                (inputs[0] == landmark)[..., None], self.landmark, output
            )
        )
        matrices = {
            name: module
            for name, module in backbone.named_modules()
            if isinstance(module, nn.Linear)
        }
        self.products = nn.ModuleDict(
            {name.replace(".", "/"): LowRank(m, rank) for name, m in matrices.items()}
        )


def merge_adapter(
    weights: Mapping[str, np.ndarray], trained: Mapping[str, np.ndarray], landmark: int
) -> dict[str, np.ndarray]:
    """Return a decoder's weights in float32 with those of an :class:`Adapter` in them."""
    merged = {name: values.astype(np.float32) for name, values in weights.items()}
    merged["embed_tokens.weight"][landmark] = trained[LANDMARK]
    for name, up in trained.items():
        if name.endswith(".up"):
            down = trained[name.removesuffix("up") + "down"]
            matrix = name.removeprefix("products.").removesuffix(".up").replace("/", ".")
            merged[f"{matrix}.weight"] += SCALE * up.astype(np.float32) @ down.astype(np.float32)
    return merged
