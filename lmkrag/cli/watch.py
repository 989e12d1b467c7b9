"""``lmkrag watch``: an index that follows its directories."""

import sys
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click

from lmkrag.cli.index import explain_report, glob_options
from lmkrag.cli.output import index_option, print_error
from lmkrag.errors import LmkragError, MissingExtra, UsageError

_PAUSE = 1_000  # milliseconds in which changes are gathered


@click.command(epilog="Example: lmkrag watch docs/ --index indexes/handbook")
@click.argument("folders", nargs=-1, required=True, metavar="DIR...")
@partial(index_option, existing=False)
@glob_options
@click.option("--changes", type=click.IntRange(min=0), default=0, metavar="N", help="End after so many; 0 for never.")
def watch(
    folders: tuple[str, ...], index_path: str, include: tuple[str, ...], exclude: tuple[str, ...], changes: int
) -> None:
    """Keep an index up to date while directories change.

    Ctrl-C ends it.
    """
    try:
        import watchfiles
    except ImportError:
        raise MissingExtra("watch", "watchfiles") from None
    from lmkrag.engine import Engine

    for folder in folders:
        if not Path(folder).is_dir():
            raise UsageError(f"{folder}: not a directory")
    seen = watchfiles.watch(*folders, yield_on_timeout=True, rust_timeout=_PAUSE, raise_interrupt=False)
    try:
        with Engine.open(index_path, create=True) as engine:
            for number, _ in enumerate(_once_and(seen)):
                try:
                    report = engine.add(list(folders), include=include, exclude=exclude, prune=True)
                except LmkragError as error:  # such as another writer: the next change tries again
                    print_error(error)
                else:
                    explain_report(report, index_path)
                if changes and number >= changes:
                    return
    except KeyboardInterrupt:
        sys.exit(130)


def _once_and(changes: Iterable[set[Any]]) -> Iterator[set[Any]]:
    """One turn at the start, once changes are watched for, then one for each batch of them."""
    for number, change in enumerate(changes):
        if change or number == 0:
            yield change
