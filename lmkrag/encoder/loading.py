"""Load an encoder's model, pooling and tokenizer from a folder or hub name."""

from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from lmkrag.encoder.device import choose_device, choose_dtype
from lmkrag.encoder.pooling import Pooling, build_pooling
from lmkrag.encoder.spec import (
    DEFAULT_ENCODER,
    DEFAULT_OVERLAP,
    DEFAULT_WINDOW,
    POOLING_WEIGHTS,
    check_weights,
    find_model,
    fingerprint_model,
    read_settings,
)
from lmkrag.encoder.tokens import SentenceTokenizer
from lmkrag.errors import EncoderError, UsageError
from lmkrag.types import EncoderSpec


class EncoderParts(NamedTuple):
    """What a landmark encoder is made of."""

    model: Any
    pooling: Pooling
    tokens: SentenceTokenizer
    spec: EncoderSpec
    device: torch.device


def load_parts(
    name: str | None = None,
    *,
    device: str | None = None,
    dtype: torch.dtype | None = None,
    window: int | None = None,
    overlap: float | None = None,
) -> EncoderParts:
    """Load what :meth:`lmkrag.encoder.landmark.LandmarkEncoder.load` says."""
    from transformers import AutoConfig, AutoModel, AutoTokenizer
    from transformers.utils import logging

    folder = find_model(name)
    settings = read_settings(folder)
    check_weights(folder, settings)
    where = choose_device(device)
    logging.disable_progress_bar()
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        model = AutoModel.from_pretrained(
            folder,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            dtype=dtype or choose_dtype(where),
        )
    except (OSError, ValueError, KeyError, ImportError, SafetensorError) as error:
        raise EncoderError(f"{folder}: can't be loaded as an encoder ({error})") from error
    finally:
        logging.enable_progress_bar()
    if not getattr(tokenizer, "is_fast", False):
        raise EncoderError(f"{folder}: needs a fast tokenizer (tokenizer.json), this model has none")
    free = free_positions(config, tokenizer)
    chosen = window or settings.get("window") or min(DEFAULT_WINDOW, free)
    if chosen > free:
        raise EncoderError(
            f"a window of {chosen} tokens is longer than the {free} that {folder.name} has positions for"
        )
    pooling = settings.get("pooling", "mean")
    share = float(settings.get("overlap", DEFAULT_OVERLAP) if overlap is None else overlap)
    if not 0 <= share < 1:
        raise UsageError(f"overlap must be in [0, 1), not {share}")
    spec = EncoderSpec(
        name=str(folder.resolve()) if name and Path(name).is_dir() else name or DEFAULT_ENCODER,
        fingerprint=fingerprint_model(folder, f"{chosen} {share} {pooling}"),
        dimensions=config.hidden_size,
        pooling=pooling,
        window=chosen,
        overlap=share,
        landmark=settings.get("landmark", ""),
        query_prefix=settings.get("query_prefix", ""),
        title_tokens=settings.get("title_tokens", 0),
    )
    tokens = SentenceTokenizer(
        tokenizer.backend_tokenizer,  # calling the tokenizer itself would undo what this sets
        window=chosen,
        landmark=spec.landmark,
        query_prefix=spec.query_prefix,
        title_tokens=spec.title_tokens,
        pad=tokenizer.pad_token_id or 0,
    )
    return EncoderParts(model, load_pooling(folder, spec.pooling, spec.dimensions), tokens, spec, where)


def free_positions(config: Any, tokenizer: Any) -> int:
    """Return how many tokens a window can hold beside the special ones."""
    longest = min(tokenizer.model_max_length, getattr(config, "max_position_embeddings", 512))
    return int(longest - tokenizer.num_special_tokens_to_add())


def load_pooling(folder: Path, name: str, dimensions: int) -> Pooling:
    """Return the pooling of an encoder folder, with its weights if it has any.

    Raises:
        EncoderError: no such pooling, or weights that are missing or do not fit.
    """
    try:
        pooling = build_pooling(name, dimensions)
        if pooling.state_dict():
            pooling.load_state_dict(load_file(folder / POOLING_WEIGHTS))
    except (ValueError, OSError, RuntimeError, SafetensorError) as error:
        raise EncoderError(f"{folder}: its pooling can't be loaded ({error})") from error
    return pooling
