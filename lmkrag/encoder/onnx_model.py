"""An encoder's model in ONNX Runtime, which needs no torch."""

from collections.abc import Sequence

import numpy as np

from lmkrag.encoder.tokens import SentenceTokenizer
from lmkrag.models.bert import Bert, LateBert
from lmkrag.types.arrays import Ids, Vectors

# of tokens' states: see :class:`lmkrag.encoder.torch_model.Pooling`
POOLINGS = ("mean", "lmk", "lmk+mean")


class OnnxModel:
    """A BERT in ONNX Runtime, with a pooling that makes vectors of its states.

    State: the session of the runtime. May be shared by threads. It is a
    :class:`lmkrag.encoder.windows.WindowModel`.
    """

    device = "cpu"

    def __init__(self, bert: Bert | LateBert, pooling: str, tokens: SentenceTokenizer) -> None:
        """Take a network and how its states become vectors.

        Args:
            bert: the network.
            pooling: one of :data:`POOLINGS`.
            tokens: the tokenizer, whose special tokens frame each window.
        """
        self._bert, self._pooling, self._tokens = bert, pooling, tokens

    @property
    def precision(self) -> str:
        """The precision that documents are read in, ``float32`` or ``int8``."""
        return self._bert.precision

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
            exact: whether to compute in float32 even if the model has ranges for int8.

        Returns:
            Vectors ``[sentences, dimensions]`` float32 of length one.
        """
        # Join all windows into one row of token ids; note where each window and each sentence lies
        # in it.
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
        """Pool the states of sentences into vectors.

        Args:
            states: ``[tokens, dimensions]`` float32, of all windows.
            starts: ``[sentences]``, the first token of each sentence.
            ends: ``[sentences]``, the token after its last one, its landmark included.

        Returns:
            Vectors ``[sentences, dimensions]`` float32 of length one; zeros for a sentence without
                tokens.
        """
        landmark = len(self._tokens.landmark)
        if self._pooling == "lmk":
            starts = ends - landmark
        elif self._pooling == "mean":
            ends = ends - landmark
        borders = np.stack([starts, ends], axis=1).ravel()
        # the last border is its end
        padded = np.concatenate([states, np.zeros((1, states.shape[1]), np.float32)])
        sums = np.add.reduceat(padded, borders, axis=0)[::2]
        sums[starts == ends] = 0
        vectors: Vectors = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)
        return vectors
