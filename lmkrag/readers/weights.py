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
    cell_confidence: float = 0.9
    """The probability of a table's value whose row and column the question names."""
    bias: float = -3.27
    """Constant of the logistic regression of :func:`lmkrag.readers.extractive.confidence_features`."""
    features: tuple[float, ...] = (5.65, 0.091, 6.15, -1.16)
    """Its coefficients."""
    foreign_bias: float = -5.4
    """The constant for other languages than English."""
    foreign_features: tuple[float, ...] = (12.5, 0.0, 0.0, -2.9)
    """The coefficients for other languages than English."""
    log_odds: tuple[float, float] = (-6.0, 2.0)
    """Least and greatest log-odds of a sentence that count."""
    max_lead: float = 0.5
    """What the first passage scores more than the first that is not shown, at most, as far as it counts."""
    language_passages: int = 3
    """Passages that the language of the documents is detected from."""
    language_chars: int = 1_500
    """Characters of each of them."""

    # What is shown
    max_passages: int = 3
    """Passages that are shown, at most."""
    strong_margin: float = 0.15
    """What a passage of a strong answer may score less than the first to be shown."""
    fair_margin: float = 0.4
    """The same for a fair answer."""
    max_items: int = 12
    """Items of a list that is quoted with the sentence that announces it."""

    # Reading with the question
    rank: float = 0.03
    """Weight of the re-ranker's ranks beside similarities."""
    beside_hit: float = 0.9
    """Share of the best hit's score that a sentence of a span has which no search scored."""

    # Short answers
    min_short_confidence: float = 0.63
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
