"""Find headings that no markup shows: lines that the layout sets apart, before the text that they
head.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from lmkrag.formats.titles import CUT, ROMAN, TITLE_MARK
from lmkrag.language.messages import read_author
from lmkrag.sentences.structure import LINE_END, count_line_ends
from lmkrag.specs import BLOCK_KINDS, Sentence

_LONGEST = 100  # characters of a heading
_MOST_WORDS = 16
_MOST_PLAIN_WORDS = 9  # of one without a number, capitals or emphasis
# headings in a row: title, section, subsection; more such lines are a list, a table or a poem
_DEEPEST = 3
_MOST_REPEATED = 2  # headings of the same text; more are names of speakers or headers of pages
_FEWEST_CAPITALS = 4
_SLIDES = ("pptx", "odp")  # kinds whose headings are all marked
_PAGES = ("pdf",)  # kinds without blank lines, whose headings are marked by their size

_NUMBER = re.compile(r"\(?(\d{1,3}(?:\.\d{1,3})*)(?:[.)]\s|\s(?=[^\W\d_]))")
_FIRST = re.compile(r"\(?(?:1|a|i)[.)]\s")
_ROMAN = re.compile(rf"{ROMAN}[.)]\s")
_CHAPTER = re.compile(
    r"(?i)(?:chapter|part|book|section|article|appendix|annex|schedule|exhibit|act|scene|kapitel"
    r"|teil|abschnitt|artikel|anhang"
    r"|anlage|chapitre|partie|livre|titre|annexe|capítulo|parte|sección|artículo|anexo|capitolo"
    r"|sezione|articolo|allegato"
    r"|seção|artigo|hoofdstuk|deel|bijlage|avsnitt|del|bilaga|bilag|rozdział|część|kapitola|część"
    r"|глава|часть|раздел|статья"
    r"|приложение|розділ|стаття|bölüm|madde|fejezet|luku)\s+(?:\d{1,3}(?:\.\d{1,3})*|"
    + ROMAN
    + r"|[A-Z])"
    r"(?:\s*[.:–—-]?\s*$|\s*[.:–—-]\s+|\s+(?=[^\W\d_a-z]))|§{1,2}\s?\d{1,4}[a-z]?\.?\s+(?=[^\W\d_])"
    r"|第[一二三四五六七八九十百千\d]{1,5}[章节節条條編部回]"
)
# of contents
_ENTRY = re.compile(rf"(?:\d{{1,3}}|{ROMAN})[.)]\s[^\n]*\S {{3,}}\d+(?:[-–]\d+)?$", re.MULTILINE)
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
    """A line of a text, or several sentences on a short line.

    Attributes:
        sentences: the sentences of the line.
        body: the line without white space around it and without Markdown's emphasis.
        bold: whether it is emphasized.
        single: whether it is one line, and not a sentence over several.
        gap: number of line ends before it.
        line_ends: number of line ends after it.
    """

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


def mark_headings(
    sentences: Iterable[tuple[Sentence, str]], kind: str = "text"
) -> Iterator[Sentence]:
    """Yield the sentences of one text, those that are headings with the kind ``heading``.

    A heading is a line that the layout sets apart: alone between blank lines, in capitals,
    numbered, or called chapter, part, section or article. The text before it is complete, and text
    follows. If the headings of a text have markup, as in Markdown and Word, a plain line that is
    alone or numbered is no heading but a short paragraph or an item. A false heading would be read
    with all text under it.

    Args:
        sentences: the sentences of the text, in order, each with its text and the space after it;
            few are held at a time.
        kind: the kind of the document.
    """
    held: list[_Line] = []  # lines that may be headings of the text after them
    headings = _Headings()
    marks = 0
    complete = True  # whether the text before them is complete
    for line in _lines(sentences):
        if line.kind == "heading" and not _is_marked(line, kind):
            line = line._replace(sentences=(replace(line.sentences[0], kind="text"),))
        if line.kind == "heading":
            marks += 2 if line.single else 1
        # a text may have its title underlined and no other
        has_marks = marks > 1 if kind == "text" else marks > 0
        are_all_marked = kind in _SLIDES or (kind in _PAGES and has_marks)
        may_head = not are_all_marked and not headings.is_question(line)
        if may_head and _may_head(line, marked=has_marks or kind in _PAGES):
            held.append(line)
            if len(held) > _DEEPEST:
                complete = False
                yield from held.pop(0).sentences
            continue
        # The line is text: it decides whether the lines held above it are headings.
        is_heading = complete and held and _heads(held, line)
        for above in held:
            yield from headings.mark(above) if is_heading else above.sentences
        held = []
        yield from line.sentences
        complete = _ends_text(line)
    for line in held:
        yield from line.sentences


def _ends_text(line: _Line) -> bool:
    """Return whether a line is complete, so that a heading may follow."""
    if line.line_ends > 1 or line.kind in BLOCK_KINDS:
        return True
    return line.line_ends == 1 and not _has_no_end(line)


def _is_marked(line: _Line, kind: str) -> bool:
    """Return whether a line with the kind ``heading`` is a heading.

    In pages the reader of the format has marked it; in plain text ``# pip install`` is a command.
    """
    if kind in _PAGES:
        return line.body.startswith(TITLE_MARK)
    return kind != "text" or not _PROMPT.match(line.body)


class _Headings:
    """The headings of a text so far.

    State: how often each came, which only grows by headings, and how many are in capitals.
    """

    def __init__(self) -> None:
        self._repeated: Counter[str] = Counter()
        self._capitals = 0  # those in capitals and of chapters, less those that ask

    def mark(self, line: _Line) -> Sequence[Sentence]:
        """Return a line as a heading, unless it comes too often to be one."""
        self._repeated[line.body] += 1
        if self._repeated[line.body] > _MOST_REPEATED:
            return line.sentences
        if line.body.isupper() or _CHAPTER.match(line.body):
            self._capitals += 1
        elif _ASKS.search(line.body):
            self._capitals -= 1
        return [replace(line.sentences[0], end=line.sentences[-1].end, kind="heading")]

    def is_question(self, line: _Line) -> bool:
        """Return whether a line is a question of the text itself, whose headings are others."""
        asks = _ASKS.search(line.body) and not _NUMBER.match(line.body)
        return bool(self._capitals > _DEEPEST and asks)


def _lines(sentences: Iterable[tuple[Sentence, str]]) -> Iterator[_Line]:
    """Yield the lines of a text: a short line that begins like a chapter with all of its sentences,
    else each sentence alone.
    """
    gap = _DEEPEST  # the beginning sets apart as blank lines do
    parts: list[tuple[Sentence, str]] = []
    for sentence, text in sentences:
        parts.append((sentence, text))
        line = "".join(part for _, part in parts)
        if (
            not count_line_ends(line)
            and gap
            and len(line) <= _LONGEST
            and _CHAPTER.match(line.lstrip())
        ):
            continue  # "Chapter 1. " goes on
        whole = LINE_END.search(line.strip()) is None and len(line.strip()) <= _LONGEST
        for group in [parts] if whole else [[part] for part in parts]:
            body = "".join(part for _, part in group)
            stripped = body.strip()
            emphasis = _EMPHASIS.fullmatch(stripped)
            bare = emphasis[2] if emphasis else stripped
            single, line_ends = LINE_END.search(stripped) is None, count_line_ends(body)
            yield _Line(
                tuple(sentence for sentence, _ in group),
                bare,
                emphasis is not None,
                single,
                gap,
                line_ends,
            )
            gap = line_ends
        parts = []
    for sentence, text in parts:
        yield _Line((sentence,), text.strip(), False, True, gap, 0)
        gap = 0


def _may_head(line: _Line, *, marked: bool) -> bool:
    """Return whether a line could be a heading, judged without its neighbours.

    Args:
        line: the line.
        marked: whether the headings of the text have markup.
    """
    body = line.body
    if not _is_line_of_text(line) or not _reads_like_heading(body):
        return False
    if chapter := _CHAPTER.match(body):
        return _has_no_end(line) or (line.alone and _is_title(body[chapter.end() :]))
    if body.isupper() and sum(map(str.isalpha, body)) >= _FEWEST_CAPITALS:
        return _may_be_in_capitals(line)
    if line.kind == "turn" or _is_sentence(line):
        return False
    if line.bold and line.alone:
        return True
    if _ASKS.search(body) and (marked or not line.alone):
        return False
    number = _NUMBER.match(body)
    if marked:
        return line.alone and number is not None and "." in number[1]
    return number is not None or _ROMAN.match(body) is not None or _is_short(line)


def _may_be_in_capitals(line: _Line) -> bool:
    """Return whether a line in capitals may be a heading: not an item without a number, and a
    sentence only if it stands far apart.
    """
    is_heading = line.kind == "text" or _NUMBER.match(line.body) is not None
    return is_heading and (_has_no_end(line) or (line.alone and line.gap > 2))


def _has_no_end(line: _Line) -> bool:
    return _ENDS_SENTENCE.search(line.body) is None


def _is_sentence(line: _Line) -> bool:
    """Return whether a line ends like a sentence, or as one that goes on; a question or a title
    does not count.
    """
    number = _NUMBER.match(line.body)
    is_section = number is not None and line.alone and _is_title(line.body[number.end() :])
    return _ENDS.search(line.body) is not None and not _ASKS.search(line.body) and not is_section


def _is_short(line: _Line) -> bool:
    """Return whether a line is short, or a title, and apart from the text above it."""
    is_short = len(line.body.split()) <= _MOST_PLAIN_WORDS or _is_title(line.body)
    return line.kind == "text" and line.gap > 1 and is_short


def _is_line_of_text(line: _Line) -> bool:
    """Return whether a line is text or an item, on a line of its own."""
    has_own_line = line.single and line.line_ends > 0 and line.gap > 0
    return has_own_line and line.kind in ("text", "item", "turn")


def _reads_like_heading(body: str) -> bool:
    """Return whether a line is short, begins like a heading, is mostly letters, and is complete."""
    if not 0 < len(body) <= _LONGEST or len(body.split()) > _MOST_WORDS:
        return False
    if not (body[0].isalnum() or body[0] == "§") or body[0].islower():
        return False
    if 2 * sum(map(str.isalpha, body)) < len(body.replace(" ", "")):
        return False
    chapter = _CHAPTER.match(body)
    others = _NO_HEADING.search(body, chapter.end() if chapter else 0)
    return not (CUT.search(body) or _GOES_ON.search(body) or others)


def _is_title(words: str) -> bool:
    """Return whether most words begin with a capital, as they do in titles that end with a full
    stop.
    """
    long = [word for word in words.split() if len(word) > 3]
    return 2 * sum(word[0].isupper() for word in long) > len(long) or not long


def _heads(lines: Sequence[_Line], following: _Line) -> bool:
    """Return whether lines that may be headings have text under them.

    Args:
        lines: consecutive lines, the first being the outermost heading.
        following: the line after them.
    """
    if _is_list([*lines, following]) or _is_entry(following) or not _is_text(following):
        return False
    last, body = lines[-1], following.body
    if _is_plain(last):
        if last.line_ends < 2 and following.kind not in ("item", "row"):
            return False  # the first line of a paragraph
        is_said = _OPENS_QUOTE.match(body) or "\n>" in body or read_author(body)
        if following.kind == "text" and is_said:
            return False  # "She asked", before what she says; a signature, before a quoted mail
    if last.body.isupper() and last.line_ends == 1 and body.split("\n")[0].isupper():
        return False  # a warning in capitals
    # else someone speaks
    return not (_ASKS.search(last.body) and (following.bold or body[:1] in "_*"))


def _is_list(lines: Sequence[_Line]) -> bool:
    """Return whether the numbers of lines go on in a list: 2 and 3, not 2 and 2.1.

    An item 1 below 2.1 begins a list.
    """
    numbers = [match[1].count(".") for line in lines if (match := _NUMBER.match(line.body))]
    if numbers and numbers[0] > 0 and _FIRST.match(lines[-1].body):
        numbers.pop()
    return any(depth >= below for depth, below in pairwise(numbers))


def _is_plain(line: _Line) -> bool:
    """Return whether a line has neither a number nor capitals."""
    is_numbered = _NUMBER.match(line.body) or _ROMAN.match(line.body) or _CHAPTER.match(line.body)
    return not (is_numbered or line.body.isupper())


def _is_entry(line: _Line) -> bool:
    """Return whether a line is an entry of a table of contents: ``3. Tides    12``, or ``3.2
    Tides`` alone on its line.
    """
    is_title = (
        line.line_ends == 1 and len(line.body) <= 2 * _LONGEST and line.body[-1:] not in ".;:,"
    )
    number = _NUMBER.match(line.body)
    has_levels = number is not None and "." in number[1]
    return _ENTRY.match(line.body) is not None or (is_title and has_levels)


def _is_text(line: _Line) -> bool:
    """Return whether a line is what headings stand above: a whole sentence, a long text, or a
    block.
    """
    if line.kind != "text":
        return line.kind != "heading"
    return not line.body[:1].islower() and (
        len(line.body) > _LONGEST or _ENDS.search(line.body) is not None
    )
