"""Where a verb's output goes: data to standard output, remarks to standard error."""

import json
import sys
from typing import Any

import click


def emit(value: Any) -> None:
    """Print one JSON value on a line of its own."""
    click.echo(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def report(facts: dict[str, Any], text: str, *, as_json: bool) -> None:
    """Print the result of a verb: the facts as JSON, or the sentence."""
    if as_json:
        emit({name: value for name, value in facts.items() if value is not None})
    else:
        click.echo(text)


def write(data: bytes) -> None:
    """Print bytes exactly as they are, at once."""
    click.echo(data, nl=False)


def remark(text: str) -> None:
    """Tell the user something that is not data."""
    click.echo(f"millstream: {text}", file=sys.stderr)
