"""The steps of a re-ranker's training, by number: questions, and some passages of each, one of which answers."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from mining import ANSWERS, UNKNOWN, MinedPassage, MinedQuestion
from reranker_settings import RerankerSettings, share_sets
from torch import Tensor
from torch.utils.data import Dataset

from lmkrag.encoder.torch_model import move_tensors
from lmkrag.reranker.base import RerankPassage
from lmkrag.reranker.landmark import PairTokenizer, PairTokens

_POWER = 0.6  # a set's share of the questions grows with its size to this power
_BATCHES = 4  # of passages by their lengths, so that little is padding
_GOOD_PASSAGES = 2  # that answer, of one question, at most


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


class RerankerData(Dataset[PlaceStep]):
    """The steps of a run. Step ``i`` is a function of the seed and ``i``, so a resumed run sees the same ones."""

    def __init__(
        self,
        settings: RerankerSettings,
        mined: Sequence[Sequence[MinedQuestion]],
        tokens: PairTokenizer,
        processes: int,
    ) -> None:
        """Take the mined questions of each set in the order of the settings; ``processes`` share the steps."""
        self._settings, self._mined, self._tokens, self._processes = settings, mined, tokens, processes
        self._shares = share_sets(settings.sets, mined, _POWER)

    def __len__(self) -> int:
        return self._settings.steps * self._processes

    def __getitem__(self, index: int) -> PlaceStep:
        rng = np.random.default_rng((self._settings.seed, index))
        rows: list[tuple[PairTokens, MinedPassage, int]] = []
        answerable = []
        for number in range(self._settings.questions):
            chosen = int(rng.choice(len(self._mined), p=self._shares))
            mined = self._mined[chosen][int(rng.integers(len(self._mined[chosen])))]
            picked = self._pick(mined, rng)
            text = mined.question
            changed = None
            if self._settings.sets[chosen].strings and rng.random() < self._settings.unanswerable:
                changed = make_unanswerable(text, picked[0].sentences, rng)
            answerable.append(changed is None)
            for passage in picked:
                title = passage.title if rng.random() < self._settings.titles else ""
                pair = self._tokens.pair(changed or text, RerankPassage(title, passage.sentences))
                rows.append((pair, passage, number))
        rows.sort(key=lambda row: len(row[0].ids))
        parts = np.array_split(np.arange(len(rows)), _BATCHES)
        batches = (_pack([rows[number] for number in part]) for part in parts if len(part))
        return PlaceStep(tuple(batches), torch.tensor(answerable))

    def _pick(self, mined: MinedQuestion, rng: np.random.Generator) -> list[MinedPassage]:
        """Passages that answer first, then others of the question, as many as a step reads."""
        good = [passage for passage in mined.passages if ANSWERS in passage.labels][:_GOOD_PASSAGES]
        others = [passage for passage in mined.passages if ANSWERS not in passage.labels]
        room = max(0, self._settings.passages - len(good))
        return good + [others[number] for number in rng.permutation(len(others))[:room]]


def _pack(rows: Sequence[tuple[PairTokens, MinedPassage, int]]) -> PlaceBatch:
    """Lay passages side by side, each with its tokens and the number of the question that it is read with."""
    pairs, passages, question = zip(*rows, strict=True)
    shape = len(pairs), max(len(pair.ids) for pair in pairs)
    sentences = len(pairs), max(len(passage.sentences) for passage in passages)
    arrays: dict[str, Any] = {name: np.zeros(shape, np.int64) for name in ("ids", "types")}
    arrays |= {name: np.zeros(shape, bool) for name in ("mask", "question_mask", "starts", "ends")}
    arrays["owners"] = np.full(shape, -1, np.int64)
    arrays["scores"] = np.zeros(sentences, np.float32)
    arrays["labels"] = np.full(sentences, UNKNOWN, np.int64)
    for row, (pair, passage) in enumerate(zip(pairs, passages, strict=True)):
        length = len(pair.ids)
        for name in ("ids", "types", "owners"):
            arrays[name][row, :length] = getattr(pair, name)
        arrays["mask"][row, :length] = True
        arrays["question_mask"][row, 1 : 1 + pair.question] = True
        read = int(pair.owners.max(initial=-1)) + 1  # what did not fit is not known
        arrays["scores"][row, :read] = passage.scores[:read]
        arrays["labels"][row, :read] = passage.labels[:read]
        for number, start, end in passage.answers:
            inside = np.flatnonzero((pair.owners == number) & (pair.offsets[:, 1] > start) & (pair.offsets[:, 0] < end))
            if len(inside):
                arrays["starts"][row, inside[0]] = arrays["ends"][row, inside[-1]] = True
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    return PlaceBatch(**tensors, question=torch.tensor(question))


_NAMES = re.compile(r"(?<!^)\b[A-Z][\w'-]+(?: (?:of |the )?[A-Z][\w'-]+)*|\b\d[\d,.]*\d\b|\b\d\b")
_PAIRS = (
    "first last|largest smallest|most least|highest lowest|before after|more fewer|north south|east west|early late"
    "|increase decrease|increased decreased|began ended|start end|won lost|older younger|major minor|high low"
    "|long short|male female|win lose|best worst|top bottom|positive negative|can cannot|is isn't|was wasn't"
    "|did didn't|does doesn't|were weren't|are aren't|new old|public private|rich poor|upper lower|same different"
    "|larger smaller|maximum minimum|add remove|allowed forbidden|always never|oldest newest|earliest latest"
    "|longest shortest|strong weak"
)
_OPPOSITES = {word: other for pair in _PAIRS.split("|") for word, other in (pair.split(), pair.split()[::-1])}
_OPPOSITE_SHARE = 0.4  # of the questions that could be changed in both ways


def make_unanswerable(question: str, texts: Iterable[str], rng: np.random.Generator) -> str | None:
    """Return a question that the texts, which answer it, no longer answer; None where nothing can be exchanged."""
    here = list(_NAMES.finditer(question))
    known = {match.group(0) for match in here}
    others = sorted({match.group(0) for text in texts for match in re.finditer(_NAMES, f" {text}")} - known)
    names = []
    for match in here:
        alike = [
            other
            for other in others
            if other[0].isdigit() == match.group(0)[0].isdigit()
            and other not in question
            and match.group(0) not in other
        ]
        if alike:
            names.append((match, alike))
    words = [match for match in re.finditer(r"\w+", question) if match.group(0) in _OPPOSITES]
    if words and (not names or rng.random() < _OPPOSITE_SHARE):
        word = words[int(rng.integers(len(words)))]
        return question[: word.start()] + _OPPOSITES[word.group(0)] + question[word.end() :]
    if not names:
        return None
    name, alike = names[int(rng.integers(len(names)))]
    return question[: name.start()] + alike[int(rng.integers(len(alike)))] + question[name.end() :]
