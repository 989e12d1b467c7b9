"""``lmkrag ask``."""

import sys
from typing import Any

import click

from lmkrag.cli.output import (
    index_option,
    json_option,
    one_line,
    place,
    print_json,
    readable,
    search_options,
    span_to_json,
)
from lmkrag.errors import UsageError
from lmkrag.types import Answer


@click.command(epilog="Example: lmkrag ask 'who approves leave?' --filter 'path=handbook/*'")
@click.argument("question")
@index_option
@search_options
@click.option(
    "--reader", type=click.Choice(["extractive"]), default="extractive", show_default=True, help="What answers."
)
@json_option
def ask(question: str, index_path: str, filter_expression: str | None, reader: str, as_json: bool, **how: Any) -> None:
    """Answer QUESTION from the documents, with citations; - reads it from standard input."""
    from lmkrag.engine import DEFAULT_BUDGET, Engine

    if question == "-":
        question = sys.stdin.read().strip()
        if not question:
            raise UsageError("the question on standard input is empty")
    how["budget"] = how["budget"] or DEFAULT_BUDGET
    with Engine.open(index_path) as engine:
        answer = engine.ask(question, filter=filter_expression, **how)
    if as_json:
        print_json(_to_json(question, answer))
        return
    click.echo(readable(answer.text))
    if answer.citations:
        click.echo()
    for citation in answer.citations:
        where = place(citation.span.doc_id, citation.start, citation.end, citation.span.page)
        click.secho(f"[{citation.number}] {where}", bold=True)
    if answer.found:
        click.echo()
        _print_spans(answer)


def _print_spans(answer: Answer) -> None:
    """Show each cited span with the sentences that answer marked."""
    cited = {citation.number for citation in answer.citations}
    for number in sorted(cited):
        span = answer.spans[number - 1]
        marks = sorted((c.start - span.start, c.end - span.start) for c in answer.citations if c.number == number)
        parts, position = [], 0
        for start, end in marks:
            parts += [readable_inline(span.text[position:start]), "»", readable_inline(span.text[start:end]), "«"]
            position = end
        parts.append(readable_inline(span.text[position:]))
        click.echo(f"{number}. {place(span.doc_id, span.start, span.end, span.page)}")
        click.echo(f"   {' '.join(''.join(parts).split())}")


def readable_inline(text: str) -> str:
    """Return text on one line, its white space as blanks."""
    return "".join(" " if character.isspace() else one_line(character) for character in text)


def _to_json(question: str, answer: Answer) -> dict[str, Any]:
    return {
        "question": question,
        "answer": answer.text,
        "found": answer.found,
        "reader": answer.reader,
        "citations": [
            {
                "number": citation.number,
                "doc_id": citation.span.doc_id,
                "path": citation.span.path,
                "start": citation.start,
                "end": citation.end,
                "page": citation.span.page,
                "quote": citation.quote,
            }
            for citation in answer.citations
        ],
        "spans": [span_to_json(span) for span in answer.spans],
    }
