"""The reader without a language model: it quotes the passages that answer, marks the sentence in
each that does, and gives its value where that is sure.

All that it says comes from one reading of each passage (:mod:`lmkrag.reranker.passages`), and how
sure it is from :mod:`lmkrag.readers.confidence`.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from lmkrag.language.keys import add_fiscal_years, find_keys
from lmkrag.language.languages import asks_in_english, detect_language
from lmkrag.language.question import detect_asked
from lmkrag.readers.base import Reader
from lmkrag.readers.citations import cite_trimmed
from lmkrag.readers.confidence import ANSWERS, estimate_confidence, find_held, is_sure
from lmkrag.readers.quotes import ITEM, write_quotes
from lmkrag.readers.values import complete_value
from lmkrag.reranker.base import MULTILINGUAL_RERANKER, AnyReading, ReadingReranker, Words
from lmkrag.reranker.inputs import PassageInput, prepare_passage, prepare_unchanged
from lmkrag.reranker.landmark import SentenceReading
from lmkrag.reranker.loading import load_ours
from lmkrag.results import (
    ABSTAINED,
    UNSURE,
    Answer,
    Citation,
    Quote,
    ShortAnswer,
    Span,
    SpanList,
    label_confidence,
)
from lmkrag.sentences.split import split_sentences
from lmkrag.sentences.structure import is_lead_in, is_navigation
from lmkrag.specs import ENGLISH

NOT_FOUND = "Nothing was found in these documents."
OTHER_LANGUAGE = (
    "Probably not in these documents, which are in another language than the question. Closest:"
)
INTRODUCTIONS = {
    "strong": "",
    "likely": "Probably:",
    "unsure": "Perhaps one of these:",
    "weak": "Probably not in these documents. Closest:",
}
"""The first line of an answer, by its label."""

GREETED = "Hello. Ask a question about the documents."
_GREETING = re.compile(
    r"\W*(?:hi|hello|hey|hallo|hola|bonjour|ciao|thanks|thank you|thx|danke|merci|gracias"
    r"|good (?:morning|afternoon|evening|night)|bye|goodbye|ok|okay)"
    r"(?: (?:there|all|everyone|very much|so much|a lot|again))?\W*",
    re.IGNORECASE,
)
_SPOKEN = re.compile(r"\s*(?:\*\*|<)?[^\W\d_][\w .'-]{0,30}(?:\*\*|>)?:(?:\*\*)?\s")


class ReadPassage(NamedTuple):
    """A passage that was read: its number from 1, what the model read of it, and its reading."""

    number: int
    span: Span
    input: PassageInput
    reading: AnyReading


class ExtractiveReader(Reader):
    """Quotes the passages that answer best, and cites the sentence in each that does."""

    name = "extractive"

    def __init__(self, *, reranker: ReadingReranker | None = None) -> None:
        """Take a model that reads passages; our own by default."""
        self._reranker = reranker

    def answer(self, question: str, spans: Sequence[Span]) -> Answer:
        """Answer from passages.

        Args:
            question: as it was asked.
            spans: passages, best first; as many as are shown at most are read.

        Returns:
            the answer; ``found`` is false if it is only the nearest passage.
        """
        if is_greeting(question):
            return self._make(spans, GREETED, [], None)
        if isinstance(spans, SpanList) and spans.confidence is not None:
            return self._make(spans, ABSTAINED, [], spans.confidence)
        read = self.read(question, spans)
        confidence = self._estimate(spans, read)
        label = label_confidence(confidence)
        citations = [*cite_read(read)]
        if not citations:
            return self._make(spans, NOT_FOUND, [], confidence)
        if label == "weak":
            nearest = citations[0]
            quote = Quote(nearest.number, nearest.start, nearest.end)
            is_english = not isinstance(read[0].reading, SentenceReading)
            is_other = is_english and detect_asked(question) != ENGLISH
            introduction = OTHER_LANGUAGE if is_other else INTRODUCTIONS[label]
            return self._make(spans, introduction, [nearest], confidence, quotes=[quote])
        citations = leave_out_unnamed(question, citations)
        value = None
        if label in ("strong", "likely"):
            citations = choose_citations(citations, read)
            value = find_value(question, read[citations[0].number - 1], citations[0])
        words = " ".join(value.text.split()) if value else ""
        first = f"{INTRODUCTIONS[label]} {words}".strip()
        return self._make(spans, first, citations, confidence, [value] if value else [])

    def estimate(self, question: str, spans: Sequence[Span]) -> float:
        """Return the probability that one of the first passages answers a question."""
        return self._estimate(spans, self.read(question, spans))

    def _estimate(self, spans: Sequence[Span], read: Sequence["ReadPassage"]) -> float:
        """The same, of passages that were read."""
        readings = [each.reading for each in read]
        is_foreign = any(isinstance(reading, SentenceReading) for reading in readings)
        confidence = estimate_confidence(spans, readings, is_foreign=is_foreign)
        is_cut_short = isinstance(spans, SpanList) and spans.cut_short
        return min(confidence, ANSWERS.max_unread) if is_cut_short or is_foreign else confidence

    def read(self, question: str, spans: Sequence[Span]) -> list[ReadPassage]:
        """Read the first passages, as many as are shown, with a question.

        What is in another language than English is read by the model that scores its sentences.
        """
        question, spans = add_fiscal_years(question), spans[: ANSWERS.max_passages]
        foreign = is_foreign(question, spans)
        prepare = prepare_unchanged if foreign else prepare_passage
        reranker = load_ours(MULTILINGUAL_RERANKER) if foreign else self._reranker or load_ours()
        inputs = [prepare(span) for span in spans]
        readings = reranker.judge(question, [each.passage for each in inputs])
        numbers = range(1, len(spans) + 1)
        return [*map(ReadPassage, numbers, spans, inputs, readings)]

    def _make(
        self,
        spans: Sequence[Span],
        first: str,
        citations: Sequence[Citation],
        confidence: float | None,
        short: Sequence[ShortAnswer] = (),
        quotes: Sequence[Quote] = (),
    ) -> Answer:
        """An answer of its first line and its quotes, by default the whole passages it cites."""
        quotes = quotes or [_quote_whole(citation) for citation in citations]
        return Answer(
            text="\n\n".join(filter(None, (first, "\n".join(write_quotes(quotes, spans))))),
            citations=tuple(citations),
            spans=tuple(spans),
            reader=self.name,
            found=bool(citations) and (confidence or 0.0) >= UNSURE,
            short=tuple(short),
            confidence=confidence,
            quotes=tuple(quotes),
        )


def _quote_whole(citation: Citation) -> Quote:
    """The passage of a citation, with its heading and the header of its table."""
    span = citation.span
    heading = span.headings[-1] if span.headings else ""
    is_shown = heading in span.text or "|" in heading  # a row of a table is no heading
    shown = "" if is_shown else heading
    return Quote(citation.number, span.start, span.end, shown, span.header)


def is_foreign(question: str, spans: Sequence[Span]) -> bool:
    """Return whether neither a question nor its best passages are in English."""
    if asks_in_english(question) or not spans:
        return False
    passages = " ".join(span.text for span in spans[: ANSWERS.language_passages])
    sample = passages[: ANSWERS.language_chars]
    return ENGLISH not in (detect_language(question), detect_language(sample))


def is_greeting(text: str) -> bool:
    """Return whether a text is a greeting, thanks or a goodbye instead of a question."""
    return _GREETING.fullmatch(text) is not None


def cite_read(read: Sequence[ReadPassage]) -> Iterator[Citation]:
    """Yield the sentence of each passage that answers best by its reading."""
    for number, span, passage, reading in read:
        sentences = [(each.start, each.end) for each in split_sentences(span.text)]
        scores = [score_mark(reading, *passage.locate(*bounds)) for bounds in sentences]
        for place in np.argsort(scores)[::-1]:
            citation = cite_sentence(number, span, *sentences[place])
            if citation is not None:
                yield citation
                break


def score_mark(reading: AnyReading, start: int, end: int) -> float:
    """Return how well a sentence, characters ``[start, end)`` of what was read, answers: its
    log-odds, and a share of the strength of the short answer in it.
    """
    words = reading.find_words(start, end)
    strength = ANSWERS.mark_words * words.strength if words else 0.0
    return reading.score_sentence(start, end) + strength


def leave_out_unnamed(question: str, citations: Sequence[Citation]) -> list[Citation]:
    """Return the citations but for those whose passages are about another subject than the first.

    Such a passage lacks some of the question's names and numbers that the first passage has, and
    has none that the first passage lacks.
    """
    keys = find_keys(question)
    named = find_held(keys, citations[0].span)
    return [each for each in citations if not find_held(keys, each.span) < named]


def choose_citations(citations: Sequence[Citation], read: Sequence[ReadPassage]) -> list[Citation]:
    """Return the citations of the passages that a sure answer shows: the first one, and others
    that read nearly as well.
    """
    least = read[citations[0].number - 1].reading.score - ANSWERS.near
    return [each for each in citations if read[each.number - 1].reading.score >= least]


def find_words(read: ReadPassage, citation: Citation) -> Words | None:
    """Return the words of a cited sentence, as they were read, that may be its value."""
    begin = read.span.start
    sentence = read.input.locate(citation.start - begin, citation.end - begin)
    return read.reading.find_words(*sentence)


def find_value(question: str, read: ReadPassage, citation: Citation) -> ShortAnswer | None:
    """Return the value in a cited sentence that answers; None unless it is sure enough."""
    span, words = read.span, find_words(read, citation)
    if words is None or not is_sure(read.reading, words):
        return None
    start, end = complete_value(span.text, *find_origin(read.input, words))
    text = span.text[start:end]
    if text.lower() in question.lower():
        return None
    return ShortAnswer(citation.number, text, span.start + start, span.start + end)


def find_origin(passage: PassageInput, words: Words) -> tuple[int, int]:
    """Return the characters of a passage that words of what was read of it stand at."""
    start, last = passage.origins[[words.start, words.end - 1]].tolist()
    return start, last + 1


def cite_sentence(number: int, span: Span, start: int, end: int) -> Citation | None:
    """Quote a sentence of a passage, and what follows it if it ends with a colon or is a question.

    In a dialogue a question and its reply are quoted together; elsewhere a question is no part of
    its answer.

    Args:
        number: the passage's, from 1.
        span: the passage.
        start: the sentence's first character in the passage.
        end: the character after its last one.

    Returns:
        the citation; None for a table of contents, and for a question without text after it.
    """
    text = span.text
    if is_navigation(text[start:end]):
        return None
    is_spoken = _SPOKEN.match(text[start:end]) is not None
    if is_lead_in(text[start:end]):
        following = _follow(text, end)
        if following == end:
            return None
        is_question = text[start:end].rstrip().endswith(("?", "？"))
        start = end if is_question and not is_spoken else start
        end = following
    elif is_spoken:
        starts = [each.start for each in split_sentences(text) if each.start < start]
        spoken = text[starts[-1] : start] if starts else ""
        start = starts[-1] if _SPOKEN.match(spoken) and is_lead_in(spoken) else start
    return cite_trimmed(number, span, start, end)


def _follow(text: str, start: int) -> int:
    """The end of the text that a sentence before ``start`` announces: items of a list, or one
    sentence.
    """
    end = start
    for count, sentence in enumerate(split_sentences(text[start:])):
        piece = text[start + sentence.start : start + sentence.end]
        if count and (not ITEM.match(piece) or count == ANSWERS.max_items):
            break
        end = start + sentence.end
        if not ITEM.match(piece) and not is_lead_in(piece):
            break
    return end
