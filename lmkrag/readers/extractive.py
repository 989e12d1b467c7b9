"""The reader without a language model: it shows the best passages and quotes the sentences that
answer.
"""

import re
from collections.abc import Iterator, Sequence
from math import exp, log

from lmkrag.formats.markup import UNSEEN, unescape
from lmkrag.language.dates import find_days
from lmkrag.language.keys import add_fiscal_years, find_exact_words, find_keys, holds
from lmkrag.language.languages import asks_in_english, detect_language
from lmkrag.language.quantities import find_numbers
from lmkrag.readers.base import Reader
from lmkrag.readers.parts import add_context, cover_parts, find_parts
from lmkrag.readers.short_answers import LIGHT, find_short_answer, hash_singles
from lmkrag.readers.tables import find_cell, lacks_value
from lmkrag.readers.weights import ANSWERS
from lmkrag.rendering.quoting import quote_lines
from lmkrag.reranker.loading import load_passage_reranker
from lmkrag.reranker.passages import PassageReranker, Reading
from lmkrag.results import (
    STRONG,
    Answer,
    Citation,
    Quote,
    ShortAnswer,
    Span,
    SpanList,
    best_coverage,
    best_similarity,
)
from lmkrag.sentences.split import split_sentences
from lmkrag.sentences.structure import OWN_LINE, is_lead_in, is_navigation
from lmkrag.specs import CODE, ENGLISH

NOT_FOUND = "Nothing in these documents is about this."
OTHER_LANGUAGE = (
    "Nothing was found. If the documents are in another language than the question, ask in theirs."
)
WEAK_INTRODUCTION = "Probably not in these documents. Closest:"
FAIR_INTRODUCTION = "Most likely:"
GREETED = "Hello. Ask a question about the documents."
_GREETING = re.compile(
    r"\W*(?:hi|hello|hey|hallo|hola|bonjour|ciao|thanks|thank you|thx|danke|merci|gracias|good "
    r"(?:morning|afternoon"
    r"|evening|night)|bye|goodbye|ok|okay)(?: (?:there|all|everyone|very much|so much|a "
    r"lot|again))?\W*",
    re.IGNORECASE,
)
_FEW_WORDS = 3  # too few for their language to be detected
_LATIN = re.compile(r"[A-Za-z]")
_YEAR = re.compile(r"(?:19|20)\d\d")
_WRAPPED, _LONG = (
    40,
    80,
)  # characters, at least, of a line of a paragraph or of an item that is continued in the next
_MARKS = re.compile(
    r"^#{1,6} +|^>(?: ?\[!\w+\]$| "
    r")|<!--.*?(?:-->|$)|^-->$|(?<![\w*`])\*\*(?=[^\s*])|(?<=[^\s*])\*\*(?![\w*`])"
    r"|(?<=[.,;:!?”’)])\^\d+"  # a note at the foot
)
_REMAINS = re.compile(r"\A[”’»)\]*]+(?:\^\d+)?\s+")  # of a sentence before a passage
_OUTDENT = re.compile(r"^( +\S.*\n)(?![-*+•] |\d+[.)] |\s)", re.MULTILINE)
_INDENT = re.compile(r"^ +(?![-*+•] |\d+[.)] | )", re.MULTILINE)
_UNDERLINE = re.compile(r"([=~^#*+-])\1{2,}\s*")  # of a heading
_LINK = re.compile(
    r"(?<!\w)!?\[([^\[\]]+)\](?:\(<?(?:(https?://[^\s)>\[]+)|[^\s)\[]+)>?\)|\[[^\[\]]*\])"
)
_BLOCK = re.compile(r"\s*(?:[|>#]|[-*+•]\s|\(?\w{1,3}[.)]\s|\$\s|\.\.\s)|\s{4,}\S|\t")
_SPOKEN = re.compile(r"\s*(?:\*\*|<)?[^\W\d_][\w .'-]{0,30}(?:\*\*|>)?:(?:\*\*)?\s")
_ITEM = re.compile(r"\s*(?:[-*+•|]|\(?\w{1,3}[.)])\s|\s{4,}\S")


class ExtractiveReader(Reader):
    """Shows the first passages, and cites the sentence in each that answers by the re-ranker of
    passages.
    """

    name = "extractive"

    def __init__(self, *, reranker: PassageReranker | None = None) -> None:
        """Take a re-ranker; our own by default."""
        self._reranker = reranker

    def answer(self, question: str, spans: Sequence[Span]) -> Answer:
        """Answer from ``spans``, best first; ``found`` is false if the confidence is too low."""
        if is_greeting(question):
            return self._make(spans, GREETED, [], None)
        question = add_fiscal_years(question)
        parts = find_parts(question)
        most = ANSWERS.max_passages
        needed = cover_parts(parts, spans)[:most]
        numbers = sorted(
            [*needed, *(number for number in range(len(spans)) if number not in needed)][:most]
        )
        readings: dict[int, Reading] = {}
        if spans and not is_foreign(question, spans):
            read = sorted({*range(len(spans[:most])), *numbers})
            reranker = self._reranker or load_passage_reranker()
            texts = [spans[number].text for number in read]
            readings = dict(zip(read, reranker.read_texts(question, texts), strict=True))
        confidence = estimate_confidence(
            question, spans, [readings[number] for number in sorted(readings)[:most]]
        )
        is_cut_short = isinstance(spans, SpanList) and spans.cut_short
        is_unread = is_cut_short or not readings  # in other languages than English nothing is read
        max_confidence = ANSWERS.max_cut_short if is_unread else 1.0
        # 1. A cell of a table whose row and column the question names.
        cell = None if parts else find_cell(question, spans[:most])
        if cell is not None:
            quote = Quote(cell.row.number, cell.row.start, cell.row.end, header=cell.header)
            confidence = min(max_confidence, max(confidence, ANSWERS.cell_confidence))
            return self._make(spans, cell.short.text, [cell.row], confidence, [cell.short], [quote])
        # 2. Mark the sentence of each passage that answers best.
        citations = []
        for number in numbers:
            sentences = find_sentences(spans[number], readings.get(number))
            marked = (cite_sentence(number + 1, spans[number], *sentence) for sentence in sentences)
            citations += [citation for citation in marked if citation][:1]
        first_quote = citations[0].quote if citations and readings else ""
        if (
            first_quote
            and readings[0].score > ANSWERS.min_literal
            and has_all_words(question, first_quote)
        ):
            confidence = max(confidence, STRONG)
        if readings and not parts and citations and lacks_value(question, citations[0]):
            likely = (each for each in citations if readings[each.number - 1].score > 0)
            others = [each for each in likely if not lacks_value(question, each)]
            citations, confidence = (
                others or citations,
                confidence if others else min(confidence, ANSWERS.max_unshared),
            )
        confidence = min(confidence, max_confidence)
        min_related = ANSWERS.max_unshared if readings else ANSWERS.min_confidence
        if not citations or (confidence < min_related and not best_coverage(spans)):
            is_long = len(question.split()) > _FEW_WORDS or not question.isascii()
            is_other = (
                is_long and not asks_in_english(question) and detect_language(question) != ENGLISH
            )
            return self._make(spans, OTHER_LANGUAGE if is_other else NOT_FOUND, [], confidence)
        # 3. Show the first passage, those with other parts of the question, and others that score
        # nearly as high, or where the first is not sure.
        if confidence < ANSWERS.min_confidence:
            return self._make(spans, WEAK_INTRODUCTION, citations[:1], confidence)
        missing = find_missing(question, [citations[0].span])
        if not missing:
            codes = find_exact_words(question)
            citations = [
                cited
                for cited in citations
                if all(holds(add_context(cited.span), code) for code in codes)
            ]
        is_strong = confidence >= STRONG
        if is_strong:
            least = spans[0].score - ANSWERS.strong_margin
            near = [
                citation
                for citation in citations
                if citation.span.score >= least or citation.number - 1 in needed
            ]
            citations = near or citations[:1]
        # 4. Give the words of the first that answer, if it has all names and numbers of a question
        # about one thing.
        short = None
        if readings and not parts and not missing:
            short = find_short_answer(
                question, readings[citations[0].number - 1], citations[0], confidence
            )
        first = " ".join(short.text.split()) if short else "" if is_strong else FAIR_INTRODUCTION
        return self._make(spans, first, citations, confidence, [short] if short else [])

    def _make(
        self,
        spans: Sequence[Span],
        first: str,
        citations: Sequence[Citation],
        confidence: float | None,
        short: Sequence[ShortAnswer] = (),
        quotes: Sequence[Quote] = (),
    ) -> Answer:
        """Make an answer of its first line and its quotes, which default to the whole passages of
        its citations.
        """
        quotes = quotes or [_quote_whole(citation) for citation in citations]
        return Answer(
            text="\n\n".join(filter(None, (first, "\n".join(write_quotes(quotes, spans))))),
            citations=tuple(citations),
            spans=tuple(spans),
            reader=self.name,
            found=bool(citations) and (confidence or 0.0) >= ANSWERS.min_confidence,
            short=tuple(short),
            confidence=confidence,
            quotes=tuple(quotes),
        )


def _quote_whole(citation: Citation) -> Quote:
    """The passage of a citation, with its heading and the header of its table."""
    span = citation.span
    heading = span.headings[-1] if span.headings else ""
    heading = (
        "" if heading in span.text or "|" in heading else heading
    )  # a row of a table is no heading
    return Quote(citation.number, span.start, span.end, heading, span.header.strip(" \r\n"))


def is_foreign(question: str, spans: Sequence[Span]) -> bool:
    """Return whether neither a question nor the best passages are in English, the language of the
    re-ranker.
    """
    if asks_in_english(question) or not spans:
        return False
    passages = " ".join(span.text for span in spans[: ANSWERS.language_passages])[
        : ANSWERS.language_chars
    ]
    return ENGLISH not in (detect_language(question), detect_language(passages))


def is_greeting(text: str) -> bool:
    """Return whether a text is a greeting, thanks or a goodbye instead of a question."""
    return _GREETING.fullmatch(text) is not None


def find_sentences(span: Span, reading: Reading | None) -> Iterator[tuple[int, int]]:
    """Yield (start, end) in the document of the sentence with the words that answer, then of the
    hits.
    """
    places = [
        max(0, hit.start - span.start) for hit in sorted(span.hits, key=lambda hit: -hit.score)
    ]
    if reading is not None and reading.strength > ANSWERS.min_strength:
        places.insert(0, reading.start)
    sentences = list(split_sentences(span.text))
    for place in places:
        for sentence in sentences:
            if sentence.start <= place < sentence.end:
                yield span.start + sentence.start, span.start + sentence.end


def cite_sentence(number: int, span: Span, start: int, end: int) -> Citation | None:
    """Quote a sentence of a passage, and what follows it if it ends with a colon or is a question.

    In a dialogue a question and its reply are quoted together; elsewhere a question is no part of
    its answer. Returns None for a table of contents, and for a question without text after it.
    """
    start, end = start - span.start, end - span.start
    if is_navigation(span.text[start:end]):
        return None
    if is_lead_in(span.text[start:end]):
        following = _follow(span.text, end)
        if following == end:
            return None
        asks = span.text[start:end].rstrip().endswith(("?", "？"))
        start, end = end if asks and not _SPOKEN.match(span.text[start:end]) else start, following
    elif _SPOKEN.match(span.text[start:end]):
        before = max(
            (item.start for item in split_sentences(span.text) if item.start < start), default=start
        )
        spoken = span.text[before:start]
        start = before if _SPOKEN.match(spoken) and is_lead_in(spoken) else start
    quote = span.text[start:end]
    start += len(quote) - len(quote.lstrip())
    quote = quote.strip()
    return Citation(number, span, quote, span.start + start, span.start + start + len(quote))


def _follow(text: str, start: int) -> int:
    """The end of the text that a sentence before ``start`` announces: items of a list, or one
    sentence.
    """
    end = start
    for count, sentence in enumerate(split_sentences(text[start:])):
        piece = text[start + sentence.start : start + sentence.end]
        if count and (not _ITEM.match(piece) or count == ANSWERS.max_items):
            break
        end = start + sentence.end
        if not _ITEM.match(piece) and not is_lead_in(piece):
            break
    return end


def write_quotes(quotes: Sequence[Quote], spans: Sequence[Span]) -> list[str]:
    """Return the lines of quotes without marks of Markdown, each marked as quoted, and each quote
    with its number.
    """
    written: list[str] = []
    for quote in quotes:
        span = spans[quote.number - 1]
        lines = (
            [quote.heading, ""] if quote.heading else []
        )  # what stands together there is together here
        lines += [quote.header] if quote.header else []
        text = span.text[quote.start - span.start : quote.end - span.start].strip(" \r\n")
        text = _read_marked(text, span.kind) if span.kind in ("markdown", "rst") else text
        lines += text.splitlines() if span.kind == CODE else _reflow(text, span.kind)
        is_code = text.endswith(("```", "~~~"))
        lines[-1:] = (
            [lines[-1], f"[{quote.number}]"] if is_code else [f"{lines[-1]} [{quote.number}]"]
        )
        written += [""] if written else []
        written += quote_lines("\n".join(lines))
    return written


def _read_marked(text: str, kind: str) -> str:
    """Markdown without lines that nobody is meant to see; reStructuredText as Markdown, in which
    only code is indented, with the visible text of roles.
    """
    from lmkrag.rendering.lines import hide_unseen, shape_rst, split_lines
    from lmkrag.rendering.markdown import ROLE

    if kind == "markdown":
        return "\n".join(line.shown for line in hide_unseen(split_lines(text, 0))).strip()
    parts = "\n".join(line.shown for line in shape_rst(split_lines(text, 0))).split("```")
    for number in range(0, len(parts), 2):
        prose = ROLE.sub(lambda role: (role[2] or role[3] or role[4]).lstrip("~!"), parts[number])
        parts[number] = _INDENT.sub("", _OUTDENT.sub("\\1\n", prose))
    return "```".join(parts).strip()


def _reflow(text: str, kind: str) -> list[str]:
    """The lines of a text, those of a paragraph or an item joined, without the marks of
    Markdown.
    """
    lines: list[str] = []
    is_marked = kind != "text"
    before, fenced = "", False
    code: set[int] = set()  # numbers of lines
    for line in _REMAINS.sub("", text).splitlines():
        is_fence = is_marked and line.lstrip().startswith(("```", "~~~"))
        if is_fence or (before.strip() and not fenced and _UNDERLINE.fullmatch(line)):
            before, fenced = "", fenced != is_fence
            continue
        is_block = fenced or _is_block(line)
        joins = line.strip() and not is_block and not OWN_LINE.match(line)
        if joins and _goes_on(before, line, is_first=len(lines) == 1 and before != ""):
            lines[-1] += " " + line.strip()
        else:
            code |= {len(lines)} if fenced or not is_marked else set()
            lines.append(line.rstrip() if is_block else line.strip())
        before = line
    for number in {
        *range(len(lines))
    } - code:  # without marks of headings, quotations, bold type, links and comments
        line = _MARKS.sub("", lines[number])
        lines[number] = _LINK.sub(
            lambda link: link[1] + f" ({link[2]})" * (link[2] not in (None, link[1])), line
        )
        if kind == "markdown":
            lines[number] = unescape(UNSEEN.sub("", lines[number]))
    shown = "\n".join(lines)
    return re.sub(r"\n{3,}", "\n\n", shown).strip("\n").split("\n")


def _is_block(line: str) -> bool:
    """Whether a line is an item, a row or code, so that it does not continue the line before it."""
    return _BLOCK.match(line) is not None or "\t" in line or " | " in line


def _goes_on(before: str, line: str, *, is_first: bool) -> bool:
    """Whether a line continues the paragraph or item before it, whose line must be long enough to
    be wrapped.
    """
    is_lower = line.lstrip()[:1].islower()
    if _ITEM.match(before) and "|" not in before:
        return len(before) >= (_WRAPPED if is_lower else _LONG)
    return not _is_block(before) and (len(before.strip()) >= _WRAPPED or (is_lower and is_first))


def find_missing(question: str, spans: Sequence[Span]) -> tuple[str, ...]:
    """Return the exact words of a question that no passage has, its context included."""
    texts = list(map(add_context, spans))
    return tuple(
        word for word in find_keys(question) if not any(holds(text, word) for text in texts)
    )


def has_all_words(question: str, sentence: str) -> bool:
    """Return whether a question names a day or a number, not a year alone, and a sentence has all
    its words.

    >>> has_all_words("What happened on 2025-05-12?", "The pier opened on 12 May 2025.")
    True
    """
    quantities = [
        each
        for each, _ in (*find_days(question), *find_numbers(question))
        if not _YEAR.fullmatch(each)
    ]
    rest = question
    for written in quantities:
        rest = rest.replace(written, " ")
    content = hash_singles(rest) - hash_singles(f"{LIGHT} happen")
    return (
        bool(quantities)
        and all(holds(sentence, each) for each in quantities)
        and content <= hash_singles(sentence)
    )


def estimate_confidence(question: str, spans: Sequence[Span], readings: Sequence[Reading]) -> float:
    """Return the probability that the passages shown answer a question: see
    :func:`confidence_features`.
    """
    if not spans:
        return 0.0
    similarity, *_ = features = confidence_features(question, spans, readings)
    # Passages in other languages have no readings.
    bias, weights = (
        (ANSWERS.bias, ANSWERS.features)
        if readings
        else (ANSWERS.foreign_bias, ANSWERS.foreign_features)
    )
    confidence = 1 / (
        1
        + exp(-bias - sum(weight * value for weight, value in zip(weights, features, strict=True)))
    )
    if readings and not (
        _LATIN.search(question) and hash_singles(question)
    ):  # the re-ranker can't read it
        return min(confidence, ANSWERS.max_unrelated)
    if readings and not best_coverage(spans) and max(reading.score for reading in readings) < 0:
        is_related = similarity >= ANSWERS.min_similarity
        return min(confidence, ANSWERS.max_unshared if is_related else ANSWERS.max_unrelated)
    return min(confidence, ANSWERS.max_missing) if find_missing(question, spans) else confidence


def confidence_features(
    question: str, spans: Sequence[Span], readings: Sequence[Reading]
) -> tuple[float, ...]:
    """Return the features from which the confidence is estimated, of spans and readings, best
    first.

    The best similarity of the search, the log-odds that one of the first passages answers, how many
    times the score of the first passage not shown the first has, as a logarithm, and the share of
    the question's exact words that the first does not have, counted half where another one does.
    """
    keys = find_keys(question)
    missing = len(find_missing(question, spans)) + len(find_missing(question, spans[:1]))
    low, high = ANSWERS.log_odds
    similarity = best_similarity(spans)
    best = min(high, max(low, *(reading.score for reading in readings))) if readings else 0.0
    lead, most = ANSWERS.max_lead, ANSWERS.max_passages
    if len(spans) > most and spans[most].score > 0:
        lead = min(lead, log(spans[0].score / spans[most].score))
    return similarity, best, lead, missing / (2 * len(keys)) if keys else 0.0
