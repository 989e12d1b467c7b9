"""The numbers that decide what the reader without a language model quotes, and how sure it is, with their units.

They were chosen on training sets; ``benchmarks/confidence.py``, ``refusals.py`` and ``answers.py`` compare others. The
scale of the confidence was fitted to questions about files as people have them (``benchmarks/asking.py``).
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerWeights:
    """The weights of an answer. Probabilities are those that the documents answer the question."""

    # Whether there is an answer
    min_confidence: float = 0.33
    """The least probability with which an answer is not called doubtful."""
    min_nearest_confidence: float = 0.19
    """The least probability with which the nearest passage is shown instead of an answer."""
    cell_confidence: float = 0.9
    """The probability of a table's value whose row and column the question names."""
    bias: float = -1.63
    """Constant of the logistic regression of :func:`lmkrag.readers.extractive.confidence_features`."""
    features: tuple[float, ...] = (2.51, 1.48, 0.039, -1.43, 0.64)
    """Its coefficients."""
    foreign_bias: float = -2.47
    """The constant for other languages than English."""
    foreign_features: tuple[float, ...] = (5.42, 1.72, 0.0, -1.43, 0.0)
    """The coefficients for other languages than English."""
    max_log_odds: float = 10.0
    """Log-odds beyond which a sentence's count no more."""
    language_passages: int = 3
    """Passages that the language of the documents is detected from."""
    language_chars: int = 1_500
    """Characters of each of them."""

    # What is shown
    max_passages: int = 3
    """Passages that are shown, at most."""
    max_items: int = 12
    """Items of a list that is quoted with the sentence that announces it."""

    # Reading with the question
    rank: float = 0.03
    """Weight of the re-ranker's ranks beside similarities."""
    beside_hit: float = 0.9
    """Share of the best hit's score that a sentence of a span has which no search scored."""

    # Short answers
    min_short_confidence: float = 0.6
    """The least probability of being right with which a short answer is shown."""
    short_bias: float = -1.2
    """Constant of the logistic regression of :func:`lmkrag.readers.short_answers.estimate_short`."""
    short_features: tuple[float, ...] = (0.5, 0.25, 1.0, 1.2)
    """Its coefficients."""
    max_short_share: float = 0.75
    """Share of their sentence from which on words are the sentence."""
    max_cell_chars: int = 200
    """Characters of a table's value, at most, for it to be an answer."""


ANSWERS = AnswerWeights()
"""The weights of an answer."""
