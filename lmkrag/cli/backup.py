"""``lmkrag backup``: copies of an index in a directory or in object storage."""

import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lmkrag.cli.output import ErrorHandlingGroup, index_option, json_option, one_line, print_json

if TYPE_CHECKING:
    from lmkrag.cluster.manifests import Transfer


@click.group(cls=ErrorHandlingGroup, epilog="Example: lmkrag backup push s3://bucket/handbook")
def backup() -> None:
    """Keep backups of an index in a directory or in object storage."""


@backup.command(epilog="Example: lmkrag backup push s3://bucket/handbook --tag before-the-move")
@click.argument("url")
@index_option
@click.option("--tag", default="", metavar="NAME", help="Keep this backup under a name.")
@json_option
def push(url: str, index_path: str, tag: str, as_json: bool) -> None:
    """Back up an index.

    URL is a directory, or a location in object storage such as s3://bucket/handbook. Only files that no earlier backup
    holds are sent. If the command is killed, no incomplete backup appears.
    """
    from lmkrag.cluster.backups import Remote

    done = Remote(url).push(Path(index_path), tag=tag)
    _print_transfer(done, url, "sent", as_json=as_json)


@backup.command(epilog="Example: lmkrag backup pull s3://bucket/handbook --index indexes/handbook")
@click.argument("url")
@partial(index_option, existing=False)
@click.option("--tag", default="", metavar="NAME", help="The backup with this name.")
@click.option("--number", type=click.IntRange(min=1), metavar="N", help="The backup with this number.")
@json_option
def pull(url: str, index_path: str, tag: str, number: int | None, as_json: bool) -> None:
    """Restore an index from a backup, the newest by default.

    An index that was pulled before is replaced in one step, and only the files that it lacks are fetched.
    """
    from lmkrag.cluster.backups import Remote

    done = Remote(url).pull(Path(index_path), tag=tag, number=number)
    _print_transfer(done, index_path, "fetched", as_json=as_json)


def _print_transfer(done: "Transfer", target: str, verb: str, *, as_json: bool) -> None:
    if as_json:
        print_json(asdict(done))
    else:
        click.echo(f"{target}: backup {done.number}; {done.files} files, {done.bytes:,} bytes {verb}", err=True)


@backup.command("list", epilog="Example: lmkrag backup list s3://bucket/handbook --keep 7")
@click.argument("url")
@click.option(
    "--keep", type=click.IntRange(min=1), metavar="N", help="Remove all but the newest N and those with tags."
)
@click.option("--verify", is_flag=True, help="Read every file of the newest and compare it with its checksum.")
@json_option
def list_backups(url: str, keep: int | None, verify: bool, as_json: bool) -> None:
    """List backups, remove old ones, or check the newest."""
    from lmkrag.cluster.backups import Remote

    remote = Remote(url)
    removed = remote.collect(keep) if keep is not None else None
    problems = remote.verify() if verify else []
    found = remote.snapshots()
    if as_json:
        listed = [{**asdict(one), "bytes": one.bytes, "files": len(one.files)} for one in found]
        print_json({"backups": listed, "removed": removed, "problems": problems})
    else:
        for one in found:
            details = f"{one.documents:,} documents, {one.sentences:,} sentences, {one.bytes:,} bytes"
            click.echo(f"{one.number:>6}  {one.time}  {details}" + (f"  {one.tag}" if one.tag else ""))
        for problem in problems:
            click.echo(one_line(problem))
        if removed is not None:
            click.echo(f"{url}: {removed} files removed", err=True)
        if verify:
            click.echo(f"{url}: {len(problems) or 'no'} problem{'s' * (len(problems) != 1)}", err=True)
    if problems:
        sys.exit(1)
