"""What all runs on a GPU do: steps, checkpoints, the learning rate, the log, and weights in parts that travel."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor, nn

PART = 15_000_000  # bytes


def start_run(folder: Path, seed: int) -> torch.device:
    """Make the folder of a run and seed it; return the device to train on."""
    torch.manual_seed(seed)
    torch.backends.cuda.enable_cudnn_sdp(False)  # it plans anew for each shape
    folder.mkdir(parents=True, exist_ok=True)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Steps(torch.utils.data.IterableDataset):  # type: ignore[type-arg]
    """The steps from one on, shared by the workers, without end."""

    def __init__(self, build: Callable[[int], Any], first: int) -> None:
        """Take the function that builds a step of a number, and the number of the first."""
        self._build, self._first = build, first

    def __iter__(self) -> Iterator[Any]:
        worker = torch.utils.data.get_worker_info()
        number, apart = (self._first + worker.id, worker.num_workers) if worker else (self._first, 1)
        while True:
            yield self._build(number)
            number += apart


def load_steps(build: Callable[[int], Any], first: int, device: torch.device, *, workers: int) -> Iterator[Any]:
    """Yield the steps from one on; with a GPU, at most ``workers`` processes build them."""
    processes = min(workers, os.cpu_count() or 1) if device.type == "cuda" else 0
    return iter(torch.utils.data.DataLoader(Steps(build, first), batch_size=None, num_workers=processes))


def log_line(folder: Path, line: str) -> None:
    """Print a line, and add it to the log of a run."""
    print(line, flush=True)
    with (folder / "log.txt").open("a") as log:
        log.write(line + "\n")


def log_means(folder: Path, step: int, seconds: float, names: Sequence[str], means: np.ndarray) -> None:
    """Log the means of the losses since the last line."""
    losses = ", ".join(f"{name} {mean:.3f}" for name, mean in zip(names, means, strict=True))
    log_line(folder, f"step {step}, {seconds:.0f} s: {losses}")


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
