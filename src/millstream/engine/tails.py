"""Streams as readers may see them: everything durable, nothing more.

The machine runs ahead of the disk; these views follow it. They are fed each event once its frame
is synced, so a reader can never learn of something that a crash could take back.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec

from millstream.core import media
from millstream.core.offsets import Position, format_offset
from millstream.core.streams.state import Life, deadline_of
from millstream.engine.extents import Extents
from millstream.engine.hot import Hot

if TYPE_CHECKING:
    from collections.abc import Callable

    from millstream.core.events import Appended, StreamCreated
    from millstream.core.streams.state import Stream

_log = logging.getLogger(__name__)


class LiveEvent(msgspec.Struct, frozen=True, gc=False):
    """What all readers get who were at ``start`` when the stream reached ``end``."""

    start: int
    end: int
    is_closed: bool
    cursor: int | None
    data: bytes


class Tail:
    """One stream as readers see it."""

    __slots__ = (
        "content_type",
        "created_ms",
        "deadline_ms",
        "expires_at_ms",
        "extents",
        "hot",
        "index",
        "is_closed",
        "is_json",
        "is_removed",
        "life",
        "live_event",
        "path",
        "source",
        "stored_bytes",
        "stream_id",
        "time_ms",
        "ttl_s",
        "watchers",
    )

    def __init__(self, event: StreamCreated, source: Tail | None) -> None:
        """Begin with an empty stream, or with a fork at its fork point."""
        fork = event.fork
        self.stream_id = event.stream_id
        self.path = event.path
        self.content_type = event.content_type
        self.is_json = media.is_json(event.content_type)
        self.created_ms = event.created_ms
        self.ttl_s = event.ttl_s
        self.expires_at_ms = event.expires_at_ms
        self.deadline_ms = deadline_of(event.ttl_s, event.expires_at_ms, event.created_ms)
        self.source = source
        self.index = fork.base_index if fork else 0
        self.time_ms = fork.base_time_ms if fork else 0
        self.extents = Extents(self.index)
        self.stored_bytes = 0
        self.is_closed = False
        self.is_removed = False
        self.life = Life.LIVE
        self.hot: Hot | None = None
        self.watchers: dict[Callable[[], None], None] | None = None
        # The last live event, encoded once for all that follow this stream at its end.
        self.live_event: LiveEvent | None = None

    @property
    def tail(self) -> Position:
        """The position behind the last durable message."""
        return Position(self.time_ms, self.index)

    @property
    def offset(self) -> str:
        """The text of the position behind the last durable message."""
        return format_offset(self.time_ms, self.index)

    def time_at(self, index: int) -> int:
        """Return the commit time that belongs to position ``index``, 0 for the start."""
        tail: Tail = self
        while index <= tail.extents.base and tail.source is not None:
            tail = tail.source
        return tail.extents.time_at(index) if index > tail.extents.base else 0

    def offset_at(self, index: int) -> str:
        """Return the text of position ``index``."""
        return format_offset(self.time_at(index), index)

    def append_end(self, index: int) -> int:
        """Return where the append that holds the message behind ``index`` ends, seen from here."""
        tail, limit = self, self.index
        while index < tail.extents.base and tail.source is not None:
            limit, tail = min(limit, tail.extents.base), tail.source
        return min(tail.extents.row(tail.extents.holding(index)).end, limit)

    def index_since(self, time_ms: int) -> int:
        """Return the position before the first message committed at ``time_ms`` or later."""
        tail, limit = self, self.index
        while True:
            found = min(tail.extents.first_since(time_ms), limit)
            if found > tail.extents.base or tail.source is None:
                return found
            limit, tail = min(limit, tail.extents.base), tail.source

    def knows(self, position: Position) -> bool:
        """Tell whether ``position`` is one this stream gave out."""
        if position.index > self.index:
            return False
        return position.time_ms == self.time_at(position.index)

    def watch(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` after every durable change, until unwatched."""
        if self.watchers is None:
            self.watchers = {}
        self.watchers[callback] = None

    def unwatch(self, callback: Callable[[], None]) -> None:
        """Stop calling ``callback``; unknown ones do not matter."""
        if self.watchers is not None:
            self.watchers.pop(callback, None)
            if not self.watchers:
                self.watchers = None
                self.live_event = None

    def notify(self) -> None:
        """Tell all watchers that something changed."""
        if self.watchers:
            for callback in tuple(self.watchers):
                try:
                    callback()
                except Exception:  # noqa: BLE001 - reported below, and the work goes on
                    # One reader's trouble must not keep the others, or the writer, waiting.
                    _log.exception("a reader of stream %d failed on a change", self.stream_id)

    def append(self, event: Appended, data: bytes | int, place: int, frame_bytes: int) -> None:
        """Take over one durable append; when ``data`` is only a length it stays on disk."""
        index = self.index = event.index + event.count
        time_ms = self.time_ms = event.time_ms
        self.extents.add(index, time_ms, place, frame_bytes)
        if self.ttl_s is not None:
            self.deadline_ms = max(self.deadline_ms, time_ms + self.ttl_s * 1000)
        if isinstance(data, int):
            self.stored_bytes += data
            return
        self.stored_bytes += len(data)
        if self.hot is None:
            self.hot = Hot(len(self.extents) - 1)
        self.hot.add((data, event.lengths) if event.lengths else data)

    def cool(self) -> int:
        """Let the oldest append in memory go; return how many bytes that frees."""
        if self.hot is None:
            return 0
        freed = self.hot.cool()
        if not len(self.hot):
            self.hot = None
        return freed

    def restore(self, stream: Stream, packed: bytes) -> None:
        """Catch up with the state of a snapshot."""
        self.index = stream.tail_index
        self.time_ms = stream.tail_time_ms
        self.stored_bytes = stream.stored_bytes
        self.is_closed = stream.is_closed
        self.life = stream.life
        self.deadline_ms = stream.deadline_ms
        self.extents = Extents(self.extents.base, packed)
