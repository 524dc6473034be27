"""`millstream rm`: delete streams."""

import click

from millstream.cli.failures import NOT_FOUND, Failure
from millstream.cli.http import connect, refusal, stream_path
from millstream.cli.options import client
from millstream.cli.output import report


@click.command("rm")
@click.argument("streams", nargs=-1, required=True)
@click.option("--force", "-f", is_flag=True, help="Do not mind streams that are not there.")
@client
@click.pass_context
def command(
    ctx: click.Context, /, streams: tuple[str, ...], force: bool, as_json: bool, **_: object
) -> None:
    """Delete STREAMS and their data. Forks keep what they inherited.

    Every stream is tried; the first failure decides the exit status.
    """
    server = connect(ctx)
    failures: list[Failure] = []
    for stream in streams:
        answer = server.ask("DELETE", stream_path(stream))
        if answer.status < 300:
            report({"stream": stream, "deleted": True}, f"deleted {stream}", as_json=as_json)
            continue
        failure = refusal(answer)
        if not (force and failure.exit_code == NOT_FOUND):
            failures.append(failure)
    for failure in failures[:-1]:
        failure.show()
    if failures:
        last = failures[-1]
        last.exit_code = failures[0].exit_code
        raise last
