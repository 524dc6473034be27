"""Decide what a command to a stream does: events to write, and the answer to give.

Pure: looks at the state, the command and ``now_ms``, changes nothing. The order of the checks is
the protocol's order of precedence (docs/protocol.md, "Append").
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from millstream.core import media
from millstream.core.errors import Code, Refused
from millstream.core.events import (
    Appended,
    DeadlineMoved,
    Event,
    ProducerMoved,
    StreamClosed,
    StreamHidden,
    StreamRemoved,
)
from millstream.core.offsets import Position
from millstream.core.producers.judge import (
    NO_SEQ,
    Accept,
    Claim,
    Fenced,
    Gap,
    NotFirst,
    Repeat,
    judge,
)
from millstream.core.streams.commands import DONE, Added, Append, Done, Duplicate, Granted
from millstream.core.streams.state import Life

if TYPE_CHECKING:
    from collections.abc import Iterator

    from millstream.core.streams.state import Stream, Streams

# Reading a member off the enumeration costs a look-up each time.
_LIVE = Life.LIVE

DEADLINE_SLACK_DIVISOR = 8
"""A logged deadline is later than the exact one by ttl / 8 (at least a second), so that a stream
under steady reading logs its sliding eight times a window and not once a read."""


class Draft(msgspec.Struct, frozen=True, gc=False):
    """What a command comes to: events with their data (all or none), and the answer."""

    events: tuple[Event, ...]
    data: tuple[bytes, ...]
    answer: object


def refused(answer: object) -> Draft:
    """Return a draft that writes nothing."""
    return Draft((), (), answer)


def find(state: Streams, path: str, now_ms: int) -> Stream | Refused:
    """Return the stream that answers at ``path`` now, or why none does."""
    stream = state.by_path.get(path)
    if stream is not None and stream.life is _LIVE and not stream.deadline_ms:
        return stream
    # A deleted stream has no deadline any more: its path stays taken for as long as forks read it.
    if stream is not None and stream.life is not Life.LIVE:
        return Refused(code=Code.STREAM_GONE, detail=f"the stream at {path!r} was deleted")
    if stream is None or stream.is_expired(now_ms):
        return Refused(code=Code.STREAM_NOT_FOUND, detail=f"no stream at {path!r}")
    return stream


def missing(state: Streams, path: str, answer: object) -> Draft:
    """Return the answer for a path that holds no stream; one that expired goes with it.

    Its end must be durable before anybody is told (I-29): the deadline that a restart would take
    is later than the exact one, and would bring the stream back.
    """
    stream = state.by_path.get(path)
    if stream is None or stream.life is not Life.LIVE:
        return refused(answer)
    events = tuple(removal(state, stream, is_expired=True))
    return Draft(events, (b"",) * len(events), answer)


def append(state: Streams, command: Append, now_ms: int, producers_max: int) -> Draft:
    """Decide an append, a close, or both at once."""
    stream = find(state, command.path, now_ms)
    if isinstance(stream, Refused):
        return missing(state, command.path, stream)
    body = command.body
    is_empty = not isinstance(body, Refused) and body.count == 0
    if stream.is_closed:
        return refused(_on_closed(stream, command, is_empty=is_empty))
    if (
        command.content_type != stream.content_type
        and not is_empty
        and not media.is_same(command.content_type or "", stream.content_type)
    ):
        return refused(
            Refused(
                code=Code.CONTENT_TYPE_MISMATCH,
                detail=f"Content-Type must be {stream.content_type}, the stream's own",
                field="Content-Type",
                next_offset=stream.tail_offset,
            )
        )
    claim = command.claim
    if claim is not None:
        answer = _judge_claim(stream, claim, producers_max)
        if answer is not None:
            return refused(answer)
    if command.if_match is not None or command.stream_seq is not None:
        answer = _check_expectations(stream, command)
        if answer is not None:
            return refused(answer)
    if isinstance(body, Refused):
        return refused(body)
    return _write(stream, command, max(now_ms, stream.tail_time_ms))


def _write(stream: Stream, command: Append, time_ms: int) -> Draft:
    body, claim = command.body, command.claim
    assert not isinstance(body, Refused)
    stream_id, index, count = stream.stream_id, stream.tail_index, body.count
    events: tuple[Event, ...] = ()
    data: tuple[bytes, ...] = ()
    if count:
        tail = Position(time_ms, index + count)
        data = (body.data,)
        if claim is None:
            seq = command.stream_seq
            event = Appended(stream_id, index, count, time_ms, body.lengths, None, 0, 0, seq)
            if not command.is_closing:
                return Draft((event,), data, Added(stream_id, tail, False, None, count))
        else:
            event = Appended(
                stream_id,
                index,
                count,
                time_ms,
                body.lengths,
                claim.producer_id,
                claim.epoch,
                claim.seq,
                command.stream_seq,
            )
        events = (event,)
    else:
        tail = stream.tail
    if claim is not None and not count:
        events = (ProducerMoved(stream.stream_id, claim.producer_id, claim.epoch, claim.seq),)
        data = (b"",)
    if command.is_closing:
        events += (_closed(stream.stream_id, time_ms, claim),)
        data += (b"",)
    return Draft(events, data, Added(stream_id, tail, command.is_closing, claim, count))


def _closed(stream_id: int, time_ms: int, claim: Claim | None) -> StreamClosed:
    if claim is None:
        return StreamClosed(stream_id, time_ms)
    return StreamClosed(stream_id, time_ms, claim.producer_id, claim.epoch, claim.seq)


def _on_closed(stream: Stream, command: Append, *, is_empty: bool) -> object:
    if command.claim is not None and command.claim == stream.closed_by:
        return Duplicate(
            stream.stream_id, stream.tail_index, command.claim, command.claim.seq, is_closed=True
        )
    claim = command.claim
    known = stream.producers.get(claim.producer_id) if claim and stream.producers else None
    if claim is not None and known is not None:
        verdict = judge(known, claim)
        if isinstance(verdict, Repeat):
            # Stored before somebody else closed the stream: its answer may have been lost.
            return Duplicate(
                stream.stream_id, verdict.end_index, claim, verdict.seq_last, is_closed=True
            )
    if command.is_closing and is_empty and claim is None:
        return Added(stream.stream_id, stream.tail, is_closed=True)
    return _refuse_closed(stream)


def _refuse_closed(stream: Stream) -> Refused:
    return Refused(
        code=Code.STREAM_CLOSED,
        detail="the stream is closed and takes no more messages",
        next_offset=stream.tail_offset,
        is_closed=True,
    )


def _refuse_producer(producers_max: int) -> Refused:
    return Refused(
        code=Code.TOO_MANY_PRODUCERS,
        detail=f"a stream remembers at most {producers_max} producers",
        field="Producer-Id",
        retry_after_s=60,
    )


def _judge_claim(stream: Stream, claim: Claim, producers_max: int) -> object | None:
    """Return the answer for a claim that must not be written, None for one that may."""
    known = stream.producers
    last = known.get(claim.producer_id) if known else None
    match judge(last, claim):
        case Accept():
            if last is None and known is not None and len(known) >= producers_max:
                return _refuse_producer(producers_max)
            return None
        case Repeat(seq_last, end_index):
            return Duplicate(
                stream.stream_id, end_index, claim, seq_last, is_closed=stream.is_closed
            )
        case Fenced(epoch_now):
            return Refused(
                code=Code.PRODUCER_FENCED,
                detail=f"Producer-Epoch {claim.epoch} is over; the epoch now is {epoch_now}",
                field="Producer-Epoch",
                epoch=epoch_now,
            )
        case Gap(seq_expected):
            return Refused(
                code=Code.PRODUCER_GAP,
                detail=f"Producer-Seq {claim.seq} came, {seq_expected} is expected",
                field="Producer-Seq",
                seq_expected=seq_expected,
                seq_received=claim.seq,
            )
        case NotFirst():
            return Refused(
                code=Code.EPOCH_START,
                detail=f"epoch {claim.epoch} is new and must start with Producer-Seq 0",
                field="Producer-Seq",
            )


def _check_expectations(stream: Stream, command: Append) -> Refused | None:
    expected = command.if_match
    if expected is not None and expected != stream.tail:
        return Refused(
            code=Code.OFFSET_MISMATCH,
            detail=f"If-Match expects {expected.text()}, the tail is {stream.tail_offset}",
            field="If-Match",
            next_offset=stream.tail_offset,
        )
    seq = command.stream_seq
    # Byte order and code point order agree for UTF-8, so comparing text is comparing bytes.
    if seq is not None and stream.seq is not None and seq <= stream.seq:
        return Refused(
            code=Code.SEQUENCE_CONFLICT,
            detail=f"Stream-Seq must be greater than {stream.seq!r} (byte order), it is {seq!r}",
            field="Stream-Seq",
            next_offset=stream.tail_offset,
        )
    return None


def grant(state: Streams, path: str, producer_id: str, now_ms: int, producers_max: int) -> Draft:
    """Decide which epoch a producer gets: one more than its newest, 0 for the first.

    The epoch is used up at once, with no batch taken: whoever had an older one is fenced before
    the answer is out, and two that ask get two epochs.
    """
    stream = find(state, path, now_ms)
    if isinstance(stream, Refused):
        return missing(state, path, stream)
    if stream.is_closed:
        return refused(_refuse_closed(stream))
    known = stream.producers or {}
    last = known.get(producer_id)
    if last is None and len(known) >= producers_max:
        return refused(_refuse_producer(producers_max))
    epoch = 0 if last is None else last.epoch + 1
    event = ProducerMoved(stream.stream_id, producer_id, epoch, NO_SEQ)
    return Draft((event,), (b"",), Granted(epoch, stream.tail))


def delete(state: Streams, path: str, now_ms: int) -> Draft:
    """Decide the deletion of a stream; one that forks read only goes out of sight."""
    stream = find(state, path, now_ms)
    if isinstance(stream, Refused):
        return missing(state, path, stream)
    events = tuple(removal(state, stream, is_expired=False))
    return Draft(events, (b"",) * len(events), DONE)


def expire(state: Streams, stream_id: int, now_ms: int) -> Draft:
    """Decide what a passed deadline does; one that was moved in the meantime does nothing."""
    stream = state.by_id.get(stream_id)
    if stream is None or stream.life is not Life.LIVE or not stream.is_expired(now_ms):
        return refused(DONE)
    events = tuple(removal(state, stream, is_expired=True))
    return Draft(events, (b"",) * len(events), DONE)


def removal(state: Streams, stream: Stream, *, is_expired: bool) -> Iterator[Event]:
    """Yield the events that take a stream away, and with it every source it alone kept."""
    if stream.forks:
        yield StreamHidden(stream.stream_id, is_expired)
        return
    current: Stream | None = stream
    while current is not None:
        yield StreamRemoved(current.stream_id)
        source = state.by_id.get(current.fork.source_id) if current.fork else None
        is_last = source is not None and source.forks == 1 and source.life is not Life.LIVE
        current = source if is_last else None


def touch(state: Streams, stream_id: int, now_ms: int) -> Draft:
    """Slide a TTL stream's deadline, and log it only when the logged one no longer covers it.

    The exact deadline lives in memory and moves without an event: it can only make the stream
    live longer than a restart would, never shorter than was logged.
    """
    stream = state.by_id.get(stream_id)
    if stream is None or stream.ttl_s is None or stream.is_expired(now_ms):
        return refused(DONE)
    stream.deadline_ms = max(stream.deadline_ms, now_ms + stream.ttl_s * 1000)
    if stream.deadline_ms <= stream.logged_deadline_ms:
        return refused(DONE)
    slack_ms = max(stream.ttl_s * 1000 // DEADLINE_SLACK_DIVISOR, 1000)
    return Draft((DeadlineMoved(stream_id, stream.deadline_ms + slack_ms),), (b"",), DONE)


__all__ = [
    "Done",
    "Draft",
    "append",
    "delete",
    "expire",
    "find",
    "grant",
    "missing",
    "refused",
    "removal",
    "touch",
]
