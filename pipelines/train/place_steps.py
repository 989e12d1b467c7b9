"""Passages as a re-ranker of sentences reads them in training, side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from mined_passages import UNKNOWN
from torch import Tensor

from lmkrag.arrays import Ids
from lmkrag.encoder.torch_model import move_tensors

_BATCHES = 4  # of passages by their lengths, so that little is padding


class PlaceRow(NamedTuple):
    """A passage as it is read with a question: ``t`` tokens, with ``k`` sentences that fit."""

    ids: Sequence[int] | Ids  # ``[t]``
    question: int  # tokens of the question, which follow the first one
    owners: Sequence[int] | Ids  # ``[t]``, the sentence each is of, -1 for none
    scores: Sequence[float]  # ``[k]``, of the search
    labels: Sequence[int]  # ``[k]``
    answers: Sequence[tuple[int, int]]  # the first and the last token of each short answer
    number: int  # of the question


@dataclass(frozen=True, slots=True)
class PlaceBatch:
    """``p`` passages of about the same length: ``t`` tokens with ``k`` sentences, padded."""

    ids: Tensor  # ``[p, t]``
    types: Tensor  # ``[p, t]``
    mask: Tensor  # ``[p, t]``, what is no padding
    question_mask: Tensor  # ``[p, t]``, the question's tokens
    owners: Tensor  # ``[p, t]``, the sentence each is of, -1 for none
    starts: Tensor  # ``[p, t]``, where a short answer may start
    ends: Tensor  # ``[p, t]``, where it may end
    scores: Tensor  # ``[p, k]``
    labels: Tensor  # ``[p, k]``, padding is unknown
    question: Tensor  # ``[p]``, that each passage is read with


class PlaceStep(NamedTuple):
    """One step: ``batches`` of passages, and whether each question is ``answerable`` ``[questions]``: not changed."""

    batches: tuple[PlaceBatch, ...]
    answerable: Tensor

    def to(self, device: torch.device) -> "PlaceStep":
        """Return the same on a device."""
        return PlaceStep(tuple(move_tensors(batch, device) for batch in self.batches), self.answerable.to(device))


def group_by_length(rows: Sequence[PlaceRow]) -> list[Ids]:
    """Return the numbers of passages of about the same length, by batch."""
    order = np.argsort([len(row.ids) for row in rows], kind="stable")
    return [part for part in np.array_split(order, _BATCHES) if len(part)]


def collate_places(rows: Sequence[PlaceRow]) -> PlaceBatch:
    """Return passages as padded tensors."""
    shape = len(rows), max(len(row.ids) for row in rows)
    sentences = len(rows), max(1, *(len(row.labels) for row in rows))
    arrays: dict[str, Any] = {name: np.zeros(shape, np.int64) for name in ("ids", "types")}
    arrays |= {name: np.zeros(shape, bool) for name in ("mask", "question_mask", "starts", "ends")}
    arrays["owners"] = np.full(shape, -1, np.int64)
    arrays["scores"] = np.zeros(sentences, np.float32)
    arrays["labels"] = np.full(sentences, UNKNOWN, np.int64)
    for number, row in enumerate(rows):
        length = len(row.ids)
        arrays["ids"][number, :length], arrays["owners"][number, :length] = row.ids, row.owners
        arrays["types"][number, row.question + 2 : length] = 1
        arrays["mask"][number, :length] = True
        arrays["question_mask"][number, 1 : 1 + row.question] = True
        arrays["scores"][number, : len(row.scores)] = row.scores
        arrays["labels"][number, : len(row.labels)] = row.labels
        for first, last in row.answers:
            arrays["starts"][number, first] = arrays["ends"][number, last] = True
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    return PlaceBatch(**tensors, question=torch.tensor([row.number for row in rows]))
