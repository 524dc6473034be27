"""Apply a stream event to the state. Replay after a restart goes through here too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.core.checks import require
from millstream.core.events import (
    Appended,
    DeadlineMoved,
    ProducerMoved,
    StreamClosed,
    StreamCreated,
    StreamHidden,
    StreamRemoved,
    VersionRaised,
)
from millstream.core.producers.judge import Claim, advance
from millstream.core.streams.state import Life, Stream, deadline_of

if TYPE_CHECKING:
    from millstream.core.streams.state import Streams


def created(state: Streams, event: StreamCreated) -> None:
    """Bind the path to a new stream, behind its fork point if it is a fork."""
    require(event.stream_id == state.next_id, "I-07", "a stream id is given once")
    require(event.path not in state.by_path, "I-08", "a path holds one stream")
    fork = event.fork
    deadline_ms = deadline_of(event.ttl_s, event.expires_at_ms, event.created_ms)
    stream = Stream(
        event.stream_id,
        event.path,
        event.content_type,
        event.created_ms,
        event.ttl_s,
        event.expires_at_ms,
        fork,
        fork.base_index if fork else 0,
        fork.base_time_ms if fork else 0,
        deadline_ms,
        deadline_ms,
    )
    state.next_id += 1
    state.by_id[event.stream_id] = stream
    state.by_path[event.path] = stream
    if fork is not None:
        state.by_id[fork.source_id].forks += 1


def appended(state: Streams, event: Appended, size: int) -> None:
    """Move the tail and, with it, the producer: never one without the other."""
    stream = state.by_id[event.stream_id]
    index, time_ms = event.index, event.time_ms
    if index != stream.tail_index or time_ms < stream.tail_time_ms or stream.is_closed:
        # Asked once here and one by one only if it fails: this is every append's way.
        require(index == stream.tail_index, "I-05", "messages follow without gap or overlap")
        require(time_ms >= stream.tail_time_ms, "I-06", "times never go back in a stream")
        require(not stream.is_closed, "I-09", "a closed stream stays closed")
    stream.tail_index = index + event.count
    stream.tail_time_ms = time_ms
    stream.stored_bytes += size
    if event.stream_seq is not None:
        stream.seq = event.stream_seq
    if event.producer_id is not None:
        _advance(stream, event.producer_id, event.producer_epoch, event.producer_seq)
    if stream.ttl_s is not None:
        _slide(stream, time_ms)


def closed(state: Streams, event: StreamClosed) -> None:
    """Close the stream for ever and remember who did it."""
    stream = state.by_id[event.stream_id]
    stream.is_closed = True
    if event.producer_id is not None:
        stream.closed_by = Claim(event.producer_id, event.producer_epoch, event.producer_seq)
    _slide(stream, event.time_ms)


def producer_moved(state: Streams, event: ProducerMoved) -> None:
    """Use up a sequence that carried no message."""
    stream = state.by_id[event.stream_id]
    _advance(stream, event.producer_id, event.producer_epoch, event.producer_seq)


def deadline_moved(state: Streams, event: DeadlineMoved) -> None:
    """Note how long a restart must let the stream live."""
    stream = state.by_id[event.stream_id]
    stream.logged_deadline_ms = max(stream.logged_deadline_ms, event.deadline_ms)


def hidden(state: Streams, event: StreamHidden) -> None:
    """Take the stream out of sight and keep it for its forks."""
    stream = state.by_id[event.stream_id]
    require(stream.forks > 0, "I-10", "only a stream with forks is kept out of sight")
    stream.life = Life.EXPIRED if event.is_expired else Life.DELETED
    if event.is_expired:
        del state.by_path[stream.path]


def removed(state: Streams, event: StreamRemoved) -> None:
    """Forget the stream and let go of its source."""
    stream = state.by_id.pop(event.stream_id)
    require(stream.forks == 0, "I-10", "a stream that forks read is never removed")
    if state.by_path.get(stream.path) is stream:
        del state.by_path[stream.path]
    if stream.fork is not None:
        source = state.by_id.get(stream.fork.source_id)
        if source is not None:
            source.forks -= 1


def version_raised(state: Streams, event: VersionRaised) -> None:
    """Let nothing below the version in any more."""
    stream = state.by_id[event.stream_id]
    require(event.version > stream.version, "I-38", "a version only rises")
    stream.version = event.version


def settle(state: Streams) -> None:
    """After a replay: let every stream live as long as the log says it must."""
    for stream in state.by_id.values():
        stream.deadline_ms = max(stream.deadline_ms, stream.logged_deadline_ms)


def _advance(stream: Stream, producer_id: str, epoch: int, seq: int) -> None:
    known = stream.producers
    if known is None:
        known = stream.producers = {}
    known[producer_id] = advance(known.get(producer_id), epoch, seq, stream.tail_index)


def _slide(stream: Stream, time_ms: int) -> None:
    if stream.ttl_s is not None:
        stream.deadline_ms = max(stream.deadline_ms, time_ms + stream.ttl_s * 1000)
        stream.logged_deadline_ms = max(stream.logged_deadline_ms, stream.deadline_ms)
