"""The steps of a stage of training, by number."""

from collections.abc import Sequence

import numpy as np
from torch.utils.data import Dataset

from lmkrag.encoder.tokens import SentenceTokenizer
from lmkrag.errors import TrainingError
from lmkrag.training.data import TrainingSet
from lmkrag.training.settings import StageSettings
from lmkrag.training.steps import Step, StepBuilder

_TRIES = 100
"""A set may draw questions that fit no window; this many in a row mean that none does."""


class StageData(Dataset[Step]):
    """The steps of a stage. Step ``i`` is a function of the seed and ``i``, so a resumed run sees the same ones."""

    def __init__(
        self,
        stage: StageSettings,
        sets: Sequence[TrainingSet],
        tokens: SentenceTokenizer,
        *,
        seed: int,
        processes: int = 1,
    ) -> None:
        """Take the stage's sets in the order of its settings; ``processes`` share the steps among them."""
        self._stage = stage
        self._sets = sets
        self._tokens = tokens
        self._seed = seed
        self._processes = processes
        weights = np.array([chosen.weight for chosen in stage.sets])
        self._shares = weights / weights.sum()

    def __len__(self) -> int:
        """Return how many forward passes the stage has, those of all processes."""
        return self._stage.steps * self._stage.accumulate * self._processes

    def __getitem__(self, index: int) -> Step:
        """Build one.

        Raises:
            TrainingError: the sets hold nothing to ask.
        """
        rng = np.random.default_rng((self._seed, index))
        for _ in range(_TRIES):
            chosen = int(rng.choice(len(self._sets), p=self._shares))
            builder = StepBuilder(self._stage, self._stage.sets[chosen], self._sets[chosen], rng)
            if builder.build():
                return builder.step(self._tokens)
        raise TrainingError(
            f"stage {self._stage.name!r}: {_TRIES} tries gave no question with a sentence to tell its evidence from; "
            "are its sentences longer than its windows?"
        )
