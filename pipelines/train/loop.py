"""The loop of every training here: steps by their numbers, checkpoints, a clock and a log.

The folder of a run gets `log.txt`, `last.pt` and in the end `part-NN`, at most 15 MB each:
`cat part-* > model.safetensors` gives the weights in float16. A run goes on from its `last.pt`.
"""

import itertools
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor, nn
from torch.optim import AdamW
from torch.utils.data import DataLoader, Dataset

PART = 15_000_000  # bytes
LOGGED = 20  # steps between two lines of the log
SAVED = 120  # seconds between two checkpoints
LEAST = 0.02  # of the learning rate, at the end of the cosine

Build = Callable[[int], Any]
"""Returns the step of a number, which has a method ``to(device)``."""

Compute = Callable[[Any], dict[str, Tensor]]
"""Returns the losses of a step by name, scalars."""


def start_run(folder: Path, seed: int) -> torch.device:
    """Make the folder of a run and seed it; return the device to train on."""
    torch.manual_seed(seed)
    torch.backends.cuda.enable_cudnn_sdp(False)  # it plans anew for each shape
    folder.mkdir(parents=True, exist_ok=True)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """Where a run keeps its files, how long it trains and how fast."""

    folder: Path
    learning_rate: float
    warmup: int = 50  # steps in which the rate grows; then it falls as a cosine
    steps: int = 0
    minutes: float = 0.0  # if there is no number of steps
    accumulate: int = 1  # parts of a step, each of which is built by its number
    workers: int = 8  # processes that build steps for a GPU

    def run(
        self, trained: nn.Module, build: Build, compute: Compute, weights: Mapping[str, float]
    ) -> None:
        """Train from the last checkpoint on; ``weights`` are those of the losses by name."""
        parameters = [each for each in trained.parameters() if each.requires_grad]
        device = parameters[0].device
        optimizer = AdamW(parameters, self.learning_rate, weight_decay=0.01)
        step, seconds = self._load(trained, optimizer)
        began, saved = time.monotonic() - seconds, seconds
        parts = load_steps(
            build, step * self.accumulate, self.workers if device.type == "cuda" else 0
        )
        recent: dict[str, list[float]] = defaultdict(list)
        while (done := self._share_done(step, seconds)) < 1:
            for group in optimizer.param_groups:
                group["lr"] = self.learning_rate * share_rate(step, self.warmup, done)
            optimizer.zero_grad()
            for _ in range(self.accumulate):
                losses = compute(next(parts).to(device))
                weighted = torch.stack([weights[name] * loss for name, loss in losses.items()])
                (weighted.sum() / self.accumulate).backward()
                for name, loss in losses.items():
                    recent[name].append(loss.item())
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            step, seconds = step + 1, time.monotonic() - began
            if step % LOGGED == 0:
                self._report(step, seconds, recent)
            if seconds - saved > SAVED:
                self._save(trained, optimizer, step, seconds)
                saved = seconds
        self._report(step, seconds, recent)
        self._save(trained, optimizer, step, seconds)

    def log(self, line: str) -> None:
        """Print a line, and add it to the log."""
        print(line, flush=True)
        with (self.folder / "log.txt").open("a") as log:
            log.write(line + "\n")

    def write_parts(self, weights: Mapping[str, Tensor]) -> None:
        """Write weights in float16, in parts that travel one by one."""
        stored = save({name: value.half().cpu().contiguous() for name, value in weights.items()})
        for number, start in enumerate(range(0, len(stored), PART)):
            (self.folder / f"part-{number:02}").write_bytes(stored[start : start + PART])

    def _report(self, step: int, seconds: float, losses: dict[str, list[float]]) -> None:
        """Log the means of the losses since the last report, if there are any, and forget them."""
        if losses:
            means = ", ".join(f"{name} {np.mean(values):.3f}" for name, values in losses.items())
            self.log(f"step {step}, {seconds:.0f} s: {means}")
            losses.clear()

    def _share_done(self, step: int, seconds: float) -> float:
        return step / self.steps if self.steps else seconds / (60 * self.minutes)

    def _load(self, model: nn.Module, optimizer: AdamW) -> tuple[int, float]:
        """Go on from the last checkpoint, if any; return its step and the seconds before."""
        path = self.folder / "last.pt"
        if not path.is_file():
            return 0, 0.0
        state = torch.load(path, map_location="cpu")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        return int(state["step"]), float(state["seconds"])

    def _save(self, model: nn.Module, optimizer: AdamW, step: int, seconds: float) -> None:
        """Write a checkpoint; the one before stays until it is whole."""
        partial = self.folder / "last.partial"
        states = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save({**states, "step": step, "seconds": seconds}, partial)
        partial.replace(self.folder / "last.pt")


@dataclass
class Steps(Dataset[Any]):
    """The steps of a run by their numbers, without end."""

    build: Build

    def __getitem__(self, number: int) -> Any:
        return self.build(number)


def load_steps(build: Build, first: int, workers: int) -> Iterator[Any]:
    """Yield the steps from one on, built by at most so many processes, 0 for this one alone."""
    processes = min(workers, os.cpu_count() or 1)
    numbers = itertools.count(first)
    return iter(DataLoader(Steps(build), None, sampler=numbers, num_workers=processes))


def share_rate(step: int, warmup: int, done: float) -> float:
    """Return the share of the learning rate at a step, when the share ``done`` of a run is over."""
    cosine = (1 + np.cos(np.pi * done)) / 2
    return float(min(1.0, (step + 1) / warmup) * (LEAST + (1 - LEAST) * cosine))
