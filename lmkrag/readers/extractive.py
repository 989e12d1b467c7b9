"""The reader without a language model: the best sentences of the spans are quoted, and the words that answer marked."""

import asyncio
import math
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence

from lmkrag.corpus.sentences import split_sentences
from lmkrag.corpus.structure import is_lead_in, is_navigation
from lmkrag.index.words.exact import find_exact_words, find_keys, holds
from lmkrag.readers.base import AnswerStream, AsyncAnswerStream
from lmkrag.readers.short_answers import ReadSentence, find_short_answers, read_spans
from lmkrag.readers.tables import Cell, find_cell
from lmkrag.reranker.landmark import LandmarkReranker
from lmkrag.reranker.loading import load_landmark_reranker
from lmkrag.types import Answer, Citation, Span

FOUND = 0.45
"""Evidence that it takes to answer: similarity and words of the question; see ``benchmarks/LOG.md``."""

COVERAGE = 0.3
"""What a passage with all of the question's words adds to the evidence."""

NOT_FOUND = "Nothing in these documents answers this question."

LEAST = 0.32
"""The least probability of an answer with which one is given: so that few are refused that there are."""

PERHAPS = 0.12
"""The least probability of an answer with which the nearest passage is shown."""

PERHAPS_NEAREST = "The documents may not answer this question. Nearest:"

CELL = 0.9
"""The probability that a value of a table answers whose row and column the question names."""

NEAR = 0.3
"""Evidence that it takes to show the nearest passage to a question whose exact words are nowhere."""

WHOLE = 600
"""Characters of the best passage, at most, to be quoted whole."""

_BLOCK = re.compile(r"\s*(?:[|>#]|[-*+•]\s|\(?\w{1,3}[.)]\s|\$\s|\.\.\s)|\s{4,}\S|\t")
_ASKS_HOW = re.compile(
    r"\s*(?:how (?:do|can|to|should|would)|which command|what (?:do i type|is the command))\b", re.IGNORECASE
)
_COMMAND = re.compile(r"^\s*(?:\$ \S|```|~~~)|^(?: {4,}|\t)\S|::\s*$", re.MULTILINE)
_SHOWS = 0.05  # of a passage with a command, in the units of scores

# Of the logistic regression of :func:`confidence_features`, fitted on training sets: see ``benchmarks/confidence.py``.
_BIAS, _CONFIDENCE = -4.3, (5.1, 3.0, 0.08, -2.9, 1.3)
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
        keys = find_keys(question)
        read = prefer_passages(question, keys, spans, read)
        missing = tuple(key for key in keys if not any(holds(describe_span(span), key) for span in spans))
        confidence = estimate_confidence(question, spans, read)
        if read and not missing and (cell := find_cell(question, spans)) is not None:
            return self._answer_cell(cell, spans, max(confidence, CELL))
        cited = self._choose(spans, read)
        evident = missing and weigh_evidence(spans) >= NEAR
        if not cited or (confidence < PERHAPS and not evident):
            return Answer(NOT_FOUND, (), tuple(spans), self.name, found=False, confidence=confidence, missing=missing)
        if confidence < LEAST:
            return self._answer_perhaps(cited, spans, confidence, missing)
        short = find_short_answers(question, keys, [sentence for _, sentence in cited], spans)
        short = [one for one in short if any(c.start <= one.start and one.end <= c.end for c, _ in cited)]
        lines = ["; ".join(" ".join(one.text.split()) for one in short), ""] if short else []
        citations = tuple(citation for citation, _ in cited)
        return Answer(
            text="\n".join([*lines, *quote_passages(citations)]),
            citations=citations,
            spans=tuple(spans),
            reader=self.name,
            found=True,
            short=tuple(short),
            confidence=confidence,
            missing=missing,
        )

    def _choose(self, spans: Sequence[Span], read: Sequence[ReadSentence]) -> list[tuple[Citation, ReadSentence]]:
        """The best sentence and those nearly as good, with what they need to be understood."""
        quoted: dict[tuple[int, int], tuple[Citation, ReadSentence]] = {}
        for sentence in read:
            if quoted and sentence.score < read[0].score - _NEAR:
                break
            citation = _cite(sentence, spans[sentence.number - 1])
            if citation is not None and (citation.span.doc_id, citation.start) not in self._quoted:
                quoted.setdefault((citation.number, citation.start), (citation, sentence))
        made = list(quoted.values())
        return ([one for one in made if len(one[0].quote.split()) >= _WORDS] or made)[:_QUOTES]

    def _answer_cell(self, cell: Cell, spans: Sequence[Span], confidence: float) -> Answer:
        """Answer with a value of a table: the value, the header and the row."""
        row = f"{cell.row.quote} [{cell.row.number}]"
        return Answer(
            text="\n".join([cell.short.text, "", *filter(None, [cell.header.strip()]), row]),
            citations=(cell.row,),
            spans=tuple(spans),
            reader=self.name,
            found=True,
            short=(cell.short,),
            confidence=confidence,
        )

    def _answer_perhaps(
        self,
        cited: Sequence[tuple[Citation, ReadSentence]],
        spans: Sequence[Span],
        confidence: float,
        missing: tuple[str, ...],
    ) -> Answer:
        """Say what is nearest, and that it may not answer."""
        why = f"No passage mentions {' or '.join(missing)}. Nearest:" if missing else f"{PERHAPS_NEAREST}"
        citations = tuple(citation for citation, _ in cited[:1])
        return Answer(
            text="\n".join([why, "", *quote_passages(citations)]),
            citations=citations,
            spans=tuple(spans),
            reader=self.name,
            found=False,
            confidence=confidence,
            missing=missing,
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


def describe_span(span: Span) -> str:
    """Return all that a passage says of itself: its text, the header of its table, its headings and its document."""
    return "\n".join([span.text, span.header, *span.headings, span.title, span.doc_id])


def prefer_passages(
    question: str, keys: Sequence[str], spans: Sequence[Span], read: Sequence[ReadSentence]
) -> list[ReadSentence]:
    """Return sentences in their order, those of passages first that have the most exact words of a question.

    Where a question in English asks how to do something, passages with a command or a block of code come before others
    that are about as good.
    """
    held = {number: sum(holds(describe_span(span), key) for key in keys) for number, span in enumerate(spans, 1)}
    how = bool(_ASKS_HOW.match(question))
    shown = {number: how and bool(_COMMAND.search(span.text)) for number, span in enumerate(spans, 1)}
    return sorted(read, key=lambda one: (-held[one.number], -one.score - _SHOWS * shown[one.number]))


def quote_passages(citations: Sequence[Citation]) -> list[str]:
    """Return what is quoted, line by line: the passage of the best citation whole where it is short, and its blocks.

    Lines of prose that were wrapped are joined; code and tables keep their lines.
    """
    lines: list[str] = []
    shown: set[tuple[str, int]] = set()
    for rank, citation in enumerate(citations):
        span = citation.span
        whole = rank == 0 and len(span.text) <= WHOLE
        key = (span.doc_id, span.start)
        if key in shown:
            continue
        if whole:
            shown.add(key)
        text = span.text.strip() if whole else citation.quote
        above = [span.headings[-1]] if whole and span.headings and span.headings[-1] not in text else []
        body = [*above, *filter(None, [span.header if whole else ""]), *_reflow(text)]
        body[-1] += f" [{citation.number}]"
        lines += body
    return lines


def _reflow(text: str) -> list[str]:
    """The lines of a text, those of a paragraph joined."""
    found: list[str] = []
    fenced = False
    for line in text.splitlines():
        fence = line.lstrip().startswith(("```", "~~~"))
        block = fenced or fence or bool(_BLOCK.match(line))
        if found and not block and line.strip() and found[-1].strip() and not _BLOCK.match(found[-1]) and not fenced:
            found[-1] += " " + line.strip()
        else:
            found.append(line.rstrip() if block else line.strip())
        fenced = fenced != fence
    return found or [""]


def estimate_confidence(question: str, spans: Sequence[Span], read: Sequence[ReadSentence]) -> float:
    """Return the probability that spans answer a question: see :func:`confidence_features`."""
    if not read:
        return 0.0
    values = confidence_features(question, spans, read)
    logit = _BIAS + sum(weight * value for weight, value in zip(_CONFIDENCE, values, strict=True))
    return 1 / (1 + math.exp(-logit))


def confidence_features(
    question: str, spans: Sequence[Span], read: Sequence[ReadSentence]
) -> tuple[float, float, float, float, float]:
    """Return what speaks for an answer.

    The best similarity of the search, the greatest share of the question's words that one of the first three passages
    has, the log-odds that the best sentence answers, the share of the question's exact words that no passage has, and
    whether the best passage has all of its codes, if there are any.

    Args:
        question: in words.
        spans: of which the best passages were read.
        read: their sentences, best first.
    """
    keys, codes = find_keys(question), find_exact_words(question)
    missing = sum(not any(holds(describe_span(span), key) for span in spans) for key in keys)
    best = describe_span(spans[read[0].number - 1])
    return (
        max((hit.dense for span in spans for hit in span.hits), default=0.0),
        max((span.coverage for span in spans[:_LOOKED_AT]), default=0.0),
        weigh_answers(read),
        missing / len(keys) if keys else 0.0,
        float(bool(codes) and all(holds(best, code) for code in codes)),
    )


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
