"""``lmkrag feedback``: what people said of results, as a labelled set."""

from dataclasses import asdict
from pathlib import Path

import click

from lmkrag.cli.output import index_option, json_option, print_json


@click.group(epilog="Example: lmkrag feedback export --out sets/handbook")
def feedback() -> None:
    """Use what people said of results on the page of lmkrag serve."""


@feedback.command(epilog="Example: lmkrag feedback export --out sets/handbook && lmkrag eval sets/handbook")
@index_option
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="DIR", help="The set to write.")
@json_option
def export(index_path: str, out: Path, as_json: bool) -> None:
    """Write the questions and the spans that were found good as a set that eval and train read."""
    from lmkrag.engine import Engine
    from lmkrag.server.export import export_feedback

    with Engine.open(index_path) as engine:
        report = export_feedback(engine, out)
    if as_json:
        print_json(asdict(report))
        return
    lost = f", {report.lost} left out: their documents have changed or are gone" if report.lost else ""
    rejected = f", {report.rejected} found bad" if report.rejected else ""
    click.echo(f"{out}: {report.queries} questions with {report.spans} spans{rejected}{lost}", err=True)
