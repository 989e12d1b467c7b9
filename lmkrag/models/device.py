"""Where to compute, and how precisely: the processor's abilities, the device, the precision."""

import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast, get_args

from lmkrag.errors import EncoderError, UsageError
from lmkrag.models.quantization import RANGES, Ranges, read_ranges
from lmkrag.system.platform import read_proc

if TYPE_CHECKING:
    import torch


DEVICE = "LMKRAG_DEVICE"  # the environment variable with the default device
_DEVICES = ("auto", "cpu", "cuda")


@cache
def processor_flags() -> frozenset[str]:
    """Return the words of ``/proc/cpuinfo``, which name the processor's instruction sets; empty
    outside of Linux.
    """
    return frozenset(read_proc("cpuinfo").split())


def has_amx() -> bool:
    """Return whether the processor multiplies matrices of bfloat16 (AMX), without torch."""
    return "amx_bf16" in processor_flags()


def has_bfloat16() -> bool:
    """Return whether the processor has instructions for products of bfloat16 (AMX or AVX-512),
    without torch.
    """
    return not processor_flags().isdisjoint(("amx_bf16", "avx512_bf16"))


@cache
def has_card() -> bool:
    """Return whether there is a graphics card that torch may be able to use, without importing
    torch.
    """
    return any(Path("/dev", name).exists() for name in ("nvidiactl", "kfd", "dxg"))


def find_device(device: str | None = None) -> str | None:
    """Return the device to compute on; None for the best there is.

    Args:
        device: a torch device; None for the environment variable ``LMKRAG_DEVICE``, which is
            ``auto``, ``cpu`` or ``cuda``, else ``auto``.

    Raises:
        UsageError: the variable names no device.
    """
    if device is not None:
        return device
    chosen = os.environ.get(DEVICE) or "auto"
    if chosen not in _DEVICES:
        raise UsageError(f"{DEVICE} must be one of {', '.join(_DEVICES)}, not {chosen!r}")
    return None if chosen == "auto" else chosen


def choose_device(device: str | None = None) -> "torch.device":
    """Return a torch device by its name; by default that of :func:`find_device`, else CUDA if it is
    available, else the CPU.

    Raises:
        UsageError: CUDA is asked for, and torch finds no card.
    """
    import torch

    is_there = torch.cuda.is_available()
    chosen = torch.device(find_device(device) or ("cuda" if is_there else "cpu"))
    if chosen.type == "cuda" and not is_there:
        raise UsageError(f"device {chosen}: torch finds no card here")
    return chosen


def choose_dtype(device: "torch.device") -> "torch.dtype":
    """Return bfloat16 if it is fast (CUDA, CPUs with AMX), else float32. Recall is the same within
    0.5 points.
    """
    import torch

    if device.type == "cuda":
        return torch.bfloat16
    return torch.bfloat16 if torch.cpu._is_amx_tile_supported() else torch.float32


# ``auto`` is the fastest that suits the model and the machine
Precision = Literal["auto", "float32", "int8"]
PRECISION = "LMKRAG_PRECISION"  # the environment variable with the default :data:`Precision`
_FLAGS = ("avx512_vnni", "avx_vnni", "amx_int8")


def find_precision(name: str | None = None) -> Precision:
    """Return a precision.

    Args:
        name: ``auto``, ``float32`` or ``int8``; None for the environment variable
            ``LMKRAG_PRECISION``, else ``auto``.

    Raises:
        UsageError: there is no such precision.
    """
    chosen = name or os.environ.get(PRECISION) or "auto"
    if chosen not in get_args(Precision):
        raise UsageError(
            f"precision must be one of {', '.join(get_args(Precision))}, not {chosen!r}"
        )
    return cast(Precision, chosen)


def multiplies_int8() -> bool:
    """Return whether the processor multiplies int8 and adds up exactly (VNNI or AMX)."""
    return not processor_flags().isdisjoint(_FLAGS)


def choose_ranges(folder: Path, precision: Precision) -> Ranges | None:
    """Return the ranges to run a model in int8 with; None for float32.

    Args:
        folder: the model folder.
        precision: ``auto`` uses int8 if the processor and the model can.

    Raises:
        UsageError: int8 is asked for, and the processor has no instructions for it.
        EncoderError: int8 is asked for, and the model has no ranges.
    """
    if precision == "float32":
        return None
    able = multiplies_int8()
    if precision == "int8" and not able:
        raise UsageError("precision int8: this processor has no instructions for it (VNNI)")
    ranges = read_ranges(folder) if able else None
    if precision == "int8" and ranges is None:
        raise EncoderError(f"{folder}: has no {RANGES}, so it can't be run in int8")
    return ranges
