"""``lmkrag backup``: copy an index that is in use."""

from dataclasses import asdict
from pathlib import Path

import click

from lmkrag.cli.output import json_option, print_json


@click.command(epilog="Example: lmkrag backup indexes/handbook /backups/handbook")
@click.argument("index", metavar="INDEX", type=click.Path(path_type=Path))
@click.argument("copy", metavar="DIR", type=click.Path(path_type=Path))
@json_option
def backup(index: Path, copy: Path, as_json: bool) -> None:
    """Copy an index that is in use.

    The copy is verified, then replaces the earlier copy in DIR in one step. It is an ordinary index: search it with
    --index DIR. Run the command again to update it; only new segments are copied.
    """
    from lmkrag.index.backup import back_up_index

    made = back_up_index(index, copy)
    if as_json:
        print_json(asdict(made))
    else:
        held = f"{made.documents:,} documents, {made.sentences:,} sentences"
        click.echo(f"{copy}: {held}; {made.new_files} new files, {made.new_bytes:,} bytes", err=True)
