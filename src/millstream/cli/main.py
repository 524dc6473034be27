"""The `millstream` command: a table of verbs, each loaded only when it is called.

Exit status: 0 done, 1 failure, 2 wrong usage, 3 not found, 4 conflict or fenced, 5 not allowed,
6 unavailable or timed out, 130 interrupted.
"""

import importlib
import os
import sys
from collections.abc import Mapping
from typing import Final

import click

from millstream import __version__
from millstream.cli.failures import INTERRUPTED

# One module of this package per verb, with the line that `millstream --help` shows. Kept here so
# that the list costs no imports.
VERBS: Final[Mapping[str, str]] = {
    "serve": "Run a server on this machine.",
    "create": "Create a stream.",
    "append": "Append messages from standard input, a file or the command line.",
    "read": "Print what a stream holds.",
    "tail": "Follow a stream as it grows.",
    "head": "Show a stream's type, end and life time.",
    "ls": "List streams.",
    "close": "Close a stream: no more appends.",
    "fork": "Create a stream that starts with the data of another.",
    "rm": "Delete streams.",
    "verify": "Check a data directory without starting a server.",
    "completion": "Print the completion script for a shell.",
}


class LazyGroup(click.Group):
    """A group whose commands are the modules that VERBS names."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs in the order of the table."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the verb's module and return its `command`; None for an unknown verb."""
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(f"millstream.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of verbs without importing them."""
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


@click.group(
    cls=LazyGroup,
    name="millstream",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="`millstream VERB -h` explains a verb. Exit status: docs/cli.md.",
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def cli() -> None:
    """Durable event streams behind a URL, each event exactly once."""


def main() -> None:
    """Run the command and exit with its status; an interrupt is 130, a closed pipe is quiet."""
    try:
        status = cli.main(prog_name="millstream", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        status = INTERRUPTED
    except BrokenPipeError:
        # The reader of our output went away, as `| head` does. Python would complain again when
        # it flushes at exit, so the rest goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    sys.exit(status if isinstance(status, int) else 0)


if __name__ == "__main__":
    main()
