"""The reader without a language model: the best sentences of the spans are quoted, and the words that answer marked."""

import asyncio
import math
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence

from lmkrag.corpus.sentences import split_sentences
from lmkrag.corpus.structure import is_lead_in, is_navigation
from lmkrag.readers.base import AnswerStream, AsyncAnswerStream
from lmkrag.readers.short_answers import ReadSentence, asks_for_several, read_spans
from lmkrag.reranker.landmark import LandmarkReranker
from lmkrag.reranker.loading import load_landmark_reranker
from lmkrag.types import Answer, Citation, ShortAnswer, Span

FOUND = 0.45
"""Evidence that it takes to answer: similarity and words of the question; see ``benchmarks/LOG.md``."""

COVERAGE = 0.3
"""What a passage with all of the question's words adds to the evidence."""

NOT_FOUND = "Nothing in these documents answers this question."

LEAST = 0.34
"""The least probability of an answer with which one is given: so that few are refused that there are."""

_BIAS, _EVIDENCE, _ANSWERS = -2.9, 5.0, 0.18  # of the logistic regression that gives it; see ``benchmarks/LOG.md``
_SUREST = 10.0  # log-odds beyond which a sentence's count no more
_QUOTES = 3
_WORDS = 4  # a heading alone answers nothing
_NEAR = 0.04  # a further sentence is quoted when it scores so much less than the best, at most
_FOLLOWING = 300  # characters of a list that is quoted with what announces it
_LOOKED_AT = 3  # spans whose words count as evidence

_REFERS_BACK = re.compile(r"(?:It|They|He|She|Its|Their|His|Her|This|These|That|Those)\b")
_LISTS = re.compile(r"\s*(?:[-*+•|]|\(?\w{1,3}[.)])\s|\s{4,}\S")


class ExtractiveReader:
    """Quotes the sentences that answer best, each with its exact place, and marks the words that answer.

    Our own re-ranker reads the spans together with the question (:mod:`lmkrag.reranker.landmark`).
    """

    name = "extractive"

    def __init__(self, *, quoted: Iterable[Citation] = (), reranker: LandmarkReranker | None = None) -> None:
        """Take what was quoted before, which is not quoted again, and what reads; our own re-ranker by default."""
        self._quoted = frozenset((citation.span.doc_id, citation.start) for citation in quoted)
        self._reranker = reranker

    def answer(self, question: str, spans: Sequence[Span]) -> Answer:
        """Answer from ``spans``, best first; ``found`` is false when too little speaks for an answer."""
        read = read_spans(question, spans, self._reranker or load_landmark_reranker()) if spans else []
        confidence = estimate_confidence(spans, read)
        if confidence < LEAST:
            return Answer(NOT_FOUND, (), tuple(spans), self.name, found=False, confidence=confidence)
        quoted: dict[tuple[int, int], tuple[Citation, ReadSentence]] = {}
        for sentence in read:
            if quoted and sentence.score < read[0].score - _NEAR:
                break
            citation = _cite(sentence, spans[sentence.number - 1])
            if citation is not None and (citation.span.doc_id, citation.start) not in self._quoted:
                quoted.setdefault((citation.number, citation.start), (citation, sentence))
        made = list(quoted.values())
        chosen = ([one for one in made if len(one[0].quote.split()) >= _WORDS] or made)[:_QUOTES]
        if not chosen:
            return Answer(NOT_FOUND, (), tuple(spans), self.name, found=False, confidence=confidence)
        answers = [_short_answer(*one) for one in chosen]
        short = [one for one in answers if one is not None]
        if not asks_for_several(question):
            short = short[:1] if answers[0] is not None else []
        lines = ["; ".join(" ".join(one.text.split()) for one in short), ""] if short else []
        lines += [f"{' '.join(citation.quote.split())} [{citation.number}]" for citation, _ in chosen]
        return Answer(
            text="\n".join(lines),
            citations=tuple(citation for citation, _ in chosen),
            spans=tuple(spans),
            reader=self.name,
            found=True,
            short=tuple(short),
            confidence=confidence,
        )

    def stream(self, question: str, spans: Sequence[Span]) -> AnswerStream:
        """Answer in one piece."""
        answer = self.answer(question, spans)
        return AnswerStream(iter([answer.text]), lambda _: answer)

    async def aanswer(self, question: str, spans: Sequence[Span]) -> Answer:
        """Answer without blocking the event loop."""
        return await asyncio.to_thread(self.answer, question, spans)

    def astream(self, question: str, spans: Sequence[Span]) -> AsyncAnswerStream:
        """Answer in one piece without blocking the event loop."""
        said: list[Answer] = []

        async def pieces() -> AsyncIterator[str]:
            said.append(await self.aanswer(question, spans))
            yield said[0].text

        return AsyncAnswerStream(pieces(), lambda _: said[0])


def _short_answer(citation: Citation, sentence: ReadSentence) -> ShortAnswer | None:
    """The short answer of a sentence, if it stands in what is quoted of it."""
    short = sentence.short
    inside = short is not None and citation.start <= short.start and short.end <= citation.end
    return short if inside else None


def estimate_confidence(spans: Sequence[Span], read: Sequence[ReadSentence]) -> float:
    """Return the probability that spans answer a question, of which the best places were read."""
    if not read:
        return 0.0
    logit = _BIAS + _EVIDENCE * weigh_evidence(spans) + _ANSWERS * weigh_answers(read)
    return 1 / (1 + math.exp(-logit))


def weigh_evidence(spans: Sequence[Span]) -> float:
    """Return how much speaks for an answer in ``spans``: similarity, and the words of the question that they have."""
    similarity = max((hit.dense for span in spans for hit in span.hits), default=0.0)
    return similarity + COVERAGE * max((span.coverage for span in spans[:_LOOKED_AT]), default=0.0)


def weigh_answers(read: Sequence[ReadSentence]) -> float:
    """Return the log-odds that the sentence which answers best answers, up to what counts at most."""
    return min(_SUREST, max(sentence.answers for sentence in read))


def _cite(sentence: ReadSentence, span: Span) -> Citation | None:
    """Quote a sentence with what it needs to be understood.

    A question or a colon takes what follows, a pronoun the sentence before. None for a table of contents, and for a
    question that nothing follows.
    """
    start, end = sentence.start - span.start, sentence.end - span.start
    quote = span.text[start:end]
    if is_navigation(quote):
        return None
    if is_lead_in(quote):
        following = _follow(span.text, end)
        if following == end:
            return None
        start, end = (end, following) if quote.rstrip().endswith(("?", "？")) else (start, following)
    elif start and _REFERS_BACK.match(quote.lstrip()):
        start = max((border for border in _borders(span.text) if border < start), default=start)
    quote = span.text[start:end]
    start += len(quote) - len(quote.lstrip())
    quote = quote.strip()
    return Citation(sentence.number, span, quote, span.start + start, span.start + start + len(quote))


def _borders(text: str) -> Iterator[int]:
    return (sentence.start for sentence in split_sentences(text))


def _follow(text: str, start: int) -> int:
    """The end of what a sentence that ends at ``start`` announces: a list whole, else a sentence."""
    end = start
    for sentence in split_sentences(text[start:]):
        piece = text[start + sentence.start : start + sentence.end]
        if end > start and (not _LISTS.match(piece) or sentence.end > _FOLLOWING):
            break
        end = start + sentence.end
        if not _LISTS.match(piece) and not is_lead_in(piece):
            break
    return end
