"""Checkpoints, the learning rate, and weights in parts that travel, for runs on a GPU."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor, nn

PART = 15_000_000  # bytes


def load_checkpoint(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device) -> Any:
    """Go on from a checkpoint, if there is one; return its step and the seconds that led to it."""
    if not path.is_file():
        return 0, 0.0
    state = torch.load(path, map_location=device)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["step"]), float(state["seconds"])


def save_checkpoint(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, step: int, seconds: float) -> None:
    """Write a checkpoint; the one before stays until it is whole."""
    partial = path.with_suffix(".partial")
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step, "seconds": seconds}
    torch.save(state, partial)
    partial.replace(path)


def set_rate(optimizer: torch.optim.Optimizer, greatest: float, step: int, done: float, *, warmup: int) -> None:
    """Set the learning rate: it grows for ``warmup`` steps, and falls as a cosine with the share that is ``done``.

    A group of parameters that says so has some ``times`` the others' rate.
    """
    rate = greatest * min(1.0, (step + 1) / warmup) * (0.02 + 0.49 * (1 + np.cos(np.pi * done)))
    for group in optimizer.param_groups:
        group["lr"] = float(rate) * group.get("times", 1)


def write_parts(folder: Path, weights: dict[str, Tensor]) -> None:
    """Write weights in float16 as ``part-NN``: ``cat part-* > model.safetensors`` gives one file."""
    stored = save({name: value.half().cpu().contiguous() for name, value in weights.items()})
    for number, start in enumerate(range(0, len(stored), PART)):
        (folder / f"part-{number:02}").write_bytes(stored[start : start + PART])
