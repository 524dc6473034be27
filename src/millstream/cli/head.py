"""`millstream head`: what a stream is, without its data."""

import click

from millstream.cli.http import connect, stream_path
from millstream.cli.options import client
from millstream.cli.output import report


@click.command("head")
@click.argument("stream")
@client
@click.pass_context
def command(ctx: click.Context, /, stream: str, as_json: bool, **_: object) -> None:
    """Show the content type of STREAM, where it ends, and whether it is closed or expires."""
    answer = connect(ctx).must("HEAD", stream_path(stream))
    ttl = answer.headers.get("stream-ttl")
    facts = {
        "stream": stream,
        "content_type": answer.headers.get("content-type"),
        "next_offset": answer.next_offset,
        "closed": answer.is_closed,
        "ttl_s": int(ttl) if ttl is not None and ttl.isdigit() else None,
        "expires_at": answer.headers.get("stream-expires-at"),
    }
    shown = {name: value for name, value in facts.items() if value is not None}
    text = "\n".join(f"{name:13} {_plain(value)}" for name, value in shown.items())
    report(facts, text, as_json=as_json)


def _plain(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
