"""Find and load a re-ranker by its name."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from lmkrag.errors import EncoderError, UsageError, needs
from lmkrag.reranker.base import (
    DEFAULT_RERANKER,
    PASSAGE_RERANKER,
    SHIPPED,
    Reranker,
    RerankPassage,
)
from lmkrag.types.arrays import Scores

if TYPE_CHECKING:  # these imports take time, and not every search re-ranks
    from sentence_transformers import CrossEncoder

    from lmkrag.reranker.landmark import LandmarkReranker
    from lmkrag.reranker.passages import PassageReranker


def load_reranker(reranker: Reranker | str | None = None) -> Reranker:
    """Load a re-ranker by its name, or return a loaded one unchanged. Raises UsageError,
    EncoderError, MissingExtra.
    """
    if reranker is None or isinstance(reranker, str):
        return _load(reranker or DEFAULT_RERANKER)
    return reranker


def load_landmark_reranker(name: str = DEFAULT_RERANKER) -> "LandmarkReranker":
    """Return one of our own re-rankers of sentences; it is loaded once."""
    from lmkrag.reranker.landmark import LandmarkReranker

    loaded = _load(name)
    assert isinstance(loaded, LandmarkReranker)
    return loaded


@lru_cache(maxsize=1)
def load_passage_reranker() -> "PassageReranker":
    """Return our re-ranker of passages; it is loaded once. Raises EncoderError: it can't be
    loaded.
    """
    from lmkrag.reranker.passages import PassageReranker

    return PassageReranker.load(PASSAGE_RERANKER)


@lru_cache(maxsize=4)
def _load(name: str) -> Reranker:
    folder = Path(name).expanduser()
    if name in SHIPPED or (folder / "reranker.json").is_file():
        from lmkrag.reranker.landmark import LandmarkReranker

        return LandmarkReranker.load(name)
    if name.startswith((".", "/", "~")) and not folder.is_dir():
        raise UsageError(f"re-ranker {name!r}: no such folder")
    return CrossEncoderReranker.load(name)


class CrossEncoderReranker:
    """Reads passages with a ``CrossEncoder``. State: the model. May be shared by threads.

    >>> reranker = CrossEncoderReranker.load("cross-encoder/ms-marco-MiniLM-L6-v2")  # doctest: +SKIP
    >>> engine.search("who approves leave?", rerank=True)  # doctest: +SKIP
    """  # noqa: E501

    weight = 1.0  # its score outweighs similarities, which differ by less

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

    def score(self, question: str, passages: Sequence[RerankPassage]) -> list[Scores]:
        """Return the score of each passage, once for every sentence: see
        :class:`lmkrag.reranker.base.Reranker`.
        """
        if not passages:
            return []
        pairs = [
            (
                question,
                "".join([passage.title, "\n\n"] * bool(passage.title)) + "".join(passage.sentences),
            )
            for passage in passages
        ]
        scores = np.asarray(self._model.predict(pairs, show_progress_bar=False), np.float32)
        return [
            np.full(len(passage.sentences), score, np.float32)
            for passage, score in zip(passages, scores, strict=True)
        ]
