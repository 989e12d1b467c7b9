"""Cross-encoders of sentence-transformers as re-rankers: one score for a passage, which all of its sentences get."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

import numpy as np

from lmkrag.arrays import Scores
from lmkrag.errors import EncoderError, MissingExtra
from lmkrag.reranker.base import RerankPassage

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder


class CrossEncoderReranker:
    """Reads passages with a ``CrossEncoder``. State: the model. May be shared by threads.

    >>> reranker = CrossEncoderReranker.load("cross-encoder/ms-marco-MiniLM-L6-v2")  # doctest: +SKIP
    >>> engine.search("who approves leave?", rerank=True)  # doctest: +SKIP
    """

    weight = 1.0  # its own score decides: similarities differ by less

    def __init__(self, model: "CrossEncoder", name: str) -> None:
        """Take a loaded model that gives one score for a pair of texts, and what it is called."""
        self.name = name
        self._model = model

    @classmethod
    def load(cls, name: str) -> Self:
        """Load a model by its folder or hub name.

        Raises:
            MissingExtra: sentence-transformers is not installed. EncoderError: the model can't be loaded, or does not
                give one score.
        """
        try:
            from sentence_transformers import CrossEncoder
        except ImportError:
            raise MissingExtra("rerank", "sentence-transformers") from None
        try:
            model = CrossEncoder(name)
        except Exception as error:  # each kind of model fails in its own way
            raise EncoderError(f"re-ranker {name!r}: can't be loaded ({error})") from error
        if model.num_labels != 1:
            raise EncoderError(f"re-ranker {name!r}: gives {model.num_labels} scores for a pair, not one")
        return cls(model, name)

    def score(self, question: str, passages: Sequence[RerankPassage]) -> list[Scores]:
        """Return the score of each passage, once for every sentence: see :class:`lmkrag.reranker.base.Reranker`."""
        if not passages:
            return []
        pairs = [
            (question, "".join([passage.title, "\n\n"] * bool(passage.title)) + "".join(passage.sentences))
            for passage in passages
        ]
        scores = np.asarray(self._model.predict(pairs, show_progress_bar=False), np.float32)
        return [
            np.full(len(passage.sentences), score, np.float32) for passage, score in zip(passages, scores, strict=True)
        ]
