"""Passages in other languages than English, read by the model that scores their sentences."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lmkrag.reranker.base import MULTILINGUAL_RERANKER, PlacedText, RerankPassage
from lmkrag.reranker.loading import load_landmark_reranker
from lmkrag.reranker.passages import Words
from lmkrag.sentences.split import split_sentences
from lmkrag.types.arrays import Ids, Scores


@dataclass(frozen=True, slots=True, eq=False)
class SentenceReading:
    """What a passage says to a question, as :class:`lmkrag.reranker.passages.Reading` has it.

    Attributes:
        bounds: ``[sentences, 2]``, the characters of its sentences.
        answers: ``[sentences]`` float32, the log-odds that each answers.
    """

    bounds: Ids
    answers: Scores
    complete = 0.0  # log-odds that it has the whole answer: the model does not know

    @property
    def score(self) -> float:
        """The log-odds that the passage answers."""
        return float(self.answers.max(initial=-np.inf))

    def score_sentence(self, start: int, end: int) -> float:
        """Return the log-odds that characters ``[start, end)`` answer."""
        inside = (self.bounds[:, 0] < end) & (start < self.bounds[:, 1])
        return float(self.answers[inside].max(initial=-np.inf))

    def find_words(self, start: int, end: int) -> Words | None:
        """Return None: the model finds no short answers."""
        return None


def read_sentences(question: str, passages: Sequence[PlacedText]) -> list[SentenceReading]:
    """Read passages of any language with a question."""
    texts = [passage.text for passage in passages]
    sentences = [[*split_sentences(text)] for text in texts]
    read = [
        RerankPassage(place, tuple(text[each.start : each.end] for each in its_sentences))
        for (place, text), its_sentences in zip(passages, sentences, strict=True)
    ]
    scores = load_landmark_reranker(MULTILINGUAL_RERANKER).read(question, read)
    return [
        SentenceReading(
            np.array([(each.start, each.end) for each in its_sentences]).reshape(-1, 2),
            its_scores.answers,
        )
        for its_sentences, its_scores in zip(sentences, scores, strict=True)
    ]
