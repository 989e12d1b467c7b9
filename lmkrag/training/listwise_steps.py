"""The steps of the listwise model's training, by number: questions, and all sentences that were read for each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from lmkrag.arrays import Ids, Vectors
from lmkrag.reranker.base import ScoredSentences
from lmkrag.reranker.listwise import describe_sentences, normalize_features
from lmkrag.training.mining import UNKNOWN
from lmkrag.training.reranker_settings import ListwiseSettings, share_sets

_POWER = 0.4  # a set's share of the questions grows with its size to this power
_WHOLE = 0.5  # of the questions are given with all that was read
_FEWEST = 4  # passages of the others


class LabelledList(NamedTuple):
    """What was read for a question, and what is known of each sentence, ``labels`` ``[n]``."""

    read: ScoredSentences
    labels: Ids


@dataclass(frozen=True, slots=True)
class ListwiseStep:
    """``q`` questions of ``n`` sentences, padded.

    ``features`` ``[q, n, features]`` as deviations from their means, ``labels`` ``[q, n]``, padding is unknown,
    ``real`` ``[q, n]`` is false for padding.
    """

    features: Tensor
    labels: Tensor
    real: Tensor

    def to(self, device: torch.device) -> "ListwiseStep":
        """Return the same on a device."""
        return ListwiseStep(self.features.to(device), self.labels.to(device), self.real.to(device))


class ListwiseData(Dataset[ListwiseStep]):
    """The steps of a run. Step ``i`` is a function of the seed and ``i``, so a resumed run sees the same ones."""

    def __init__(
        self,
        settings: ListwiseSettings,
        sets: Sequence[Sequence[LabelledList]],
        mean: Vectors,
        deviation: Vectors,
        processes: int,
    ) -> None:
        """Take the questions of each set in the order of the settings; ``processes`` share the steps."""
        self._settings, self._sets, self._mean, self._deviation = settings, sets, mean, deviation
        self._processes = processes
        self._shares = share_sets(settings.sets, sets, _POWER)

    def __len__(self) -> int:
        return self._settings.steps * self._processes

    def __getitem__(self, index: int) -> ListwiseStep:
        rng = np.random.default_rng((self._settings.seed, index))
        chosen = []
        for number in rng.choice(len(self._sets), self._settings.questions, p=self._shares):
            one = self._sets[number][int(rng.integers(len(self._sets[number])))]
            passages = int(one.read.passages.max()) + 1
            if rng.random() >= _WHOLE and passages > _FEWEST:
                one = keep_passages(one, int(rng.integers(_FEWEST, passages)))
            chosen.append(one)
        features = [normalize_features(describe_sentences(one.read), self._mean, self._deviation) for one in chosen]
        longest = max(len(values) for values in features)
        labels = np.full((len(chosen), longest), UNKNOWN, np.int64)
        padded = np.zeros((len(chosen), longest, len(self._mean)), np.float32)
        real = np.zeros((len(chosen), longest), bool)
        for row, (values, one) in enumerate(zip(features, chosen, strict=True)):
            padded[row, : len(values)], labels[row, : len(values)], real[row, : len(values)] = values, one.labels, True
        return ListwiseStep(torch.from_numpy(padded), torch.from_numpy(labels), torch.from_numpy(real))


def keep_passages(one: LabelledList, count: int) -> LabelledList:
    """Return what a search that re-ranks only the first passages would have read."""
    kept = one.read.passages < count
    arrays = {name: values[kept] for name, values in one.read._asdict().items()}
    return LabelledList(one.read._replace(**arrays), one.labels[kept])


def measure_features(sets: Sequence[Sequence[LabelledList]]) -> tuple[Vectors, Vectors]:
    """Return the mean and the deviation of each feature, ``[features]`` each, every set weighing the same."""
    found = [np.concatenate([describe_sentences(one.read) for one in questions]) for questions in sets]
    mean = np.mean([values.mean(0) for values in found], 0)
    square = np.mean([((values - mean) ** 2).mean(0) for values in found], 0)
    return mean.astype(np.float32), np.sqrt(square + 1e-6).astype(np.float32)
