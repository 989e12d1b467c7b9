"""How sure an answer is: a probability that means what it says.

It is estimated by logistic regressions on what the search and the reading of the passages say.
`benchmarks/confidence.py` fits the constants on corpora that are named for it in
`benchmarks/asking/corpora.toml`; other corpora prove them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp

from lmkrag.language.dates import MONTHS
from lmkrag.language.keys import find_keys, holds
from lmkrag.reranker.base import AnyReading, Words
from lmkrag.results import STATED_DATES, Span, best_similarity


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerWeights:
    """The constants of an answer. Probabilities are those that the passages shown answer."""

    bias: float = -1.08  # of the regression on :func:`confidence_features`, like the next
    features: tuple[float, ...] = (0.947, 0.41, 3.845)
    # The same in other languages than English: the mean of a fit on questions that their documents
    # nearly answer and of one on questions about something else.
    foreign_bias: float = -2.5
    foreign_features: tuple[float, ...] = (0.29, -0.23, 7.6)
    # The greatest probability in other languages, and where there was no time to re-rank all.
    max_unread: float = 0.84
    log_odds: tuple[float, float] = (-6.0, 6.0)  # least and greatest of a reading that count
    value_bias: float = -1.09  # of the regression on :func:`value_features`, like the next
    value_features: tuple[float, ...] = (0.011, 0.262, 0.067)
    min_value: float = 0.8  # the least probability of a value that is shown
    # share of the strength of a sentence's short answer that counts when the mark is chosen
    mark_words: float = 0.5
    near: float = 3.0  # by how much others may read worse than the first of a sure answer

    max_passages: int = 3  # passages that are read and shown, at most
    max_items: int = 12  # items of a list that is quoted with the sentence that announces it
    language_passages: int = 3  # passages that the language of the documents is detected from
    language_chars: int = 1_500  # characters of them


ANSWERS = AnswerWeights()


def estimate_confidence(
    spans: Sequence[Span], readings: Sequence[AnyReading], *, is_foreign: bool
) -> float:
    """Return the probability that one of the passages shown answers a question.

    Args:
        spans: passages, best first.
        readings: of the first of them.
        is_foreign: whether they are in another language than English.
    """
    if not spans:
        return 0.0
    bias = ANSWERS.foreign_bias if is_foreign else ANSWERS.bias
    weights = ANSWERS.foreign_features if is_foreign else ANSWERS.features
    return _estimate(bias, weights, confidence_features(spans, readings))


def confidence_features(spans: Sequence[Span], readings: Sequence[AnyReading]) -> tuple[float, ...]:
    """Return the features from which the confidence is estimated.

    The log-odds that the first passage answers; by how much those of another are greater; the best
    similarity of the search.
    """
    scores = [_limit_score(reading) for reading in readings]
    return scores[0], max(scores) - scores[0], best_similarity(spans)


def _limit_score(reading: AnyReading) -> float:
    """The log-odds of a reading, as far as they count."""
    low, high = ANSWERS.log_odds
    return min(high, max(low, reading.score))


def value_features(reading: AnyReading, words: Words) -> tuple[float, ...]:
    """Return the features from which it is estimated whether a value is right."""
    return words.strength, words.lead, _limit_score(reading)


def is_sure(reading: AnyReading, words: Words) -> bool:
    """Return whether a value is likely enough to be right to be shown."""
    features = value_features(reading, words)
    return _estimate(ANSWERS.value_bias, ANSWERS.value_features, features) >= ANSWERS.min_value


def find_missing(question: str, spans: Sequence[Span]) -> tuple[str, ...]:
    """Return the names, numbers and codes of a question that no passage has, its place included."""
    keys = find_keys(question)
    held = {word for span in spans for word in find_held(keys, span)}
    return tuple(word for word in keys if word not in held)


def find_held(keys: Sequence[str], span: Span) -> set[str]:
    """Return those names, numbers and codes of a question that a passage or its place has.

    Args:
        keys: all of them, from :func:`lmkrag.language.keys.find_keys`.
        span: the passage.
    """
    text = _add_place(span)
    return {word for word in keys if holds(text, word)}


def _add_place(span: Span) -> str:
    """The text of a passage with its table's header, headings, title, name and month."""
    parts = [span.text, span.header, *span.headings, span.title, span.doc_id]
    year, _, rest = span.date.partition("-")
    if rest and span.date_source in STATED_DATES:
        parts.append(f"{MONTHS[int(rest[:2]) - 1].partition('|')[0].capitalize()} {year}")
    return "\n".join(parts)


def _estimate(bias: float, weights: Sequence[float], features: Sequence[float]) -> float:
    """The probability of a logistic regression."""
    weighted = sum(weight * value for weight, value in zip(weights, features, strict=True))
    return 1 / (1 + exp(-bias - weighted))
