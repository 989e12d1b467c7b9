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
    """Windows side by side, padded to the longest.

    Attributes:
        input_ids: ``[windows, width]`` int64, token ids.
        attention_mask: ``[windows, width]`` int64, 1 for tokens and 0 for padding.
        owner: ``[windows, width]`` int64, the sentence of each token, counted through the batch;
            ``count`` for special tokens, titles and padding.
        is_landmark: ``[windows, width]`` bool, true at the landmark that ends a sentence.
        count: number of sentences.
    """

    input_ids: Tensor  # ``[windows, width]`` int64
    attention_mask: Tensor  # the same
    # the same: the sentence of each token, counted through the batch; ``count`` for none
    owner: Tensor
    is_landmark: Tensor  # ``[windows, width]`` bool
    count: int  # of sentences

    def to(self, device: torch.device) -> Self:
        """Return the batch with its tensors on a device."""
        return move_tensors(self, device)


def move_tensors(value: Value, device: torch.device) -> Value:
    """Return a dataclass with its tensors on a device; other fields stay as they are."""
    values = {field.name: getattr(value, field.name) for field in fields(value)}
    return replace(
        value, **{name: part.to(device) for name, part in values.items() if hasattr(part, "to")}
    )


def pack_windows(
    tokens: SentenceTokenizer,
    windows: Sequence[Sequence[Sequence[int]]],
    titles: Sequence[Sequence[int]] = (),
) -> Batch:
    """Pack windows into a batch.

    Args:
        tokens: the tokenizer, whose special tokens frame each window.
        windows: for each window the token ids of its sentences, landmarks included.
        titles: for each window the token ids of its title; empty for no titles.

    Returns:
        The batch, whose sentences are counted in the order of the windows.
    """
    titles = titles or [()] * len(windows)
    # A row for each window: [CLS] title sentence sentence ... [SEP].
    rows = [
        [*tokens.prefix, *title, *(token for ids in window for token in ids), *tokens.suffix]
        for title, window in zip(titles, windows, strict=True)
    ]
    width = max(map(len, rows))
    total = sum(map(len, windows))
    input_ids = torch.full((len(rows), width), tokens.pad, dtype=torch.long)
    owner = torch.full((len(rows), width), total, dtype=torch.long)
    is_landmark = torch.zeros((len(rows), width), dtype=torch.bool)
    # Say of each token which sentence it belongs to, and whether it is a landmark.
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
    """Pools the states of windows into sentence vectors.

    ``mean`` is the mean of a sentence's tokens, its landmark left out (late chunking, arXiv
    2409.04701). ``lmk`` is the state of the landmark (Luo et al., arXiv 2402.11573). ``lmk+mean``
    is the mean of the tokens and the landmark.
    """

    def __init__(self, name: str) -> None:
        """Take the way of pooling by its name.

        Raises:
            ValueError: the name is not in :data:`POOLINGS`.
        """
        super().__init__()
        if name not in POOLINGS:
            raise ValueError(f"unknown pooling {name!r}: one of {', '.join(POOLINGS)}")
        self._name = name

    def forward(self, states: Tensor, owner: Tensor, is_landmark: Tensor, count: int) -> Tensor:
        """Pool states into vectors.

        Args:
            states: ``[tokens, dimensions]``, the last states of the network, windows joined.
            owner: ``[tokens]`` int64, the sentence each token belongs to; ``count`` for special
                tokens, titles and padding.
            is_landmark: ``[tokens]`` bool, true at the landmark that ends a sentence.
            count: number of sentences.

        Returns:
            Vectors ``[count, dimensions]`` float32 of length one; zeros for a sentence without
                tokens.
        """
        if self._name != "lmk+mean":
            owner = owner.masked_fill(is_landmark if self._name == "mean" else ~is_landmark, count)
        sums = states.new_zeros(count + 1, states.shape[1], dtype=torch.float32).index_add_(
            0, owner, states.float()
        )
        sizes = torch.bincount(owner, minlength=count + 1).clamp(min=1)
        return nn.functional.normalize((sums / sizes[:, None])[:count], dim=1)


def read_sentences(model: Any, pooling: Pooling, batch: Batch) -> Tensor:
    """Run a network over windows and pool their sentences.

    Args:
        model: a network of transformers.
        pooling: makes vectors of its states.
        batch: the windows.

    Returns:
        Vectors ``[batch.count, dimensions]`` float32 of length one, on the device of the network.
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
    """A network of transformers, with a pooling that makes vectors of its states.

    State: both modules, on one device. It is a :class:`lmkrag.encoder.windows.WindowModel`.
    """

    def __init__(
        self, network: Any, pooling: Pooling, tokens: SentenceTokenizer, device: torch.device
    ) -> None:
        """Move a network and its pooling to a device, in evaluation mode.

        Args:
            network: a network of transformers.
            pooling: makes vectors of its states.
            tokens: the tokenizer, whose special tokens frame each window.
            device: where to compute.
        """
        self.network = network.to(device).eval()
        self.pooling = pooling.to(device).eval()
        self.device = str(device)
        self._tokens = tokens
        self._process = os.getpid()

    @property
    def precision(self) -> str:
        """The dtype that documents and questions are read in, such as ``bfloat16``."""
        return str(self.network.dtype).removeprefix("torch.")

    @torch.inference_mode()
    def read(
        self,
        windows: Sequence[Sequence[Sequence[int]]],
        titles: Sequence[Sequence[int]],
        *,
        exact: bool = False,
    ) -> Vectors:
        """Return the vectors of the sentences in windows: see
        :meth:`lmkrag.encoder.windows.WindowModel.read`.

        Args:
            windows: for each window the token ids of its sentences, landmarks included.
            titles: for each window the token ids that it begins with.
            exact: has no effect: torch computes all in one precision.

        Returns:
            Vectors ``[sentences, dimensions]`` float32 of length one.
        """
        # forked: torch would wait for ever for the parent's threads
        if os.getpid() != self._process:
            torch.set_num_threads(1)
        batch = pack_windows(self._tokens, windows, titles).to(torch.device(self.device))
        return read_sentences(self.network, self.pooling, batch).cpu().numpy()


def load_network(folder: Path, dtype: torch.dtype) -> tuple[Any, Any, Any]:
    """Load the network, the configuration and the fast tokenizer of a transformers folder.

    Args:
        folder: the model folder. No code in it is run, and nothing is downloaded.
        dtype: dtype of the weights.

    Returns:
        The network, its configuration and its tokenizer, as transformers has them.

    Raises:
        EncoderError: one of them can't be loaded, or the tokenizer is not a fast one.
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
    """Load a transformer without a head, whether its embeddings of words are packed or not.

    Args:
        folder: the model folder.
        options: options of ``AutoModel``, such as ``dtype`` and ``config``.

    Raises:
        EncoderError: a tensor is missing from the weights.
        OSError: a file can't be read.
        ValueError: transformers does not know the architecture.
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
