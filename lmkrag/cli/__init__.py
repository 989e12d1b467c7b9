"""The ``lmkrag`` command: parse, call the engine, print. Nothing heavy is imported to show help."""

from pathlib import Path

import click

from lmkrag import __version__
from lmkrag.cli.ask import ask, chat
from lmkrag.cli.evaluate import evaluate
from lmkrag.cli.index import index
from lmkrag.cli.manage import compact, recipes, remove, repair, show, status, verify
from lmkrag.cli.output import ErrorHandlingGroup
from lmkrag.cli.search import search
from lmkrag.cli.synth import synth
from lmkrag.cli.train import train
from lmkrag.config import read_defaults


@click.group(cls=ErrorHandlingGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="lmkrag")
@click.pass_context
def main(context: click.Context) -> None:
    r"""Find exact evidence in your documents, without chunks.

    \b
    lmkrag index docs/                  read a directory
    lmkrag search "sick leave"          find spans of it
    lmkrag ask "who approves leave?"    answer from it, with citations
    lmkrag chat                         ask on, follow-up questions included

    Settings: flags, else LMKRAG_INDEX and other LMKRAG_* variables, else lmkrag.toml, else the defaults shown.
    """
    options = {
        name: {str(parameter.name) for parameter in command.params if isinstance(parameter, click.Option)}
        for name, command in main.commands.items()
    }
    context.default_map = read_defaults(Path(), options)


for command in (index, search, ask, chat, show, status, remove, compact, verify, repair, recipes):
    main.add_command(command)
for command in (evaluate, synth, train):
    main.add_command(command)
