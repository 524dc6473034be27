"""Decide the creation of a stream or a fork."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.core import media
from millstream.core.errors import Code, Refused
from millstream.core.events import Appended, Event, Fork, StreamClosed, StreamCreated, StreamRemoved
from millstream.core.offsets import ZERO, Position
from millstream.core.streams.commands import Body, Created, CreateStream, ForkPoint
from millstream.core.streams.decide import Draft, refused, removal
from millstream.core.streams.state import Life

if TYPE_CHECKING:
    from millstream.core.streams.state import Stream, Streams

FORK_DEPTH_MAX = 1000
"""Deleting the last of a line of forks removes all its hidden sources in one frame, which holds
65,535 events; and a read walks the whole line."""


def create(state: Streams, command: CreateStream, now_ms: int, streams_max: int) -> Draft:
    """Make the stream, confirm that just such a one is there, or refuse."""
    old = state.by_path.get(command.path)
    events: list[Event] = []
    if old is not None:
        if old.life is not Life.LIVE:
            return refused(
                Refused(
                    code=Code.STREAM_EXISTS,
                    detail="the path is taken by a deleted stream that forks still read",
                )
            )
        if not old.is_expired(now_ms):
            return refused(_confirm(old, command))
        events.extend(removal(state, old, is_expired=True))
    is_freeing = bool(events) and any(isinstance(event, StreamRemoved) for event in events)
    if len(state.by_id) - is_freeing >= streams_max:
        return refused(
            Refused(
                code=Code.TOO_MANY_STREAMS,
                detail=f"the server holds at most {streams_max} streams",
                retry_after_s=60,
            )
        )
    fork = _source(state, command, old, now_ms)
    if isinstance(fork, Refused):
        return refused(fork)
    if isinstance(command.body, Refused):
        return refused(command.body)
    return _make(state, command, events, fork, now_ms)


def _source(
    state: Streams, command: CreateStream, old: Stream | None, now_ms: int
) -> Stream | Refused | None:
    point = command.fork
    if point is None or isinstance(point, Refused):
        return point
    source = state.by_path.get(point.source_path)
    is_live = source is not None and source.life is Life.LIVE
    if source is None or source is old or (is_live and source.is_expired(now_ms)):
        return Refused(
            code=Code.SOURCE_NOT_FOUND,
            detail=f"no stream at {point.source_path!r} to fork from",
            field="Stream-Forked-From",
        )
    if not is_live or source.stream_id != point.source_id:
        return Refused(
            code=Code.SOURCE_GONE,
            detail=f"the stream at {point.source_path!r} was deleted",
            field="Stream-Forked-From",
        )
    wanted = command.content_type
    if wanted is not None and not media.is_same(wanted, source.content_type):
        return Refused(
            code=Code.CONTENT_TYPE_MISMATCH,
            detail=f"a fork keeps its source's content type, {source.content_type}",
            field="Content-Type",
        )
    if _depth(state, source) >= FORK_DEPTH_MAX:
        return Refused(
            code=Code.FORK_INVALID,
            detail=f"a fork of a fork may go at most {FORK_DEPTH_MAX} levels deep",
            field="Stream-Forked-From",
        )
    return source


def _depth(state: Streams, stream: Stream) -> int:
    """Return how many streams a stream reads through."""
    depth = 0
    while stream.fork is not None:
        stream = state.by_id[stream.fork.source_id]
        depth += 1
    return depth


def _make(
    state: Streams, command: CreateStream, events: list[Event], source: Stream | None, now_ms: int
) -> Draft:
    stream_id = state.next_id
    ttl_s, expires_at_ms = command.ttl_s, command.expires_at_ms
    content_type = command.content_type or media.OCTETS
    fork, tail, prefix = None, ZERO, b""
    if source is not None:
        point = command.fork
        assert isinstance(point, ForkPoint)
        content_type = source.content_type
        if ttl_s is None and expires_at_ms is None:
            ttl_s, expires_at_ms = source.ttl_s, source.expires_at_ms
        tail, prefix = point.base, point.prefix
        fork = Fork(
            source.stream_id,
            source.path,
            point.anchor.index if point.anchor is not None else point.base.index,
            point.sub_offset,
            point.base.index,
            point.base.time_ms,
            _moment(point.anchor),
        )
    data = [b""] * len(events)
    events.append(
        StreamCreated(stream_id, command.path, content_type, now_ms, ttl_s, expires_at_ms, fork)
    )
    data.append(b"")
    body = command.body
    assert not isinstance(body, Refused)
    time_ms = max(now_ms, tail.time_ms)
    for part in (Body(prefix, 1 if prefix else 0), body):
        if part.count:
            events.append(Appended(stream_id, tail.index, part.count, time_ms, part.lengths))
            data.append(part.data)
            tail = Position(time_ms, tail.index + part.count)
    if command.is_closed:
        events.append(StreamClosed(stream_id, time_ms))
        data.append(b"")
    answer = Created(stream_id, content_type, tail, command.is_closed, is_new=True)
    return Draft(tuple(events), tuple(data), answer)


def _moment(anchor: Position | None) -> int:
    """Return the time that a fork offset names when it names no message."""
    return anchor.time_ms if anchor is not None and anchor.is_point_in_time else 0


def _confirm(stream: Stream, command: CreateStream) -> Created | Refused:
    """Answer a PUT on a stream that exists: fine if it asks for what is there."""
    difference = _difference(stream, command)
    if difference is not None:
        return Refused(
            code=Code.STREAM_EXISTS,
            detail=f"the stream exists with another {difference}",
            field=difference,
            next_offset=stream.tail_offset,
            is_closed=stream.is_closed,
        )
    return Created(
        stream.stream_id, stream.content_type, stream.tail, stream.is_closed, is_new=False
    )


def _difference(stream: Stream, command: CreateStream) -> str | None:
    """Return the first part of the set-up in which request and stream differ."""
    request = command.fork_request
    fork = stream.fork
    if (request is None) != (fork is None):
        return "Stream-Forked-From"
    if request is not None and fork is not None:
        if request.source_path != fork.source_path:
            return "Stream-Forked-From"
        anchor = request.anchor
        point = (fork.anchor_index, fork.moment_ms)
        if anchor is not None and (anchor.index, _moment(anchor)) != point:
            return "Stream-Fork-Offset"
        if request.sub_offset != fork.sub_offset:
            return "Stream-Fork-Sub-Offset"
    wanted = command.content_type
    if wanted is None and fork is None:
        wanted = media.OCTETS
    if wanted is not None and not media.is_same(wanted, stream.content_type):
        return "Content-Type"
    asks_expiry = command.ttl_s is not None or command.expires_at_ms is not None
    if asks_expiry or fork is None:
        if command.ttl_s != stream.ttl_s:
            return "Stream-TTL"
        if command.expires_at_ms != stream.expires_at_ms:
            return "Stream-Expires-At"
    if command.is_closed != stream.is_closed:
        return "Stream-Closed"
    return None
