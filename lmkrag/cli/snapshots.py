"""``lmkrag push``, ``lmkrag pull`` and ``lmkrag snapshots``."""

import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lmkrag.cli.output import index_option, json_option, one_line, print_json

if TYPE_CHECKING:
    from lmkrag.cluster.snapshots import Transfer


@click.command(epilog="Example: lmkrag push s3://bucket/handbook --tag before-the-move")
@click.argument("url")
@index_option
@click.option("--tag", default="", metavar="NAME", help="Keep this snapshot by a name.")
@json_option
def push(url: str, index_path: str, tag: str, as_json: bool) -> None:
    """Store a snapshot of an index elsewhere.

    URL is a directory, or a place in object storage such as s3://bucket/handbook. Only what no snapshot there has
    travels. Killed at any instant, there is no snapshot.
    """
    from lmkrag.cluster.snapshots import Remote

    done = Remote(url).push(Path(index_path), tag=tag)
    _print_transfer(done, url, "sent", as_json=as_json)


@click.command(epilog="Example: lmkrag pull s3://bucket/handbook --index indexes/handbook")
@click.argument("url")
@partial(index_option, existing=False)
@click.option("--tag", default="", metavar="NAME", help="The snapshot of this name.")
@click.option("--number", type=click.IntRange(min=1), metavar="N", help="The snapshot of this number.")
@json_option
def pull(url: str, index_path: str, tag: str, number: int | None, as_json: bool) -> None:
    """Make an index of a snapshot, the newest unless one is named.

    An index that was pulled before is replaced in one step, and only what it lacks travels.
    """
    from lmkrag.cluster.snapshots import Remote

    done = Remote(url).pull(Path(index_path), tag=tag, number=number)
    _print_transfer(done, index_path, "fetched", as_json=as_json)


def _print_transfer(done: "Transfer", place: str, verb: str, *, as_json: bool) -> None:
    if as_json:
        print_json(asdict(done))
    else:
        click.echo(f"{place}: snapshot {done.number}; {done.files} files, {done.bytes:,} bytes {verb}", err=True)


@click.command(epilog="Example: lmkrag snapshots s3://bucket/handbook --keep 7")
@click.argument("url")
@click.option(
    "--keep", type=click.IntRange(min=1), metavar="N", help="Remove all but the newest N and those with tags."
)
@click.option("--verify", is_flag=True, help="Read every file of the newest and compare it with its checksum.")
@json_option
def snapshots(url: str, keep: int | None, verify: bool, as_json: bool) -> None:
    """List the snapshots in a place, remove old ones, or check one."""
    from lmkrag.cluster.snapshots import Remote

    remote = Remote(url)
    removed = remote.collect(keep) if keep is not None else None
    problems = remote.verify() if verify else []
    found = remote.snapshots()
    if as_json:
        listed = [{**asdict(one), "bytes": one.bytes, "files": len(one.files)} for one in found]
        print_json({"snapshots": listed, "removed": removed, "problems": problems})
    else:
        for one in found:
            facts = f"{one.documents:,} documents, {one.sentences:,} sentences, {one.bytes:,} bytes"
            click.echo(f"{one.number:>6}  {one.time}  {facts}" + (f"  {one.tag}" if one.tag else ""))
        for problem in problems:
            click.echo(one_line(problem))
        if removed is not None:
            click.echo(f"{url}: {removed} files removed", err=True)
        if verify:
            click.echo(f"{url}: {len(problems) or 'no'} problem{'s' * (len(problems) != 1)}", err=True)
    if problems:
        sys.exit(1)
