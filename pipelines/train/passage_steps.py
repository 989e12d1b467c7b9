"""The steps of training on packed questions (pack_passages.py), by number."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from mined_passages import ANSWERS, NO_ANSWER
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[2]))

from lmkrag.reranker.base import PASSAGE_TOKENS

_LITTLE = 3.0  # sampling weight of a question in other words than its evidence; others have 1


class Row(NamedTuple):
    """A question and a passage: their tokens, the sentence of each token (-1 for none), the token at which the passage
    begins, the labels of its sentences, the first and last token of a short answer: 0 for none, -1 if unknown, and
    whether the answer is complete: 1, 0, -1 if unknown.
    """

    tokens: list[int]
    owners: list[int]
    begin: int
    labels: list[int]
    ends: tuple[int, int]
    complete: int


class Step(NamedTuple):
    """``p`` passages of ``t`` tokens and ``k`` sentences.

    ``ids``, ``types``, ``mask`` and ``owners`` ``[p, t]``, ``labels`` ``[p, k]``, ``question`` ``[p]``, ``ends`` ``[p,
    2]``, ``complete`` ``[p]``.
    """

    ids: Tensor
    types: Tensor
    mask: Tensor
    owners: Tensor
    labels: Tensor
    question: Tensor
    ends: Tensor
    complete: Tensor


class Data:
    """Packed questions: see pack_passages.py."""

    def __init__(self, path: Path, seed: int, titles: float, passage_tokens: int = PASSAGE_TOKENS) -> None:
        """Take the file, the share of passages that are read with titles, and the most tokens of one."""
        self.arrays = dict(np.load(path))
        self.seed, self.passage_tokens, self._titles = seed, passage_tokens, titles
        starts = {"lengths": "text", "passages": "passage", "passage_sentences": "sentence_of"}
        self.starts = {
            name: np.concatenate([[0], np.cumsum(self.arrays[counts], dtype=np.int64)])
            for counts, name in starts.items()
        }
        self.first, self.last, self.landmark = self.arrays["special"].tolist()
        sets, little = self.arrays["set"], self.arrays["little"]
        sizes = np.bincount(sets, minlength=len(self.arrays["names"])).astype(float)
        share = self.arrays["weight"] * sizes**0.6 / np.maximum(sizes, 1)
        weights = share[sets] * np.where(little, _LITTLE, 1.0)
        self._cumulative = np.cumsum(weights / weights.sum())

    def text(self, number: int) -> list[int]:
        """Return the tokens of a text."""
        low, high = self.starts["text"][number : number + 2]
        tokens: list[int] = self.arrays["tokens"][low:high].tolist()
        return tokens

    def sentences(self, passage: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the numbers of a passage's sentences, their labels and the scores of the search."""
        low, high = self.starts["sentence_of"][passage : passage + 2]
        return self.arrays["sentence"][low:high], self.arrays["label"][low:high], self.arrays["score"][low:high]

    def answers(self, passage: int) -> list[list[int]]:
        """Return a passage's short answers: the sentence, -1 if there is none, and the first and the last token."""
        low, high = np.searchsorted(self.arrays["answer"][:, 0], [passage, passage + 1])
        answers: list[list[int]] = self.arrays["answer"][low:high, 1:].tolist()
        return answers

    def title(self, question: int, passage: int, rng: np.random.Generator) -> list[int]:
        """Return the tokens of a passage's title, or none, by chance if its set does not need it."""
        needed = self.arrays["placed"][self.arrays["set"][question]]
        is_read = needed or rng.random() < self._titles
        return self.text(self.arrays["passage_title"][passage]) if is_read else []

    def draw(self, rng: np.random.Generator, questions: int, passages: int) -> Iterator[tuple[int, list[int]]]:
        """Yield questions, each with some of its passages."""
        for _ in range(questions):
            chosen = int(np.searchsorted(self._cumulative, rng.random()))
            low, high = self.starts["passage"][chosen : chosen + 2]
            yield chosen, self.pick(np.arange(low, high), passages, rng)

    def pick(self, numbers: np.ndarray, passages: int, rng: np.random.Generator) -> list[int]:
        """Return at most two passages that answer, and others that do not, most of them the first of the search."""
        known = [self.sentences(int(number))[1] for number in numbers]
        good = [int(number) for number, labels in zip(numbers, known, strict=True) if ANSWERS in labels]
        bad = [int(number) for number, labels in zip(numbers, known, strict=True) if (labels == NO_ANSWER).all()]
        chosen = [good[i] for i in rng.permutation(len(good))[:2]]
        room = passages - len(chosen)
        near = bad[: room * 3 // 4]
        rest = [bad[i] for i in len(near) + rng.permutation(len(bad) - len(near))[: room - len(near)]]
        return chosen + near + rest

    def step(self, number: int, questions: int, passages: int) -> Step:
        """Return the passages of some questions, drawn by the step's number."""
        rng = np.random.default_rng((self.seed, number))
        rows: list[Row] = []
        question_of: list[int] = []
        for place, (chosen, picked) in enumerate(self.draw(rng, questions, passages)):
            tokens = self.text(self.arrays["question"][chosen])
            rows += [self.row(tokens, passage, self.title(chosen, passage, rng)) for passage in picked]
            question_of += [place] * len(picked)
        return collate(rows, np.array(question_of))

    def row(self, question: list[int], passage: int, title: list[int]) -> Row:
        """Return a passage with its question and its title, which may be empty."""
        tokens = [self.first, *question, self.last, *title]
        begin = len(question) + 2
        owners = [-1] * len(tokens)
        sentences, known, _ = self.sentences(passage)
        labels, answers = known.tolist(), self.answers(passage)
        place_of, first, last = answers[0] if answers else (-1, 0, 0)
        unknown = not answers and any(label != NO_ANSWER for label in labels)
        ends = (-1, -1) if unknown else (0, 0)
        for place, sentence in enumerate(sentences):
            text = self.text(sentence)
            if len(tokens) + len(text) > begin + self.passage_tokens:
                break
            if place == place_of:
                ends = (len(tokens) + first, len(tokens) + last)
            tokens += text
            owners += [place] * len(text)
        complete = int(self.arrays["passage_complete"][passage])
        return Row([*tokens, self.last], [*owners, -1], begin, labels, ends, complete)


def collate(rows: list[Row], question_of: np.ndarray) -> Step:
    """Return passages as padded tensors; ``question_of`` are the numbers of their questions."""
    length, most = max(len(row.tokens) for row in rows), max(len(row.labels) for row in rows)
    ids, types, owners = (np.zeros((len(rows), length), np.int64) for _ in range(3))
    owners -= 1
    labels = np.full((len(rows), most), -1, np.int64)
    mask = np.zeros((len(rows), length), bool)
    for i, (tokens, sentence_of, begin, known, *_) in enumerate(rows):
        ids[i, : len(tokens)], owners[i, : len(tokens)], mask[i, : len(tokens)] = tokens, sentence_of, True
        types[i, begin : len(tokens)], labels[i, : len(known)] = 1, known
    ends = np.array([row.ends for row in rows])
    complete = np.array([row.complete for row in rows])
    arrays = (ids, types, mask, owners, labels, question_of, ends, complete)
    return Step(*(torch.from_numpy(array) for array in arrays))
