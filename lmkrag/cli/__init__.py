"""The ``lmkrag`` command: parse, call the engine, print. Nothing heavy is imported to show help."""

from pathlib import Path

import click

from lmkrag.cli.ask import ask, chat
from lmkrag.cli.blocks import adopt, encode, reindex, reshard
from lmkrag.cli.completion import completion
from lmkrag.cli.doctor import doctor
from lmkrag.cli.evaluate import evaluate
from lmkrag.cli.feedback import feedback
from lmkrag.cli.index import index
from lmkrag.cli.manage import compact, list_command, recipes, remove, repair, show, status, verify
from lmkrag.cli.output import ErrorHandlingGroup, logging_options
from lmkrag.cli.search import search
from lmkrag.cli.serve import mcp, serve
from lmkrag.cli.snapshots import pull, push, snapshots
from lmkrag.cli.synth import synth
from lmkrag.cli.train import train
from lmkrag.settings import FILE, read_defaults
from lmkrag.system import set_wait_policy
from lmkrag.version import __version__


@click.group(cls=ErrorHandlingGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="lmkrag")
@click.pass_context
def main(context: click.Context) -> None:
    """Find exact evidence in your documents, without chunks.

    \b
    lmkrag index docs/                  read a directory
    lmkrag search "sick leave"          find spans of it
    lmkrag ask "who approves leave?"    answer from it, with citations
    lmkrag chat                         ask on, follow-up questions included
    lmkrag serve                        a page, an API and MCP

    Settings come from flags, else LMKRAG_INDEX and other LMKRAG_* variables, else lmkrag.toml in your configuration
    folder, else the defaults shown.
    """  # noqa: D301  # click wants the character itself
    set_wait_policy()
    command = context.invoked_subcommand
    if command is not None and command in main.commands:
        defaults = read_defaults(Path(click.get_app_dir("lmkrag")) / FILE, _options()).get(command, {})
        several = {str(option.name) for option in main.commands[command].params if getattr(option, "multiple", False)}
        values = {
            name: [value] if name in several and isinstance(value, str) else value for name, value in defaults.items()
        }
        context.default_map = {command: values}


def _options() -> dict[str, dict[str, str]]:
    """Of each command: the names of its options in a settings file, and what click calls them."""
    return {
        name: {
            flag.lstrip("-").replace("-", "_"): str(parameter.name)
            for parameter in command.params
            if isinstance(parameter, click.Option)
            for flag in (*parameter.opts, *parameter.secondary_opts)
            if flag.startswith("--")
        }
        for name, command in main.commands.items()
    }


logging_options(main)
for command in (index, search, ask, chat, list_command, show, status, remove, compact, verify, repair, recipes):
    main.add_command(command)
for command in (
    encode,
    adopt,
    reshard,
    reindex,
    push,
    pull,
    snapshots,
    doctor,
    completion,
    serve,
    mcp,
    feedback,
    evaluate,
    synth,
    train,
):
    main.add_command(command)
