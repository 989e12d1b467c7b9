"""``lmkrag train``: train an encoder or a re-ranker from a configuration."""

import logging
import os
from pathlib import Path
from typing import Any

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
    """Train an encoder or a re-ranker.

    CONFIG.toml is the recipe. After an interruption, run the same command again to resume.
    """
    from lmkrag.training.reranker_settings import find_kind, load_listwise_settings, load_reranker_settings
    from lmkrag.training.settings import load_settings

    kind = find_kind(config)
    load: Any = {"reranker": load_reranker_settings, "listwise": load_listwise_settings}.get(kind, load_settings)
    settings = load(config)
    from lmkrag.training.listwise_trainer import train_listwise
    from lmkrag.training.reranker_trainer import train_reranker
    from lmkrag.training.trainer import train as train_encoder

    run: Any = {"reranker": train_reranker, "listwise": train_listwise}.get(kind, train_encoder)
    first = os.environ.get("RANK", "0") == "0"  # torchrun starts this once a card
    logging.basicConfig(level=logging.INFO if first else logging.WARNING, format="%(message)s")
    folder = run(settings, report_to=report_to)
    if first:
        click.echo(folder)
