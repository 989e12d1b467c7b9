"""The sentences of a text that answer a question, by our own re-ranker."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from lmkrag.language.languages import detect_language
from lmkrag.reranker.base import (
    DEFAULT_RERANKER,
    MULTILINGUAL_RERANKER,
    PASSAGE_CHARS,
    PlacedText,
    score_sentences,
)
from lmkrag.reranker.loading import load_ours
from lmkrag.sentences.split import split_sentences
from lmkrag.specs import ENGLISH, Sentence
from lmkrag.system.deadline import stop_if_late

THRESHOLD = 0.2  # the least probability with which a sentence is kept when a text is pruned
_AT_A_TIME = 32  # passages read in one pass
_SAMPLE = 1_500  # characters by which a text's language is detected


class Highlight(NamedTuple):
    """A sentence of a text, and the probability that it answers."""

    sentence: Sentence
    score: float


class Pruned(NamedTuple):
    """A text that answers: its ``number`` from 0, and the ``kept`` sentences, also joined as
    ``text``.
    """

    number: int
    text: str
    kept: tuple[Highlight, ...]


def highlight(question: str, text: str, *, title: str = "") -> list[Highlight]:
    """Return every sentence of a text of any length, in order, with the probability that it answers
    a question.

    >>> text = "Pears ripen in October. Apples are picked in May."
    >>> best = max(highlight("When are apples picked?", text), key=lambda highlight: highlight.score)
    >>> text[best.sentence.start : best.sentence.end]
    'Apples are picked in May.'
    """  # noqa: E501
    is_english = ENGLISH in (detect_language(question), detect_language(text[:_SAMPLE]))
    reranker = load_ours(DEFAULT_RERANKER if is_english else MULTILINGUAL_RERANKER)
    passages = list(_split_passages(text))
    highlights: list[Highlight] = []
    for start in range(0, len(passages), _AT_A_TIME):
        stop_if_late()
        part = passages[start : start + _AT_A_TIME]
        read = [PlacedText(title, text[each[0].start : each[-1].end]) for each in part]
        for passage, reading in zip(part, reranker.read(question, read), strict=True):
            first = passage[0].start
            scores = score_sentences(
                reading, [(each.start - first, each.end - first) for each in passage]
            )
            probabilities = 1 / (1 + np.exp(-scores.astype(np.float64)))
            highlights += map(Highlight, passage, probabilities.tolist())
    return highlights


def prune(
    question: str, texts: Sequence[str], *, titles: Sequence[str] = (), threshold: float = THRESHOLD
) -> list[Pruned]:
    """Return the texts that answer a question, best first, cut to the sentences that do; the best
    sentence is kept.
    """
    titles = titles or [""] * len(texts)
    read = [
        highlight(question, text, title=title) for text, title in zip(texts, titles, strict=True)
    ]
    best = max((item.score for highlights in read for item in highlights), default=0.0)
    pruned = []
    for number, (text, highlights) in enumerate(zip(texts, read, strict=True)):
        answering = tuple(item for item in highlights if item.score >= min(threshold, best))
        if answering:
            pruned.append(Pruned(number, _join(text, answering), answering))
    return sorted(pruned, key=lambda result: -max(item.score for item in result.kept))


def _join(text: str, highlights: Sequence[Highlight]) -> str:
    """The sentences as in their text, with white space in place of others between them."""
    pieces = [text[item.sentence.start : item.sentence.end] for item in highlights]
    for number, (former, latter) in enumerate(pairwise(highlights)):
        if former.sentence.end != latter.sentence.start and not pieces[number][-1:].isspace():
            pieces[number] += " "
    return "".join(pieces).strip()


def _split_passages(text: str) -> Iterator[Sequence[Sentence]]:
    """Yield the sentences of a text, as many together as are read at a time."""
    passage: list[Sentence] = []
    for sentence in split_sentences(text):
        if passage and sentence.end - passage[0].start > PASSAGE_CHARS:
            yield passage
            passage = []
        passage.append(sentence)
    if passage:
        yield passage
