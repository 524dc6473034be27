"""A machine driven by hand: commands in, time moved, the log of events kept and replayed."""

from collections.abc import Sequence

from millstream.core.errors import Code, Refused
from millstream.core.events import Event
from millstream.core.machine import Bounds, Command, Machine
from millstream.core.offsets import Position
from millstream.core.producers.judge import Claim
from millstream.core.streams.commands import (
    EMPTY,
    Append,
    Body,
    CreateStream,
    DeleteStream,
    ExpireStream,
    ForkPoint,
    ForkRequest,
    TouchStream,
)
from millstream.core.streams.state import Stream
from millstream.format.events import decode_event, encode_event

TEXT = "text/plain"
JSON = "application/json"
START_MS = 1_700_000_000_000


def body(*messages: bytes, glue: bytes = b"") -> Body:
    """Messages as an append carries them; `glue` is a comma in JSON streams."""
    if not messages:
        return EMPTY
    lengths = b"".join(len(m).to_bytes(4, "little") for m in messages)
    return Body(glue.join(messages), len(messages), lengths if len(messages) > 1 else b"")


class Mill:
    """One machine, its time, and all that happened to it."""

    def __init__(self, bounds: Bounds | None = None) -> None:
        self.bounds = bounds or Bounds()
        self.machine = Machine(self.bounds)
        self.now_ms = START_MS
        self.log: list[tuple[bytes, bytes]] = []
        self.last: tuple[Event, ...] = ()

    def do(self, command: Command) -> object:
        """Handle a command and return its answer; `last` has its events."""
        draft = self.machine.handle(command, self.now_ms)
        self.log += [(encode_event(e), d) for e, d in zip(draft.events, draft.data, strict=True)]
        self.last = draft.events
        return draft.answer

    def refusal(self, command: Command) -> Refused:
        """Handle a command that must be refused, and must then leave no trace."""
        answer = self.do(command)
        assert isinstance(answer, Refused), answer
        assert self.last == ()
        return answer

    def code(self, command: Command) -> Code:
        """Return why a command is refused."""
        return self.refusal(command).code

    def create(
        self,
        path: str,
        *messages: bytes,
        content_type: str | None = TEXT,
        ttl_s: int | None = None,
        expires_at_ms: int | None = None,
        closed: bool = False,
    ) -> object:
        """Make a stream, one append a message."""
        answer = self.do(
            CreateStream(
                path=path,
                content_type=content_type,
                ttl_s=ttl_s,
                expires_at_ms=expires_at_ms,
                is_closed=closed,
            )
        )
        for message in messages:
            self.append(path, message)
        return answer

    def append(self, path: str, *messages: bytes, claim: Claim | None = None) -> object:
        """Append messages at once."""
        return self.do(Append(path, TEXT, body(*messages), claim=claim))

    def close(self, path: str, claim: Claim | None = None) -> object:
        """Close without a message."""
        return self.do(Append(path, None, EMPTY, is_closing=True, claim=claim))

    def fork(self, path: str, source: str, index: int | None = None) -> object:
        """Fork behind message `index` of the source, its tail by default."""
        return self.do(self.fork_command(path, source, index))

    def fork_command(
        self, path: str, source: str, index: int | None = None, prefix: bytes = b""
    ) -> CreateStream:
        """Return the command that forks."""
        stream = self.stream(source)
        base = stream.tail if index is None else Position(self.now_ms, index)
        anchor = None if index is None else base
        sub_offset = len(prefix)
        return CreateStream(
            path=path,
            content_type=None,
            fork=ForkPoint(stream.stream_id, source, anchor, sub_offset, base, prefix),
            fork_request=ForkRequest(source, anchor, sub_offset),
        )

    def delete(self, path: str) -> object:
        """Delete a stream."""
        return self.do(DeleteStream(path))

    def expire(self, stream: Stream) -> object:
        """Let a stream's timer go off."""
        return self.do(ExpireStream(stream.stream_id))

    def touch(self, path: str) -> object:
        """Let a reader come by."""
        return self.do(TouchStream(self.stream(path).stream_id))

    def stream(self, path: str) -> Stream:
        """The stream at a path."""
        return self.machine.streams.by_path[path]

    @property
    def paths(self) -> list[str]:
        """Paths of all streams held, hidden ones too."""
        return sorted(stream.path for stream in self.machine.streams.by_id.values())

    def replayed(self) -> Machine:
        """Return a machine that knows only the log."""
        machine = Machine(self.bounds)
        for meta, data in self.log:
            machine.apply(decode_event(meta), len(data))
        return machine


def kinds(events: Sequence[Event]) -> list[str]:
    """Names of events, for sentences about what happened."""
    return [type(event).__name__ for event in events]
