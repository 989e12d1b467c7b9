"""Find and load a re-ranker by its name."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Self, cast

import numpy as np

from lmkrag.errors import EncoderError, UsageError, needs
from lmkrag.models.files import expand_name
from lmkrag.reranker.base import (
    DEFAULT_RERANKER,
    SHIPPED,
    PlacedText,
    ReadingReranker,
    Reranker,
)
from lmkrag.types.arrays import NO_SCORES, Scores

if TYPE_CHECKING:  # these imports take time, and not every search re-ranks
    from sentence_transformers import CrossEncoder


def load_reranker(reranker: Reranker | str | None = None) -> Reranker:
    """Load a re-ranker by its name, or return a loaded one unchanged.

    Args:
        reranker: the name of one of ours, a folder, a name of the model hub, or the URL of a
            server; our own for English by default.

    Raises:
        UsageError: there is no such folder, or the URL is not one.
        EncoderError: it can't be loaded.
        MissingExtra: it needs sentence-transformers.
    """
    if reranker is None or isinstance(reranker, str):
        return _load(expand_name(reranker or DEFAULT_RERANKER, SHIPPED))
    return reranker


def load_ours(name: str = DEFAULT_RERANKER) -> ReadingReranker:
    """Load a re-ranker of this package, once. Raises EncoderError: it can't be loaded."""
    assert name in SHIPPED
    return cast("ReadingReranker", _load(name))


@lru_cache(maxsize=4)
def _load(name: str) -> Reranker:
    if name.startswith(("http://", "https://")):
        from lmkrag.reranker.served import ServedReranker

        return ServedReranker(name)
    folder = Path(name)
    if name in SHIPPED or (folder / "reranker.json").is_file():
        from lmkrag.reranker.folders import find_reranker, reads_sentences
        from lmkrag.reranker.landmark import LandmarkReranker
        from lmkrag.reranker.passages import PassageReranker

        is_multilingual = reads_sentences(find_reranker(name))
        return (LandmarkReranker if is_multilingual else PassageReranker).load(name)
    if name.startswith((".", "/", "~")) and not folder.is_dir():
        raise UsageError(f"re-ranker {name!r}: no such folder")
    return CrossEncoderReranker.load(name)


class CrossEncoderReranker:
    """Reads passages with a ``CrossEncoder``. State: the model. May be shared by threads.

    >>> reranker = CrossEncoderReranker.load("cross-encoder/ms-marco-MiniLM-L6-v2")  # doctest: +SKIP
    >>> engine.search("who approves leave?", rerank=True)  # doctest: +SKIP
    """  # noqa: E501

    def __init__(self, model: "CrossEncoder", name: str) -> None:
        """Take a loaded model that gives one score for a pair of texts, and what it is called."""
        self.name = name
        self._model = model

    @classmethod
    def load(cls, name: str) -> Self:
        """Load a model by its folder or hub name. Raises MissingExtra; EncoderError: it gives more
        scores than one.
        """
        with needs("rerank", "sentence-transformers"):
            from sentence_transformers import CrossEncoder
        try:
            model = CrossEncoder(name)
        except Exception as error:  # each kind of model fails in its own way
            raise EncoderError(f"re-ranker {name!r}: can't be loaded ({error})") from error
        if model.num_labels != 1:
            raise EncoderError(
                f"re-ranker {name!r}: gives {model.num_labels} scores for a pair, not one"
            )
        return cls(model, name)

    def score(self, question: str, passages: Sequence[PlacedText]) -> Scores:
        """Return the score of each passage before any activation, which is its log-odds: see
        :class:`lmkrag.reranker.base.Reranker`.
        """
        from torch.nn import Identity

        if not passages:
            return NO_SCORES
        pairs = [(question, passage.whole) for passage in passages]
        scores = self._model.predict(pairs, show_progress_bar=False, activation_fn=Identity())
        return np.asarray(scores, np.float32)
