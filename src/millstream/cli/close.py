"""`millstream close`: end a stream."""

import click

from millstream.cli.http import connect, stream_path
from millstream.cli.options import client
from millstream.cli.output import report


@click.command("close")
@click.argument("stream")
@client
@click.pass_context
def command(ctx: click.Context, /, stream: str, as_json: bool, **_: object) -> None:
    """Close STREAM: its data stays, appends are refused from now on, readers see the end.

    Closing it again succeeds and changes nothing.
    """
    answer = connect(ctx).must("POST", stream_path(stream), headers={"Stream-Closed": "true"})
    facts = {"stream": stream, "closed": True, "next_offset": answer.next_offset}
    report(facts, f"closed {stream} at {answer.next_offset}", as_json=as_json)
