"""The ``lmkrag`` command: parse, call the engine, print. Nothing heavy is imported to show help."""

import click
from click.shell_completion import get_completion_class

from lmkrag.cli.ask import ask, chat
from lmkrag.cli.evaluate import evaluate, train
from lmkrag.cli.grep import grep
from lmkrag.cli.index import index
from lmkrag.cli.index_tools import index_tools
from lmkrag.cli.install import install
from lmkrag.cli.manage import backup, check, list_command, remove, show, status, verify
from lmkrag.cli.output import ErrorHandlingGroup, logging_options
from lmkrag.cli.search import search
from lmkrag.cli.serve import mcp, serve
from lmkrag.system.processes import set_wait_policy
from lmkrag.version import __version__


def _print_completion(
    context: click.Context, parameter: click.Parameter, shell: str | None
) -> None:
    if shell is not None:
        completion = get_completion_class(shell)
        assert completion is not None  # click knows the three shells
        click.echo(completion(main, {}, "lmkrag", "_LMKRAG_COMPLETE").source())
        context.exit()


@click.group(
    cls=ErrorHandlingGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="lmkrag")
@click.option(
    "--completion",
    type=click.Choice(["bash", "zsh", "fish"]),
    is_eager=True,
    expose_value=False,
    callback=_print_completion,
    help="Print the completion script of a shell and exit.",
)
def main() -> None:
    """Find exact evidence in your documents, without chunks.

    \b
    lmkrag index docs/                  index a directory
    lmkrag search "sick leave"          find passages about something
    lmkrag ask "who approves leave?"    answer a question, with citations
    lmkrag chat                         ask follow-up questions
    lmkrag grep "retry limit" src/      search a folder by meaning, without indexing it first
    lmkrag serve                        serve a page, an API and MCP

    Settings come from flags, else LMKRAG_INDEX and other LMKRAG_* variables, else the defaults
    shown.
    """  # noqa: D301
    set_wait_policy()


logging_options(main)
commands = [
    index,
    search,
    grep,
    ask,
    chat,
    list_command,
    show,
    status,
    remove,
    verify,
    backup,
    check,
    install,
    serve,
    mcp,
    evaluate,
    train,
    index_tools,
]
for command in commands:
    main.add_command(command)
