"""``lmkrag index-tools``: maintenance of an index."""

import contextlib
from dataclasses import asdict
from functools import partial
from pathlib import Path

import click

from lmkrag.cli.index import finish, following_progress, model_options
from lmkrag.cli.output import (
    ErrorHandlingGroup,
    index_option,
    json_option,
    print_json,
    tell_leftovers,
)
from lmkrag.engine import Engine, find_store_type
from lmkrag.errors import IndexNotFound


@click.group(
    cls=ErrorHandlingGroup, epilog="Example: lmkrag index-tools compact --index indexes/handbook"
)
def index_tools() -> None:
    """Compact, re-encode or copy an index."""


@index_tools.command(epilog="Example: lmkrag index-tools compact --index indexes/handbook")
@index_option
@json_option
def compact(index_path: str, as_json: bool) -> None:
    """Free the space of removed documents.

    All segments are merged into one, whose vectors are stored as the recipe says for its size.
    """
    tell_leftovers(index_path, writes=True)
    with Engine.open(index_path) as engine:
        before = engine.status().bytes
        engine.compact()
        after = engine.status().bytes
    if as_json:
        print_json({"bytes_before": before, "bytes_after": after})
    else:
        click.echo(f"{index_path}: {before:,} bytes before, {after:,} after", err=True)


@index_tools.command(
    epilog=(
        "Example: lmkrag index-tools reindex --index indexes/notes --encoder landmark-multilingual"
    )
)
@index_option
@partial(model_options, existing=False)
@json_option
def reindex(index_path: str, recipe: str | None, encoder: str | None, as_json: bool) -> None:
    """Re-encode an index from its own texts.

    Use it for another --encoder or --recipe, or after an upgrade of lmkrag's weights. No source
    file is parsed. The old index answers searches until the new one replaces it. After an
    interruption, run the same command again to resume.
    """
    from lmkrag.ingest.reindex import reindex as run

    tell_leftovers(index_path, job="reindex", writes=True)
    with following_progress() as progress:
        report = run(Path(index_path), encoder=encoder, recipe=recipe, progress=progress)
    finish(report, index_path, strict=False, as_json=as_json)


@index_tools.command(
    epilog="Example: lmkrag index-tools copy indexes/handbook qdrant://localhost:6333/handbook"
)
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@json_option
def copy(source: str, target: str, as_json: bool) -> None:
    """Copy an index between a directory and Qdrant.

    Nothing is encoded. TO is created if missing, and keeps other documents that it has. After an
    interruption, run the same command again to resume.
    """
    from lmkrag.index.copying import copy_documents

    kind = find_store_type(target)
    with contextlib.closing(find_store_type(source).open(Path(source))) as old:
        try:
            new = kind.open(Path(target))
        except IndexNotFound:
            new = kind.create(Path(target), encoder=old.encoder)
        with contextlib.closing(new):
            report = copy_documents(old, new)
    finish(report, target, strict=False, as_json=as_json)


@index_tools.command(epilog="Example: lmkrag index-tools recipes")
@json_option
def recipes(as_json: bool) -> None:
    """List the ways to store vectors."""
    from lmkrag.index.vectors.recipes import list_recipes

    available = list_recipes()
    if as_json:
        print_json([asdict(recipe) for recipe in available])
        return
    for recipe in available:
        click.echo(f"{recipe.name:12} {recipe.description}")
