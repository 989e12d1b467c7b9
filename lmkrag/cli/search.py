"""``lmkrag search``: one query, or a file of them."""

import textwrap
from typing import Any

import click

from lmkrag.cli.output import (
    batches_of_questions,
    best_sentence,
    explain_filter,
    index_option,
    json_option,
    place,
    print_json,
    readable,
    search_options,
    span_to_json,
)
from lmkrag.errors import UsageError

_BATCH = 256  # queries encoded together


@click.command(epilog="Example: lmkrag search 'how is leave accrued?' -k 3 --filter 'kind=pdf and year>=2020'")
@click.argument("words", nargs=-1, metavar="[QUERY]")
@click.option(
    "--queries",
    type=click.File(encoding="utf-8"),
    metavar="FILE.jsonl",
    help='One {"query_id", "query"} a line; - reads standard input.',
)
@index_option
@search_options
@click.option(
    "--level",
    type=click.Choice(["span", "sentence", "document"]),
    default="span",
    show_default=True,
    help="What to return.",
)
@click.option(
    "--sentences-before",
    type=click.IntRange(min=0),
    metavar="N",
    help="Grow each hit by N sentences before it, not adaptively.",
)
@json_option
def search(
    words: tuple[str, ...], queries: Any, index_path: str, filter_expression: str | None, as_json: bool, **how: Any
) -> None:
    """Find the spans that answer QUERY, best first; it needs no quotes."""
    from lmkrag.engine import Engine

    query = " ".join(words)
    if bool(words) == (queries is not None):
        raise UsageError("give a QUERY, or --queries FILE.jsonl")
    if queries is not None and not as_json:
        raise UsageError("--queries prints JSON lines: add --json")
    with Engine.open(index_path) as engine:
        if queries is not None:
            for batch in batches_of_questions(queries, _BATCH):
                found = engine.search_batch([text for _, text in batch], filter=filter_expression, **how)
                for (query_id, _), spans in zip(batch, found, strict=True):
                    print_json({"query_id": query_id, "spans": [span_to_json(span) for span in spans]})
            return
        spans = engine.search(query, filter=filter_expression, **how)
        none_match = explain_filter(engine, filter_expression) if filter_expression and not spans else ""
    if as_json:
        print_json({"query": query, "spans": [span_to_json(span) for span in spans]})
        return
    if not spans:
        click.echo(none_match or "nothing found", err=True)
    for number, span in enumerate(spans, 1):
        heading = place(span.doc_id, span.start, span.end, span.page)
        click.secho(f"{number}. {heading}  {span.score:.3f}", bold=True)
        text = best_sentence(span) if how["level"] == "document" else span.text
        click.echo(textwrap.indent(readable(text), "   ") + "\n")
