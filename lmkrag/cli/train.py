"""``lmkrag train``: train an encoder from a configuration."""

import logging
import os
from pathlib import Path

import click


@click.command(epilog="Example: lmkrag train pipelines/train/landmark-mini.toml --report-to tensorboard")
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

    CONFIG.toml describes it. After an interruption, run the same again to go on.
    """
    from lmkrag.training.settings import load_settings

    settings = load_settings(config)
    from lmkrag.training.trainer import train as run

    first = os.environ.get("RANK", "0") == "0"  # torchrun starts this once a card
    logging.basicConfig(level=logging.INFO if first else logging.WARNING, format="%(message)s")
    folder = run(settings, report_to=report_to)
    if first:
        click.echo(folder)
