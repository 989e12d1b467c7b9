"""An encoder's model in torch: any Hugging Face encoder, any pooling, cards."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from lmkrag.arrays import Vectors
from lmkrag.encoder.batches import pack_windows
from lmkrag.encoder.pooling import Pooling, read_sentences
from lmkrag.encoder.tokens import SentenceTokenizer
from lmkrag.errors import EncoderError
from lmkrag.models.bert import is_packed, read_weights


class TorchModel:
    """A network of transformers, and the module that pools its states. State: both."""

    def __init__(self, network: Any, pooling: Pooling, tokens: SentenceTokenizer, device: torch.device) -> None:
        self.network = network.to(device).eval()
        self.pooling = pooling.to(device).eval()
        self.device = str(device)
        self._tokens = tokens
        self._process = os.getpid()

    @property
    def precision(self) -> str:
        """What documents are read in: see :class:`lmkrag.encoder.windows.WindowModel`."""
        return str(self.network.dtype).removeprefix("torch.")

    @torch.inference_mode()
    def read(
        self, windows: Sequence[Sequence[Sequence[int]]], titles: Sequence[Sequence[int]], *, exact: bool = False
    ) -> Vectors:
        """Read windows: see :class:`lmkrag.encoder.windows.WindowModel`."""
        if os.getpid() != self._process:  # forked: torch would wait for ever for the parent's threads
            torch.set_num_threads(1)
        batch = pack_windows(self._tokens, windows, titles).to(torch.device(self.device))
        vectors: Vectors = read_sentences(self.network, self.pooling, batch).cpu().numpy()
        return vectors


def load_network(folder: Path, dtype: torch.dtype) -> tuple[Any, Any, Any]:
    """Load the network, configuration and fast tokenizer of a transformers folder, or raise EncoderError."""
    from transformers import AutoConfig, AutoTokenizer
    from transformers.utils import logging

    safe: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    logging.disable_progress_bar()
    try:
        config = AutoConfig.from_pretrained(folder, **safe)
        tokenizer = AutoTokenizer.from_pretrained(folder, **safe)
        network = load_backbone(folder, local_files_only=True, dtype=dtype)
    except (OSError, ValueError, KeyError, ImportError, SafetensorError) as error:
        raise EncoderError(f"{folder}: can't be loaded as an encoder ({error})") from error
    finally:
        logging.enable_progress_bar()
    if not getattr(tokenizer, "is_fast", False):
        raise EncoderError(f"{folder}: needs a fast tokenizer (tokenizer.json), this model has none")
    return network, config, tokenizer


def load_backbone(folder: Path, **options: Any) -> Any:
    """Load the transformer of a folder, whose weights may be packed (:mod:`lmkrag.models.packing`).

    Weights that are no safetensors, and code, are refused; options are those of ``AutoModel.from_pretrained``. Raises
    EncoderError: some weights are missing. OSError, ValueError: it can't be loaded.
    """
    from transformers import AutoConfig, AutoModel
    from transformers.utils import logging

    if is_packed(folder):
        config = options.pop("config", None) or AutoConfig.from_pretrained(folder)
        options.pop("local_files_only", None)
        backbone = AutoModel.from_config(config, **options)
        weights = {name: torch.from_numpy(value) for name, value in read_weights(folder / "model.safetensors").items()}
        result = backbone.load_state_dict(weights, strict=False)
        _check_missing(folder, result.missing_keys)
        return backbone
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # else it prints a table of what is missing, which is looked at here
    try:
        backbone, result = AutoModel.from_pretrained(
            folder, use_safetensors=True, trust_remote_code=False, output_loading_info=True, **options
        )
    finally:
        logging.set_verbosity(verbosity)
    _check_missing(folder, result["missing_keys"])
    return backbone


def _check_missing(folder: Path, names: Iterable[str]) -> None:
    missing = {name for name in names if not name.startswith("pooler.")}
    if missing:
        raise EncoderError(f"{folder}: can't be loaded as an encoder ({min(missing)} is missing)")
