"""``lmkrag trust``: let a folder's lmkrag.toml choose servers, models, prompts, encoders and re-rankers."""

from pathlib import Path

import click

from lmkrag.cli.output import one_line
from lmkrag.config import FILE
from lmkrag.errors import UsageError
from lmkrag.trust import distrust, list_trusted
from lmkrag.trust import trust as trust_file


@click.command(epilog="Example: lmkrag trust && lmkrag ask 'who approves leave?'")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=Path(), metavar="[DIR]")
@click.option("--remove", is_flag=True, help="Trust the folder no more.")
@click.option("--list", "listed", is_flag=True, help="List the trusted files.")
def trust(folder: Path, remove: bool, listed: bool) -> None:
    """Trust the settings in a directory's lmkrag.toml.

    DIR is the working directory unless given; the file is trusted until it changes.

    Only then may it set reader, model, base_url, prompts and encoder. OPENAI_API_KEY is never sent to a server that it
    names: give that server by --base-url or LMKRAG_BASE_URL.
    """
    user_folder = Path(click.get_app_dir("lmkrag"))
    if remove and listed:
        raise UsageError("give --remove or --list, not both")
    if listed:
        for path in sorted(list_trusted(user_folder)):
            click.echo(one_line(path))
    elif remove:
        distrust(folder / FILE, user_folder)
    else:
        trust_file(folder / FILE, user_folder)
        click.echo(f"trusted: {one_line(str((folder / FILE).resolve()))}", err=True)
