"""The reader without a model: the spans themselves, their best sentences quoted and cited."""

from collections.abc import AsyncIterator, Sequence

from lmkrag.readers.base import AnswerStream, AsyncAnswerStream
from lmkrag.types import Answer, Citation, Hit, Span

FOUND = 0.3
"""Similarity a sentence needs to count as an answer; see ``benchmarks/LOG.md``."""

NOT_FOUND = "Nothing in these documents answers this question."

_QUOTES = 3
_WORDS = 4  # a heading alone answers nothing
_NEAR = 0.97  # a further sentence is quoted when it scores this share of the best


class ExtractiveReader:
    """Quotes the sentences that answer best, each with its exact place."""

    name = "extractive"

    def answer(self, question: str, spans: Sequence[Span]) -> Answer:
        """Answer from ``spans``, best first; ``found`` is false when no sentence is near the question."""
        landmarks = [(hit, number) for number, span in enumerate(spans, 1) for hit in span.hits]
        if max((hit.dense for hit, _ in landmarks), default=0.0) < FOUND:
            return Answer(NOT_FOUND, (), tuple(spans), self.name, found=False)
        landmarks.sort(key=lambda landmark: -landmark[0].score)
        best = landmarks[0][0].score
        near = [_cite(hit, number, spans[number - 1]) for hit, number in landmarks if hit.score >= _NEAR * best]
        citations = tuple([c for c in near if len(c.quote.split()) >= _WORDS][:_QUOTES] or near[:1])
        lines = [f"{' '.join(citation.quote.split())} [{citation.number}]" for citation in citations]
        return Answer("\n".join(lines), citations, tuple(spans), self.name, found=True)

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


def _cite(hit: Hit, number: int, span: Span) -> Citation:
    """Quote a hit as far as it lies in its span (a budget may have cut the span)."""
    start, end = max(hit.start, span.start), min(hit.end, span.end)
    if end <= start:
        start, end = span.start, span.end
    quote = span.text[start - span.start : end - span.start]
    start += len(quote) - len(quote.lstrip())
    quote = quote.strip()
    return Citation(number, span, quote, start, start + len(quote))
