"""``lmkrag cluster``: indexes of several machines, processes and shards."""

from contextlib import closing
from functools import partial
from pathlib import Path

import click

from lmkrag.cli.index import (
    check_paths,
    finish,
    following_progress,
    glob_options,
    keeping_output,
    model_options,
    worker_options,
)
from lmkrag.cli.output import ErrorHandlingGroup, index_option, json_option, print_json


@click.group(cls=ErrorHandlingGroup, epilog="Example: lmkrag cluster reshard --shards 16 --index indexes/handbook")
def cluster() -> None:
    """Encode on several machines, and change the number of shards."""


@cluster.command(
    epilog="Example: lmkrag cluster encode docs/ --out batches/ --workers 4 && lmkrag cluster adopt batches/"
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="DIR", help="Directory of the batches.")
@worker_options
@click.option(
    "--batch-size",
    type=click.FloatRange(min=0.01),
    default=4.0,
    show_default=True,
    metavar="MB",
    help="Megabytes of files per batch.",
)
@partial(model_options, existing=False)
@glob_options
@click.option("--strict", is_flag=True, help="Exit with 1 when a file was skipped.")
@json_option
def encode(
    paths: tuple[str, ...],
    out: Path,
    workers: int,
    ray: str | None,
    gpus: float,
    batch_size: float,
    recipe: str | None,
    encoder: str | None,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    strict: bool,
    as_json: bool,
) -> None:
    """Encode files into batches that an index can adopt.

    A batch is a small index of some files. Existing batches are skipped, so after an interruption run the same command
    again to resume. Several machines that see the files under the same paths may encode different folders.
    """
    from lmkrag.cluster.parallel import encode_sources
    from lmkrag.cluster.processes import Workers
    from lmkrag.encoder.index_encoder import load_new_encoder
    from lmkrag.index.vectors.recipes import load_recipe

    sources = check_paths(paths)
    spec = load_new_encoder(encoder).spec
    with following_progress() as progress, keeping_output():
        report = encode_sources(
            sources,
            out,
            spec,
            load_recipe(recipe) if recipe else None,
            workers=Workers(workers, ray, gpus),
            batch_bytes=int(batch_size * 1e6),
            include=include,
            exclude=exclude,
            progress=progress,
        )
    finish(report, str(out), strict=strict, as_json=as_json)


@cluster.command(epilog="Example: lmkrag cluster adopt batches/ --index indexes/handbook")
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="DIR...")
@partial(index_option, existing=False)
@click.option("--strict", is_flag=True, help="Exit with 1 when a document was refused or a file skipped.")
@json_option
def adopt(folders: tuple[Path, ...], index_path: str, strict: bool, as_json: bool) -> None:
    """Add the documents of batches or of other indexes.

    Nothing is re-encoded, and each batch is added in one step. DIR is a batch, a folder of batches,
    or an index.
    """
    from lmkrag.cluster.parallel import adopt_batches, create_for
    from lmkrag.index.opening import index_exists, open_store

    if not index_exists(Path(index_path)):
        create_for(Path(index_path), folders[0])
    with closing(open_store(Path(index_path))) as store:
        report = adopt_batches(store, folders)
    finish(report, index_path, strict=strict, as_json=as_json)


@cluster.command(epilog="Example: lmkrag cluster reshard --shards 16 --index indexes/handbook")
@click.option("--shards", type=click.IntRange(min=1), required=True, metavar="N", help="The number of shards to have.")
@index_option
@json_option
def reshard(shards: int, index_path: str, as_json: bool) -> None:
    """Change the number of shards without re-encoding.

    Documents move with their vectors and words. If the command is killed, the index is unchanged or fully resharded.
    Restart the servers that have it open.
    """
    from lmkrag.cluster.resharding import reshard_index

    documents = reshard_index(Path(index_path), shards)
    if as_json:
        print_json({"shards": shards, "documents": documents})
    else:
        click.echo(f"{index_path}: {documents} documents in {shards} shards", err=True)
