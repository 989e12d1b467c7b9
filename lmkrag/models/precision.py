"""How exactly a model computes on this machine."""

import os
from pathlib import Path
from typing import Literal, get_args

from lmkrag.errors import EncoderError, UsageError
from lmkrag.models.device import processor_flags
from lmkrag.models.quantization import RANGES, Ranges, read_ranges

Precision = Literal["auto", "float32", "int8"]
"""``auto`` is the fastest that suits the model and the machine."""

PRECISION = "LMKRAG_PRECISION"
"""The environment variable with the :data:`Precision` of models that are loaded without one."""

_FLAGS = ("avx512_vnni", "avx_vnni", "amx_int8")


def find_precision(name: str | None = None) -> Precision:
    """Return a precision by its name, without one that of the environment, else ``auto``.

    Raises:
        UsageError: there is none of that name.
    """
    known: tuple[Precision, ...] = get_args(Precision)
    chosen = name or os.environ.get(PRECISION) or "auto"
    for precision in known:
        if precision == chosen:
            return precision
    raise UsageError(f"precision must be one of {', '.join(known)}, not {chosen!r}")


def multiplies_int8() -> bool:
    """Return whether the processor has instructions that multiply int8 and add up exactly (VNNI or AMX)."""
    return not processor_flags().isdisjoint(_FLAGS)


def choose_ranges(folder: Path, precision: Precision) -> Ranges | None:
    """Return the ranges to run a model in int8 with, None to run it in float32.

    Raises:
        UsageError: int8 is asked for, and the processor has no instructions for it. EncoderError: the model has no
            ranges, or they are damaged.
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
