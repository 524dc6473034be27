"""What a stream holds, as the writer knows it (ahead of the disk by the batch in flight)."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import msgspec

from millstream.core.events import Fork
from millstream.core.offsets import Position, format_offset
from millstream.core.producers.judge import Claim, Producer

if TYPE_CHECKING:
    from collections.abc import Iterable


class Life(enum.IntEnum):
    """Whether a stream answers, or only its forks still read it."""

    LIVE = 0
    DELETED = 1
    EXPIRED = 2


class Stream(msgspec.Struct, array_like=True):
    """One stream's whole state, but for the places of its messages."""

    stream_id: int
    path: str
    content_type: str
    created_ms: int
    ttl_s: int | None
    expires_at_ms: int | None
    fork: Fork | None
    tail_index: int
    tail_time_ms: int
    deadline_ms: int
    """When it expires; 0 for never. Slides with every read and write of a TTL stream."""
    logged_deadline_ms: int
    """What a restart would take for the deadline: never earlier than ``deadline_ms`` was when
    it was logged."""
    stored_bytes: int = 0
    is_closed: bool = False
    closed_by: Claim | None = None
    seq: str | None = None
    forks: int = 0
    life: Life = Life.LIVE
    producers: dict[str, Producer] | None = None
    version: int = 0
    """Records that come with a lower version are refused."""

    @property
    def tail(self) -> Position:
        """The position behind the last message."""
        return Position(self.tail_time_ms, self.tail_index)

    @property
    def tail_offset(self) -> str:
        """The text of the position behind the last message."""
        return format_offset(self.tail_time_ms, self.tail_index)

    def is_expired(self, now_ms: int) -> bool:
        """Tell whether the stream's time is over."""
        return self.deadline_ms != 0 and now_ms >= self.deadline_ms


class Streams(msgspec.Struct):
    """All streams: by id (also the hidden ones that forks read), and by path."""

    by_id: dict[int, Stream]
    by_path: dict[str, Stream]
    next_id: int = 1

    @classmethod
    def empty(cls) -> Streams:
        """Return the state of a new data directory."""
        return cls(by_id={}, by_path={})

    @classmethod
    def restore(cls, streams: Iterable[Stream], next_id: int) -> Streams:
        """Rebuild the maps from the streams of a snapshot."""
        state = cls(by_id={}, by_path={}, next_id=next_id)
        for stream in streams:
            state.by_id[stream.stream_id] = stream
            if stream.life is not Life.EXPIRED:
                state.by_path[stream.path] = stream
        return state


def deadline_of(ttl_s: int | None, expires_at_ms: int | None, now_ms: int) -> int:
    """Return when a stream touched now expires, 0 for never."""
    if expires_at_ms is not None:
        # 0 means "never" in the field, so an expiry at or before the Unix epoch becomes 1 ms.
        return max(expires_at_ms, 1)
    if ttl_s is not None:
        return now_ms + ttl_s * 1000
    return 0
