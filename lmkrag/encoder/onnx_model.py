"""An encoder's model in ONNX Runtime, which needs no torch."""

from collections.abc import Sequence

import numpy as np

from lmkrag.encoder.tokens import SentenceTokenizer
from lmkrag.models.bert import Bert, LateBert
from lmkrag.types.arrays import Ids, Vectors

POOLINGS = (
    "mean",
    "lmk",
    "lmk+mean",
)  # of tokens' states: see :class:`lmkrag.encoder.torch_model.Pooling`


class OnnxModel:
    """A BERT and one of :data:`POOLINGS`. State: the session. May be shared by threads."""

    device = "cpu"

    def __init__(self, bert: Bert | LateBert, pooling: str, tokens: SentenceTokenizer) -> None:
        self._bert, self._pooling, self._tokens = bert, pooling, tokens

    @property
    def precision(self) -> str:
        """What documents are read in: see :class:`lmkrag.encoder.windows.WindowModel`."""
        return self._bert.precision

    def read(
        self,
        windows: Sequence[Sequence[Sequence[int]]],
        titles: Sequence[Sequence[int]],
        *,
        exact: bool = False,
    ) -> Vectors:
        tokens = self._tokens
        ids: list[int] = []
        lengths, starts, ends = [], [], []
        for window, title in zip(windows, titles, strict=True):
            begin = len(ids)
            ids += [*tokens.prefix, *title]
            for sentence in window:
                starts.append(len(ids))
                ids += sentence
                ends.append(len(ids))
            ids += tokens.suffix
            lengths.append(len(ids) - begin)
        return self._pool(
            self._bert.read(ids, lengths, exact=exact), np.array(starts), np.array(ends)
        )

    def _pool(self, states: Vectors, starts: Ids, ends: Ids) -> Vectors:
        """Vectors of the sentences ``[start, end)`` from the states ``[tokens, dimensions]``."""
        landmark = len(self._tokens.landmark)
        if self._pooling == "lmk":
            starts = ends - landmark
        elif self._pooling == "mean":
            ends = ends - landmark
        borders = np.stack([starts, ends], axis=1).ravel()
        padded = np.concatenate(
            [states, np.zeros((1, states.shape[1]), np.float32)]
        )  # the last border is its end
        sums = np.add.reduceat(padded, borders, axis=0)[::2]
        sums[starts == ends] = 0
        vectors: Vectors = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)
        return vectors
