"""`millstream completion`: make the shell complete verbs, flags and values."""

import click
from click.shell_completion import get_completion_class

from millstream.cli.failures import Failure
from millstream.cli.output import emit


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.option("--json", "as_json", is_flag=True, help="Print the script as a JSON object.")
@click.pass_context
def command(ctx: click.Context, /, shell: str, as_json: bool) -> None:
    """Print the completion script for SHELL.

    Load it with: eval "$(millstream completion bash)"
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise Failure(f"no completion for {shell} here")
    script = kind(ctx.find_root().command, {}, "millstream", "_MILLSTREAM_COMPLETE").source()
    if as_json:
        emit({"shell": shell, "script": script})
    else:
        click.echo(script)
