"""Decide an append of records: the stream exists on first use, and a version bars older writers.

Everything one request asks for is one draft, and so one frame: the stream, the version and the
records are there together or not at all. Whether a version still holds is decided here, in the
one order of all commands, so nothing of a lower one can slip in behind a higher one that was
answered, however long it was under way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.core import media
from millstream.core.errors import Code, Refused
from millstream.core.events import VersionRaised
from millstream.core.streams import decide
from millstream.core.streams.commands import (
    Append,
    AppendRecords,
    Created,
    CreateStream,
    VersionNow,
)
from millstream.core.streams.create import create
from millstream.core.streams.decide import Draft
from millstream.core.streams.state import Stream, Streams

if TYPE_CHECKING:
    from millstream.core.events import Event


def append_records(
    state: Streams, command: AppendRecords, now_ms: int, streams_max: int, producers_max: int
) -> Draft:
    """Decide the append of records, or the question for the version when there are none."""
    stream = decide.find(state, command.path, now_ms)
    if not isinstance(stream, Refused):
        return _onto(state, stream, command, now_ms, producers_max)
    if stream.code is not Code.STREAM_NOT_FOUND:
        return decide.refused(stream)
    if not command.body.count and not command.version:
        # A question makes no stream.
        return decide.missing(state, command.path, VersionNow(0))
    return _first_use(state, command, now_ms, streams_max, producers_max)


def _first_use(
    state: Streams, command: AppendRecords, now_ms: int, streams_max: int, producers_max: int
) -> Draft:
    path = command.path
    made = create(state, CreateStream(path=path, content_type=media.JSON), now_ms, streams_max)
    if not isinstance(made.answer, Created):
        return made
    stream_id = made.answer.stream_id
    fresh = Stream(stream_id, path, media.JSON, now_ms, None, None, None, 0, 0, 0, 0)
    added = _onto(Streams({}, {path: fresh}), fresh, command, now_ms, producers_max)
    if isinstance(added.answer, Refused):
        # It may rest on the end of a stream that expired here.
        return decide.missing(state, path, added.answer)
    return Draft(made.events + added.events, made.data + added.data, added.answer)


def _onto(
    state: Streams, stream: Stream, command: AppendRecords, now_ms: int, producers_max: int
) -> Draft:
    if not media.is_json(stream.content_type):
        return decide.refused(
            Refused(
                code=Code.CONTENT_TYPE_MISMATCH,
                detail=f"records need a stream of {media.JSON}; this one is {stream.content_type}",
                next_offset=stream.tail_offset,
            )
        )
    version = stream.version if command.version is None else command.version
    if version < stream.version:
        return decide.refused(
            Refused(
                code=Code.VERSION_FENCED,
                detail=f"version {version} is over; the version now is {stream.version}",
                field="version",
                version=stream.version,
                version_given=version,
            )
        )
    if command.body.count:
        append = Append(command.path, stream.content_type, command.body, claim=command.claim)
        added = decide.append(state, append, now_ms, producers_max)
        if isinstance(added.answer, Refused):
            return added
    else:
        added = decide.refused(VersionNow(version))
    if version == stream.version:
        return added
    raised: tuple[Event, ...] = (VersionRaised(stream.stream_id, version),)
    return Draft(raised + added.events, (b"", *added.data), added.answer)
