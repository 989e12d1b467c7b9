"""Write trained weights."""

from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor, isfinite

from lmkrag.errors import EncoderError


def save_half(
    weights: dict[str, Tensor], path: Path, *, exact: dict[str, Tensor] | None = None, config: str | None = None
) -> None:
    """Write weights in float16.

    Args:
        weights: by their names.
        path: of the file.
        exact: what is written as it is.
        config: what the file says of the model.

    Raises:
        EncoderError: a weight is not finite.
    """
    if not all(bool(isfinite(value).all()) for value in weights.values()):
        raise EncoderError(f"{path.parent}: weights that are not finite are not saved")
    stored = {name: value.detach().cpu().half().contiguous() for name, value in weights.items()}
    save_file(stored | (exact or {}), path, metadata=None if config is None else {"config": config})
