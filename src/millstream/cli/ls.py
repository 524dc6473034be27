"""`millstream ls`: which streams there are."""

import json
from collections.abc import Iterator
from typing import Any

import click

from millstream.cli.failures import Failure
from millstream.cli.http import LIST_PATH, Client, connect
from millstream.cli.options import client
from millstream.cli.output import emit

PAGE = 1000


@click.command("ls")
@click.argument("prefix", default="")
@click.option("--limit", "-n", type=click.IntRange(min=1), help="Show at most so many.")
@click.option("--after", help="Start behind this name.")
@click.option("--long", "-l", "is_long", is_flag=True, help="Show size, messages, end and type.")
@client
@click.pass_context
def command(
    ctx: click.Context,
    /,
    prefix: str,
    limit: int | None,
    after: str | None,
    is_long: bool,
    as_json: bool,
    **_: object,
) -> None:
    """List the streams whose name starts with PREFIX, in the order of their names."""
    for stream in streams(connect(ctx), prefix, after, limit):
        if as_json:
            emit(stream)
        elif is_long:
            click.echo(described(stream))
        else:
            click.echo(stream["path"])


def streams(
    server: Client, prefix: str, after: str | None, limit: int | None
) -> Iterator[dict[str, Any]]:
    """Give the entries of all pages, `limit` at most."""
    left = limit
    while left is None or left > 0:
        query = {
            "prefix": prefix or None,
            "after": after,
            "limit": PAGE if left is None else min(PAGE, left),
        }
        page = _page(server.must("GET", LIST_PATH, query=query).body)
        found = page["streams"][:left]
        yield from found
        left = None if left is None else left - len(found)
        after = page.get("next_after")
        if after is None:
            return


def _page(body: bytes) -> dict[str, Any]:
    try:
        page = json.loads(body)
    except ValueError:
        page = None
    if not isinstance(page, dict) or not isinstance(page.get("streams"), list):
        raise Failure("the server does not list streams; is it Millstream?")
    return page


def described(stream: dict[str, Any]) -> str:
    """One line about a stream: messages, bytes, end, state, type, name."""
    state = "closed" if stream.get("closed") else "open"
    return (
        f"{stream.get('messages', '-'):>12} {stream.get('bytes', '-'):>14} "
        f"{stream.get('next_offset', '-')} {state:6} "
        f"{stream.get('content_type', '-')} {stream['path']}"
    )
