"""The numbers that decide what the reader without a language model quotes, and how sure it is, with their units.

They were chosen on training sets; ``benchmarks/confidence.py``, ``refusals.py`` and ``answers.py`` compare others. The
scale of the confidence was fitted to questions about files as people have them (``benchmarks/asking.py``).
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerWeights:
    """The weights of an answer. Probabilities are those that the documents answer the question."""

    # Whether there is an answer
    min_confidence: float = 0.16
    """The least probability with which an answer is not called doubtful."""
    min_nearest_confidence: float = 0.1
    """The least probability with which the closest passage is shown, whatever words of the question it has."""
    min_nearest_coverage: float = 0.3
    """The least share of the question's words in a passage with which it is shown, whatever the probability."""
    min_lead: float = 0.15
    """What the first passage of a strong answer scores more than the second, at least, to be shown alone."""
    cell_confidence: float = 0.9
    """The probability of a table's value whose row and column the question names."""
    bias: float = -3.74
    """Constant of the logistic regression of :func:`lmkrag.readers.extractive.confidence_features`."""
    features: tuple[float, ...] = (6.79, 0.091, 2.6, -1.18)
    """Its coefficients."""
    foreign_bias: float = -5.4
    """The constant for other languages than English."""
    foreign_features: tuple[float, ...] = (12.5, 0.0, 0.0, -2.9)
    """The coefficients for other languages than English."""
    log_odds: tuple[float, float] = (-6.0, 2.0)
    """Least and greatest log-odds of a sentence that count."""
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
    min_short_confidence: float = 0.55
    """The least probability of being right with which a short answer is shown."""
    short_bias: float = -1.35
    """Constant of the logistic regression of :func:`lmkrag.readers.short_answers.estimate_short`."""
    short_features: tuple[float, ...] = (0.16, 0.71, 0.42, 0.86)
    """Its coefficients."""
    max_short_share: float = 0.75
    """Share of their sentence from which on words are the sentence."""
    max_cell_chars: int = 200
    """Characters of a table's value, at most, for it to be an answer."""


ANSWERS = AnswerWeights()
"""The weights of an answer."""
