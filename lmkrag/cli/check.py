"""``lmkrag check``: do citations still stand?"""

import sys
from dataclasses import asdict
from typing import Any

import click

from lmkrag.cli.output import index_option, json_option, one_line, open_engine, print_json, server_option

_SHOWN = 90  # characters of a quotation
_COLOURS = {"same": "green", "moved": "cyan", "reworded": "yellow", "gone": "red"}


@click.command(epilog="Example: lmkrag check evidence.json --index indexes/handbook")
@click.argument("source", type=click.File(encoding="utf-8-sig"), metavar="FILE")
@index_option
@server_option
@json_option
def check(source: Any, index_path: str, server: str | None, as_json: bool) -> None:
    """Check whether citations still stand.

    FILE is what search --json or ask --json printed, or any text, whose quotations are looked for; - reads standard
    input. In the documents as they are indexed now, each citation is the same, has moved, was reworded or is gone.
    Exits with 1 where one is reworded or gone.
    """
    with open_engine(index_path, server) as engine:
        checks = engine.check(source.read())
    if as_json:
        print_json([asdict(item) for item in checks])
    else:
        for item in checks:
            quote = one_line(" ".join(item.quote.split()))
            quote = quote if len(quote) <= _SHOWN else f"{quote[: _SHOWN - 1]}…"
            words = f" ({100 * item.similarity:.0f} % of the words)" if item.state == "reworded" else ""
            where = f" in {one_line(item.place)}" if item.place else ""
            click.echo(f"{click.style(f'{item.state:9}', fg=_COLOURS[item.state])} {quote}{where}{words}")
        if not checks:
            click.echo("no citation and no quotation found", err=True)
    if any(item.state in ("reworded", "gone") for item in checks):
        sys.exit(1)
