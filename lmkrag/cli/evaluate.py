"""``lmkrag eval``: how exactly is the evidence found, and how much better than by chunks?"""

import logging
import os
import sys
from pathlib import Path
from typing import Any

import click

from lmkrag.cli.output import json_option, print_json, to_click


@click.command(
    "eval", epilog="Example: lmkrag eval data/dev/* --against recursive:200,sentence:3 --out report"
)
@click.argument(
    "datasets", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="DATASET..."
)
@click.option(
    "--against",
    default="",
    metavar="NAMES",
    help="recursive:TOKENS, sentence:NEIGHBOURS (both also with +title), late:TOKENS; rerank:off "
    "is lmkrag without "
    "re-ranking, rerank:MODEL with another model.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("report"),
    show_default=True,
)
@click.option(
    "--within",
    default="",
    metavar="SETS",
    help="Sets whose questions are only asked of their own document.",
)
@click.option(
    "--queries",
    type=click.IntRange(min=1),
    metavar="N",
    help="Maximum number of questions per set.",
)
@click.option(
    "--encoder",
    type=click.Path(),
    metavar="NAME|DIR",
    help="The encoder to measure; defaults to the built-in one.",
)
@to_click("mode")
@click.option(
    "--level",
    type=click.Choice(["passage", "span", "sentence"]),
    default="span",
    show_default=True,
    help="What lmkrag returns; spans are the unit of the published figures.",
)
@json_option
def evaluate(
    datasets: tuple[Path, ...],
    against: str,
    out: Path,
    within: str,
    queries: int | None,
    as_json: bool,
    **more: Any,
) -> None:
    """Measure retrieval on labelled questions.

    Each DATASET is a folder in the data format, with docs.jsonl.gz and queries.jsonl.gz.

    Prints recall of the evidence at character budgets, precision, IoU and ranking measures, and
    writes report.json and report.md into --out, which also keeps indexes and baseline vectors for
    the next run.
    """
    from lmkrag.evaluation.compare import Options, compare
    from lmkrag.evaluation.report import differences, to_json, to_text, write_report

    def progress(name: str, system: str) -> None:
        if sys.stderr.isatty():
            click.echo(f"{name}: {system}", err=True)

    options = Options(against=_names(against), within=_names(within), queries=queries or 0, **more)
    comparison = compare(datasets, out, options, progress)
    gains = differences(comparison)
    written = write_report(comparison, gains, out)
    if as_json:
        print_json(to_json(comparison, gains))
        return
    click.echo(to_text(comparison, gains))
    click.echo("written: " + ", ".join(map(str, written)), err=True)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


@click.command(
    epilog="Example: lmkrag train pipelines/train/landmark-mini.toml --report-to tensorboard"
)
@click.argument("config", type=click.Path(path_type=Path), metavar="CONFIG.toml")
@click.option(
    "--report-to",
    type=click.Choice(["none", "tensorboard", "wandb"]),
    default="none",
    show_default=True,
    help="Where else to log losses and recall; log.json in each stage's folder has them always.",
)
def train(config: Path, report_to: str) -> None:
    """Train an encoder.

    CONFIG.toml is the recipe. After an interruption, run the same command again to resume.
    """
    from lmkrag.training.settings import load_settings

    settings = load_settings(config)
    from lmkrag.training.trainer import train as train_encoder

    first = os.environ.get("RANK", "0") == "0"  # torchrun starts this once a card
    logging.basicConfig(level=logging.INFO if first else logging.WARNING, format="%(message)s")
    folder = train_encoder(settings, report_to=report_to)
    if first:
        click.echo(folder)
