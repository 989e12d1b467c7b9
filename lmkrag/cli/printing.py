"""Results and quotations on a terminal: wrapped, linked, the hits and the question's words marked."""

import re
import sys
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import click

from lmkrag.cli.output import best_sentence, one_line, readable
from lmkrag.types import Answer, Citation, ShortAnswer, Span

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_AROUND = 120  # characters shown on each side of a quotation
_INDENT = 3
_KEEPS_ITS_LINE = re.compile(r"\s|[|>#]|[-*+•]\s|\(?\w{1,3}[.)]\s|[A-Z][\w.'’ -]{0,40}:\s")
_SHOWN = {"\t": "    ", "\r": ""}
_WRAPPED = 60  # a shorter line was ended by its author

Marks = list[tuple[int, int, str]]
"""Ranges of characters and the styles they are printed in."""


def print_span(number: int, span: Span, query: str, *, level: str, around: tuple[str, str] = ("", "")) -> None:
    """Print one result: where it is, what it stands under, its text, and what stands around it."""
    text = best_sentence(span) if level == "document" else span.text
    if not sys.stdout.isatty():
        click.secho(f"{number}. {one_line(span.place)}  {_rate(span)}", bold=True)
        for line in filter(None, (one_line(_section(span)), around[0] or span.header, text, around[1])):
            click.echo(indented(readable(line)))
        _print_copies(span)
        click.echo()
        return
    from rich.padding import Padding
    from rich.style import Style
    from rich.text import Text

    heading = Text(f"{number}. ")
    heading.append(one_line(span.place), style=Style(bold=True, link=_link(span)))
    heading.append(f"  {_rate(span)}", style="dim")
    console = _console()
    console.print(heading, soft_wrap=True)
    code = span.kind == "code"
    styled = [Text(one_line(_section(span)), style="italic dim"), _dim(around[0] or span.header)]
    marks = [(hit.start - span.start, hit.end - span.start, "bold") for hit in span.hits] if level != "document" else []
    styled += [mark_text(text, [*marks, *_find_words(text, query)], reflow=not code), _dim(around[1])]
    for part in styled:
        if part:
            console.print(Padding(part, (0, 0, 0, _INDENT), expand=False), soft_wrap=code)
    _print_copies(span)
    click.echo()


def _rate(span: Span) -> str:
    """The score of a span, and whether much speaks for it; words alone can't tell."""
    from lmkrag.readers.extractive import FOUND, weigh_evidence

    if not any(hit.dense for hit in span.hits):
        return f"{span.score:.3f}"
    return f"{span.score:.3f} {'good' if weigh_evidence([span]) >= FOUND else 'weak'}"


def _section(span: Span) -> str:
    """What a span stands under, where that says more than the file's name."""
    return span.section if span.section != PurePosixPath(span.doc_id).stem else ""


def _print_copies(span: Span) -> None:
    if span.also_in:
        click.echo(indented("also in " + ", ".join(map(one_line, span.also_in))))


def indented(text: str) -> str:
    """Return lines of text as they stand below a result's heading."""
    return "\n".join(" " * _INDENT + line if line else "" for line in text.splitlines())


def _dim(text: str) -> "Text":
    from rich.text import Text

    return Text(readable(text), style="dim")


def mark_text(text: str, marks: Marks, *, reflow: bool) -> "Text":
    """Return text to be printed, some ranges of it in other styles; without control codes.

    Args:
        text: as it stands in its document.
        marks: may overlap, and reach over the ends.
        reflow: put the lines of a paragraph that was wrapped by hand into one, so that the terminal can wrap it.
    """
    from rich.text import Text

    borders = sorted({0, len(text), *(min(max(0, place), len(text)) for mark in marks for place in mark[:2])})
    shown = Text()
    for start, end in pairwise(borders):
        style = " ".join(dict.fromkeys(name for low, high, name in marks if low <= start < high))
        shown.append("".join(_show(text, place, reflow) for place in range(start, end)), style=style)
    return shown


def _show(text: str, place: int, reflow: bool) -> str:
    character = text[place]
    if character == "\n":
        return " " if reflow and _goes_on(text, place) else "\n"
    return _SHOWN[character] if character in _SHOWN else one_line(character)


def _goes_on(text: str, line_end: int) -> bool:
    """Whether the paragraph that a line ends in was only wrapped there."""
    before = text[text.rfind("\n", 0, line_end) + 1 : line_end]
    after = text[line_end + 1 :]
    return len(before) >= _WRAPPED and not before.startswith(("|", "#")) and not _KEEPS_ITS_LINE.match(after or " ")


def _find_words(text: str, query: str) -> Marks:
    """The words of a text that are, by their stems, among those of a question."""
    from lmkrag.index.words.terms import find_words, query_words

    return [(start, end, "underline") for start, end in find_words(text, query_words(query).tolist())]


def _link(span: Span) -> str | None:
    path = Path(span.path)
    return path.as_uri() if path.is_absolute() and path.exists() else None


@cache
def _console() -> "Console":
    from rich.console import Console

    return Console(highlight=False)


def print_text(answer: Answer) -> None:
    """Print what an answer says; on a terminal wrapped, its quotations bold."""
    if not sys.stdout.isatty():
        click.echo(readable(answer.text))
        return
    words = [one.text for one in answer.short] + [citation.quote for citation in answer.citations]
    marks: Marks = [(*match.span(), "bold") for text in words if (match := _find_quote(text, answer.text))]
    _console().print(mark_text(answer.text, marks, reflow=False))


def print_citations(answer: Answer) -> None:
    """Print where each quotation stands; marked among what stands around it, unless the answer shows it."""
    printed = 0
    for citation in answer.citations:
        shown = _find_quote(citation.quote, answer.text) is not None
        if shown and citation.number == printed:
            continue
        printed = citation.number
        click.secho(f"[{citation.number}] {one_line(citation.place)}", bold=True)
        if section := _section(citation.span):
            click.echo(f"    {one_line(section)}")
        if not shown:
            click.echo(f"    {_in_its_span(citation, answer.short)}")
        if citation.span.also_in:
            click.echo("    also in " + ", ".join(map(one_line, citation.span.also_in)))


def _find_quote(quote: str, text: str) -> "re.Match[str] | None":
    """Where a text has a quotation, line breaks aside."""
    return re.search(r"\s+".join(map(re.escape, quote.split())), text)


def _in_its_span(citation: Citation, short: Sequence[ShortAnswer]) -> str:
    """The quotation, marked, and what stands around it in its span."""
    span = citation.span
    start, end = citation.start - span.start, citation.end - span.start
    before, after = span.text[max(0, start - _AROUND) : start], span.text[end : end + _AROUND]
    if start > _AROUND:
        before = "… " + before.partition(" ")[2]
    if len(span.text) > end + _AROUND:
        after = after.rpartition(" ")[0] + " …"
    return " ".join(f"{readable_inline(before)}»{_with_answers(citation, short)}«{readable_inline(after)}".split())


def _with_answers(citation: Citation, short: Sequence[ShortAnswer]) -> str:
    """The quotation, the short answers in it bold where the terminal can."""
    shown, done = "", 0
    for one in sorted(short, key=lambda one: one.start):
        start, end = one.start - citation.start, one.end - citation.start
        if one.number == citation.number and done <= start < end <= len(citation.quote):
            shown += readable_inline(citation.quote[done:start])
            shown += click.style(readable_inline(citation.quote[start:end]), bold=True)
            done = end
    return shown + readable_inline(citation.quote[done:])


def readable_inline(text: str) -> str:
    """Return text on one line, its white space as blanks."""
    return "".join(" " if character.isspace() else one_line(character) for character in text)
