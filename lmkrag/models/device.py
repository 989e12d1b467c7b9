"""Where to compute, and how precisely."""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@cache
def processor_flags() -> frozenset[str]:
    """Return the words of what Linux says of the processor, its instructions among them; none elsewhere."""
    try:
        return frozenset(Path("/proc/cpuinfo").read_text("utf-8").split())
    except OSError:
        return frozenset()


def has_amx() -> bool:
    """Return whether the processor multiplies matrices of bfloat16 (AMX), without torch."""
    return "amx_bf16" in processor_flags()


def has_bfloat16() -> bool:
    """Return whether the processor has instructions for products of bfloat16 (AMX or AVX-512), without torch."""
    return not processor_flags().isdisjoint(("amx_bf16", "avx512_bf16"))


@cache
def has_card() -> bool:
    """Return whether there is a card that torch may be able to use, without torch."""
    return any(Path("/dev", name).exists() for name in ("nvidiactl", "kfd", "dxg"))


def choose_device(device: str | None = None) -> "torch.device":
    """Return ``device`` if given, else CUDA when there is a card, else the CPU."""
    import torch

    if device is not None:
        return torch.device(device)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def choose_dtype(device: "torch.device") -> "torch.dtype":
    """Return bfloat16 where it is fast (CUDA, CPUs with AMX), else float32.

    Recall on the development sets is the same within 0.5 points; vectors agree within a cosine of 0.999.
    """
    import torch

    if device.type == "cuda":
        return torch.bfloat16
    return torch.bfloat16 if torch.cpu._is_amx_tile_supported() else torch.float32
