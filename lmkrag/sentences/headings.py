"""Find headings that no markup shows: short lines alone, before the text that they head."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from lmkrag.specs import BLOCK_KINDS, Sentence

_LONGEST = 100  # characters of a heading
_MOST_WORDS = 16
_DEEPEST = 3  # headings in a row: title, section, subsection; more such lines are a list, a table or a poem

_LINE_END = re.compile(r"\r\n|\r|\n")
_NUMBER = re.compile(r"\(?(\d{1,3}(?:\.\d{1,3})*)[.)]?\s")
_CLOSING = r"[\"'”’»)\]]*$"
_ENDS_SENTENCE = re.compile(r"[.!?…。！？]" + _CLOSING)
_ENDS = re.compile(r"[.!?…。！？:;,：；，、]" + _CLOSING)
_OPENS_QUOTE = re.compile(r"[\"'“‘«「]")


class _Candidate(NamedTuple):
    """A sentence: ``body`` is its text without white space around it, nor Markdown's emphasis.

    ``single`` if it is on one line; ``line_ends`` are those after it.
    """

    sentence: Sentence
    body: str
    single: bool
    line_ends: int


def mark_headings(sentences: Iterable[tuple[Sentence, str]]) -> Iterator[Sentence]:
    r"""Yield the sentences of one text, those that are headings marked so. No more than four are held.

    A heading is a line that says no sentence, or asks a question; what comes before it is complete, and what follows is
    text. Conservative: a line too many in a list would be found only with the text after it.

    Args:
        sentences: in order, each with its text and the white space after it.

    >>> texts = ["HONEY\n", "Bees make it.\n", "Does it keep?\n\n", "For years."]
    >>> [s.kind for s in mark_headings((Sentence(0, 0), text) for text in texts)]
    ['heading', 'text', 'heading', 'text']
    """
    lines: list[_Candidate] = []  # that may be headings of what comes next
    complete = True  # is what comes before them?
    for line in (_read(sentence, text) for sentence, text in sentences):
        if _may_head(line):
            lines.append(line)
            if len(lines) > _DEEPEST:
                complete = False
                yield lines.pop(0).sentence
            continue
        head = complete and lines and _heads(lines, line)
        yield from (replace(above.sentence, kind="heading") if head else above.sentence for above in lines)
        lines = []
        yield line.sentence
        # nothing of a sentence can be on the next line
        complete = line.sentence.kind in BLOCK_KINDS or line.line_ends > 1
        complete = complete or (line.line_ends == 1 and _ENDS_SENTENCE.search(line.body) is not None)
    yield from (line.sentence for line in lines)


def _read(sentence: Sentence, text: str) -> _Candidate:
    stripped = text.strip()
    line_ends = len(_LINE_END.findall(text, len(text.rstrip())))
    return _Candidate(sentence, stripped.strip("*_").strip(), _LINE_END.search(stripped) is None, line_ends)


def _may_head(line: _Candidate) -> bool:
    """Whether a sentence could be a heading, whatever stands around it."""
    kind, body = line.sentence.kind, line.body
    if kind not in ("text", "item") or not line.single or not line.line_ends:
        return False
    if not 0 < len(body) <= _LONGEST or len(body.split()) > _MOST_WORDS:
        return False
    asks = body.endswith(("?", "？")) and not _OPENS_QUOTE.match(body)  # else someone speaks
    if _ENDS.search(body) and not asks:
        return False
    if kind == "item" and not _NUMBER.match(body):
        return False
    letters = sum(map(str.isalpha, body))
    return body[0].isalnum() and not body[0].islower() and 2 * letters >= len(body.replace(" ", ""))


def _heads(lines: list[_Candidate], following: _Candidate) -> bool:
    """Whether lines that may be headings are followed by what they head."""
    numbers = [found.group(1) for line in lines if (found := _NUMBER.match(line.body))]
    next_number = _NUMBER.match(following.body)
    if len(numbers) > 1 or (numbers and next_number and numbers[0].count(".") == next_number.group(1).count(".")):
        return False  # a numbered list
    kind, body = following.sentence.kind, following.body
    return kind != "heading" and (kind != "text" or len(body) > _LONGEST or bool(_ENDS.search(body)))
