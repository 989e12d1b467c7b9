"""Results and quotations on a terminal: wrapped, linked, the hits and the question's words marked."""

import re
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import click

from lmkrag.cli.output import one_line, readable
from lmkrag.rendering.blocks import parse_blocks
from lmkrag.rendering.terminal import to_terminal
from lmkrag.rendering.tree import mark_nodes
from lmkrag.results import Answer, Citation, ShortAnswer, Span

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_AROUND = 120  # characters shown on each side of a quotation
_INDENT = 3
_STYLES = {"found": "bold", "quoted": "bold", "short": "underline", "word": "underline"}  # of marks


def print_span(number: int, span: Span, query: str, *, level: str, around: tuple[str, str] = ("", "")) -> None:
    """Print one result: where it is, what it stands under, its text, and what stands around it."""
    text = (level == "document" and span.best_sentence) or span.text
    if not sys.stdout.isatty():
        click.secho(f"{number}. {one_line(span.place)}  {_rate(span)}", bold=True)
        for line in filter(None, (*_above(span), around[0] or span.header, text, around[1])):
            click.echo(indented(readable(line)))
        _print_copies(span)
        click.echo()
        return
    from rich.style import Style
    from rich.text import Text

    from lmkrag.index.words.terms import find_words, query_words

    heading = Text(f"{number}. ")
    heading.append(one_line(span.place), style=Style(bold=True, link=_link(span)))
    heading.append(f"  {_rate(span)}", style="dim")
    console = _console()
    console.print(heading, soft_wrap=True)
    words = find_words(span.text, query_words(query).tolist())
    marks = [(span.start + start, span.start + end, "word") for start, end in words]
    if level == "document":
        blocks = parse_blocks(text, kind=span.kind, start=span.hits[0].start if span.hits else span.start)
    else:
        marks += [(hit.start, hit.end, "found") for hit in span.hits]
        blocks = parse_blocks(text, kind=span.kind, start=span.start, header=span.header)
    for line in _above(span):
        console.print(_pad(Text(line, style="italic dim")), soft_wrap=True)
    if around[0]:
        console.print(_pad(Text(readable(around[0]), style="dim")))
    for part in to_terminal(mark_nodes(blocks, marks), _STYLES, one_line):
        console.print(_pad(part))
    if around[1]:
        console.print(_pad(Text(readable(around[1]), style="dim")))
    _print_copies(span)
    click.echo()


def _rate(span: Span) -> str:
    """The score of a span, and whether much speaks for it."""
    if not any(hit.dense for hit in span.hits):
        return f"{span.score:.3f}"
    return f"{span.score:.3f} {'weak' if span.weak else 'good'}"


def _above(span: Span) -> list[str]:
    """The lines above a span: the address of its page, and what it stands under if that is not the file's name."""
    section = "" if span.section == PurePosixPath(span.doc_id).stem else span.section
    return [one_line(line) for line in (span.url, section) if line]


def _print_copies(span: Span) -> None:
    if span.also_in:
        click.echo(indented("also in " + ", ".join(map(one_line, span.also_in))))


def indented(text: str) -> str:
    """Return lines of text as they stand below a result's heading."""
    return "\n".join(" " * _INDENT + line if line else "" for line in text.splitlines())


def _pad(part: "RenderableType") -> "RenderableType":
    from rich.padding import Padding

    return Padding(part, (0, 0, 0, _INDENT), expand=False)


def _link(span: Span) -> str | None:
    if span.url:
        return span.url
    path = Path(span.path)
    return path.as_uri() if path.is_absolute() and path.exists() else None


@cache
def _console() -> "Console":
    from rich.console import Console

    return Console(highlight=False)


def print_text(answer: Answer) -> None:
    """Print what an answer says; on a terminal with its quotations bold, code and tables as such."""
    if not sys.stdout.isatty():
        click.echo(readable(answer.text))
        return
    for part in to_terminal(answer.to_blocks(), _STYLES, one_line):
        _console().print(part)


def print_citations(answer: Answer) -> None:
    """Print where each quotation stands; marked among what stands around it, unless the answer shows it."""
    printed = 0
    for citation in answer.citations:
        words = map(re.escape, citation.quote.split())
        shown = re.search(r"\s+".join(words), answer.text) is not None  # line breaks aside
        if shown and citation.number == printed:
            continue
        label = "" if printed or not answer.label else f"  {answer.label}"
        printed = citation.number
        click.secho(f"[{citation.number}] {one_line(citation.place)}{label}", bold=True)
        for line in _above(citation.span):
            click.echo(f"    {line}")
        if not shown:
            click.echo(f"    {_in_its_span(citation, answer.short)}")
        if citation.span.also_in:
            click.echo("    also in " + ", ".join(map(one_line, citation.span.also_in)))


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
    for answer in sorted(short, key=lambda answer: answer.start):
        start, end = answer.start - citation.start, answer.end - citation.start
        if answer.number == citation.number and done <= start < end <= len(citation.quote):
            shown += readable_inline(citation.quote[done:start])
            shown += click.style(readable_inline(citation.quote[start:end]), bold=True)
            done = end
    return shown + readable_inline(citation.quote[done:])


def readable_inline(text: str) -> str:
    """Return text on one line, its white space as blanks."""
    return "".join(" " if character.isspace() else one_line(character) for character in text)
