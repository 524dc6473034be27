"""`millstream append`: put messages into a stream."""

import io
import time
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, cast

import click

from millstream.cli import batches, messages
from millstream.cli.failures import UNAVAILABLE, Failure
from millstream.cli.http import Answer, Client, connect, refusal, stream_path
from millstream.cli.options import client
from millstream.cli.output import report

EPOCH_MAX = 2**53 - 1
PAUSE_S_MAX = 5.0


class Part(NamedTuple):
    """One append: its body and how many messages that is."""

    body: bytes
    messages: int


class Producer:
    """Who writes: an id, an epoch and the next sequence. Makes every append safe to repeat."""

    def __init__(self, text: str) -> None:
        self.id, colon, epoch = text.rpartition(":") if ":" in text else (text, "", "")
        if not self.id or (colon and not (epoch.isascii() and epoch.isdigit())):
            raise click.UsageError(f"--producer {text!r} is not ID or ID:EPOCH, as in job-7:0")
        # A fixed epoch means: this run may be a repetition. Without one this run is new, so it
        # takes an epoch that no earlier run has had.
        self.is_fixed = bool(colon)
        self.epoch = int(epoch) if colon else time.time_ns() // 1_000_000
        self.seq = 0
        if self.epoch > EPOCH_MAX:
            raise click.UsageError(f"--producer {text!r}: the epoch is larger than {EPOCH_MAX}")

    def headers(self) -> dict[str, str | None]:
        """Return the headers that identify the next append."""
        return {
            "Producer-Id": self.id,
            "Producer-Epoch": str(self.epoch),
            "Producer-Seq": str(self.seq),
        }

    def claim_after(self, answer: Answer) -> bool:
        """Take an epoch above the one that fenced us, if this run has not fixed or used one."""
        current = answer.headers.get("producer-epoch", "")
        if self.is_fixed or self.seq > 0 or answer.status != 403 or not current.isdigit():
            return False
        self.epoch = int(current) + 1
        return True


class Sender:
    """Sends parts in order and counts what became of them."""

    def __init__(self, server: Client, stream: str, content_type: str) -> None:
        self._server = server
        self._path = stream_path(stream)
        self._content_type = content_type
        self.producer: Producer | None = None
        self.if_match: str | None = None
        self.retries = 0
        self.appended = 0
        self.duplicates = 0
        self.next_offset: str | None = None

    def send(self, part: Part, *, closing: bool = False) -> None:
        """Append one part. Only with a producer is it sent again when no answer came.

        Raises the refusal, or unavailable once all retries are used up.
        """
        attempt = 0
        while True:
            failure = self._try(part, closing=closing)
            if failure is None:
                return
            if failure.exit_code != UNAVAILABLE or self.producer is None or attempt >= self.retries:
                raise failure
            attempt += 1
            # The server said it is busy, or is not there: there is nothing to wait for but time.
            time.sleep(min(0.1 * 2**attempt, PAUSE_S_MAX))

    def _try(self, part: Part, *, closing: bool) -> Failure | None:
        try:
            answer = self._server.ask(
                "POST", self._path, headers=self._headers(closing=closing), body=part.body
            )
        except Failure as failure:
            return failure
        producer = self.producer
        if producer is not None and producer.claim_after(answer):
            return self._try(part, closing=closing)
        if answer.status >= 300:
            return refusal(answer)
        # With a producer the server tells new data (200) from data it already had (204).
        is_duplicate = producer is not None and answer.status == 204 and bool(part.body)
        self.appended += 0 if is_duplicate else part.messages
        self.duplicates += part.messages if is_duplicate else 0
        self.next_offset = answer.next_offset
        # The condition is about the stream before the first append; after it, we are the change.
        self.if_match = None
        if producer is not None:
            producer.seq += 1
        return None

    def _headers(self, *, closing: bool) -> dict[str, str | None]:
        return {
            "Content-Type": self._content_type,
            "If-Match": self.if_match,
            "Stream-Closed": "true" if closing else None,
            **(self.producer.headers() if self.producer is not None else {}),
        }


@click.command("append")
@click.argument("stream")
@click.argument("file", type=click.File("rb"), default="-")
@click.option("--data", "-d", help="Append this text instead of FILE.")
@click.option("--ndjson", is_flag=True, help="One message per line.")
@click.option("--producer", metavar="ID[:EPOCH]", help="Write exactly once under this name.")
@click.option("--if-match", metavar="OFFSET", help="Append only if the stream ends here.")
@click.option("--close", "closing", is_flag=True, help="Close the stream with the last append.")
@click.option("--content-type", "-t", help="Type of the stream. [default: asked from the server]")
@click.option(
    "--batch-messages", type=click.IntRange(min=1), default=1000, show_default=True, metavar="N"
)
@click.option(
    "--batch-bytes", type=click.IntRange(min=1), default=1 << 20, show_default=True, metavar="N"
)
@click.option("--retries", type=click.IntRange(min=0), default=8, show_default=True, metavar="N")
@client
@click.pass_context
def command(ctx: click.Context, /, stream: str, as_json: bool, **_: object) -> None:
    """Append FILE to STREAM; without FILE, or with -, standard input.

    A JSON stream takes one JSON document, whose array elements become messages, or with --ndjson
    one message per line. Any other stream takes the bytes, cut at --batch-bytes, or with --ndjson
    every line as a message of its own.

    With --producer an append without an answer is sent again and lands once. With ID:EPOCH the
    whole command can be repeated: batches the stream has already are recognised and left out.
    """
    given = ctx.params
    server = connect(ctx)
    content_type = given["content_type"] or _type_of(server, stream)
    sender = Sender(server, stream, content_type)
    sender.producer = Producer(given["producer"]) if given["producer"] is not None else None
    sender.if_match = given["if_match"]
    sender.retries = given["retries"]
    try:
        for part, is_last in _with_last(_parts(ctx, content_type, sender.producer)):
            sender.send(part, closing=is_last and given["closing"])
    except batches.NotJson as error:
        raise Failure(f"{error}; {sender.appended} messages before it are appended") from error
    if sender.next_offset is None:
        _send_nothing(sender, closing=given["closing"])
    facts = {
        "stream": stream,
        "appended": sender.appended,
        "duplicates": sender.duplicates,
        "next_offset": sender.next_offset,
        "closed": given["closing"],
    }
    again = f", {sender.duplicates} were there already" if sender.duplicates else ""
    text = f"appended {sender.appended} to {stream}{again}; next offset {sender.next_offset}"
    report(facts, text, as_json=as_json)


def _send_nothing(sender: Sender, *, closing: bool) -> None:
    """Close without data if asked to; an empty input is otherwise a mistake."""
    if not closing:
        raise Failure("the input is empty: there is nothing to append")
    sender.send(Part(b"", 0), closing=True)


def _type_of(server: Client, stream: str) -> str:
    answer = server.must("HEAD", stream_path(stream))
    return answer.headers.get("content-type", "application/octet-stream")


def _parts(ctx: click.Context, content_type: str, producer: Producer | None) -> Iterator[Part]:
    given = ctx.params
    source = _source(given["file"], given["data"])
    limits = batches.Limits(given["batch_messages"], given["batch_bytes"])
    steady = producer is not None and producer.is_fixed
    is_json = messages.is_json(content_type)
    if given["ndjson"] and is_json:
        found = batches.lines(source, limits, steady=steady)
        yield from (Part(body, count) for body, count in batches.json_arrays(found))
    elif given["ndjson"]:
        for batch in batches.lines(source, limits, steady=steady):
            yield from (Part(line, 1) for line in batch)
    elif is_json:
        if body := source.read():
            yield Part(body, _count(body))
    else:
        pieces = batches.chunks(source, limits.bytes, steady=steady)
        yield from (Part(piece, 1) for piece in pieces)


def _source(file: BinaryIO, data: str | None) -> io.BufferedIOBase:
    if data is not None:
        return io.BytesIO(data.encode())
    if file.isatty():
        click.echo("millstream: reading from the terminal; end with Ctrl-D", err=True)
    return cast("io.BufferedIOBase", file)


def _count(body: bytes) -> int:
    """Messages in a JSON document: the elements of an array, else one. The server judges errors."""
    try:
        return len(messages.values(body)) if body.lstrip().startswith(b"[") else 1
    except ValueError:
        return 1


def _with_last(parts: Iterator[Part]) -> Iterator[tuple[Part, bool]]:
    """Say of each part whether it is the last. Looks one part ahead, which waits for the input."""
    held: Part | None = None
    for part in parts:
        if held is not None:
            yield held, False
        held = part
    if held is not None:
        yield held, True
