"""Print results and quotations; on a terminal wrapped and linked, with hits and the question's
words marked.
"""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import click

from lmkrag.cli.output import find_lines_around, one_line, readable
from lmkrag.rendering.blocks import parse_blocks
from lmkrag.rendering.quoting import MARK, quote_lines
from lmkrag.rendering.terminal import Marked, to_terminal
from lmkrag.rendering.tree import element, mark_nodes, text_node
from lmkrag.results import Answer, Citation, ShortAnswer, Span

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_AROUND = 120  # characters shown on each side of a quotation
_INDENT = 3
_SPEAKER = "lmkrag: "
_SAID = "  "  # before the lines of a model's answer
_BLOCK_END = re.compile(r"\n[ \t]*\n(?=\S)")  # of a paragraph, list or table
_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
_STYLES = {"found": "bold", "quoted": "bold", "short": "underline", "word": "underline"}  # of marks


def print_span(
    number: int, span: Span, query: str, *, level: str, around: tuple[str, str] = ("", "")
) -> None:
    """Print one result: its place, the headings above it, its text and the lines around it."""
    text = (level == "document" and span.best_sentence) or span.text
    if not sys.stdout.isatty():
        click.secho(f"{number}. {one_line(span.place)}  {_rate(span)}", bold=True)
        for line in _above(span):
            click.echo(_indented(line))
        for quoted in filter(None, (around[0] or span.header, text, around[1])):
            click.echo(_indented("\n".join(quote_lines(readable(quoted)))))
        _print_copies(span)
        click.echo()
        return
    from lmkrag.language.terms import find_words, query_words

    console = _console()
    _print_place(f"{number}. ", span.place, span, f"  {_rate(span)}")
    words = find_words(span.text, query_words(query).tolist())
    marks = [(span.start + start, span.start + end, "word") for start, end in words]
    if level == "document":
        blocks = parse_blocks(
            text, kind=span.kind, start=span.hits[0].start if span.hits else span.start
        )
    else:
        marks += [(hit.start, hit.end, "found") for hit in span.hits]
        blocks = parse_blocks(text, kind=span.kind, start=span.start, header=span.header)
    if around[0]:
        console.print(_quoted(readable(around[0])), style="dim")
    for part in to_terminal(mark_nodes(blocks, marks), _STYLES, one_line):
        console.print(_quoted(part))
    if around[1]:
        console.print(_quoted(readable(around[1])), style="dim")
    _print_copies(span)
    click.echo()


def _rate(span: Span) -> str:
    """The score of a span, whether it is weak, and what else is told beside its place."""
    weak = ["weak"] if span.weak else []
    return " ".join([f"{span.score:.3f}", *weak, *_remark(span)])


def _remark(span: Span) -> Iterator[str]:
    """Yield the date of a span unless that is its file's, and warnings."""
    if span.date_source not in ("", "file"):
        yield f"{span.date} ({span.date_source})"
    if span.superseded_by:
        yield f"superseded by {one_line(span.superseded_by)}"
    if span.stale:
        yield f"({span.stale} since indexing)"
    if span.instructs_model:
        yield "(speaks to a language model)"


def _above(span: Span) -> list[str]:
    """The lines above a span: the address of its page, and its headings if they say more than the
    file's name.
    """
    section = "" if span.section == PurePosixPath(span.doc_id).stem else span.section
    return [one_line(line) for line in (span.url, section) if line]


def _print_copies(span: Span) -> None:
    if span.also_in:
        _print_indented("also in " + ", ".join(map(one_line, span.also_in)))
    if span.more:
        _print_indented(one_line(span.more_places))
    for box in span.boxes:
        _print_indented(f"page {box.page}: {box.x0:.3f} {box.y0:.3f} {box.x1:.3f} {box.y1:.3f}")


def _print_indented(text: str, indent: int = _INDENT) -> None:
    print_hanging(text, indent, " " * indent)


def print_hanging(text: str, indent: int, first: str = "", *, err: bool = False) -> None:
    """Print a line after ``first``; on a terminal, what is wrapped is indented, so that it is no
    line of its own.
    """
    if (sys.stderr if err else sys.stdout).isatty():
        from rich.text import Text

        _console(err=err).print(Marked(Text(text), first, " " * indent))
    else:
        click.echo(first + text, err=err)


def print_path(path: str) -> None:
    """Print the name of a file as a heading on a terminal; a long word is left whole, so that it
    can be copied.
    """
    from rich.text import Text

    name = Text(_collapse(path), "magenta bold", overflow="ignore")
    _console().print(Marked(name, "", " " * _INDENT), crop=False)


def _collapse(name: str) -> str:
    """A name without runs of spaces, which would push its end to a line of its own."""
    return " ".join(one_line(name).split())


def print_note(text: str) -> None:
    """Print what lmkrag says beside results, which may quote documents."""
    print_hanging(one_line(text), len(_SPEAKER), _SPEAKER, err=True)


def print_explanation(span: Span) -> None:
    """Print why a span was found, if that was asked for."""
    if span.explanation is not None:
        for line in readable(span.explain()).splitlines():
            print_hanging(line, 2 * _INDENT, " " * _INDENT)


def _indented(text: str) -> str:
    """Lines of text as they stand below a result's heading."""
    return "\n".join(" " * _INDENT + line if line else "" for line in text.splitlines())


def print_quoted(text: str) -> None:
    """Print text of a document on a terminal."""
    for line in readable(text).splitlines():
        _console().print(_quoted(line, 0))


def _quoted(part: "RenderableType", indent: int = _INDENT) -> "RenderableType":
    """A part of a document as it stands below a result's heading."""
    from rich.text import Text

    return Marked(Text(part) if isinstance(part, str) else part, " " * indent + MARK)


def _print_place(label: str, place: str, span: Span, rating: str) -> None:
    """Print on a terminal the place of a passage, linked to it, and the headings above it."""
    from rich.style import Style
    from rich.text import Text

    # a path is left whole, so that it can be copied
    path, heading = (Path(span.path), Text(label, overflow="ignore"))
    link = span.url or (path.as_uri() if path.is_absolute() and os.path.exists(path) else None)  # noqa: PTH110
    heading.append(_collapse(place), style=Style(bold=True, link=link))
    heading.append(rating, style="dim")
    _console().print(Marked(heading, "", " " * len(label)), crop=False)
    for line in _above(span):
        nodes = [text_node(line)]
        if span.kind == "markdown":
            (heading_node,) = parse_blocks(f"# {line}", kind="markdown")
            nodes = heading_node["children"]
        for part in to_terminal([element("p", *nodes)], {}, one_line):
            _console().print(Marked(part, " " * len(label)), style="italic dim")


@cache
def _console(*, err: bool = False) -> "Console":
    from rich.console import Console

    return Console(highlight=False, stderr=err)


def print_text(answer: Answer) -> None:
    """Print the text of an answer; on a terminal with its quotations bold, and code and tables
    formatted.

    What a model says is indented: it may repeat lines of a document.
    """
    is_said = answer.reader != "extractive"
    if not sys.stdout.isatty():
        lines = readable(answer.text).splitlines()
        click.echo("\n".join(_SAID + line if line and is_said else line for line in lines))
        return
    for part in to_terminal(answer.to_blocks(), _STYLES, one_line):
        is_quoted = isinstance(part, Marked) and not is_said
        _console().print(part if is_quoted else Marked(part, _SAID if is_said else "", _SAID))


def print_stream(pieces: Iterator[str]) -> None:
    """Print the Markdown that a language model writes on a terminal; each piece redraws the open
    block.
    """
    from rich.console import Group
    from rich.live import Live

    def render(text: str) -> Group:
        blocks = to_terminal(parse_blocks(text, kind="markdown"), _STYLES, one_line)
        return Group(*(Marked(part, _SAID) for part in blocks))

    text = ""
    try:
        with Live(console=_console(), transient=True, auto_refresh=False) as live:
            for piece in pieces:
                text += piece
                if complete := _find_blocks(text):
                    live.console.print(render(text[:complete]))
                    live.console.print()
                    text = text[complete:]
                live.update(render(text), refresh=True)
    finally:  # text that came before an error stays
        _console().print(render(text))


def _find_blocks(text: str) -> int:
    """Where the last complete block of unfinished Markdown ends; a heading belongs to the next
    block.
    """
    for end in reversed([match.end() for match in _BLOCK_END.finditer(text)]):
        before = text[:end].rstrip()
        if len(_FENCE.findall(before)) % 2 == 0 and not before.rpartition("\n")[2].startswith("#"):
            return end
    return 0


def print_citations(answer: Answer) -> None:
    """Print the place of each quotation, with the quotation in its context unless the answer
    contains it.
    """
    printed = 0
    for citation in answer.citations:
        span = citation.span
        shown = _is_shown(citation, answer)
        if shown and citation.number == printed:
            continue
        label = [] if printed or not answer.label else [answer.label]
        told = " ".join([*label, *_remark(span)])
        rating = f"  {told}" if told else ""
        printed = citation.number
        if sys.stdout.isatty():
            _print_place(f"[{citation.number}] ", citation.place, span, rating)
            excerpt = [] if shown else _excerpt(citation, answer.short)
            for part in excerpt:
                _console().print(_quoted(part, 4))
        else:
            click.echo(f"[{citation.number}] {one_line(citation.place)}{rating}")
            for line in [*_above(span), *([] if shown else quote_lines(_in_its_span(citation)))]:
                click.echo(f"    {line}")
        if span.also_in:
            _print_indented("also in " + ", ".join(map(one_line, span.also_in)), 4)
        print_explanation(span)


def _is_shown(citation: Citation, answer: Answer) -> bool:
    """Whether an answer shows a quotation: as a part of a passage, or in the words of a model, line
    breaks aside.
    """
    for passage in answer.quotes:
        if (
            passage.number == citation.number
            and passage.start <= citation.start
            and citation.end <= passage.end
        ):
            return True
    words = map(re.escape, citation.quote.split())
    return re.search(r"\s+".join(words), answer.text) is not None


def _excerpt(citation: Citation, short: Sequence[ShortAnswer]) -> "Iterator[RenderableType]":
    """The lines of a quotation and those around it, with the quotation and short answers marked."""
    span = citation.span
    start, end = find_lines_around(
        span.text, citation.start - span.start, citation.end - span.start, 1
    )
    marks = [
        (answer.start, answer.end, "short") for answer in short if answer.number == citation.number
    ]
    blocks = parse_blocks(
        span.text[start:end], kind=span.kind, start=span.start + start, header=span.header
    )
    return to_terminal(
        mark_nodes(blocks, [(citation.start, citation.end, "quoted"), *marks]), _STYLES, one_line
    )


def _in_its_span(citation: Citation) -> str:
    """The quotation with its context in the span, on one line."""
    span = citation.span
    start, end = citation.start - span.start, citation.end - span.start
    before, after = span.text[max(0, start - _AROUND) : start], span.text[end : end + _AROUND]
    if start > _AROUND:
        before = "… " + before.partition(" ")[2]
    if len(span.text) > end + _AROUND:
        after = after.rpartition(" ")[0] + " …"
    return one_line(" ".join(f"{before}»{citation.quote}«{after}".split()))
