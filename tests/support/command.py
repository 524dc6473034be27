"""Run a verb of the command in this process, as a user would type it."""

import json
from typing import Any

from click.testing import CliRunner, Result

from millstream.cli.main import cli


def run(*arguments: str, url: str | None = None, stdin: bytes | None = None) -> Result:
    """Run `millstream ARGUMENTS`; the environment names the server."""
    environment = {"MILLSTREAM_URL": url, "STREAM_URL": None}
    return CliRunner().invoke(cli, list(arguments), input=stdin, env=environment)


def ok(*arguments: str, url: str | None = None, stdin: bytes | None = None) -> str:
    """Run a verb that must succeed; return what it printed on standard output."""
    result = run(*arguments, url=url, stdin=stdin)
    assert result.exit_code == 0, (result.exit_code, result.output, result.exception)
    return result.stdout


def json_lines(text: str) -> list[Any]:
    """Parse output of `--json`."""
    return [json.loads(line) for line in text.splitlines()]
