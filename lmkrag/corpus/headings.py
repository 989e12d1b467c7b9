"""Find headings that no markup shows: short lines alone, before the text that they head."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from lmkrag.types import Sentence, SentenceKind

_LONGEST = 100  # characters of a heading
_MOST_WORDS = 16
_DEEPEST = 3  # headings in a row: title, section, subsection; more such lines are a list, a table or a poem

_LINE_END = re.compile(r"\r\n|\r|\n")
_NUMBER = re.compile(r"\(?(\d{1,3}(?:\.\d{1,3})*)[.)]?\s")
_CLOSING = r"[\"'”’»)\]]*$"
_ENDS_SENTENCE = re.compile(r"[.!?…。！？]" + _CLOSING)
_ENDS = re.compile(r"[.!?…。！？:;,：；，、]" + _CLOSING)
_OPENS_QUOTE = re.compile(r"[\"'“‘«「]")


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
    lines: list[tuple[Sentence, str]] = []  # that may be headings of what comes next
    complete = True  # is what comes before them?
    for sentence, text in sentences:
        if _may_head(sentence.kind, text):
            lines.append((sentence, text))
            if len(lines) > _DEEPEST:
                complete = False
                yield lines.pop(0)[0]
            continue
        head = complete and lines and _heads([line for _, line in lines], sentence.kind, text)
        yield from (replace(line, kind="heading") if head else line for line, _ in lines)
        lines = []
        yield sentence
        complete = _is_complete(sentence.kind, text)
    yield from (line for line, _ in lines)


def _may_head(kind: SentenceKind, text: str) -> bool:
    """Whether a sentence is a line that could be a heading, whatever stands around it."""
    body = _body(text)
    if (
        kind not in ("text", "item")
        or not 0 < len(body) <= _LONGEST
        or len(body.split()) > _MOST_WORDS
        or _LINE_END.search(text.strip())
    ):
        return False
    if not _LINE_END.search(text, len(text.rstrip())):
        return False
    asks = body.endswith(("?", "？")) and not _OPENS_QUOTE.match(body)  # else someone speaks
    if _ENDS.search(body) and not asks:
        return False
    if kind == "item" and not _NUMBER.match(body):
        return False
    letters = sum(map(str.isalpha, body))
    return body[0].isalnum() and not body[0].islower() and 2 * letters >= len(body.replace(" ", ""))


def _heads(lines: list[str], kind: SentenceKind, text: str) -> bool:
    """Whether lines that may be headings are followed by what they head."""
    numbers = [found.group(1) for line in lines if (found := _NUMBER.match(_body(line)))]
    following = _NUMBER.match(_body(text))
    if len(numbers) > 1 or (numbers and following and numbers[0].count(".") == following.group(1).count(".")):
        return False  # a numbered list
    body = _body(text)
    return kind != "heading" and (kind != "text" or len(body) > _LONGEST or bool(_ENDS.search(body)))


def _is_complete(kind: SentenceKind, text: str) -> bool:
    """Whether nothing of a sentence can be on the next line."""
    line_ends = len(_LINE_END.findall(text, len(text.rstrip())))
    return kind in ("heading", "row", "code") or line_ends > 1 or bool(line_ends and _ENDS_SENTENCE.search(_body(text)))


def _body(text: str) -> str:
    """A line without white space around it, nor Markdown's emphasis."""
    return text.strip().strip("*_").strip()
