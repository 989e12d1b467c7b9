"""The steps of training a reader, by number, of what `pack_passages.py` packs."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from pipelines.train.mined import ANSWERS, NO_ANSWER, UNKNOWN
from pipelines.train.packs import Pack
from pipelines.train.settings import Training

_POWER = 0.6  # a set's share of the questions grows with its size to this power
_LITTLE = 3.0  # sampling weight of a question in other words than its evidence; others have 1
_GOOD = 2  # passages of a question that answer, at most
_NEAR = 0.75  # of the others are the first of the search


class Row(NamedTuple):
    """A question and a passage as tokens.

    ``owners`` has the sentence of each token, -1 for none; ``begin`` is the token at which the
    passage begins, ``labels`` has those of its sentences, ``ends`` the first and the last token of
    a short answer: 0 for none, -1 if that is not known. ``complete`` says whether the answer is: 1,
    0, -1 if that is not known.
    """

    tokens: list[int]
    owners: list[int]
    begin: int
    labels: list[int]
    ends: tuple[int, int]
    complete: int


class Step(NamedTuple):
    """``p`` passages of ``t`` tokens and ``k`` sentences, padded.

    ``ids``, ``types``, ``mask`` and ``owners`` ``[p, t]``, ``labels`` ``[p, k]``, ``question``
    ``[p]``, ``ends`` ``[p, 2]``, ``complete`` ``[p]``.
    """

    ids: Tensor
    types: Tensor
    mask: Tensor
    owners: Tensor
    labels: Tensor
    question: Tensor
    ends: Tensor
    complete: Tensor

    def to(self, device: torch.device) -> "Step":
        """Return the same on a device."""
        return Step(*(tensor.to(device, non_blocking=True) for tensor in self))


class Passages:
    """Packed questions and their passages."""

    def __init__(self, path: Path, training: Training) -> None:
        """Take a file of `pack_passages.py`, and how it is read."""
        self._pack, self._training = Pack(path), training
        self._first, self._last = self._pack.described["special"]
        sets = self._pack.described["sets"]
        self._placed = [entry["placed"] for entry in sets]
        self._set, self._question = map(self._pack.column, ("question.set", "question.text"))
        self._title, self._complete = map(self._pack.column, ("passage.title", "passage.complete"))
        self._text, self._label = map(self._pack.column, ("sentence.text", "sentence.label"))
        self._passages = self._pack.starts("question.passages")
        self._sentences = self._pack.starts("passage.sentences")
        self._answers = self._pack.starts("passage.answers")
        sizes = np.bincount(self._set, minlength=len(sets)).astype(float)
        weights = np.array([entry["weight"] for entry in sets])
        shares = weights * sizes**_POWER / np.maximum(sizes, 1)
        chances = shares[self._set] * np.where(self._pack.column("question.little"), _LITTLE, 1.0)
        self._cumulative = np.cumsum(chances / chances.sum())

    def step(self, number: int) -> Step:
        """Return the passages of some questions, drawn by the step's number."""
        rng = np.random.default_rng((self._training.seed, number))
        rows: list[Row] = []
        owners: list[int] = []
        for place in range(self._training.questions):
            question = int(np.searchsorted(self._cumulative, rng.random()))
            picked = self.pick(question, rng)
            rows += [self.row(question, passage, rng) for passage in picked]
            owners += [place] * len(picked)
        return collate(rows, owners)

    def choose(self, rng: np.random.Generator) -> list[list[Row]]:
        """Return rows of each question; of one that nothing answers, half as many as of others."""
        chosen = []
        for question in range(len(self._question)):
            rows = [self.row(question, passage, rng) for passage in self.pick(question, rng)]
            is_answered = [ANSWERS in row.labels for row in rows]
            if any(is_answered) and not all(is_answered):
                chosen.append(rows)
            elif rows and not any(is_answered):
                chosen.append(rows[: self._training.passages // 2])
        return chosen

    def pick(self, question: int, rng: np.random.Generator) -> list[int]:
        """Return passages of a question: two that answer, and others, most of them the first."""
        passages = range(*self._passages[question : question + 2])
        labels = [self._label[slice(*self._sentences[each : each + 2])] for each in passages]
        known = list(zip(passages, labels, strict=True))
        good = [each for each, values in known if ANSWERS in values]
        bad = [each for each, values in known if (values == NO_ANSWER).all()]
        chosen = [good[i] for i in rng.permutation(len(good))[:_GOOD]]
        room = self._training.passages - len(chosen)
        near, others = bad[: int(room * _NEAR)], bad[int(room * _NEAR) :]
        drawn = rng.permutation(len(others))[: room - len(near)]
        return chosen + near + [others[i] for i in drawn]

    def row(self, question: int, passage: int, rng: np.random.Generator) -> Row:
        """Return a passage with its question and, if its set is placed or by chance, its place."""
        text = self._pack.text(self._question[question])
        is_placed = self._placed[self._set[question]] or rng.random() < self._training.titles
        place = self._pack.text(self._title[passage]) if is_placed else []
        begin = len(text) + 2
        tokens = [self._first, *text, self._last, *place]
        owners = [-1] * len(tokens)
        sentences = range(*self._sentences[passage : passage + 2])
        labels = self._label[sentences.start : sentences.stop].tolist()
        answer, ends = self._read_answer(passage), (0, 0)
        if answer is None and any(label != NO_ANSWER for label in labels):
            ends = (UNKNOWN, UNKNOWN)
        for number, sentence in enumerate(sentences):
            ids = self._pack.text(self._text[sentence])
            if len(tokens) + len(ids) > begin + self._training.passage_tokens:
                break
            if answer and answer[0] == number:
                ends = (len(tokens) + answer[1], len(tokens) + answer[2])
            tokens += ids
            owners += [number] * len(ids)
        complete = int(self._complete[passage])
        return Row([*tokens, self._last], [*owners, -1], begin, labels, ends, complete)

    def _read_answer(self, passage: int) -> tuple[int, int, int] | None:
        """Return the sentence of a short answer, -1 for none, and its ends; None if not known."""
        first, stop = self._answers[passage : passage + 2]
        if first == stop:
            return None
        sentence, start, end = (
            int(self._pack.column(f"answer.{name}")[first])
            for name in ("sentence", "first", "last")
        )
        return sentence, start, end


def collate(rows: Sequence[Row], question: Sequence[int]) -> Step:
    """Return rows as padded tensors; ``question`` has the numbers of their questions."""

    def pad(values: Iterable[Sequence[int]], filler: int) -> Tensor:
        tensors = [torch.from_numpy(np.array(each, np.int64)) for each in values]
        return nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=filler)

    ids = pad((row.tokens for row in rows), 0)
    places = torch.arange(ids.shape[1])
    mask = places < torch.tensor([[len(row.tokens)] for row in rows])
    return Step(
        ids=ids,
        types=(mask & (places >= torch.tensor([[row.begin] for row in rows]))).long(),
        mask=mask,
        owners=pad((row.owners for row in rows), -1),
        labels=pad((row.labels for row in rows), UNKNOWN),
        question=torch.tensor(question),
        ends=torch.tensor([row.ends for row in rows]),
        complete=torch.tensor([row.complete for row in rows]),
    )
