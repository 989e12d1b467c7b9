"""The reader without a language model: the best sentences of the spans are quoted, and the words that answer marked."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from lmkrag.index.words.exact import add_fiscal_years, asks_in_english, find_exact_words, find_keys, holds
from lmkrag.readers.base import Reader
from lmkrag.readers.short_answers import (
    ReadSentence,
    find_short_answers,
    logistic,
    read_by_similarity,
    read_spans,
)
from lmkrag.readers.tables import find_cell
from lmkrag.readers.weights import ANSWERS
from lmkrag.reranker.landmark import LandmarkReranker
from lmkrag.reranker.loading import load_landmark_reranker
from lmkrag.results import Answer, Citation, Quote, ShortAnswer, Span, best_coverage, best_similarity, weigh_evidence
from lmkrag.sentences.languages import detect_language
from lmkrag.sentences.split import split_sentences
from lmkrag.sentences.structure import is_lead_in, is_navigation
from lmkrag.specs import ENGLISH

NOT_FOUND = "Nothing in these documents answers this question."

MAY_NOT_ANSWER = "The documents may not answer this question. Nearest:"

_BLOCK = re.compile(r"\s*(?:[|>#]|[-*+•]\s|\(?\w{1,3}[.)]\s|\$\s|\.\.\s)|\s{4,}\S|\t")
_ASKS_HOW = re.compile(
    r"\s*(?:how (?:do|can|to|should|would)|which command|what (?:do i type|is the command))\b", re.IGNORECASE
)
_COMMAND = re.compile(r"^\s*(?:\$ \S|```|~~~)|^(?: {4,}|\t)\S|::\s*$", re.MULTILINE)


GREETED = "Hello. Ask a question about the documents."

_GREETING = re.compile(
    r"\W*(?:hi|hello|hey|hallo|hola|bonjour|ciao|thanks|thank you|thx|danke|merci|gracias|good (?:morning|afternoon"
    r"|evening|night)|bye|goodbye|ok|okay)(?: (?:there|all|everyone|very much|so much|a lot|again))?\W*",
    re.IGNORECASE,
)
_REFERS_BACK = re.compile(r"(?:It|They|He|She|Its|Their|His|Her|This|These|That|Those)\b")
_LISTS = re.compile(r"\s*(?:[-*+•|]|\(?\w{1,3}[.)])\s|\s{4,}\S")


class ExtractiveReader(Reader):
    """Quotes the sentences that answer best, each with its exact place, and marks the words that answer.

    Our own re-ranker reads the spans together with the question (:mod:`lmkrag.reranker.landmark`).
    """

    name = "extractive"

    def __init__(self, *, quoted: Iterable[Citation] = (), reranker: LandmarkReranker | None = None) -> None:
        """Take sentences that are not quoted again, and a re-ranker; our own by default."""
        self._quoted = frozenset((citation.span.doc_id, citation.start) for citation in quoted)
        self._reranker = reranker

    def answer(self, question: str, spans: Sequence[Span]) -> Answer:
        """Answer from ``spans``, best first; ``found`` is false when too little speaks for an answer."""
        if is_greeting(question):
            return self._make((), said=GREETED, confidence=0.0)
        question = add_fiscal_years(question)
        foreign = is_foreign(question, spans)
        if foreign or not spans:
            read = read_by_similarity(spans)
        else:
            read = read_spans(question, spans, self._reranker or load_landmark_reranker())
        keys = match_keys(question, spans)
        read = prefer_passages(question, keys, spans, read)
        missing = keys.missing
        confidence = estimate_confidence(keys, spans, read, foreign=foreign)
        cell = find_cell(question, spans, keys.best) or find_cell(question, spans) if read and not missing else None
        if cell is not None:
            quote = Quote(cell.row.number, cell.row.start, cell.row.end, header=cell.header.strip(" \r\n"))
            sure = max(confidence, ANSWERS.cell_confidence)
            return self._make(spans, [cell.row], [quote], short=[cell.short], confidence=sure)
        cited = self._choose(spans, read)
        is_near = missing and weigh_evidence(spans) >= ANSWERS.min_nearest_evidence
        if not cited or (confidence < ANSWERS.min_nearest_confidence and not is_near):
            return self._make(spans, said=NOT_FOUND, confidence=confidence, missing=missing)
        citations = [citation for citation, _ in cited]
        if confidence < ANSWERS.min_confidence:
            why = f"No passage mentions {' or '.join(missing)}. Nearest:" if missing else MAY_NOT_ANSWER
            nearest = citations[:1]
            return self._make(spans, nearest, choose_quotes(nearest), said=why, confidence=confidence, missing=missing)
        short = find_short_answers(question, keys.words, [sentence for _, sentence in cited], spans)
        short = [one for one in short if any(c.start <= one.start and one.end <= c.end for c in citations)]
        quotes = choose_quotes(citations)
        return self._make(spans, citations, quotes, short=short, confidence=confidence, missing=missing)

    def _make(
        self,
        spans: Sequence[Span],
        citations: Sequence[Citation] = (),
        quotes: Sequence[Quote] = (),
        *,
        said: str = "",
        short: Sequence[ShortAnswer] = (),
        confidence: float | None,
        missing: tuple[str, ...] = (),
    ) -> Answer:
        """Make an answer: what is ``said`` instead of one, or the short answers, and the quotes.

        The spans that are quoted come first, so that citations are numbered as they appear.
        """
        order = list(dict.fromkeys([one.number for one in quotes] + [one.number for one in citations]))
        order += [number for number in range(1, len(spans) + 1) if number not in order]
        numbers = {before: number for number, before in enumerate(order, 1)}
        spans = [spans[number - 1] for number in order]
        quotes = [replace(one, number=numbers[one.number]) for one in quotes]
        first = said or "; ".join(" ".join(one.text.split()) for one in short)
        return Answer(
            text="\n".join(
                [*([first] if first else []), *([""] if first and quotes else []), *write_quotes(quotes, spans)]
            ),
            citations=tuple(replace(one, number=numbers[one.number]) for one in citations),
            spans=tuple(spans),
            reader=self.name,
            found=not said,
            short=tuple(replace(one, number=numbers[one.number]) for one in short),
            confidence=confidence,
            missing=missing,
            quotes=tuple(quotes),
        )

    def _choose(self, spans: Sequence[Span], read: Sequence[ReadSentence]) -> list[tuple[Citation, ReadSentence]]:
        """The best sentence and those nearly as good, with what they need to be understood."""
        quoted: dict[tuple[int, int], tuple[Citation, ReadSentence]] = {}
        for sentence in read:
            if quoted and sentence.score < read[0].score - ANSWERS.quote_margin:
                break
            citation = _cite(sentence, spans[sentence.number - 1])
            if citation is not None and (citation.span.doc_id, citation.start) not in self._quoted:
                quoted.setdefault((citation.number, citation.start), (citation, sentence))
        made = list(quoted.values())
        return ([one for one in made if len(one[0].quote.split()) >= ANSWERS.min_quote_words] or made)[
            : ANSWERS.max_quotes
        ]


def is_foreign(question: str, spans: Sequence[Span]) -> bool:
    """Return whether neither a question nor the best passages are in English, the language of ``landmark-reranker``."""
    if asks_in_english(question) or not spans:
        return False
    passages = " ".join(span.text for span in spans[: ANSWERS.language_passages])[: ANSWERS.language_chars]
    return ENGLISH not in (detect_language(question), detect_language(passages))


def is_greeting(text: str) -> bool:
    """Return whether a text is a greeting, thanks or a goodbye instead of a question."""
    return _GREETING.fullmatch(text) is not None


class KeyMatches(NamedTuple):
    """The exact words of a question, ``codes`` first among ``words``, and those that each passage holds."""

    words: tuple[str, ...]
    codes: tuple[str, ...]
    held: list[frozenset[str]]

    @property
    def missing(self) -> tuple[str, ...]:
        """The exact words that no passage holds."""
        return tuple(word for word in self.words if not any(word in held for held in self.held))

    @property
    def best(self) -> list[int]:
        """The numbers of the passages that hold most of them, from 1."""
        most = max(map(len, self.held), default=0)
        return [number for number, held in enumerate(self.held, 1) if len(held) == most]


def match_keys(question: str, spans: Sequence[Span]) -> KeyMatches:
    """Find the exact words of a question in passages: in their texts, table headers, headings, titles and names."""
    words = find_keys(question)
    texts = ["\n".join([span.text, span.header, *span.headings, span.title, span.doc_id]) for span in spans]
    held = [frozenset(word for word in words if holds(text, word)) for text in texts]
    return KeyMatches(words, find_exact_words(question), held)


def prefer_passages(
    question: str, keys: KeyMatches, spans: Sequence[Span], read: Sequence[ReadSentence]
) -> list[ReadSentence]:
    """Return sentences in their order, those of passages first that have the most exact words of a question.

    Where a question in English asks how to do something, passages with a command or a block of code come before others
    that are about as good.
    """
    asks_how = bool(_ASKS_HOW.match(question))
    shown = {number: asks_how and bool(_COMMAND.search(span.text)) for number, span in enumerate(spans, 1)}
    return sorted(
        read, key=lambda one: (-len(keys.held[one.number - 1]), -one.score - ANSWERS.command * shown[one.number])
    )


def choose_quotes(citations: Sequence[Citation]) -> list[Quote]:
    """Return what is shown of citations: the passage of the first one if it is short, else the quotations.

    Args:
        citations: best first, one at least.
    """
    best = citations[0].span
    quotes = []
    if is_whole := len(best.text) <= ANSWERS.max_whole_passage:
        heading = best.headings[-1] if best.headings and best.headings[-1] not in best.text else ""
        quotes.append(Quote(citations[0].number, best.start, best.end, heading, best.header))
    quotes += [
        Quote(one.number, one.start, one.end)
        for one in citations
        if not is_whole or (one.span.doc_id, one.span.start) != (best.doc_id, best.start)
    ]
    return quotes


def write_quotes(quotes: Sequence[Quote], spans: Sequence[Span]) -> list[str]:
    """Return the lines of quotes, each with its number at the end.

    Lines of prose that were wrapped are joined; code and tables keep their lines.
    """
    lines: list[str] = []
    for quote in quotes:
        span = spans[quote.number - 1]
        lines += filter(None, (quote.heading, quote.header))
        lines += _reflow(span.text[quote.start - span.start : quote.end - span.start].strip(" \r\n"))
        lines[-1] += f" [{quote.number}]"
    return lines


def _reflow(text: str) -> list[str]:
    """The lines of a text, those of a paragraph joined."""
    found: list[str] = []
    fenced = False
    for line in text.splitlines():
        fence = line.lstrip().startswith(("```", "~~~"))
        block = fenced or fence or bool(_BLOCK.match(line)) or "\t" in line
        after_block = bool(found) and (bool(_BLOCK.match(found[-1])) or "\t" in found[-1])
        if found and not block and line.strip() and found[-1].strip() and not after_block and not fenced:
            found[-1] += " " + line.strip()
        else:
            found.append(line.rstrip() if block else line.strip())
        fenced = fenced != fence
    return found or [""]


def estimate_confidence(
    keys: KeyMatches, spans: Sequence[Span], read: Sequence[ReadSentence], *, foreign: bool = False
) -> float:
    """Return the probability that spans answer a question: see :func:`confidence_features`."""
    if not read:
        return 0.0
    if foreign:
        return logistic(ANSWERS.foreign_bias, ANSWERS.foreign_features, foreign_features(keys, spans))
    return logistic(ANSWERS.bias, ANSWERS.features, confidence_features(keys, spans, read))


def foreign_features(keys: KeyMatches, spans: Sequence[Span]) -> tuple[float, float, float]:
    """Return what speaks for an answer to a question that is not in English, which the re-ranker can't read.

    The best similarity of the search, the greatest share of the question's words that one of the first three passages
    has, and the share of the question's exact words that no passage has.
    """
    missing = len(keys.missing) / len(keys.words) if keys.words else 0.0
    return best_similarity(spans), best_coverage(spans), missing


def confidence_features(
    keys: KeyMatches, spans: Sequence[Span], read: Sequence[ReadSentence]
) -> tuple[float, float, float, float, float]:
    """Return what speaks for an answer.

    The best similarity of the search, the greatest share of the question's words that one of the first three passages
    has, the log-odds that the best sentence answers, the share of the question's exact words that the best passage does
    not have, counted half where another one does, and whether the best passage has all of its codes, if there are any.

    Args:
        keys: exact words of the question.
        spans: of which the best passages were read.
        read: their sentences, best first.
    """
    best = keys.held[read[0].number - 1]
    return (
        best_similarity(spans),
        best_coverage(spans),
        weigh_answers(read),
        (len(keys.missing) + len(set(keys.words) - best)) / (2 * len(keys.words)) if keys.words else 0.0,
        float(bool(keys.codes) and best.issuperset(keys.codes)),
    )


def weigh_answers(read: Sequence[ReadSentence]) -> float:
    """Return the log-odds that the sentence which answers best answers, up to what counts at most."""
    return min(ANSWERS.max_log_odds, max(sentence.answers for sentence in read))


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
        if end > start and (not _LISTS.match(piece) or sentence.end > ANSWERS.following_chars):
            break
        end = start + sentence.end
        if not _LISTS.match(piece) and not is_lead_in(piece):
            break
    return end
