"""Split text into sentences that tile it: joined in order, they are the text, to the last character.

Block structure first (headings, list items, table rows, code, speaker turns, blank lines), which no sentence
splitter understands; then sentences inside running prose, by NLTK's Punkt and the full stops of Chinese and Japanese.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from typing import Literal

from lmkrag.types import Sentence, SentenceKind

Splitter = Literal["punkt", "punkt_tab"]

MAX_CHARS = 1_000
"""A longer sentence is cut at the best white space: no encoder window would hold it."""

_PROSE_BLOCK = 50_000  # NLTK runs each regular expression under a time limit, so feed it piece by piece
_CODE_GROUP = 400  # characters of code that share one landmark
_HARD_WRAP = 120  # lines longer than this are whole paragraphs, not wrapped ones

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_FENCE = re.compile(r"\s{0,3}(```+|~~~+)")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s+\S")
_UNDERLINE = re.compile(r"\s{0,3}(={3,}|-{3,}|~{3,}|\^{3,}|\*{3,}|\"{3,}|\+{3,})\s*$")
_ITEM = re.compile(
    r"\s*([-*+•‣◦▪–·]|\(?\d{1,3}(\.\d{1,3})*[.)]|\d{1,3}(\.\d{1,3})+|\([a-z]{1,4}\)|[a-z]\))\s+\S", re.IGNORECASE
)
_ROW = re.compile(r"\s*\|.*\||[^\t\n]+\t[^\t\n]*\t|\s*\+[-=+]{3,}\+\s*$")
_TURN = re.compile(r"\s*[A-Z][\w.'’ -]{0,40}:\s+\S")
_ENDS_SENTENCE = re.compile(r"[.!?…:;。！？][\"'”’)\]]*\s*$")
_STARTS_SENTENCE = re.compile(r"\s*[\"'“‘(\[]?[A-Z0-9]")
_NOTHING_TO_SAY = re.compile(r"\W*((\d{1,3}|[A-Za-z]|[ivxlcIVXLC]{1,4})\W*)?$")
# Not ends: "no." before a figure is an abbreviation, a quotation goes on after its own question mark.
_NOT_ENDS = re.compile(r"\b[Nn]os?\.\s+(?=\d)|[.!?][\"'”’]+\s+(?=[a-z])")
_BREAKS = tuple(re.compile(pattern) for pattern in (r"\n+", r"[.;!?。！？]\s+|[。！？]", r"[,:)\]}|]\s+", r"\s+"))

_CJK_STOP = re.compile(r"[。！？｡]+[」』”’）】]*\s*")

Block = tuple[int, int, SentenceKind]


def split_sentences(
    text: str, *, kind: str = "text", splitter: Splitter = "punkt", language: str = "english"
) -> list[Sentence]:
    r"""Split ``text`` into sentences that tile it.

    Args:
        text: any text; may be empty.
        kind: ``"code"`` groups lines instead of looking for sentences.
        splitter: ``"punkt"`` with the abbreviations that ship here, or ``"punkt_tab"`` for NLTK's downloaded data.
        language: the language of ``punkt_tab`` by its English name; ``"punkt"`` does not need it.

    Returns:
        Sentences in order; the first starts at 0, each starts where the one before it ends, the last ends at
        ``len(text)``. Empty for an empty text. White space belongs to the sentence before it.

    >>> text = "# Leave\nDr. Hale approves it. Ask early!"
    >>> [text[s.start : s.end] for s in split_sentences(text)]
    ['# Leave\n', 'Dr. Hale approves it. ', 'Ask early!']
    """
    return list(iter_sentences(text, kind=kind, splitter=splitter, language=language))


def iter_sentences(
    text: str, *, kind: str = "text", splitter: Splitter = "punkt", language: str = "english"
) -> Iterator[Sentence]:
    """Like :func:`split_sentences`, one at a time: what is held in memory does not grow with the text."""
    find_ends = _sentence_ends(splitter, language)
    blocks = _code_blocks(text, 0, len(text)) if kind == "code" else _blocks(text)
    pending: Sentence | None = None
    pending_blank = False
    for sentence in _cut_long(text, _split_blocks(text, blocks, find_ends)):
        blank = text[sentence.start : sentence.end].isspace()
        if pending is None:
            pending, pending_blank = sentence, blank
        elif blank or pending_blank:
            kind = sentence.kind if pending_blank else pending.kind
            pending, pending_blank = Sentence(pending.start, sentence.end, kind), blank and pending_blank
        else:
            yield pending
            pending, pending_blank = sentence, blank
    if pending is not None:
        yield pending


def _split_blocks(text: str, blocks: Iterator[Block], find_ends: Callable[[str], list[int]]) -> Iterator[Sentence]:
    for start, end, kind in blocks:
        if kind in ("heading", "row", "code"):
            yield Sentence(start, end, kind)
            continue
        for piece_start, piece_end in _pieces(text, start, end):
            previous = piece_start
            for stop in (*find_ends(text[piece_start:piece_end]), piece_end - piece_start):
                stop += piece_start
                # "1." or "—" alone says nothing: it stays with what follows it
                if stop <= previous or (stop < piece_end and _NOTHING_TO_SAY.match(text, previous, stop)):
                    continue
                yield Sentence(previous, stop, kind)
                previous = stop


def _pieces(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Cut one very long block at white space, so that splitters see a bounded string."""
    while end - start > _PROSE_BLOCK:
        cut = _best_break(text, start, start + _PROSE_BLOCK)
        yield start, cut
        start = cut
    yield start, end


def _cut_long(text: str, sentences: Iterator[Sentence]) -> Iterator[Sentence]:
    for sentence in sentences:
        start = sentence.start
        while sentence.end - start > MAX_CHARS:
            cut = _best_break(text, start, start + MAX_CHARS)
            yield Sentence(start, cut, sentence.kind)
            start = cut
        yield Sentence(start, sentence.end, sentence.kind)


def _best_break(text: str, start: int, limit: int) -> int:
    """The end of the last good break in the second half of ``text[start:limit]``, else ``limit``."""
    for pattern in _BREAKS:
        cut = 0
        for match in pattern.finditer(text, start + (limit - start) // 2, limit):
            cut = match.end()
        if cut:
            return cut
    return limit


def _blocks(text: str) -> Iterator[Block]:
    """Group lines into blocks of one kind; a blank line closes a block and belongs to it."""
    start = 0  # of the open block
    kind: SentenceKind | None = None
    lines: list[str] = []
    blank = True  # was the line before blank?
    fence = ""
    position = 0
    for match in _LINE.finditer(text):
        line, position = match.group(), match.start()
        if fence:
            if line.lstrip().startswith(fence):
                yield from _code_blocks(text, start, match.end())
                start, kind, lines, fence, blank = match.end(), None, [], "", True
            continue
        opening = _FENCE.match(line)
        if opening:
            yield from _close(text, start, position, kind, lines)
            start, kind, lines, fence = position, "code", [], opening.group(1)[:3]
            continue
        if line.isspace():
            lines.append(line)
            blank = True
            continue
        if _UNDERLINE.match(line) and lines and not blank:
            *before, heading = lines
            heading_start = position - len(heading)
            yield from _close(text, start, heading_start, kind, before)
            yield heading_start, match.end(), "heading"
            start, kind, lines, blank = match.end(), None, [], True
            continue
        found = _line_kind(line, blank, lines)
        if found != "text" or blank:
            yield from _close(text, start, position, kind, lines)
            start, kind, lines = position, found, []
        lines.append(line)
        blank = False
        if found in ("heading", "row"):
            blank = True  # one line is the whole block
    if fence:
        yield from _code_blocks(text, start, len(text))
    else:
        yield from _close(text, start, len(text), kind, lines)


def _line_kind(line: str, blank: bool, lines: list[str]) -> SentenceKind:
    if _HEADING.match(line):
        return "heading"
    if _ROW.match(line):
        return "row"
    if _ITEM.match(line):
        return "item"
    if _TURN.match(line) and (blank or not lines or _ENDS_SENTENCE.search(lines[-1])):
        return "turn"
    return "text"


def _close(text: str, start: int, end: int, kind: SentenceKind | None, lines: list[str]) -> Iterator[Block]:
    """Yield the open block, cut where a line break ends a paragraph although no blank line follows."""
    if end <= start:
        return
    kind = kind or "text"
    if kind in ("heading", "row") or len(lines) < 2:
        yield start, end, kind
        return
    longest = max(len(line.rstrip()) for line in lines)
    position = start
    for line, following in pairwise(lines):
        position += len(line)
        short = longest > _HARD_WRAP or len(line.rstrip()) < 0.6 * longest
        if short and not following.isspace() and _STARTS_SENTENCE.match(following):
            yield start, position, kind
            start = position
    yield start, end, kind


def _code_blocks(text: str, start: int, end: int) -> Iterator[Block]:
    """Group lines of code: up to ``_CODE_GROUP`` characters, closed early by a blank line."""
    position = start
    for match in _LINE.finditer(text, start, end):
        line = match.group()
        full = match.end() - start > _CODE_GROUP and match.start() > start
        if full:
            yield start, match.start(), "code"
            start = match.start()
        position = match.end()
        if line.isspace() and not text[start:position].isspace() and position - start > _CODE_GROUP // 4:
            yield start, position, "code"
            start = position
    if start < end:
        yield start, end, "code"


@cache
def _sentence_ends(splitter: Splitter, language: str) -> Callable[[str], list[int]]:
    from lmkrag.corpus.punkt import load_punkt

    tokenizer = load_punkt(splitter, language)

    def find_ends(text: str) -> list[int]:
        starts = {start for start, _ in tokenizer.span_tokenize(text)}
        starts -= {match.end() for match in _NOT_ENDS.finditer(text)}
        starts.update(match.end() for match in _CJK_STOP.finditer(text))
        return sorted(starts - {0})

    return find_ends
