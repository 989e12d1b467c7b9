"""``lmkrag search``: one query, or a file of them."""

import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from lmkrag.cli import output
from lmkrag.errors import UsageError
from lmkrag.results import ABSTAINED, SpanList
from lmkrag.search.filters import explain_filter
from lmkrag.serialization import to_json

_BATCH = 256  # queries encoded together


@click.command(
    epilog="Example: lmkrag search 'how is leave accrued?' -k 3 --filter 'kind=pdf and year>=2020'"
)
@click.argument("words", nargs=-1, metavar="[QUERY]")
@click.option(
    "--queries",
    type=click.File("rb"),
    metavar="FILE.jsonl",
    help='With --json: one {"query_id", "query"} a line; - reads standard input.',
)
@output.index_option
@output.server_option
@output.search_options("max_tokens", "level", "explain", "boxes")
@click.option(
    "-C",
    "--context",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Print N lines of context around each result.",
)
@output.json_option
def search(
    words: tuple[str, ...],
    queries: Any,
    index_path: str,
    server: str | None,
    context: int,
    as_json: bool,
    rerank_model: str | None,
    **options: Any,
) -> None:
    """Find the passages that answer a question, best first.

    QUERY needs no quotes; - reads it from standard input. In 'seals of a "steam pump" -gasket',
    results with the phrase rank higher, and results with the last word are left out. A result with
    little evidence is called weak.
    """
    query = output.join_words(words)
    if bool(words) == (queries is not None):
        raise UsageError("give a QUERY, or --queries FILE.jsonl")
    options["operators"] = True
    if queries is not None and not as_json:
        raise UsageError("--queries prints JSON lines: add --json")
    with output.open_engine(index_path, server, rerank_model=rerank_model) as engine:
        if queries is not None:
            find = partial(engine.search_many, **options)
            output.answer_each(queries, _BATCH, find, lambda _, spans: _to_record(spans))
            return
        spans = engine.search(query, **options)
        why = (
            explain_filter(engine.documents, options["filter"])
            if options["filter"] and not spans
            else ""
        )
        around = [("", "")] * len(spans)
        for number, span in enumerate(spans if context and not as_json else ()):
            text = engine.document(span.doc_id).text
            start, end = output.find_lines_around(text, span.start, span.end, context)
            around[number] = (
                text[start : span.start].strip("\r\n"),
                text[span.end : end].strip("\r\n"),
            )
    if as_json:
        output.print_json({"query": query, **_to_record(spans, why)})
    else:
        _print_spans(query, spans, around, why, options["level"])
    if ABSTAINED in spans.notes:
        sys.exit(1)


def _to_record(spans: SpanList, why: str = "") -> dict[str, Any]:
    """Return results as JSON has them, their notes with ``why`` there are none."""
    return {"spans": to_json(spans), "notes": [*spans.notes, why] if why else spans.notes}


def _print_spans(
    query: str, spans: SpanList, around: Sequence[tuple[str, str]], why: str, level: str
) -> None:
    """Print results, each with the text before and after it, or why there are none."""
    from lmkrag.cli.printing import print_explanation, print_note, print_span

    if not spans and ABSTAINED not in spans.notes:
        click.echo(output.one_line(why) or "nothing found", err=True)
    for note in spans.notes:
        print_note(note)
    for number, (span, shown) in enumerate(zip(spans, around, strict=True), 1):
        print_span(number, span, query, level=level, around=shown)
        if span.explanation is not None:
            print_explanation(span)
            click.echo()
