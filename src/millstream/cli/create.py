"""`millstream create`: make a stream, or make sure that it is there."""

from typing import BinaryIO

import click

from millstream.cli.http import connect, stream_path
from millstream.cli.options import client, lifetime
from millstream.cli.output import report


@click.command("create")
@click.argument("stream")
@click.argument("file", type=click.File("rb"), required=False)
@click.option(
    "--content-type",
    "-t",
    default="application/json",
    show_default=True,
    help="What the stream holds.",
)
@click.option("--closed", is_flag=True, help="Create it complete: FILE is all it will ever hold.")
@lifetime
@client
@click.pass_context
def command(
    ctx: click.Context,
    /,
    stream: str,
    file: BinaryIO | None,
    content_type: str,
    closed: bool,
    ttl: int | None,
    expires_at: str | None,
    as_json: bool,
    **_: object,
) -> None:
    """Create STREAM, with the content of FILE if given (- is standard input).

    Creating it again with the same set-up succeeds and changes nothing.
    """
    server = connect(ctx)
    answer = server.must(
        "PUT",
        stream_path(stream),
        headers={
            "Content-Type": content_type,
            "Stream-TTL": None if ttl is None else str(ttl),
            "Stream-Expires-At": expires_at,
            "Stream-Closed": "true" if closed else None,
        },
        body=file.read() if file is not None else b"",
    )
    created = answer.status == 201
    facts = {
        "stream": stream,
        "url": server.url_of(stream),
        "created": created,
        "content_type": answer.headers.get("content-type"),
        "next_offset": answer.next_offset,
        "closed": answer.is_closed,
    }
    verb = "created" if created else "exists already:"
    report(facts, f"{verb} {server.url_of(stream)}", as_json=as_json)
