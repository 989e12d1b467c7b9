"""An encoder's model in torch: any Hugging Face encoder, on a CPU or a GPU."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Self, TypeVar

import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from lmkrag.encoder.onnx_model import POOLINGS
from lmkrag.encoder.tokens import SentenceTokenizer
from lmkrag.errors import EncoderError
from lmkrag.models.bert import is_packed, read_weights
from lmkrag.types.arrays import Vectors

Value = TypeVar("Value", bound=Any)


@dataclass(frozen=True, slots=True)
class Batch:
    """Windows side by side."""

    input_ids: Tensor  # ``[windows, width]`` int64
    attention_mask: Tensor  # the same
    # the same: the sentence of each token, counted through the batch; ``count`` for none
    owner: Tensor
    is_landmark: Tensor  # ``[windows, width]`` bool
    count: int  # of sentences

    def to(self, device: torch.device) -> Self:
        """Return the same on a device."""
        return move_tensors(self, device)


def move_tensors(value: Value, device: torch.device) -> Value:
    """Return a dataclass with its tensors on a device."""
    values = {field.name: getattr(value, field.name) for field in fields(value)}
    return replace(
        value, **{name: part.to(device) for name, part in values.items() if hasattr(part, "to")}
    )


def pack_windows(
    tokens: SentenceTokenizer,
    windows: Sequence[Sequence[Sequence[int]]],
    titles: Sequence[Sequence[int]] = (),
) -> Batch:
    """Pack windows, lists of the token ids of sentences, into a batch, each after the ids of its
    title.
    """
    titles = titles or [()] * len(windows)
    rows = [
        [*tokens.prefix, *title, *(token for ids in window for token in ids), *tokens.suffix]
        for title, window in zip(titles, windows, strict=True)
    ]
    width = max(map(len, rows))
    total = sum(map(len, windows))
    input_ids = torch.full((len(rows), width), tokens.pad, dtype=torch.long)
    owner = torch.full((len(rows), width), total, dtype=torch.long)
    is_landmark = torch.zeros((len(rows), width), dtype=torch.bool)
    sentence = 0
    for row, (title, window, row_ids) in enumerate(zip(titles, windows, rows, strict=True)):
        input_ids[row, : len(row_ids)] = torch.tensor(row_ids)
        column = len(tokens.prefix) + len(title)
        for ids in window:
            end = column + len(ids)
            owner[row, column:end] = sentence
            if tokens.landmark:
                is_landmark[row, end - 1] = True
            column, sentence = end, sentence + 1
    lengths = torch.tensor([len(row_ids) for row_ids in rows])
    mask = (torch.arange(width)[None] < lengths[:, None]).long()
    return Batch(input_ids, mask, owner, is_landmark, total)


class Pooling(nn.Module):
    """Pools the states of a batch of windows into sentence vectors, in a way of :data:`POOLINGS`,
    or raises ValueError.

    ``mean`` is the mean of a sentence's tokens, its landmark left out; ``lmk`` the landmark's state
    (Luo et al., 2024); ``lmk+mean`` the mean of the tokens and the landmark.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        if name not in POOLINGS:
            raise ValueError(f"unknown pooling {name!r}: one of {', '.join(POOLINGS)}")
        self._name = name

    def forward(self, states: Tensor, owner: Tensor, is_landmark: Tensor, count: int) -> Tensor:
        """Return vectors ``[count, dimensions]`` float32 of length one, from the last states
        ``[tokens, dimensions]``.

        ``owner`` ``[tokens]`` is the sentence each token belongs to, ``count`` for none (special
        tokens, padding); ``is_landmark`` ``[tokens]`` bool is true at the landmark that ends a
        sentence.
        """
        if self._name != "lmk+mean":
            owner = owner.masked_fill(is_landmark if self._name == "mean" else ~is_landmark, count)
        sums = states.new_zeros(count + 1, states.shape[1], dtype=torch.float32).index_add_(
            0, owner, states.float()
        )
        sizes = torch.bincount(owner, minlength=count + 1).clamp(min=1)
        return nn.functional.normalize((sums / sizes[:, None])[:count], dim=1)


def read_sentences(model: Any, pooling: Pooling, batch: Batch) -> Tensor:
    """Run a model over windows and pool their sentences: ``[batch.count, dimensions]`` float32 of
    length one.
    """
    inputs = {"input_ids": batch.input_ids}
    if not bool(batch.attention_mask.all()):
        inputs["attention_mask"] = batch.attention_mask
    states = model(**inputs).last_hidden_state.flatten(0, 1)
    vectors: Tensor = pooling(
        states, batch.owner.flatten(), batch.is_landmark.flatten(), batch.count
    )
    return vectors


class TorchModel:
    """A network of transformers, and the module that pools its states. State: both."""

    def __init__(
        self, network: Any, pooling: Pooling, tokens: SentenceTokenizer, device: torch.device
    ) -> None:
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
        self,
        windows: Sequence[Sequence[Sequence[int]]],
        titles: Sequence[Sequence[int]],
        *,
        exact: bool = False,
    ) -> Vectors:
        if (
            os.getpid() != self._process
        ):  # forked: torch would wait for ever for the parent's threads
            torch.set_num_threads(1)
        batch = pack_windows(self._tokens, windows, titles).to(torch.device(self.device))
        return read_sentences(self.network, self.pooling, batch).cpu().numpy()


def load_network(folder: Path, dtype: torch.dtype) -> tuple[Any, Any, Any]:
    """Load the network, configuration and fast tokenizer of a transformers folder, or raise
    EncoderError.
    """
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
        raise EncoderError(
            f"{folder}: needs a fast tokenizer (tokenizer.json), this model has none"
        )
    return network, config, tokenizer


def load_backbone(folder: Path, **options: Any) -> Any:
    """Load a transformer, packed or not, with options of ``AutoModel``. Raises EncoderError,
    OSError, ValueError.
    """
    from transformers import AutoConfig, AutoModel
    from transformers.utils import logging

    if is_packed(folder):
        config = options.pop("config", None) or AutoConfig.from_pretrained(folder)
        options.pop("local_files_only", None)
        backbone = AutoModel.from_config(config, **options)
        weights = {
            name: torch.from_numpy(value)
            for name, value in read_weights(folder / "model.safetensors").items()
        }
        names = backbone.load_state_dict(weights, strict=False).missing_keys
    else:
        verbosity = logging.get_verbosity()
        # else it prints a table of missing weights, which are checked here
        logging.set_verbosity_error()
        try:
            backbone, result = AutoModel.from_pretrained(
                folder,
                use_safetensors=True,
                trust_remote_code=False,
                output_loading_info=True,
                **options,
            )
        finally:
            logging.set_verbosity(verbosity)
        names = result["missing_keys"]
    if missing := [name for name in names if not name.startswith("pooler.")]:
        raise EncoderError(f"{folder}: can't be loaded as an encoder ({min(missing)} is missing)")
    return backbone
