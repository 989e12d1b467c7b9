"""Find headings that no markup shows: lines that the layout sets apart, before the text that they head."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from lmkrag.formats.titles import CUT, TITLE_MARK
from lmkrag.sentences.structure import count_line_ends
from lmkrag.specs import BLOCK_KINDS, Sentence

_LONGEST = 100  # characters of a heading
_MOST_WORDS = 16
_MOST_PLAIN_WORDS = 9  # of one without a number, capitals or emphasis
_DEEPEST = 3  # headings in a row: title, section, subsection; more such lines are a list, a table or a poem
_MOST_REPEATED = 2  # headings of the same text; more are names of speakers or headers of pages
_FEWEST_CAPITALS = 4
_SLIDES = ("pptx", "odp")  # kinds whose headings are all marked
_PAGES = ("pdf",)  # kinds without blank lines, whose headings are marked by their size

_LINE_END = re.compile(r"\r\n|\r|\n")
_NUMBER = re.compile(r"\(?(\d{1,3}(?:\.\d{1,3})*)(?:[.)]\s|\s(?=[^\W\d_]))")
_FIRST = re.compile(r"\(?(?:1|a|i)[.)]\s")
_ROMAN = re.compile(r"[IVXLC]{1,7}[.)]\s")
_CHAPTER = re.compile(
    r"(?i)(?:chapter|part|book|section|article|appendix|annex|schedule|exhibit|act|scene|kapitel|teil|abschnitt|artikel|anhang"
    r"|anlage|chapitre|partie|livre|titre|annexe|capítulo|parte|sección|artículo|anexo|capitolo|sezione|articolo|allegato"
    r"|seção|artigo|hoofdstuk|deel|bijlage|avsnitt|del|bilaga|bilag|rozdział|część|kapitola|część|глава|часть|раздел|статья"
    r"|приложение|розділ|стаття|bölüm|madde|fejezet|luku)\s+(?:\d{1,3}(?:\.\d{1,3})*|[IVXLC]{1,7}|[A-Z])"
    r"(?:\s*[.:–—-]?\s*$|\s*[.:–—-]\s+|\s+(?=[^\W\d_a-z]))|§{1,2}\s?\d{1,4}[a-z]?\.?\s+(?=[^\W\d_])"
    r"|第[一二三四五六七八九十百千\d]{1,5}[章节節条條編部回]"
)
_ENTRY = re.compile(r"(?:\d{1,3}|[IVXLC]{1,7})[.)]\s[^\n]*\S {3,}\d+(?:[-–]\d+)?$", re.MULTILINE)  # of contents
_CLOSING = r"[\"'”’»)\]]*$"
_ENDS_SENTENCE = re.compile(r"[.!?…。！？]" + _CLOSING)
_ENDS = re.compile(r"[.!?…。！？:;,：；，、]" + _CLOSING)
_GOES_ON = re.compile(r"[:;,：；，、=–—-]" + _CLOSING)
_EMPHASIS = re.compile(r"(\*{1,2}|_{1,2})(\w.*[\w)?!.])\1", re.DOTALL)
_PROMPT = re.compile(r"# [a-z][\w.-]* ")  # of a shell, before a command
_ASKS = re.compile(r"[?？]$")
_OPENS_QUOTE = re.compile(r"[\"'“‘«「]")
_NO_HEADING = re.compile(  # addresses, columns, code, entries of an index or of contents
    r"(?i:^copyright\b|^version \d)|©"
    r"|://|www\.|\S@\S|\S(?: {3,}+|\t)\s*+\S|[|{}<>=]|\.{3,}|, \d+(?: \(.{0,100}\))?$|^[^\[]*\]"
    r"|[^\W\d_]\s+\d+$|\s\S?\d*\.\d\d$|\\\w|^\S+\.\w{2,4}$"
    r"|^(?i:note|tip|hint|hinweis|remarque|nota)$"
)


class _Line(NamedTuple):
    """A line of a text, or a short line of several sentences."""

    sentences: tuple[Sentence, ...]
    body: str  # without white space around it, nor Markdown's emphasis
    bold: bool  # whether it is emphasized
    single: bool  # one line, and not a sentence over several
    gap: int  # line ends before it
    line_ends: int  # line ends after it

    @property
    def kind(self) -> str:
        return self.sentences[0].kind

    @property
    def alone(self) -> bool:
        return self.gap > 1 and self.line_ends > 1


def mark_headings(sentences: Iterable[tuple[Sentence, str]], kind: str = "text") -> Iterator[Sentence]:
    r"""Yield the sentences of one text, with the kind of headings set. Holds few sentences at a time.

    A heading is a line that the layout sets apart: alone between blank lines, in capitals, numbered, or called chapter,
    part, section or article. The text before it is complete, and text follows. Where headings have markup, as in
    Markdown and Word, a plain line is no heading for being alone or numbered: it is a short paragraph or an item. A
    false heading would be read with all text under it. Each sentence is given with its text and the space after it.
    """
    held: list[_Line] = []  # lines that may be headings of the text after them
    marks = 0  # headings with markup; a text may have its title underlined and no other
    repeated: Counter[str] = Counter()
    capitals = 0  # headings in capitals and of chapters, less questions: beside them the text itself asks
    complete = True  # whether the text before them is complete
    for line in _lines(sentences):
        is_ours = line.body.startswith(TITLE_MARK) if kind in _PAGES else kind != "text" or not _PROMPT.match(line.body)
        if line.kind == "heading" and not is_ours:
            line = line._replace(sentences=(replace(line.sentences[0], kind="text"),))
        marks += (1 + line.single) * (line.kind == "heading")
        marked = marks > (kind == "text")
        all_marked = kind in _SLIDES or (kind in _PAGES and marked)
        asks = capitals > _DEEPEST and _ASKS.search(line.body) and not _NUMBER.match(line.body)
        if not (all_marked or asks) and _may_head(line, marked=marked or kind in _PAGES):
            held.append(line)
            if len(held) > _DEEPEST:
                complete = False
                yield from held.pop(0).sentences
            continue
        head = complete and held and _heads(held, line)
        for above in held:
            repeated.update([above.body] if head else ())  # only headings: memory does not grow with the text
            if head and repeated[above.body] <= _MOST_REPEATED:
                capitals += 1 if above.body.isupper() or _CHAPTER.match(above.body) else -bool(_ASKS.search(above.body))
                yield replace(above.sentences[0], end=above.sentences[-1].end, kind="heading")
            else:
                yield from above.sentences
        held = []
        yield from line.sentences
        ended = line.line_ends > 1 or (line.line_ends == 1 and _ENDS_SENTENCE.search(line.body) is not None)
        complete = ended or line.kind in BLOCK_KINDS
    for line in held:
        yield from line.sentences


def _lines(sentences: Iterable[tuple[Sentence, str]]) -> Iterator[_Line]:
    """The lines of a text: all sentences of a short line that begins like a chapter, and each other sentence alone."""
    gap = _DEEPEST  # the beginning sets apart as blank lines do
    parts: list[tuple[Sentence, str]] = []
    for sentence, text in sentences:
        parts.append((sentence, text))
        line = "".join(part for _, part in parts)
        if not count_line_ends(line) and gap and len(line) <= _LONGEST and _CHAPTER.match(line.lstrip()):
            continue  # "Chapter 1. " goes on
        whole = len(parts) > 1 and _LINE_END.search(line.strip()) is None and len(line.strip()) <= _LONGEST
        for group in [parts] if whole else [[part] for part in parts]:
            body = "".join(part for _, part in group)
            stripped = body.strip()
            emphasis = _EMPHASIS.fullmatch(stripped)
            bare = emphasis[2] if emphasis else stripped
            line_ends = count_line_ends(body)
            single = _LINE_END.search(stripped) is None
            yield _Line(tuple(sentence for sentence, _ in group), bare, emphasis is not None, single, gap, line_ends)
            gap = line_ends
        parts = []
    for sentence, text in parts:
        yield _Line((sentence,), text.strip(), False, True, gap, 0)
        gap = 0


def _may_head(line: _Line, *, marked: bool) -> bool:
    """Whether a line could be a heading, judged without its neighbours; ``marked``: headings have markup."""
    kind, body = line.kind, line.body
    if kind not in ("text", "item", "turn") or not line.single or not line.line_ends or not line.gap:
        return False
    if not 0 < len(body) <= _LONGEST or len(body.split()) > _MOST_WORDS:
        return False
    letters = sum(map(str.isalpha, body))
    if not (body[0].isalnum() or body[0] == "§") or body[0].islower() or 2 * letters < len(body.replace(" ", "")):
        return False
    chapter = _CHAPTER.match(body)
    if CUT.search(body) or _GOES_ON.search(body) or _NO_HEADING.search(body, chapter.end() if chapter else 0):
        return False
    if chapter:
        return not _ENDS_SENTENCE.search(body) or (line.alone and _is_title(body[chapter.end() :]))
    asks = _ASKS.search(body) and not _OPENS_QUOTE.match(body)  # else someone speaks
    if body.isupper() and letters >= _FEWEST_CAPITALS and kind != "turn":
        ends = _ENDS_SENTENCE.search(body) is not None
        return (kind == "text" or _NUMBER.match(body) is not None) and (not ends or (line.alone and line.gap > 2))
    number = _NUMBER.match(body)
    is_section = number is not None and line.alone and body.endswith(".") and _is_title(body[number.end() :])
    if kind == "turn" or (_ENDS.search(body) and not asks and not is_section):
        return False
    if line.bold and line.alone:
        return True
    if marked:
        return number is not None and "." in number[1] and line.alone and not asks
    if number or _ROMAN.match(body):
        return not asks or line.alone
    is_short = len(body.split()) <= _MOST_PLAIN_WORDS or _is_title(body)
    return kind == "text" and line.gap > 1 and is_short and (not asks or line.alone)


def _is_title(words: str) -> bool:
    """Whether most words begin with a capital, as they do in titles that end with a full stop."""
    long = [word for word in words.split() if len(word) > 3]
    return 2 * sum(word[0].isupper() for word in long) > len(long) or not long


def _heads(lines: list[_Line], following: _Line) -> bool:
    """Whether lines that may be headings are followed by text under them."""
    numbers = [match[1].count(".") for line in (*lines, following) if (match := _NUMBER.match(line.body))]
    starts_list = bool(numbers) and numbers[0] > 0 and _FIRST.match(following.body) is not None
    if any(depth >= below for depth, below in pairwise(numbers[: -1 if starts_list else None])):
        return False  # a numbered list
    kind, body = following.kind, following.body
    last = lines[-1]
    numbered = _NUMBER.match(last.body) or _ROMAN.match(last.body) or _CHAPTER.match(last.body)
    plain = not (numbered or last.bold or last.body.isupper())
    if plain and last.line_ends < 2 and kind not in ("item", "row"):
        return False
    if last.body.isupper() and last.line_ends == 1 and body.split("\n")[0].isupper():
        return False  # a warning in capitals
    if kind == "text" and (body[:1].islower() or (plain and _OPENS_QUOTE.match(body))):
        return False
    if _ENTRY.match(body):
        return False
    is_title = following.line_ends == 1 and len(body) <= 2 * _LONGEST and body[-1:] not in ".;:,"
    if is_title and (number := _NUMBER.match(body)) and "." in number[1]:
        return False  # contents
    if _ASKS.search(last.body) and (following.bold or body[:1] in "_*"):
        return False  # someone speaks
    return kind != "heading" and (kind != "text" or len(body) > _LONGEST or bool(_ENDS.search(body)))
