"""`millstream fork`: a new stream on the data of an old one."""

import click

from millstream.cli.http import connect, stream_path
from millstream.cli.options import client, lifetime
from millstream.cli.output import report


@click.command("fork")
@click.argument("source")
@click.argument("stream")
@click.option("--offset", help="Where to branch off. [default: the end of SOURCE]")
@click.option(
    "--sub-offset",
    type=click.IntRange(min=0),
    help="Take so many messages (JSON) or bytes more than --offset says.",
)
@lifetime
@client
@click.pass_context
def command(
    ctx: click.Context,
    /,
    source: str,
    stream: str,
    offset: str | None,
    sub_offset: int | None,
    ttl: int | None,
    expires_at: str | None,
    as_json: bool,
    **_: object,
) -> None:
    """Create STREAM with everything SOURCE holds up to an offset; then the two go their own ways.

    Nothing is copied, and SOURCE does not notice.
    """
    server = connect(ctx)
    answer = server.must(
        "PUT",
        stream_path(stream),
        headers={
            "Stream-Forked-From": stream_path(source),
            "Stream-Fork-Offset": offset,
            "Stream-Fork-Sub-Offset": None if sub_offset is None else str(sub_offset),
            "Stream-TTL": None if ttl is None else str(ttl),
            "Stream-Expires-At": expires_at,
        },
    )
    facts = {
        "stream": stream,
        "source": source,
        "url": server.url_of(stream),
        "created": answer.status == 201,
        "next_offset": answer.next_offset,
    }
    report(facts, f"forked {source} at {answer.next_offset} into {stream}", as_json=as_json)
