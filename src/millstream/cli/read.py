"""`millstream read`: everything a stream holds, page by page."""

from collections.abc import Iterator

import click

from millstream.cli import messages
from millstream.cli.http import Answer, Client, connect, stream_path
from millstream.cli.options import Since, client
from millstream.cli.output import emit, write


@click.command("read")
@click.argument("stream")
@click.option("--offset", help="Start here. [default: the beginning]")
@click.option("--since", type=Since(), help="Start so long ago (30d, 12h) or at an RFC 3339 time.")
@click.option("--limit", "-n", type=click.IntRange(min=1), help="Print at most so many messages.")
@client
@click.pass_context
def command(
    ctx: click.Context,
    /,
    stream: str,
    offset: str | None,
    since: int | None,
    limit: int | None,
    as_json: bool,
    **_: object,
) -> None:
    """Print STREAM from an offset or a time to its present end.

    JSON streams come one value per line, others byte for byte. With --json every page is one line
    that also holds the offset to go on from.
    """
    if offset is not None and since is not None:
        raise click.UsageError("--offset and --since are two ways to say one thing; give one")
    for page in pages(connect(ctx), stream, start(offset, since), limit):
        content_type = page.headers.get("content-type", "")
        if as_json:
            facts = {"next_offset": page.next_offset, "closed": page.is_closed}
            emit({**facts, **messages.described(content_type, page.body)})
        else:
            write(messages.lines(content_type, page.body))


def start(offset: str | None, since_ms: int | None) -> dict[str, str | int | None]:
    """Return the query that names where reading starts."""
    return {"at": since_ms} if since_ms is not None else {"offset": offset or "-1"}


def pages(
    server: Client, stream: str, query: dict[str, str | int | None], limit: int | None
) -> Iterator[Answer]:
    """Give page after page until the end of the stream, or until `limit` messages are given."""
    left = limit
    before = str(query.get("offset", ""))
    while True:
        page = server.must("GET", stream_path(stream), query={**query, "limit": left})
        yield page
        after = page.next_offset
        if page.is_up_to_date or page.is_closed or after is None or after == before:
            return
        if left is not None:
            found = count(page, before, after)
            if found is None or found >= left:
                return
            left -= found
        query, before = {"offset": after}, after


def count(page: Answer, before: str, after: str) -> int | None:
    """Return how many messages a page holds; None when that cannot be told.

    A page of a JSON stream can be counted. Elsewhere the running index in the offsets tells.
    """
    if messages.is_json(page.headers.get("content-type", "")):
        return len(messages.values(page.body))
    first, last = _index(before), _index(after)
    return None if first is None or last is None else last - first


def _index(offset: str) -> int | None:
    if offset == "-1":
        return 0
    digits = offset.rpartition("_")[2]
    return int(digits) if digits.isascii() and digits.isdigit() else None
