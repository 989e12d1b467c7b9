"""Watch an encoder in training: how many questions have evidence in the best sentences."""

from collections import defaultdict
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lmkrag.encoder.torch_model import pack_windows, read_sentences
from lmkrag.encoder.windows import plan_windows
from lmkrag.training.student import Student
from pipelines.train.documents import Documents, PackedSet

TOKENS = 65_024  # that are read at a time
RANKS = (1, 3, 10)


@torch.no_grad()
def watch(student: Student, pack: Documents, window: int) -> str:
    """Return counts of each set: evidence at each of :data:`RANKS`, and questions."""
    student.backbone.eval()
    lines, total = [], np.zeros(len(RANKS) + 1, int)
    for data, entry in zip(pack.sets, pack.described, strict=True):
        counts = count_found(student, pack.special, data, window, within=entry["within"])
        total += counts
        lines.append(f"{entry['path']} {' '.join(map(str, counts))}")
    student.backbone.train()
    return "; ".join([*lines, f"all {' '.join(map(str, total))}"])


def count_found(
    student: Student, special: Any, data: PackedSet, window: int, *, within: bool
) -> np.ndarray:
    """Return how many questions have evidence at each of :data:`RANKS`, and how many there are."""
    sentences, owners = read_documents(student, special, data, window)
    firsts = np.searchsorted(owners, np.arange(len(data)))
    asked: dict[Any, list[int]] = defaultdict(list)
    for index, question in enumerate(data.questions):
        asked[question.text].append(index)
    questions = [[data.questions[indexes[0]].ids] for indexes in asked.values()]
    scores = read(student, special, questions, []) @ sentences.T
    counts = np.zeros(len(RANKS) + 1, int)
    for row, indexes in zip(scores.cpu().numpy(), asked.values(), strict=True):
        good = np.zeros(len(row), bool)
        for index in indexes:
            document = data.questions[index].document
            for first, stop in data.evidence(index):
                good[firsts[document] + first : firsts[document] + stop] = True
        near = owners == data.questions[indexes[0]].document if within else np.ones(len(row), bool)
        rank = int((row[near] > row[good].max()).sum())
        counts += [*(rank < most for most in RANKS), 1]
    return counts


def read_documents(
    student: Student, special: Any, data: PackedSet, window: int
) -> tuple[Tensor, np.ndarray]:
    """Return the vectors of a set's sentences, and the number of each one's document."""
    vectors, owners = [], []
    for number, title in enumerate(data.titles):
        room = window - len(title)
        ids = [
            each if len(each) <= room else each[: room - 1] + each[-1:]
            for each in data.document(number).ids
        ]
        plan = plan_windows(map(len, ids), budget=room, overlap=0.0)
        windows = [ids[part.first : part.stop] for part in plan]
        size = max(1, TOKENS // window)
        for first in range(0, len(windows), size):
            part = windows[first : first + size]
            vectors.append(read(student, special, part, [title] * len(part)))
        owners += [number] * len(ids)
    return torch.cat(vectors), np.array(owners)


def read(
    student: Student, special: Any, windows: list[list[list[int]]], titles: list[list[int]]
) -> Tensor:
    """Return the vectors of the sentences of windows."""
    device = next(student.backbone.parameters()).device
    batch = pack_windows(special, windows, titles).to(device)
    return read_sentences(student.backbone, student.pooling, batch).float()
