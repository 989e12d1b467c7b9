"""The reader without a model: the spans themselves, their best sentences quoted and cited."""

import re
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence

from lmkrag.corpus.sentences import split_sentences
from lmkrag.corpus.structure import is_lead_in, is_navigation
from lmkrag.readers.base import AnswerStream, AsyncAnswerStream
from lmkrag.types import Answer, Citation, Hit, Span

FOUND = 0.45
"""Evidence that it takes to answer: similarity and words of the question; see ``benchmarks/LOG.md``."""

COVERAGE = 0.3
"""What a passage with all of the question's words adds to the evidence."""

NOT_FOUND = "Nothing in these documents answers this question."

_QUOTES = 3
_WORDS = 4  # a heading alone answers nothing
_NEAR = 0.97  # a further sentence is quoted when it scores this share of the best
_FOLLOWING = 300  # characters of a list that is quoted with what announces it
_LOOKED_AT = 3  # spans whose words count as evidence

_REFERS_BACK = re.compile(r"(?:It|They|He|She|Its|Their|His|Her|This|These|That|Those)\b")
_LISTS = re.compile(r"\s*(?:[-*+•|]|\(?\w{1,3}[.)])\s|\s{4,}\S")


class ExtractiveReader:
    """Quotes the sentences that answer best, each with its exact place."""

    name = "extractive"

    def __init__(self, *, quoted: Iterable[Citation] = ()) -> None:
        """Take what was quoted before: it is not quoted again."""
        self._quoted = frozenset((citation.span.doc_id, citation.start) for citation in quoted)

    def answer(self, question: str, spans: Sequence[Span]) -> Answer:
        """Answer from ``spans``, best first; ``found`` is false when too little speaks for an answer."""
        if weigh_evidence(spans) < FOUND:
            return Answer(NOT_FOUND, (), tuple(spans), self.name, found=False)
        landmarks = [(hit, number) for number, span in enumerate(spans, 1) for hit in span.hits]
        landmarks.sort(key=lambda landmark: -landmark[0].score)
        best = landmarks[0][0].score
        quoted: dict[tuple[int, int], Citation] = {}
        for hit, number in landmarks:
            if quoted and hit.score < _NEAR * best:
                break
            citation = _cite(hit, number, spans[number - 1])
            if citation is not None and (citation.span.doc_id, citation.start) not in self._quoted:
                quoted.setdefault((number, citation.start), citation)
        citations = list(quoted.values())
        long = [citation for citation in citations if len(citation.quote.split()) >= _WORDS]
        chosen = tuple((long or citations)[:_QUOTES])
        if not chosen:
            return Answer(NOT_FOUND, (), tuple(spans), self.name, found=False)
        lines = [f"{' '.join(citation.quote.split())} [{citation.number}]" for citation in chosen]
        return Answer("\n".join(lines), chosen, tuple(spans), self.name, found=True)

    def stream(self, question: str, spans: Sequence[Span]) -> AnswerStream:
        """Answer in one piece."""
        answer = self.answer(question, spans)
        return AnswerStream(iter([answer.text]), lambda _: answer)

    async def aanswer(self, question: str, spans: Sequence[Span]) -> Answer:
        """Answer; nothing here takes long enough to block an event loop."""
        return self.answer(question, spans)

    def astream(self, question: str, spans: Sequence[Span]) -> AsyncAnswerStream:
        """Answer in one piece."""
        answer = self.answer(question, spans)

        async def pieces() -> AsyncIterator[str]:
            yield answer.text

        return AsyncAnswerStream(pieces(), lambda _: answer)


def weigh_evidence(spans: Sequence[Span]) -> float:
    """Return how much speaks for an answer in ``spans``: similarity, and the words of the question that they have."""
    similarity = max((hit.dense for span in spans for hit in span.hits), default=0.0)
    return similarity + COVERAGE * max((span.coverage for span in spans[:_LOOKED_AT]), default=0.0)


def _cite(hit: Hit, number: int, span: Span) -> Citation | None:
    """Quote a hit as far as it lies in its span (a budget may have cut the span), with what it needs to be understood.

    A question or a colon takes what follows, a pronoun the sentence before. None for a table of contents, and for a
    question that nothing follows.
    """
    start, end = max(0, hit.start - span.start), min(len(span.text), hit.end - span.start)
    if end <= start:
        start, end = 0, len(span.text)
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
    return Citation(number, span, quote, span.start + start, span.start + start + len(quote))


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
