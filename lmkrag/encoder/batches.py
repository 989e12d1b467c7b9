"""Lay windows of tokens side by side, as the tensors a model reads."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self, TypeVar

import torch
from torch import Tensor

from lmkrag.encoder.tokens import SentenceTokenizer

Value = TypeVar("Value", bound=Any)


@dataclass(frozen=True, slots=True)
class Batch:
    """Windows side by side.

    ``input_ids``, ``attention_mask`` and ``owner`` are ``[windows, width]`` int64; ``is_landmark`` is the same shape,
    bool. ``owner`` is the sentence, counted through the batch, that a token belongs to; ``count``, the number of
    sentences, for special tokens and padding.
    """

    input_ids: Tensor
    attention_mask: Tensor
    owner: Tensor
    is_landmark: Tensor
    count: int

    def to(self, device: torch.device) -> Self:
        """Return the same on a device."""
        return move_tensors(self, device)


def move_tensors(value: Value, device: torch.device) -> Value:
    """Return a dataclass with what it holds of tensors on a device."""
    held = {field.name: getattr(value, field.name) for field in fields(value)}
    return replace(value, **{name: part.to(device) for name, part in held.items() if hasattr(part, "to")})


def pack_windows(
    tokens: SentenceTokenizer, windows: Sequence[Sequence[Sequence[int]]], titles: Sequence[Sequence[int]] = ()
) -> Batch:
    """Lay windows, each a list of sentences' token ids, side by side, after the ids of titles if there are any."""
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
