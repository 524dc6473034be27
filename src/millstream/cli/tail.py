"""`millstream tail`: follow a stream, across disconnects and restarts of the server."""

import base64
import json
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import click

from millstream.cli import messages
from millstream.cli.failures import UNAVAILABLE, Failure
from millstream.cli.http import Client, connect, stream_path
from millstream.cli.options import Duration, Since, client
from millstream.cli.output import emit, remark, write
from millstream.cli.sse import events

PAUSE_S_FIRST = 0.1
PAUSE_S_MAX = 5.0


class Batch(NamedTuple):
    """Data and the position behind it. Data without its position is never given out."""

    content_type: str
    data: bytes
    next_offset: str
    cursor: str | None
    is_closed: bool


class Place:
    """Where the next connection goes on: the query that names it."""

    def __init__(self, query: dict[str, str | int | None]) -> None:
        self.query = query

    def move(self, batch: Batch) -> None:
        """Go on behind this batch."""
        self.query = {"offset": batch.next_offset, "cursor": batch.cursor}


@click.command("tail")
@click.argument("stream")
@click.option("--offset", help="Start here; -1 is the beginning. [default: now]")
@click.option("--since", type=Since(), help="Start so long ago (30d, 12h) or at an RFC 3339 time.")
@click.option("--limit", "-n", type=click.IntRange(min=1), help="Stop after so many batches.")
@click.option(
    "--patience",
    type=Duration(),
    default=60,
    show_default="60s",
    help="Give up when the server stays away for so long.",
)
@client
@click.pass_context
def command(
    ctx: click.Context,
    /,
    stream: str,
    offset: str | None,
    since: int | None,
    limit: int | None,
    patience: int,
    as_json: bool,
    **_: object,
) -> None:
    """Print STREAM as it grows, until it is closed or you press Ctrl-C.

    After a disconnect it goes on where it was: nothing is printed twice, nothing is left out.
    """
    if offset is not None and since is not None:
        raise click.UsageError("--offset and --since are two ways to say one thing; give one")
    place = Place({"at": since} if since is not None else {"offset": offset or "now"})
    for given, batch in enumerate(follow(connect(ctx), stream, place, patience), 1):
        if as_json:
            facts = {"next_offset": batch.next_offset, "closed": batch.is_closed}
            emit({**facts, **messages.described(batch.content_type, batch.data)})
        else:
            write(messages.lines(batch.content_type, batch.data))
        if given == limit:
            return


def follow(server: Client, stream: str, place: Place, patience_s: int) -> Iterator[Batch]:
    """Give every batch with data, connecting again as often as needed; ends with the stream.

    Raises the refusal when the stream cannot be read, and unavailable when nothing is heard of
    the server for `patience_s`. The first connection must succeed.
    """
    # Unknown until the first answer, since SSE has a type of its own.
    content_type = server.must("HEAD", stream_path(stream)).headers.get("content-type", "")
    heard_at, pause_s = time.monotonic(), PAUSE_S_FIRST
    while True:
        try:
            for batch in connection(server, stream, place, content_type):
                heard_at, pause_s = time.monotonic(), PAUSE_S_FIRST
                place.move(batch)
                if batch.data or batch.is_closed:
                    yield batch
                if batch.is_closed:
                    return
        except Failure as failure:
            if failure.exit_code != UNAVAILABLE or time.monotonic() - heard_at > patience_s:
                raise
            remark(f"{failure.message}; trying again")
            # There is no event to wait for: the server is not there to send one.
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, PAUSE_S_MAX)


def connection(server: Client, stream: str, place: Place, content_type: str) -> Iterator[Batch]:
    """Give the batches of one connection, one for every control event."""
    query = {**place.query, "live": "sse"}
    with server.follow(stream_path(stream), query) as (head, lines):
        is_base64 = head.headers.get("stream-sse-data-encoding") == "base64"
        data: list[bytes] = []
        for event in events(lines):
            if event.name == "data":
                data.append(base64.b64decode(event.data) if is_base64 else event.data)
            elif event.name == "control":
                yield _batch(content_type, data, json.loads(event.data))
                data = []


def _batch(content_type: str, data: list[bytes], control: dict[str, Any]) -> Batch:
    return Batch(
        content_type=content_type,
        data=b"".join(data),
        next_offset=control["streamNextOffset"],
        cursor=control.get("streamCursor"),
        is_closed=control.get("streamClosed", False) is True,
    )
