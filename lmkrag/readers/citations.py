"""Check the citations of a model: that their numbers exist, and where exactly the quoted words
are.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import shorten

from lmkrag.language.terms import STRAIGHT, drop_stop_words, hash_content, split_words
from lmkrag.readers.prompt import NOT_IN_DOCUMENTS
from lmkrag.readers.quotes import write_quotes
from lmkrag.results import Answer, Citation, Quote, Span
from lmkrag.sentences.split import split_sentences

_MIN_SHARED = 0.5  # of the words of a claim, for a sentence to be cited where the model cites none

PASSAGES = "The passages that the model was given:"
_SHOWN = 3  # passages below an answer that cites none
CUT = " […]"  # the end of an answer that a token limit cut off
_YEARS = 1_000  # numbers from here on cite nothing
_MARKS = re.compile(r"(?:(?<!\s)\s+)?\[\s*(\d{1,4}(?:\s*[,;–-]\s*\d{1,4})*)\s*\]")
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]+`", re.DOTALL)
_INDEXED = re.compile(r"(?<!\w)\w+\[[^\[\]]*\]")
_WORD = re.compile(r"\w+")
_LONGEST_NAME = 100  # characters before an index
_LAST_WORD = re.compile(rf"\w{{1,{_LONGEST_NAME}}}$")
_QUOTED = re.compile(
    r"""(?<!\w)"(?=\S)((?:[^"“”„\n]|\n(?!\s*\n))+)(?<=\S)[ \t]?["”]|“([^“”"]+)[”"]|„([^„“”"]+)[“”"]"""  # noqa: E501
    r"|(?<!\w)(?P<apostrophe>')(?=\S)"
    r"|[‘‚]((?:[^‚‘’]|’(?=\w))+)[‘’](?!\w)|«([^«»]+)»|»([^«»]+)«|‹([^‹›]+)›|›([^‹›]+)‹|「([^「」]+)」"
    r"|『([^『』]+)』"
    r"|^>[ \t]?((?![ \t]*(?:[—–]|--)).+(?:\n>(?![ \t]*(?:[—–]|--|$)).+)*)$",
    re.MULTILINE,
)
# what ends words behind an apostrophe that opens a quotation, or is none
_CLOSING = re.compile(r"'(?!\w)|\n|\Z")
_MIN_QUOTED = 8  # letters of a quotation; fewer are a term or a title


@dataclass(frozen=True, slots=True)
class _Claim:
    """A piece of an answer, where it ends, and the span numbers it cites."""

    text: str
    end: int
    numbers: tuple[int, ...]
    resume: int


def check_answer(text: str, spans: Sequence[Span], reader: str) -> Answer:
    """Return the reply of a model as an answer with checked citations.

    Numbers that match no span are removed from the text. Quoted words are looked up in the span
    that they cite, or in all spans if they cite none; a claim without a quotation cites the
    sentence of its span with most of its words. An answer without any number gets the numbers of
    the spans that have most of the words of its sentences. ``warnings`` has a line for each
    citation that can't be confirmed.
    """
    text = text.strip()
    warnings: list[str] = []
    if text.endswith(CUT.strip()):
        warnings.append("the model stopped at its token limit: the answer is not whole")
    reply = re.sub(r"[\W_]+", " ", text).strip().casefold()
    if not spans or (reply.startswith(NOT_IN_DOCUMENTS.casefold()) and not _MARKS.search(text)):
        return Answer(text, (), tuple(spans), reader, found=False, warnings=tuple(warnings))
    citations: list[Citation] = []
    pieces: list[str] = []
    position = 0
    for claim in _claims(text, spans):
        known = [number for number in claim.numbers if 1 <= number <= len(spans)]
        for number in claim.numbers:
            if number not in known:
                warnings.append(f"citation [{number}] matches no retrieved span; removed")
        for number in known:
            citations += _cite(claim.text, number, spans[number - 1], warnings)
        if not known:
            _check_uncited(claim.text, spans, warnings)
        mark = "".join(f"[{number}]" for number in known)
        pieces += [text[position : claim.end], f" {mark}" if mark and claim.end else mark]
        position = claim.resume
    pieces.append(text[position:])
    _check_uncited(text[position:], spans, warnings)
    body = "".join(pieces).strip()
    if not citations:
        whole = body.removesuffix(CUT.strip()).rstrip()
        cut = body[len(whole) :]
        body, citations = cite_by_words(whole, spans)
        body += cut
        warnings.append(
            "the answer has no citations; those shown are of the sentences that share its words"
            if citations
            else "the answer cites no passage, and none has its words"
        )
    if not citations:
        body = "\n\n".join([body, PASSAGES, *_quote_first(spans)])
    distinct = {(each.number, each.start, each.end): each for each in citations}
    return Answer(
        body,
        tuple(distinct.values()),
        tuple(spans),
        reader,
        found=bool(text),
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _quote_first(spans: Sequence[Span]) -> Iterator[str]:
    """The first passages, quoted."""
    for number, span in enumerate(spans[:_SHOWN], 1):
        yield "\n".join(write_quotes([Quote(number, span.start, span.end)], spans))


def cite_by_words(text: str, spans: Sequence[Span]) -> tuple[str, list[Citation]]:
    """Return a text with a citation behind each sentence whose words a sentence of a span has, and
    the citations.
    """
    sentences = [
        (words, number, sentence)
        for number, span in enumerate(spans, 1)
        for sentence in split_sentences(span.text)
        if (words := set(drop_stop_words(split_words(span.text[sentence.start : sentence.end]))))
    ]
    pieces: list[str] = []
    citations: list[Citation] = []
    position = 0
    for claim in split_sentences(text):
        words = set(drop_stop_words(split_words(text[claim.start : claim.end])))
        best = max(sentences, key=lambda sentence: len(sentence[0] & words), default=None)
        if not best or len(best[0] & words) < max(2, _MIN_SHARED * len(words)):
            continue
        _, number, sentence = best
        span = spans[number - 1]
        start, end = span.start + sentence.start, span.start + sentence.end
        citations.append(
            Citation(number, span, span.text[sentence.start : sentence.end], start, end)
        )
        pieces += [text[position : claim.end].rstrip(), f" [{number}]"]
        position = claim.start + len(text[claim.start : claim.end].rstrip())
    return "".join([*pieces, text[position:]]), citations


def _claims(text: str, spans: Sequence[Span]) -> list[_Claim]:
    """Each run of citation marks, with the text since the run before it."""
    claims: list[_Claim] = []
    start = 0
    for match in _citation_marks(text, spans):
        numbers = _numbers(match[1])
        if claims and claims[-1].resume == match.start():
            last = claims.pop()
            claims.append(_Claim(last.text, last.end, (*last.numbers, *numbers), match.end()))
        else:
            claims.append(_Claim(text[start : match.start()], match.start(), numbers, match.end()))
        start = match.end()
    return claims


def _citation_marks(text: str, spans: Sequence[Span]) -> list[re.Match[str]]:
    """Numbers in brackets that cite a span: ``[1984]`` is a year, and ``rows[10]`` or a number in
    code an index.

    A number right behind a word is an index where other numbers of the answer stand apart, where a
    span has it, too, or where no number of the answer cites a span.
    """
    code = [match.span() for match in _CODE.finditer(text)]
    marks = [
        match for match in _MARKS.finditer(text) if not any(a <= match.start() < b for a, b in code)
    ]
    known = {
        match for match in marks if any(1 <= number <= len(spans) for number in _numbers(match[1]))
    }
    behind_word = {match for match in marks if re.match(r"\w\[", text[max(0, match.start() - 1) :])}
    apart = bool(known - behind_word)
    in_spans = (
        {word for span in spans for word in _INDEXED.findall(span.text)} if behind_word else set()
    )
    citations = []
    for match in marks:
        if match in behind_word:
            before = _LAST_WORD.search(text, max(0, match.start() - _LONGEST_NAME), match.start())
            indexed = before is not None and before[0] + match[0] in in_spans
            is_citation = bool(known) and not apart and not indexed
        else:
            is_citation = match in known or not any(match[0].strip() in span.text for span in spans)
        if is_citation and (match in known or max(_numbers(match[1])) < _YEARS):
            citations.append(match)
    return citations


def _numbers(inside: str) -> tuple[int, ...]:
    """The numbers of ``2``, ``1, 3`` or ``2-4``."""
    numbers: list[int] = []
    for part in re.split("[,;]", inside):
        low, *high = map(int, re.split("[–-]", part))
        numbers += range(low, high[-1] + 1) if high and low < high[-1] <= low + 20 else [low, *high]
    return tuple(dict.fromkeys(numbers))


def _cite(claim: str, number: int, span: Span, warnings: list[str]) -> list[Citation]:
    quotes = find_quotations(claim)
    places = [bounds for quote in quotes if (bounds := locate_quote(quote, span.text))]
    if len(places) < len(quotes):
        warnings.append(f"quotes words that do not stand in [{number}]")
    if not places:
        nearest, shares_words = _nearest_sentence(claim, span)
        places = [nearest]
        if not shares_words:
            warnings.append(f"citation [{number}] shares no word with what it is cited for")
    return [cite_trimmed(number, span, *place) for place in places]


def cite_trimmed(number: int, span: Span, start: int, end: int) -> Citation:
    """Return a citation of characters ``[start, end)`` of a span's text, without white space at
    their ends.
    """
    quote = span.text[start:end]
    begin = span.start + start + len(quote) - len(quote.lstrip())
    quote = quote.strip()
    return Citation(number, span, quote, begin, begin + len(quote))


def _check_uncited(text: str, spans: Sequence[Span], warnings: list[str]) -> None:
    """Warn of quotations that stand in no span, in a text that cites none."""
    for quote in find_quotations(text):
        if not any(locate_quote(quote, span.text) for span in spans):
            warnings.append(
                f"quotes words that stand in no passage: {shorten(quote, 60, placeholder=' …')}"
            )


def find_quotations(text: str) -> list[str]:
    """Return block quotes and the words in quotation marks of any language, where they are more
    than a term.

    Code has none.

    >>> find_quotations("The „keeper“ says ‚the lamp is lit at dusk‘ and 「灯は夕暮れに」.")
    ['the lamp is lit at dusk', '灯は夕暮れに']
    """
    return [words for words, _, _ in place_quotations(text)]


def place_quotations(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield what :func:`find_quotations` returns, and where each begins and ends with its marks."""
    for words, start, end in _find_marked(_CODE.sub(lambda code: " " * len(code[0]), text)):
        words = words.replace("\n>", "\n").strip()
        if sum(1 + (c >= "\u2e80") for c in words) >= _MIN_QUOTED:
            yield words, start, end


def _find_marked(text: str) -> Iterator[tuple[str, int, int]]:
    """The words in each pair of quotation marks, and where the pair begins and ends.

    An apostrophe may close words that were opened far before, so the next one that closes is looked
    for once only.
    """
    position = 0
    closing: re.Match[str] | None = None
    while match := _QUOTED.search(text, position):
        position = match.end()
        if match["apostrophe"] is None:
            yield next(filter(None, match.groups())), *match.span()
            continue
        if closing is None or closing.start() < match.end():
            closing = _CLOSING.search(text, match.end())
        assert closing is not None  # the end of the text
        end = closing.start()
        if closing[0] == "'" and end > match.end() and not text[end - 1].isspace():
            position = closing.end()
            yield text[match.end() : end], match.start(), position


def locate_quote(quote: str, text: str) -> tuple[int, int] | None:
    r"""Return where ``quote`` stands in ``text``: letter case, line breaks and forms of quotation
    marks do not count.

    >>> locate_quote("the lamp's wick", "Trim the lamp’s\nwick.")
    (5, 20)
    """
    words = quote.translate(STRAIGHT).strip(" .,;:…").split()
    if not words:
        return None
    match = re.search(r"\s+".join(map(re.escape, words)), text.translate(STRAIGHT), re.IGNORECASE)
    return match.span() if match else None


def _nearest_sentence(claim: str, span: Span) -> tuple[tuple[int, int], bool]:
    """The sentence with most words of the claim, else the best hit's, and whether it shares a
    content word.
    """
    claim_words = {word.casefold() for word in _WORD.findall(claim)}
    content = hash_content(claim)
    best, bounds = (False, 0.0), None
    for sentence in split_sentences(span.text):
        text = span.text[sentence.start : sentence.end]
        words = {word.casefold() for word in _WORD.findall(text)}
        # a word or two alone are no evidence
        shared = len(words & claim_words) / (len(words) + 4) if words else 0.0
        fit = not content.isdisjoint(hash_content(text)), shared
        if fit > best:
            best, bounds = fit, (sentence.start, sentence.end)
    if bounds is None and span.hits:
        hit = span.hits[0]
        bounds = max(hit.start, span.start) - span.start, min(hit.end, span.end) - span.start
    place = bounds if bounds and bounds[0] < bounds[1] else (0, len(span.text))
    return place, best[0] or not content
