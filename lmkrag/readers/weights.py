"""The numbers that decide what the reader without a language model quotes, and how sure it is, with
their units.

They were chosen on training sets; ``benchmarks/confidence.py``, ``refusals.py`` and ``answers.py``
compare others. The scale of the confidence was fitted to questions about files as people have them
(``benchmarks/asking.py``).
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerWeights:
    """The weights of an answer. Probabilities are those that the documents answer the question."""

    # Whether there is an answer
    min_confidence: float = 0.2  # the least probability with which an answer is not called doubtful
    max_missing: float = (
        0.79  # the greatest probability where an exact word of the question is in no passage
    )
    max_cut_short: float = 0.79  # the same where there was no time to re-rank all passages
    min_similarity: float = (
        0.2  # the least similarity of passages with none of the question's words
    )
    max_unshared: float = (
        0.1  # the greatest probability of passages with none of the question's words
    )
    max_unrelated: float = (
        0.05  # the same where the similarity is lower, or the question can't be read
    )
    min_literal: float = (
        -1.0
    )  # the least log-odds of a passage with a sentence that has all words of the question
    cell_confidence: float = (
        0.9  # the probability of a table's value whose row and column the question names
    )
    bias: float = (
        -2.50
    )  # constant of the regression of :func:`lmkrag.readers.extractive.confidence_features`
    features: tuple[float, ...] = (4.52, 0.43, 2.6, -0.12)  # its coefficients
    foreign_bias: float = -5.4  # the constant for other languages than English
    foreign_features: tuple[float, ...] = (12.5, 0.0, 0.0, -2.9)  # the coefficients for them
    log_odds: tuple[float, float] = (
        -6.0,
        3.0,
    )  # least and greatest log-odds of a passage that count
    max_lead: float = (
        0.5  # the greatest lead of the first passage over the first one not shown that counts
    )
    language_passages: int = 3  # passages that the language of the documents is detected from
    language_chars: int = 1_500  # characters of each of them

    # What is shown
    max_passages: int = 3  # passages that are shown, at most
    strong_margin: float = (
        0.4  # by how much a passage of a strong answer may score less than the first to be shown
    )
    max_items: int = 12  # items of a list that is quoted with the sentence that announces it

    # Marks and short answers; log-odds are those of lmkrag.reranker.passages.Reading
    min_strength: float = 0.0  # the least strength of words whose sentence is marked
    min_short_confidence: float = (
        0.72  # the least probability of an answer for this evidence to be enough
    )
    min_short_strength: float = 4.5  # the least strength of a short answer
    min_lead: float = 2.5  # the least lead of a short answer
    min_evidence: float = 6.5  # the least sum of both where the answer is of the type asked for
    min_evidence_in_doubt: float = (
        14.0  # the least sum of both where that probability is not reached
    )
    untyped: float = 3.5  # by how much the sum must be greater if the type is unknown
    beside_others: float = (
        4.0  # the same, and the least lead, for a value in a sentence with other values
    )
    max_name_words: int = 5  # of a short answer without a value
    max_label_words: int = 6  # of a line with a label and its value
    max_cell_chars: int = 200  # characters of a table's value, at most, for it to be an answer


ANSWERS = AnswerWeights()  # the weights of an answer
