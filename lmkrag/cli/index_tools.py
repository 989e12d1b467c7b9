"""``lmkrag index-tools``: maintenance of an index."""

import contextlib
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path

import click

from lmkrag.cli.index import finish, following_progress, model_options
from lmkrag.cli.output import ErrorHandlingGroup, index_option, json_option, one_line, print_json
from lmkrag.engine import Engine, find_store_type
from lmkrag.errors import IndexNotFound


@click.group(cls=ErrorHandlingGroup, epilog="Example: lmkrag index-tools compact --index indexes/handbook")
def index_tools() -> None:
    """Compact, re-encode, repair or copy an index."""


@index_tools.command(epilog="Example: lmkrag index-tools compact --index indexes/handbook")
@index_option
@json_option
def compact(index_path: str, as_json: bool) -> None:
    """Free the space of removed documents.

    All segments are merged into one, whose vectors are stored as the recipe says for its size.
    """
    with Engine.open(index_path) as engine:
        before = engine.status().bytes
        engine.compact()
        after = engine.status().bytes
    if as_json:
        print_json({"bytes_before": before, "bytes_after": after})
    else:
        click.echo(f"{index_path}: {before:,} bytes before, {after:,} after", err=True)


@index_tools.command(epilog="Example: lmkrag index-tools reindex --index indexes/notes --encoder landmark-multilingual")
@index_option
@partial(model_options, existing=False)
@json_option
def reindex(index_path: str, recipe: str | None, encoder: str | None, as_json: bool) -> None:
    """Re-encode an index from its own texts.

    Use it for another --encoder or --recipe, or after an upgrade of lmkrag's weights. No source file is parsed. The old
    index answers searches until the new one replaces it. After an interruption, run the same command again to resume.
    """
    from lmkrag.ingest.reindex import reindex as run

    with following_progress() as progress:
        report = run(Path(index_path), encoder=encoder, recipe=recipe, progress=progress)
    finish(report, index_path, strict=False, as_json=as_json)


@index_tools.command(epilog="Example: lmkrag index-tools repair --index indexes/handbook")
@index_option
@click.option(
    "--encoder", type=click.Path(), metavar="NAME|DIR", help="The encoder of the index, if its record is damaged."
)
@click.option(
    "--recipe", type=click.Path(), metavar="NAME|FILE", help="The recipe of the index, if its record is damaged."
)
@json_option
def repair(index_path: str, encoder: str | None, recipe: str | None, as_json: bool) -> None:
    """Rebuild a damaged index.

    Undamaged documents are kept, the others are parsed from their files again.
    """
    from lmkrag.encoder.index_encoder import load_new_encoder
    from lmkrag.ingest.repair import repair_index

    load = partial(load_new_encoder, encoder) if encoder else None
    report = repair_index(Path(index_path), encoder=load, recipe=recipe)
    if as_json:
        print_json(asdict(report))
    elif not report.damaged:
        click.echo(f"{index_path}: nothing to repair, {report.kept} documents are whole", err=True)
    else:
        for doc_id in report.lost:
            click.echo(f"lost: {one_line(doc_id)}")
        unknown = f", {report.unknown} of unknown name lost: index the sources again" if report.unknown else ""
        lost = f", {len(report.lost)} lost" if report.lost else ""
        click.echo(f"{index_path}: {report.kept} kept, {report.restored} read again{lost}{unknown}", err=True)
        click.echo(f"the damaged index is kept in {report.damaged}", err=True)
    if report.lost or report.unknown:
        sys.exit(1)


@index_tools.command(epilog="Example: lmkrag index-tools copy indexes/handbook qdrant://localhost:6333/handbook")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@json_option
def copy(source: str, target: str, as_json: bool) -> None:
    """Copy an index between a directory and Qdrant.

    Nothing is encoded. TO is created if missing, and keeps other documents that it has. After an interruption, run the
    same command again to resume.
    """
    from lmkrag.index.copying import copy_documents
    from lmkrag.ingest.repair import read_tables

    kind = find_store_type(target)
    with contextlib.closing(find_store_type(source).open(Path(source))) as old:
        try:
            new = kind.open(Path(target))
        except IndexNotFound:
            new = kind.create(Path(target), encoder=old.encoder)
        with contextlib.closing(new):
            report = copy_documents(old, new, read_tables)
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
