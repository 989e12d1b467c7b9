"""``lmkrag completion``: what a shell needs to complete commands and options."""

import click
from click.shell_completion import get_completion_class


@click.command(epilog='Example: lmkrag completion bash >> ~/.bashrc; or: eval "$(lmkrag completion zsh)"')
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of a shell."""
    found = get_completion_class(shell)
    assert found is not None  # the shells above are click's own
    click.echo(found(context.find_root().command, {}, "lmkrag", "_LMKRAG_COMPLETE").source())
